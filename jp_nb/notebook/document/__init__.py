"""How the record gets into the notebook.

The kernel does not own the document: the page, or the headless executor, does. `homes` finds out
which of them is there, `live` and `carrier` hand the record over, `merge` brings copies together.

Source: `docs/protocol.md`.
"""
