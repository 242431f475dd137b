"""The head of a request in the record: marks of responses with the head, or with its changes.

The metadata of the first entry of a response contains the head (`request_head.py`), or the parts of
it that changed, so that every later process sends the same bytes.

Source: `docs/record.md`, `docs/providers.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.json_values import JsonObject
from jp_nb.json_writing import compact_json
from jp_nb.record.entries.events import Entry, EntryT
from jp_nb.record.request_context.request_head import RequestHead

HEAD_KEY: Final = "head"
"""Metadata key of a head. It begins the requests of the conversation, also after a compaction."""
HEAD_CHANGE_KEY: Final = "head_change"
"""Metadata key of the parts that changed since the last request."""
MAX_HEAD_CHARS: Final = 1_000_000
"""A longer head is not recorded. Another process then begins a new head."""


def mark_head(entry: EntryT, head: RequestHead, before: RequestHead | None) -> EntryT:
    """Return the first `entry` of a response with the `head` of its request in the metadata.

    `before` is the head of the last request. None: the request began a new head.
    """
    if before is None:
        parts = head.to_json()
        key = HEAD_KEY
    elif before == head:
        return entry
    else:
        parts = head.to_json(before)
        key = HEAD_CHANGE_KEY

    if not _is_recordable(parts):
        return entry
    return entry.with_metadata(**{key: parts})


def is_recordable_change(before: RequestHead | None, after: RequestHead) -> bool:
    """Return True if the record can store the change of the head from `before` to `after`.

    If it cannot, a request must not append the change to the messages: another process could not
    repeat it at its place. It begins a new head, as without `before`, where nothing is appended.
    """
    return before is None or before == after or _is_recordable(after.to_json(before))


def _is_recordable(parts: JsonObject) -> bool:
    return len(compact_json(parts)) <= MAX_HEAD_CHARS


def read_request_head(entry: Entry, before: RequestHead | None) -> RequestHead | None:
    """Return the head of the request whose response begins with `entry`.

    Without a valid mark, it is that of the last request (`before`).
    """
    # A head replaces all parts, a change only those that it has.
    for key, base in ((HEAD_KEY, RequestHead()), (HEAD_CHANGE_KEY, before)):
        parts = entry.metadata.get(key)
        if base is None or not isinstance(parts, dict):
            continue

        try:
            return base.with_parts(parts)
        except (ValueError, RecursionError):
            return before

    return before


def begins_head(entry: Entry) -> bool:
    """Return True if the request before `entry` did not continue the requests before it."""
    return HEAD_KEY in entry.metadata
