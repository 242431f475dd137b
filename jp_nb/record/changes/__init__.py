"""Configuration changes in a conversation."""
