"""Prompts in a running cell, as forms or on stdin."""
