"""How the record gets into the notebook.

The kernel does not own the document: the page, or the headless executor, does. `finding` finds out
which of them is there, `homes` restores the conversation it holds, `live` and `carrier_store` hand
the record over.

Source: `docs/protocol.md`.
"""
