"""Metadata of the record's entries for the parts of an item that the Responses API wants back.

An *item* of the API is a message, a reasoning, or a call of a response. The record keeps its text,
name, and arguments. The rest, such as encrypted reasoning, is metadata of the entry, and the
rendering of later requests builds the same item from both.

Source: `docs/providers.md`, "Metadata that is sent back".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.json_reading import read_json
from jp_nb.json_writing import compact_json
from jp_nb.providers.response_parts.stream_decoder import WireObject

ITEM_ID_KEY: Final = "openai_item_id"
ENCRYPTED_KEY: Final = "openai_encrypted_content"
SUMMARY_LENGTHS_KEY: Final = "openai_summary_lengths"
"""Lengths of the parts of a summary, which the record joins by blank lines.

Absent: the text is one part. `[]`: the text is no summary. `[3, 5]`: it has two parts.
"""
PHASE_KEY: Final = "openai_phase"
ANNOTATIONS_KEY: Final = "openai_annotations"
ITEM_KEY: Final = "openai_item"
"""Whole item that the record cannot express otherwise."""
PART_SEPARATOR: Final = "\n\n"
"""Text between the parts of an item in the record."""
_CALL_FIELDS: Final = frozenset({"type", "id", "call_id", "name", "arguments", "status"})
"""The fields of a call that the record can express."""


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
    """Return the metadata of reasoning. `summary_lengths` are those of the parts that arrived.

    They are stored (`SUMMARY_LENGTHS_KEY`) only if there is encrypted content and a text, and the
    text is not a single part.
    """
    metadata: dict[str, JsonValue] = {ITEM_ID_KEY: item_id}
    if isinstance(encrypted, str) and encrypted:
        metadata[ENCRYPTED_KEY] = encrypted
        if has_text and len(summary_lengths) != 1:
            metadata[SUMMARY_LENGTHS_KEY] = [*summary_lengths]
    return metadata


def split_summary(text: str, lengths: JsonValue) -> Iterator[str]:
    """Yield the parts of a summary whose text is in the record.

    `lengths` are those of `make_reasoning_metadata`. The whole `text` is one part if they do not
    fit, because the user has edited it.
    """
    if isinstance(lengths, list):
        sizes = [size for size in lengths if isinstance(size, int)]
        if not sizes:  # the text is not a summary
            return

        joined_length = sum(sizes) + len(PART_SEPARATOR) * (len(sizes) - 1)
        if joined_length == len(text):
            start = 0
            for size in sizes:
                yield text[start : start + size]
                start += size + len(PART_SEPARATOR)
            return

    if text:
        yield text


def make_call_metadata(content: WireObject, arguments: str) -> dict[str, JsonValue]:
    """Return the metadata of the call `content`, a complete item, with its final `arguments`.

    It has the whole item if the record cannot express this: with unknown fields, or arguments that
    the model has spelled differently. Later requests then have the item as it was.
    """
    metadata: dict[str, JsonValue] = {}
    if isinstance(item_id := content.get("id"), str):
        metadata[ITEM_ID_KEY] = item_id

    if content.keys() - _CALL_FIELDS or not _is_compact(arguments):
        metadata[ITEM_KEY] = {**content, "arguments": arguments}
    return metadata


def _is_compact(arguments: str) -> bool:
    """Return True if a request that is made from the record has the same text of `arguments`."""
    try:
        return compact_json(read_json(arguments)) == arguments
    except ValueError:
        return True  # unreadable: the record has other arguments, as later requests do
