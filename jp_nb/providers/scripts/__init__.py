"""The scripted model, which replays replies from a file."""
