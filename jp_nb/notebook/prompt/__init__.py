"""Prompts in a running cell: a form or stdin, and the wait for a person."""
