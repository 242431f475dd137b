"""Output of a running turn and of its tools."""
