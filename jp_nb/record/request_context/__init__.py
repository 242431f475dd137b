"""The entries that requests send."""
