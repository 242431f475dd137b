"""What a turn does: the loop, the coordinator, the ports they need."""
