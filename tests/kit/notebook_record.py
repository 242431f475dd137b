"""The `jp` object of a notebook: its conversations, its signature, and copies to merge."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import SecretBytes

from jp_nb.record.documents import carrier, merge, record_shape, record_splitting, segments
from jp_nb.record.documents.conversation_list import (
    drop_conversation,
    list_conversations,
    switch_conversation,
)
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_trust import Trust
from jp_nb.record.documents.signing import Signer
from jp_nb.record.stream import ConversationStream
from jp_nb.storable_json import make_storable

NEW: Final = object()


def _read_clock() -> datetime:
    return datetime.now(UTC)


class NotebookRecord:
    """The `jp` object in the metadata of a notebook, as the session of a kernel has it.

    Args:
        stored: The object; by default, that of a new notebook.
        keys: The user's key, such as `Keyring` of `tests/record/keyring.py`. With it, each append
            renews the signature.
        base_config: The settings at the beginning of a new notebook.
        tolerant: True to keep malformed entries.
    """

    def __init__(
        self,
        stored: Any = NEW,
        *,
        keys: Any = None,
        base_config: Mapping[str, Any] | None = None,
        tolerant: bool = False,
        clock: Callable[[], datetime] = _read_clock,
    ) -> None:
        self.clock = clock
        is_new = stored is NEW
        if is_new:
            self._document = Document.new(clock=clock, made="live", base_config=base_config)
        else:
            self._document = Document.load(stored, clock=clock, tolerant=tolerant)

        self.trust: Any = None
        if keys is not None:
            self.trust = Trust(self._document, keys, is_trusted=is_new)
            self._sign_appends()

    @property
    def stream(self) -> Any:
        """The active conversation."""
        return self._document.conversation

    @stream.setter
    def stream(self, stream: Any) -> None:
        self._document.conversation = stream

    @property
    def stored(self) -> Any:
        """The object as the file of the notebook has it."""
        return json.loads(json.dumps(self._document.to_json()))

    @property
    def text(self) -> str:
        """The object as JSON, with the order of its keys."""
        return json.dumps(self._document.to_json(), ensure_ascii=False)

    @property
    def others(self) -> list[Any]:
        """The stored conversations that are not active."""
        return self._document.others

    @property
    def signature(self) -> Any:
        """The stored signature, or None."""
        return self._document.extra.get("signature")

    @signature.setter
    def signature(self, signature: Any) -> None:
        self._document.extra["signature"] = signature

    @property
    def damage(self) -> list[tuple[int, str, str]]:
        """Index, place, and error of each malformed entry."""
        return [(each.index, each.place, each.message) for each in self.stream.damage]

    # --- conversations -----------------------------------------------------------------------

    def conversations(self) -> list[dict[str, Any]]:
        """Return the facts about each conversation, without those that are unknown or False."""
        return [_describe_conversation(each) for each in list_conversations(self._document)]

    def switch(self, text: str) -> bool:
        """Activate a conversation, as `%jp switch` does. Return False if it is active."""
        is_changed = switch_conversation(self._document, text, clock=self.clock)
        self._follow()
        return is_changed

    def drop(self, name: str) -> dict[str, Any]:
        """Remove a conversation, as `%jp drop` does, and return the facts about it."""
        return _describe_conversation(drop_conversation(self._document, name))

    def archive(self) -> None:
        """Put the active conversation beside the others, as `%jp new` does."""
        self._document.archive_active()

    def begin(self, *entries: Mapping[str, Any], is_local: bool = True) -> None:
        """Begin another conversation with stored `entries`, as `%jp new` and `%jp fork` do."""
        self.archive()
        head = {"id": f"jp-c{len(self.others) + 100}", "made": "live"}
        raw = json.loads(json.dumps(entries))
        self.stream = ConversationStream(head, clock=self.clock, raw=raw)
        self._follow(is_local=is_local)

    def ids(self) -> set[str]:
        """Return the ids of all conversations."""
        return self._document.ids()

    # --- trust -------------------------------------------------------------------------------

    def decide_trust(self, keys: Any, *, is_local: bool = False) -> None:
        """Decide about the trust again, by default as a new process does."""
        self.trust = Trust(self._document, keys, is_trusted=is_local)

    def _follow(self, *, is_local: bool = False) -> None:
        if self.trust is not None:
            self.trust.follow(is_trusted=is_local)
            self._sign_appends()

    def _sign_appends(self) -> None:
        self.stream.on_change = lambda: self.trust.sign() and None

    @staticmethod
    def sign(key: bytes, stream: Any) -> str:
        """Return the signature of the conversation by `key`."""
        return Signer.of(SecretBytes(key), stream).signature()

    # --- copies ------------------------------------------------------------------------------

    @staticmethod
    def merge(stored: Any, carried: Any, seen: Any = None) -> Any:
        """Return the merged copies of a `jp` object: the file's, and a page's or a run's."""
        return merge.merge_records(stored, carried, seen)

    @staticmethod
    def state(value: Any) -> str:
        """Return `readable`, `damaged`, or `newer` for a stored object."""
        return record_shape.find_shape(value)

    @staticmethod
    def count_entries(value: Any) -> dict[str, int]:
        """Return the number of entries of each conversation that merging compares, by id."""
        return record_shape.count_entries(value)

    @staticmethod
    def read_metadata(metadata: Mapping[str, Any]) -> Any:
        """Return the `jp` object in the metadata of a notebook, also from segments or a carrier."""
        return carrier.read_carrier(metadata)

    @staticmethod
    def lift_carrier(metadata: MutableMapping[str, Any]) -> bool:
        """Move the object from the state of a widget into the metadata of the notebook."""
        return carrier.lift_carrier(metadata)

    @staticmethod
    def write_segments(metadata: Mapping[str, Any], stored: Any) -> dict[str, Any]:
        """Return `metadata` with the object `stored`, as a document that pages share keeps it."""
        before = segments.read_segments(metadata) if "jp" in metadata else None
        known = segments.read_seals(metadata, before)
        split = record_splitting.split_record(
            make_storable(stored),  # type: ignore[arg-type]
            known=known,
            taken=metadata.keys(),
            is_appended=False,
        )
        return {**metadata, **split.added, "jp": split.rest}

    @staticmethod
    def store_in_segments(stored: Mapping[str, Any], *sizes: int) -> dict[str, Any]:
        """Return metadata with the first entries of `stored` in segments of these `sizes`."""
        metadata: dict[str, Any] = {}
        sealed = []
        start = 0

        for number, size in enumerate(sizes, 1):
            part = stored["events"][start : start + size]
            conversation = stored["conversation"]["id"]
            metadata[f"jp.{number}"] = {"conversation": conversation, "from": start, "events": part}
            check = segments.compute_checksum(part)
            sealed.append({"segment": number, "length": size, "check": check})
            start += size

        rest = stored["events"][start:]
        metadata["jp"] = {**stored, "version": 2, "sealed": sealed, "events": rest}
        return metadata


def _describe_conversation(info: Any) -> dict[str, Any]:
    facts = asdict(info).items()
    return {name: value for name, value in facts if value is not None and value is not False}


def open_document(
    source: Any = None, *, clock: Callable[[], datetime] = _read_clock, **options: Any
) -> Any:
    """Return the document of a `jp` object or of the notebook file at a path, or a new one.

    `options` are those of `Document.load` or `Document.new`. A file may carry it in a widget.
    """
    if isinstance(source, Path):
        from jp_nb.headless.commands import (
            stored_records,  # it loads the libraries of headless runs
        )

        return stored_records.read_record(source)

    if source is None:
        return Document.new(clock=clock, **{"made": "live", **options})
    return Document.load(source, clock=clock, **options)
