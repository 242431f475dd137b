"""Texts of prompts, forms, questions, and their outcomes."""
