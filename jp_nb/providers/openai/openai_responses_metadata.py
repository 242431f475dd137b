"""Metadata of the record's entries for the parts of an item that the Responses API wants back.

An *item* of the API is a message, a reasoning, or a call of a response. The record keeps its text,
name, and arguments. The rest, such as encrypted reasoning, is metadata of the entry, and the
rendering of later requests builds the same item from both.

Source: `docs/providers.md`, "Metadata that is sent back".
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.providers.response_parts.stream_decoder import WireObject

ITEM_ID_KEY: Final = "openai_item_id"
ENCRYPTED_KEY: Final = "openai_encrypted_content"
SUMMARY_LENGTHS_KEY: Final = "openai_summary_lengths"
"""Lengths of the parts of a summary, which the record joins by blank lines. One part needs none."""
PHASE_KEY: Final = "openai_phase"
ANNOTATIONS_KEY: Final = "openai_annotations"
ITEM_KEY: Final = "openai_item"
"""Whole item that the record cannot express otherwise."""
PART_SEPARATOR: Final = "\n\n"
"""Text between the parts of an item in the record."""


def make_message_metadata(content: WireObject) -> dict[str, JsonValue]:
    """Return the metadata of the message `content`, a complete item."""
    metadata: dict[str, JsonValue] = {
        key: value
        for key, value in ((ITEM_ID_KEY, content.get("id")), (PHASE_KEY, content.get("phase")))
        if isinstance(value, str)
    }

    parts = content.get("content") or ()
    annotations: list[Any] = list(
        chain.from_iterable(part.get("annotations") or () for part in parts)
    )
    if annotations:
        metadata[ANNOTATIONS_KEY] = annotations
    return metadata


def make_reasoning_metadata(
    item_id: str, encrypted: object, summary_lengths: list[int], *, has_text: bool
) -> dict[str, JsonValue]:
    """Return the metadata of reasoning. `summary_lengths` are those of its parts that arrived.

    They are stored beside encrypted content if there is a text, unless it is one summary. An empty
    list means that the text is no summary.
    """
    metadata: dict[str, JsonValue] = {ITEM_ID_KEY: item_id}
    if isinstance(encrypted, str) and encrypted:
        metadata[ENCRYPTED_KEY] = encrypted
        if has_text and len(summary_lengths) != 1:
            metadata[SUMMARY_LENGTHS_KEY] = [*summary_lengths]
    return metadata
