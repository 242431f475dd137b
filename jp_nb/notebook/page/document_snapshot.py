"""The document of a notebook at one moment, for the writes to its pages.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import cast

from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.page_copy import format_head
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import RECORD_VERSION


class DocumentSnapshot:
    """The document at one moment, taken in the thread that changes it.

    It is cheap, because it shares with the document all parts that are never mutated: the entries,
    the other conversations, and the base configuration. Only the lists and mappings that contain
    them may change, so those are copied. The list of entries is not copied: it only grows.

    Attributes:
        stream: The id of the active conversation, as messages to pages call it.
        entries: The document's own list of entries.
        length: Number of the first `entries` that belong to the snapshot.
        others: The other conversations.
    """

    def __init__(self, document: Document) -> None:
        conversation = document.conversation
        self.stream = conversation.id
        self.entries: Sequence[JsonObject] = conversation.raw
        self.length = len(conversation.raw)
        self.others = list(document.others)
        base: JsonObject = {
            "conversation": dict(conversation.properties),
            "base_config": conversation.base_config,
        }
        self._head = {**base, **document.extra}  # with the signature, and keys of newer versions

    @cached_property
    def head_text(self) -> str:
        """The document without entries as JSON, the same text for the same head.

        It is computed only for a message to a page. Entries come faster than messages, and each
        changes the signature, which is a part of the head.
        """
        return format_head(self._head)

    @property
    def head(self) -> JsonObject:
        """A copy of the document without entries, which shares nothing with it."""
        return cast(JsonObject, json.loads(self.head_text))

    def to_document(self, length: int) -> JsonObject:
        """Return the document with the first `length` entries of its active conversation.

        A page gets many entries in several writes, so `length` may be less than that of the
        snapshot.
        """
        document: JsonObject = {"version": RECORD_VERSION, **self.head}
        document["events"] = [dict(entry) for entry in self.entries[:length]]
        if self.others:
            document["others"] = self.others
        return document
