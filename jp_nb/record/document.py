"""The conversations of a notebook: the active one as a stream, the earlier ones as stored.

`jp_object.py` has the shape of the object that keeps them.

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D33.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.record.ids import Draw
from jp_nb.record.jp_object import (
    OF_THE_OBJECT,
    VERSION,
    conversation_id,
    is_sealed,
    shelved,
)
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.record.timestamps import Clock

_OURS = OF_THE_OBJECT - {"signature"}


@dataclass(slots=True)
class Document:
    """The conversations of a notebook: `conversation` is active, `others` are kept as stored.

    `extra` holds top-level keys that we do not know (and the signature): they survive.
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
        draw: Draw | None = None,
    ) -> Document:
        """Return a document with an empty conversation."""
        return cls(
            ConversationStream.new(clock=clock, made=made, base_config=base_config, draw=draw)
        )

    @classmethod
    def load(
        cls, value: JsonValue, *, clock: Clock, draw: Draw | None = None, tolerant: bool = False
    ) -> Document:
        """Read the object at `metadata["jp"]`.

        With `tolerant`, a malformed entry is not an error: the conversation keeps it as it is,
        lists it in its `damage`, and can be read but not changed.

        Raises:
            StorageError: If it is not such an object, holds a malformed entry, or has a newer
                `version`; the message names the place. The value is left alone.
        """
        if not isinstance(value, dict):
            raise StorageError(f"expected an object, found {type(value).__name__}", place="jp")
        version = value.get("version", VERSION)
        if is_sealed(value):
            raise NewerVersionError(
                "this record is stored in segments, which the open page cannot read: reload the "
                "page or update the JupyterLab extension jp-nb. The record is unchanged",
                place="jp.version",
            )
        if version != VERSION or version is True:
            raise NewerVersionError(
                f"this record has version {version!r}, and this jp_nb reads version {VERSION}: "
                "update jp_nb. The record is unchanged",
                place="jp.version",
            )
        if isinstance(value.get("segments"), dict) and isinstance(value.get("broken"), int):
            number = value["broken"]
            raise StorageError("a segment is missing or was changed", place=f"jp.{number}")
        conversation = _expect(value, "conversation", dict)
        if not isinstance(conversation.get("id"), str) or not conversation["id"]:
            raise StorageError("expected the conversation's id", place="jp.conversation.id")
        return cls(
            ConversationStream(
                conversation,
                clock=clock,
                base_config=_expect(value, "base_config", dict),
                raw=_expect(value, "events", list),
                draw=draw,
                tolerant=tolerant,
            ),
            list(_expect(value, "others", list)),
            {key: item for key, item in value.items() if key not in _OURS},
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object to store. Its lists and entries are shared: do not change them."""
        stream = self.conversation
        stored: dict[str, JsonValue] = {
            "version": VERSION,
            "conversation": stream.head,
            "base_config": stream.base_config,
            "events": stream.raw,  # type: ignore[dict-item]  # list is invariant
        }
        stored.update(self.extra)
        if self.others:
            stored["others"] = self.others
        return stored

    def shelve(self) -> None:
        """Put the active conversation among the others, unless it is empty."""
        if self.conversation.raw:
            self.others.insert(0, shelved(self.to_json()))
        self.extra.pop("signature", None)

    def ids(self) -> set[str]:
        """Return the ids of all conversations in the notebook."""
        return {self.conversation.id, *filter(None, map(conversation_id, self.others))}


class NewerVersionError(StorageError):
    """The record was written by a newer release: read-only for this one."""


def _expect(value: dict[str, JsonValue], key: str, kind: type[Any]) -> Any:
    found = value.get(key, kind())
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list"
        raise StorageError(f"expected {wanted}, found {type(found).__name__}", place=f"jp.{key}")
    return found
