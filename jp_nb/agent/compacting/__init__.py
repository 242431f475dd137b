"""Compaction of a conversation that is too long."""
