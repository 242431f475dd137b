"""Requests outside of a conversation: one prompt, or one for each row of some data.

Source: `docs/rows.md`.
"""
