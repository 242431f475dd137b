"""What happened: the append-only record of a conversation."""
