"""Compaction events, and the turns that they cover."""
