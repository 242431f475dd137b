"""Journals: the log of a conversation for the case that its kernel dies."""
