"""Entries of a conversation, and their order in turns."""
