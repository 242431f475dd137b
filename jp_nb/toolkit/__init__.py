"""Tools: outcomes, questions, Python functions, commands, and built-in tools."""
