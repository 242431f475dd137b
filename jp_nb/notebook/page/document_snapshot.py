"""The document of a notebook at one moment, for the writes to its pages.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import cast

from jp_nb.json_values import (
    JsonObject,
)
from jp_nb.notebook.page.page_copy import format_head
from jp_nb.record.documents.document import (
    RECORD_VERSION,
    Document,
)


class DocumentSnapshot:
    """The document at one moment, taken in the thread that changes it.

    Attributes:
        stream: The id of the active conversation.
        entries: The document's own list, which grows. Its first `length` entries are the snapshot.
        others: The other conversations.
    """

    def __init__(self, document: Document) -> None:
        stream = document.conversation
        self.stream = stream.id
        self.entries: Sequence[JsonObject] = stream.raw
        self.length = len(stream.raw)
        self.others = list(document.others)
        # The base configuration is replaced when it changes, never mutated.
        base: JsonObject = {
            "conversation": dict(stream.properties),
            "base_config": stream.base_config,
        }
        self._head = {**base, **document.extra}

    @cached_property
    def head_text(self) -> str:
        """The document without entries as JSON, the same text for the same head.

        Made on demand: each entry changes the signature, but a page gets ten messages a second.
        """
        return format_head(self._head)

    @property
    def head(self) -> JsonObject:
        """A copy of the document without entries, which shares nothing with it."""
        return cast(JsonObject, json.loads(self.head_text))

    def to_document(self, length: int) -> JsonObject:
        """Return the document with the first `length` entries of its active conversation."""
        document: JsonObject = {"version": RECORD_VERSION, **self.head}
        document["events"] = [dict(entry) for entry in self.entries[:length]]
        if self.others:
            document["others"] = self.others
        return document
