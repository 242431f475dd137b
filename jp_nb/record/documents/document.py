"""The conversations of a notebook: the active one, which is typed, and the others as stored JSON.

`Document.load` checks the `jp` object in the metadata of the notebook, which may be from someone
else (`record_shape.py` has its form), and `Document.to_json` returns the object to store.

If several pages share a notebook, earlier entries are in *segments*, further keys of the metadata.
The open page or `read_segments` joins them before a record is loaded (`segments.py`).

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D33, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.record.documents.record_shape import (
    DOCUMENT_KEYS,
    RECORD_VERSION,
    as_other,
    get_conversation_id,
    has_segments,
)
from jp_nb.record.entries.clock import Clock
from jp_nb.record.entries.new_ids import IdFactory
from jp_nb.record.stream import ConversationStream, Made

_OWN_KEYS = DOCUMENT_KEYS - {"signature"}
"""Keys of the object that have an attribute of `Document` other than `extra`."""


class NewerVersionError(StorageError):
    """The record is in a newer or segmented form, so it is read-only."""


@dataclass(slots=True)
class Document:
    """The conversations of a notebook.

    Attributes:
        conversation: The active conversation.
        others: The other conversations, as stored JSON.
        extra: The signature of the active conversation, and unknown top-level keys, which are kept.
    """

    conversation: ConversationStream
    others: list[JsonValue] = field(default_factory=list)
    extra: dict[str, JsonValue] = field(default_factory=dict)

    @classmethod
    def new(
        cls,
        *,
        clock: Clock,
        made: Made,
        base_config: Mapping[str, JsonValue] | None = None,
        new_id: IdFactory | None = None,
    ) -> Document:
        """Return a document with an empty conversation."""
        return cls(
            ConversationStream.new(clock=clock, made=made, base_config=base_config, new_id=new_id)
        )

    @classmethod
    def load(
        cls,
        value: JsonValue,
        *,
        clock: Clock,
        new_id: IdFactory | None = None,
        tolerant: bool = False,
    ) -> Document:
        """Read the object at `metadata["jp"]`.

        With `tolerant`, malformed entries are kept and listed in `conversation.damage`. Such a
        conversation is read-only.

        Raises:
            NewerVersionError: The value has a newer `version`, or is stored in segments.
            StorageError: The value is not a `jp` object, has a malformed entry, or lacks a segment.
                The message has the path. The value is unchanged.
        """
        if not isinstance(value, dict):
            raise StorageError(f"expected an object, found {type(value).__name__}", place="jp")

        if has_segments(value):  # not joined yet
            raise NewerVersionError(
                "this record is stored in segments, which the open page cannot read: reload the "
                "page or update the JupyterLab extension jp-nb. The record is unchanged",
                place="jp.version",
            )
        version = value.get("version", RECORD_VERSION)
        if version != RECORD_VERSION or version is True:  # in Python, True is equal to 1
            raise NewerVersionError(
                f"this record has version {version!r}, and this jp_nb reads version "
                f"{RECORD_VERSION}: update jp_nb. The record is unchanged",
                place="jp.version",
            )

        # `read_segments` returns such an object if it cannot join them: `broken` is the number of
        # the segment.
        if isinstance(value.get("segments"), dict) and isinstance(value.get("broken"), int):
            number = value["broken"]
            raise StorageError("a segment is missing or was changed", place=f"jp.{number}")

        conversation = _get_of_type(value, "conversation", dict)
        if not isinstance(conversation.get("id"), str) or not conversation["id"]:
            raise StorageError("expected the conversation's id", place="jp.conversation.id")

        return cls(
            ConversationStream(
                conversation,
                clock=clock,
                base_config=_get_of_type(value, "base_config", dict),
                raw=_get_of_type(value, "events", list),
                new_id=new_id,
                tolerant=tolerant,
            ),
            list(_get_of_type(value, "others", list)),
            {key: item for key, item in value.items() if key not in _OWN_KEYS},
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object to store. It shares its lists and entries with the document."""
        stream = self.conversation
        stored: dict[str, JsonValue] = {
            "version": RECORD_VERSION,
            "conversation": stream.properties,
            "base_config": stream.base_config,
            "events": stream.raw,  # type: ignore[dict-item]  # list is invariant
        }

        stored.update(self.extra)

        if self.others:
            stored["others"] = self.others
        return stored

    def archive_active(self) -> None:
        """Add the active conversation to the others, unless it is empty. Clear the signature."""
        if self.conversation.raw:
            self.others.insert(0, as_other(self.to_json()))
        self.extra.pop("signature", None)

    def ids(self) -> set[str]:
        """Return the ids of all conversations. A damaged one may have none."""
        return {self.conversation.id, *filter(None, map(get_conversation_id, self.others))}

    def list_stored_ids(self) -> set[str]:
        """Return the ids of all conversations that have entries."""
        ids = set(filter(None, map(get_conversation_id, self.others)))
        if self.conversation.raw:
            ids.add(self.conversation.id)
        return ids


def _get_of_type(value: dict[str, JsonValue], key: str, kind: type[Any]) -> Any:
    """Return the value at `key`, which has to be of this kind; an empty one if it is missing."""
    found = value.get(key, kind())
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list"
        raise StorageError(f"expected {wanted}, found {type(found).__name__}", place=f"jp.{key}")
    return found
