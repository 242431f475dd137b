"""How a running cell waits for a person."""
