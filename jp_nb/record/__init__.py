"""The append-only record of a conversation."""
