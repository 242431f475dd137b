"""Prompts on stdin: questions, decisions, and forms as dialogues."""
