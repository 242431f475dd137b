"""The `jp` object in the metadata of a notebook, and the shapes of its parts.

    {"version": 1, "conversation": {"id", "title"?, "made", "parent"?, "origin"?},
     "base_config": {…}, "events": [{…}, …], "signature"?: "…", "others"?: [{…}, …]}

Each of `others` is an inactive conversation in the same shape, without `version` and `others`. The
object may be from someone else, so its shape is checked when it is read. In this module, the
argument `entry` is the `jp` object or one of `others`.

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D33, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.clock import Clock, IdFactory
from jp_nb.record.entries.events import (
    OUTCOMES,
    InquiryResponse,
)
from jp_nb.record.stream import ConversationStream, Made

RECORD_VERSION: Final = 1
SEGMENTED_VERSION: Final = 2
"""Version of a stored object with segments."""
RECORD_KEY: Final = "jp"
"""Key in the notebook's metadata."""

CONVERSATION_KEYS: Final = ("conversation", "base_config", "events", "signature")
DOCUMENT_KEYS: Final = frozenset({"version", "others", *CONVERSATION_KEYS})

RecordShape = Literal["readable", "damaged", "newer"]


def find_shape(value: JsonValue) -> RecordShape:
    """Return the state of a stored `jp` object. Its entries are not checked."""
    if not isinstance(value, dict):
        return "damaged"
    if value.get("version", RECORD_VERSION) != RECORD_VERSION:
        return "newer"

    # A record with a damaged entry can still be displayed.
    lists = (value.get("events", []), value.get("others", []))
    has_lists = all(isinstance(item, list) for item in lists)
    return "readable" if get_conversation_id(value) and has_lists else "damaged"


def has_segments(value: JsonValue) -> bool:
    """Return True if entries of `value` are in segments. `read_segments` joins them."""
    return (
        isinstance(value, dict) and value.get("version") == SEGMENTED_VERSION and "sealed" in value
    )


def get_properties(entry: JsonValue) -> JsonObject:
    """Return the `conversation` object of `entry`, or `{}`."""
    return as_object(as_object(entry).get("conversation"))


def get_conversation_id(entry: JsonValue) -> str:
    """Return the id of the conversation in `entry`, or ""."""
    found = get_properties(entry).get("id")
    return found if isinstance(found, str) else ""


def get_events(entry: JsonValue) -> list[JsonValue]:
    """Return the events of the conversation in `entry`, or `[]`."""
    found = as_object(entry).get("events")
    return found if isinstance(found, list) else []


def get_others(document: JsonValue) -> list[JsonValue]:
    """Return the other conversations of `document`."""
    found = as_object(document).get("others")
    return found if isinstance(found, list) else []


def split_damaged(damaged: JsonValue) -> list[JsonValue]:
    """Return the damaged object without `others`, then each of `others`, which may be intact."""
    if not isinstance(damaged, dict) or not get_others(damaged):
        return [damaged]
    without_others = {key: item for key, item in damaged.items() if key != "others"}
    return [without_others, *get_others(damaged)]


def as_other(document: Mapping[str, JsonValue]) -> JsonObject:
    """Return the active conversation of `document` in the form of `others`."""
    return {key: document[key] for key in CONVERSATION_KEYS if key in document}


def get_conversations(document: JsonObject) -> list[JsonValue]:
    """Return all conversations of `document`, the active one first unless it is empty."""
    active: list[JsonValue] = [as_other(document)] if get_events(document) else []
    return active + get_others(document)


def is_headless_conversation(entry: JsonValue) -> bool:
    """Return True if a headless run made the conversation. The next run replaces it (D18)."""
    return get_properties(entry).get("made") == "headless"


def count_entries(document: JsonValue, *, with_headless: bool = False) -> dict[str, int]:
    """Return the number of entries of each conversation, by id.

    By default, conversations of headless runs are omitted, because each run replaces them.
    """
    if not isinstance(document, dict):
        return {}

    counts: dict[str, int] = {}
    for entry in [as_other(document), *get_others(document)]:
        identifier = get_conversation_id(entry)
        is_counted = with_headless or not is_headless_conversation(entry)
        if is_counted and identifier:
            counts[identifier] = max(len(get_events(entry)), counts.get(identifier, 0))

    return counts


_OWN_KEYS = DOCUMENT_KEYS - {"signature"}
"""Keys of the object that have an attribute of `Document` other than `extra`."""


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

        if has_segments(value):
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

        # Such an object is a result of `read_segments`.
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
        """Return the ids of all conversations."""
        return {self.conversation.id, *filter(None, map(get_conversation_id, self.others))}

    def list_stored_ids(self) -> set[str]:
        """Return the ids of all conversations that have entries."""
        ids = set(filter(None, map(get_conversation_id, self.others)))
        if self.conversation.raw:
            ids.add(self.conversation.id)
        return ids


class NewerVersionError(StorageError):
    """The record is in a newer or segmented form, so it is read-only."""


def _get_of_type(value: dict[str, JsonValue], key: str, kind: type[Any]) -> Any:
    found = value.get(key, kind())
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list"
        raise StorageError(f"expected {wanted}, found {type(found).__name__}", place=f"jp.{key}")
    return found


def list_notices(stream: ConversationStream) -> list[str]:
    """Return a line for each entry that is kept but not fully used, with its path."""
    notices = [(damage.index, f"{damage.place}: {damage.message}") for damage in stream.damage]

    for index in stream.find_unresolved():
        reason = "the request of this response is unknown, so it is not sent to the model"
        notices.append((index, f"events[{index}].request_id: {reason}"))

    for index, (entry, raw) in enumerate(zip(stream.entries, stream.raw, strict=True)):
        if isinstance(entry, InquiryResponse) and raw.get("outcome", "answered") not in OUTCOMES:
            outcome = raw["outcome"]
            reason = f"this jp_nb does not know {outcome!r}; the question is treated as closed"
            notices.append((index, f"events[{index}].outcome: {reason}"))

    return [text for _, text in sorted(notices)]
