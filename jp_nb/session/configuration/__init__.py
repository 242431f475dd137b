"""The settings of a session: their layers, changes, and files."""
