"""Conversations in the metadata of a notebook."""
