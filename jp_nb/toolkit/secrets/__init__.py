"""Secrets of notebooks and answers, hidden from models."""
