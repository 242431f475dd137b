"""Compose the writes that bring the content of a page to a snapshot of the document.

A write appends entries to the key `jp`, or replaces the keys that keep the record. In a document
that pages share, earlier entries are put into *segments* (`jp.1`, `jp.2`, …), which never change.
An entry in a segment is *sealed*. The *head* is the document without its entries and other
conversations. A *carrier* is the state of a widget in which a headless run has kept the record: the
next write moves it to `jp`. A conversation that the page holds already is *copied*: the write has
its place in the page instead of its content.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.notebook.page.document_snapshot import DocumentSnapshot
from jp_nb.notebook.page.page_copy import PageCopy
from jp_nb.notebook.page.pieces import (
    MAX_DELIVERY_BYTES,
    split_text,
    to_ascii_json,
)
from jp_nb.notebook.page.protocol import MessageNumbering
from jp_nb.notebook.page.stored_keys import StoredKeys
from jp_nb.notebook.page.transfer import Transfer
from jp_nb.record.documents.record_shape import RECORD_KEY, get_events
from jp_nb.record.documents.record_splitting import SEGMENT_CHARS, count_record_chars, split_record
from jp_nb.record.documents.segments import count_sealed
from jp_nb.storable_json import make_storable, make_storable_with_size

MAX_BATCH_BYTES = MAX_DELIVERY_BYTES - 1_024
"""Limit of appended entries in a message: other fields need some room."""


class WriteComposer:
    """Composes the writes to one `page`. Pages share its document if it `is_shared`.

    In all methods, `copy` is the content of the page before the write, and `target` the snapshot
    that the page gets. `copy.length` counts the entries of the active conversation that equal those
    of the kernel, and `copy.keys.jp_length` the entries in `jp`, without those in segments.
    """

    def __init__(self, numbering: MessageNumbering, page: str, *, is_shared: bool) -> None:
        self._numbering = numbering
        self._page = page
        self._is_shared = is_shared

    def compose_entries(
        self, target: DocumentSnapshot, copy: PageCopy, batch: list[JsonValue]
    ) -> Transfer:
        """Append `batch`, the next entries of `target`, or replace all keys if that is needed."""
        # No value of `jp` to extend, or carriers to move into it.
        if copy.keys.jp_length is None or copy.keys.carriers:
            return self.compose_whole(target, copy)
        if not self._is_shared:
            if copy.keys.segments:  # of a time when the document was shared
                return self.compose_whole(target, copy)
            return self._compose_append(target, copy, batch)

        # If the entries that no segment has are too long with the new ones, they get a segment.
        sealed_count = count_sealed(copy.keys.seals, target.stream)
        tail = target.entries[sealed_count : copy.length]
        if count_record_chars([*tail, *batch]) < SEGMENT_CHARS:
            return self._compose_append(target, copy, batch)

        document = target.to_document(copy.length + len(batch))
        return self._compose_segments(target, copy, document, is_appended=True)

    def _compose_append(
        self, target: DocumentSnapshot, copy: PageCopy, batch: list[JsonValue]
    ) -> Transfer:
        """Append `batch` to the entries in `jp`, and set its changed keys."""
        added: JsonObject = {"at": copy.keys.jp_length, "events": batch}
        if copy.head_text != target.head_text:
            head = target.head
            added["head"] = head
            if "signature" not in head:  # the page may have one that is not valid any more
                added["removed"] = ["signature"]

        assert copy.keys.jp_length is not None
        keys = replace(copy.keys, jp_length=copy.keys.jp_length + len(batch))
        result = replace(
            copy,
            keys=keys,
            length=copy.length + len(batch),
            head_text=target.head_text,
        )
        return self._make_transfer(copy, result, {"extend": added})

    def compose_whole(self, target: DocumentSnapshot, copy: PageCopy) -> Transfer:
        """Replace all keys. Conversations that the page holds are copied from there."""
        document = target.to_document(target.length)
        if self._is_shared:
            return self._compose_segments(target, copy, document, is_appended=False)

        sent, copies = copy.split_conversations(target.others)
        fields: JsonObject = {"put": {RECORD_KEY: document}}
        if copies:
            fields["put"] = {RECORD_KEY: {**document, "others": sent}}
            fields["copies"] = copies

        keys = StoredKeys.of_written(document, {})
        return self._make_whole_transfer(target, copy, fields, keys, target.length)

    def _compose_segments(
        self, target: DocumentSnapshot, copy: PageCopy, document: JsonObject, *, is_appended: bool
    ) -> Transfer:
        """Write `document`: the new segments, and the rest of the record.

        If `is_appended`, the document only has more entries than the page, so the segments of the
        page stay. Otherwise those that the document does not use are removed.
        """
        stored = as_object(make_storable(document))
        # Sealed entries stay in the segments that the page has. `split.added` has new segments,
        # under keys that are not taken, and `split.rest` the value of `jp`.
        split = split_record(
            stored, known=copy.keys.seals, taken=copy.keys.segments, is_appended=is_appended
        )
        keys = StoredKeys.of_written(split.rest, split.seals)
        if is_appended:
            keys = replace(keys, segments=keys.segments | copy.keys.segments)

        fields: JsonObject = {"put": {**split.added, RECORD_KEY: split.rest}}
        length = len(get_events(document))
        return self._make_whole_transfer(target, copy, fields, keys, length)

    def _make_whole_transfer(
        self,
        target: DocumentSnapshot,
        copy: PageCopy,
        fields: JsonObject,
        keys: StoredKeys,
        length: int,
    ) -> Transfer:
        """Write `fields`, and remove the segments and carriers that the page does not need.

        `keys` and `length` describe the page after the write: its keys, and the number of entries
        of its active conversation.
        """
        dropped = sorted(copy.keys.segments - keys.segments)
        if dropped:
            fields["drop"] = list(dropped)
        if copy.keys.carriers:
            fields["carriers"] = list(copy.keys.carriers)

        result = PageCopy(
            state="",  # set with the message
            keys=keys,
            stream=target.stream,
            length=length,
            head_text=target.head_text,
            # After this write, the page holds all other conversations, at these places.
            held=[(other, place) for place, other in enumerate(target.others)],
        )
        transfer = self._make_transfer(copy, result, fields)
        # False if the write has only the first entries, such as those up to a new segment. The next
        # writes append the others.
        transfer.is_whole = length == target.length
        return transfer

    def _make_transfer(self, copy: PageCopy, result: PageCopy, fields: JsonObject) -> Transfer:
        """Make the message of a write, or its pieces. `result` gets the name of its new state."""
        make_message = self._numbering.make_message
        result.state = self._numbering.make_state()
        clean, size = make_storable_with_size(fields)
        write = {"expect": copy.state, "state": result.state, **as_object(clean)}
        if size <= MAX_DELIVERY_BYTES:
            return Transfer(deque([make_message("write", to=self._page, **write)]), result)

        pieces = split_text(to_ascii_json(write))
        part_of = self._numbering.last + 1  # all pieces have the number of the first, made next
        messages = [
            make_message("chunk", to=self._page, id=part_of, i=i, of=len(pieces), text=piece)
            for i, piece in enumerate(pieces)
        ]
        return Transfer(deque(messages), result)
