"""What a turn does: the loop, its tool calls, and what it needs from the rooms around it."""
