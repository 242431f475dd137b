"""The `jp-nb` command, and runners of notebooks without a user."""
