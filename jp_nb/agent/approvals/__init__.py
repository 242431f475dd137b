"""Rules about tool calls, and changes that the user makes before a call runs."""
