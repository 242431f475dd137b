"""A tool call of a response: its state, its display, and its place in line for the screen."""
