"""Edits of notebook cells that a model proposes, without a front end.

Source: `docs/cells.md`.
"""
