"""Partial configurations: their form, merges, and changes."""
