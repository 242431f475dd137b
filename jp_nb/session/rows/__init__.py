"""Requests outside of a conversation: one prompt, or one for each row of some data.

A *completion* here is the answer of a model to one prompt, as `jp.complete` returns it. The
completion of names with the Tab key is in `jp_nb/notebook/`.

Source: `docs/rows.md`.
"""
