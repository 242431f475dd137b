"""Command lines as tools, and their processes."""
