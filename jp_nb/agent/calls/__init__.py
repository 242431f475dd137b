"""A tool call of a response: its state, its display, and its place in the queue for the screen."""
