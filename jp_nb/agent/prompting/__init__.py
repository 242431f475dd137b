"""Prompts for the user, one at a time."""
