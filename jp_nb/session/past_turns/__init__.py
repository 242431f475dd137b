"""Recorded turns that run again, continue, or are shown, as `%jp resume` does."""
