"""The table of the conversations in a notebook.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from jp_nb.record.documents.conversation_list import list_conversations
from jp_nb.record.documents.document import Document
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.rendering.report import (
    Report,
    make_table,
)
from jp_nb.text import (
    pluralize,
)


def render_conversations(document: Document, *, with_active: bool = False) -> Report:
    """Return the other conversations of `document` as a table, or all `with_active`."""
    rows = []
    for conversation in list_conversations(document):
        if conversation.active and not with_active:
            continue

        title = conversation.title or ""
        if conversation.active:
            title = f"{title} (active)" if title else "(active)"

        state = f"{conversation.turns} {pluralize('turn', conversation.turns)}"
        if conversation.damaged:
            state = "damaged"

        parent = conversation.parent or ""
        if conversation.parent is not None and conversation.parent_turn is not None:
            parent = f"{parent}, turn {to_shown_turn(conversation.parent_turn)}"

        rows.append((conversation.id, title, state, conversation.made or "", parent))

    return make_table(("id", "title", "turns", "made", "from"), rows)
