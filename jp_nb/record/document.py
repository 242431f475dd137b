"""The `jp` object in the metadata of a notebook: list, switch, and fork its conversations.

    {"version": 1, "conversation": {"id", "title"?, "made", "parent"?, "origin"?},
     "base_config": {…}, "events": [{…}, …], "signature"?: "…", "others"?: [{…}, …]}

Each of `others` is an inactive conversation in the same shape, without `version` and `others`. The
object may be from someone else, so its shape is checked when it is read. In this module, the
argument `entry` is the `jp` object or one of `others`. All conversations are listed, with unique
names, and kept unchanged until the user switches to one.

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D33, `docs/record.md`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Literal

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.json_values import JsonObject, as_object, copy_nested_json
from jp_nb.record.clock import Clock, IdFactory
from jp_nb.record.entry_images import read_image_digests
from jp_nb.record.events import (
    CONVERSATION_KINDS,
    OUTCOMES,
    Compaction,
    ConfigDelta,
    ImageEntry,
    InquiryResponse,
    read_typed,
    read_words,
)
from jp_nb.record.stream import ConversationStream, Made, find_end_of_turn, select_effective_deltas
from jp_nb.text import MAX_FEW_NAMES, one_line

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

    # Entries are not checked: a record with a damaged entry can still be displayed.
    lists = (value.get("events", []), value.get("others", []))
    fit = get_conversation_id(value) and all(isinstance(item, list) for item in lists)
    return "readable" if fit else "damaged"


def has_segments(value: JsonValue) -> bool:
    """Return True if entries of `value` are in segments. `read_segments` joins them."""
    return (
        isinstance(value, dict) and value.get("version") == SEGMENTED_VERSION and "sealed" in value
    )


def get_conversation_head(entry: JsonValue) -> JsonObject:
    """Return the `conversation` object of `entry`, or `{}`."""
    return as_object(as_object(entry).get("conversation"))


def get_conversation_id(entry: JsonValue) -> str:
    """Return the id of the conversation in `entry`, or ""."""
    found = get_conversation_head(entry).get("id")
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
    return [{k: v for k, v in damaged.items() if k != "others"}, *get_others(damaged)]


def as_other(document: Mapping[str, JsonValue]) -> JsonObject:
    """Return the active conversation of `document` in the form of `others`."""
    return {key: document[key] for key in CONVERSATION_KEYS if key in document}


def get_conversations(document: JsonObject) -> list[JsonValue]:
    """Return all conversations of `document`, the active one first unless it is empty."""
    active: list[JsonValue] = [as_other(document)] if get_events(document) else []
    return active + get_others(document)


def is_headless_conversation(entry: JsonValue) -> bool:
    """Return True if a headless run made the conversation. The next run replaces it (D18)."""
    return get_conversation_head(entry).get("made") == "headless"


def count_entries(document: JsonValue, *, with_headless: bool = False) -> dict[str, int]:
    """Return the number of entries of each conversation, by id.

    By default, conversations of headless runs are omitted, because each run replaces them.
    """
    if not isinstance(document, dict):
        return {}
    found: dict[str, int] = {}

    for entry in [as_other(document), *get_others(document)]:
        is_counted = with_headless or not is_headless_conversation(entry)
        if is_counted and (identifier := get_conversation_id(entry)):
            found[identifier] = max(len(get_events(entry)), found.get(identifier, 0))

    return found


_OURS = DOCUMENT_KEYS - {"signature"}


@dataclass(slots=True)
class Document:
    """The conversations of a notebook: `conversation` is active, `others` are stored JSON.

    `extra` has unknown top-level keys and the signature. They are kept.
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

        version = value.get("version", RECORD_VERSION)

        if has_segments(value):
            raise NewerVersionError(
                "this record is stored in segments, which the open page cannot read: reload the "
                "page or update the JupyterLab extension jp-nb. The record is unchanged",
                place="jp.version",
            )
        if version != RECORD_VERSION or version is True:
            raise NewerVersionError(
                f"this record has version {version!r}, and this jp_nb reads version "
                f"{RECORD_VERSION}: update jp_nb. The record is unchanged",
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
                new_id=new_id,
                tolerant=tolerant,
            ),
            list(_expect(value, "others", list)),
            {key: item for key, item in value.items() if key not in _OURS},
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object to store. It shares its lists and entries with the document."""
        stream = self.conversation
        stored: dict[str, JsonValue] = {
            "version": RECORD_VERSION,
            "conversation": stream.head,
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


class NewerVersionError(StorageError):
    """The record is in a newer or segmented form, so it is read-only."""


def _expect(value: dict[str, JsonValue], key: str, kind: type[Any]) -> Any:
    found = value.get(key, kind())
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list"
        raise StorageError(f"expected {wanted}, found {type(found).__name__}", place=f"jp.{key}")
    return found


# --- several conversations ---------------------------------------------------------------------

MAX_TITLE_CHARS = 40
_DAMAGED = "damaged"
_ORDINARY = re.compile(r"[A-Za-z0-9_.~-]{1,64}")


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """Facts about one conversation of a notebook.

    Attributes:
        id: Unique in this notebook: the stored id, with `~2` and so on if several have the same, or
            `damaged`.
        title: The title, or the beginning of the first request.
        made: `live`, `headless`, or `imported`. Untrusted records may have another text.
        parent: Stored id of the conversation that it was forked from.
        parent_turn: The last turn that it shares with its parent, counted from 0.
        damaged: True if it is not a valid conversation. Its entries are not read.
    """

    id: str
    title: str | None = None
    turns: int = 0
    made: str | None = None
    parent: str | None = None
    parent_turn: int | None = None
    active: bool = False
    damaged: bool = False


def list_conversations(document: Document) -> list[ConversationInfo]:
    """Return all conversations: the active one, then the others in stored order, newest first."""
    names = _unique_names(document)

    stream = document.conversation
    first = read_words(stream.requests[0]) if stream.requests else ""
    active = _read_info(
        names[0],
        {"conversation": stream.head},
        turns=stream.turn_count,
        first=first,
        active=True,
    )

    others = zip(names[1:], document.others, strict=True)
    read = (_read_info(name, entry, turns=_count_turns(entry)) for name, entry in others)
    return [active, *read]


def switch_conversation(document: Document, text: str, *, clock: Clock) -> bool:
    """Activate the conversation with the id `text`. Return False if it is active already.

    `text` is an id as in `list_conversations`, or its beginning or end. The conversation that was
    active keeps its signature; it is discarded if it is empty. The new stream has no `on_change`.

    Raises:
        UsageError: `text` matches no conversation, or several. The message has the nearest ids.
        StorageError: The conversation is damaged, or from a newer release. Nothing is changed.
    """
    index = _find(_unique_names(document), text)
    if index == 0:
        return False
    place = index - 1
    loaded = _load(document.others[place], f"jp.others[{place}]", clock)

    document.others = [x for i, x in enumerate(document.others) if i != place] + loaded.others

    document.archive_active()  # with its signature
    document.conversation = loaded.conversation
    document.extra = loaded.extra | document.extra
    return True


def drop_conversation(document: Document, name: str) -> ConversationInfo:
    """Remove a conversation from the notebook and return its facts.

    `name` is its whole id in `list_conversations`. It may be damaged.

    Raises:
        UsageError: The id is unknown, or the conversation is active.
    """
    names = _unique_names(document)
    if name not in names:
        raise UsageError(
            f"there is no conversation {_format_name(name)}: "
            f"{_suggest(names, name)}`%jp drop` needs the whole id"
        )

    place = names.index(name) - 1
    if place < 0:
        raise UsageError(
            f"{_format_name(name)} is the active conversation. Switch to another one first: "
            "`%jp switch ID` or `%jp new`"
        )

    entry = document.others[place]
    dropped = _read_info(name, entry, turns=_count_turns(entry))
    document.others = [x for i, x in enumerate(document.others) if i != place]
    return dropped


# --- naming ----------------------------------------------------------------------------------


def _unique_names(document: Document) -> list[str]:
    others = (get_conversation_id(entry) or _DAMAGED for entry in document.others)
    stored = [document.conversation.id, *others]
    literal = set(stored)

    seen: dict[str, int] = {}
    names = []

    for identifier in stored:
        name = identifier
        number = seen.get(identifier, 0) + 1
        while number > 1 and (name := f"{identifier}~{number}") in literal:
            number += 1

        seen[identifier] = number
        literal.add(name)  # names are unique
        names.append(name)

    return names


def _find(names: Sequence[str], text: str) -> int:
    if text in names:
        return names.index(text)

    fitting = [n for n in names if text and (n.startswith(text) or n.endswith(text))]
    if len(fitting) == 1:
        return names.index(fitting[0])
    if fitting:
        shown = ", ".join(map(_format_name, fitting[:MAX_FEW_NAMES]))
        if (more := len(fitting) - MAX_FEW_NAMES) > 0:
            shown = f"{shown} and {more} more"

        raise UsageError(
            f"several conversations match {_format_name(text)}: {shown}. Give more of the id"
        )

    raise UsageError(
        f"there is no conversation {_format_name(text)}: {_suggest(names, text)}`%jp log` lists "
        "the conversations"
    )


def _suggest(names: Sequence[str], text: str) -> str:
    near = difflib.get_close_matches(text[:200], names, n=3)
    return f"did you mean {' or '.join(map(_format_name, near))}? " if near else ""


def _format_name(name: str) -> str:
    # Untrusted ids may be long or contain control characters.
    if _ORDINARY.fullmatch(name):
        return f"`{name}`"
    if len(name) > 64:
        name = f"{name[:63]}…"
    return ascii(name)


# --- untrusted entries -----------------------------------------------------------------------


def _load(entry: JsonValue, place: str, clock: Clock) -> Document:
    value = {"version": RECORD_VERSION, **entry} if isinstance(entry, dict) else entry
    try:
        return Document.load(value, clock=clock)

    except StorageError as exc:
        message = str(exc).removeprefix(f"{exc.place}: ")
        inner = exc.place if exc.place.startswith("jp") else f"jp.{exc.place}"
        kind = NewerVersionError if isinstance(exc, NewerVersionError) else StorageError
        raise kind(message, place=place + inner.removeprefix("jp")) from exc


def make_title(text: str) -> str:
    """Return the beginning of `text` as a title: one line, cut between words."""
    line = one_line(text[: 4 * MAX_TITLE_CHARS])
    if len(line) <= MAX_TITLE_CHARS:
        return line
    return f"{line[:MAX_TITLE_CHARS].rpartition(' ')[0] or line[:MAX_TITLE_CHARS]} …"


def _first_request(entry: JsonValue) -> str:
    for event in get_events(entry):
        match event:
            case {"type": "chat_request", "content": str(content)}:
                metadata = as_object(as_object(event).get("metadata"))
                return read_typed(metadata) or content
    return ""


def _read_info(
    name: str, entry: JsonValue, *, turns: int, first: str = "", active: bool = False
) -> ConversationInfo:
    head = get_conversation_head(entry)
    parent = as_object(head.get("parent"))

    is_readable = active or (
        find_shape(entry) == "readable"
        and isinstance(as_object(entry).get("base_config", {}), dict)
    )

    return ConversationInfo(
        name,
        title=_read_text(head.get("title")) or make_title(first or _first_request(entry)) or None,
        turns=turns,
        made=_read_text(head.get("made")),
        parent=_read_text(parent.get("id")),
        parent_turn=_read_count(parent.get("turn")),
        active=active,
        damaged=not is_readable,
    )


def _read_text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and value else None


def _read_count(value: JsonValue) -> int | None:
    # Pages may write a count as `3.0`.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if value >= 0 else None


def _count_turns(entry: JsonValue) -> int:
    # Entries before the first `turn_start` are a turn too.
    count = 0

    for event in get_events(entry):
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "turn_start":
            count += 1
        elif not count and isinstance(kind, str) and kind in CONVERSATION_KINDS:
            count = 1

    return count


def fork_conversation(
    stream: ConversationStream,
    *,
    keep_turns: int | None,
    clock: Clock,
    made: Made,
    taken_ids: Iterable[str],
    new_id: IdFactory | None = None,
) -> ConversationStream:
    """Return a new conversation with the first `keep_turns` turns of `stream` (None: all).

    It has copies of the base configuration and the stored entries, including compactions and
    unknown kinds, and is repaired. Configuration changes for later turns are omitted. Without any
    turn, the changes before the first turn are kept. Its `parent` has the id of `stream` and the
    last kept turn.

    Raises:
        UsageError: `stream` has no such turn.
        StorageError: `stream` is damaged.
    """
    count = stream.turn_count
    keep = count if keep_turns is None else keep_turns
    if not 0 <= keep <= count:
        turns = f"its turns are 1 to {count}" if count else "it has no turn yet"
        raise UsageError(f"there is no turn {keep} in this conversation: {turns}")
    parent: JsonObject = {"id": stream.id, "turn": keep - 1} if keep else {"id": stream.id}
    # `origin` is not copied: it describes the files of the other conversation.
    head = ConversationStream.new(clock=clock, made=made, parent=parent, taken_ids=taken_ids).head
    if stream.title is not None:
        head["title"] = stream.title

    forked = ConversationStream(
        head,
        clock=clock,
        base_config=copy_nested_json(stream.base_config),
        raw=copy_nested_json(stream.raw),
        new_id=new_id,
    )

    if keep < count:
        _keep_turns(forked, keep)

    forked.repair()
    return forked


def _keep_turns(stream: ConversationStream, keep: int) -> None:
    # Compactions of removed turns are removed too: their numbers would mean other turns.
    events = list(stream.events())
    kept = [event.position for event in events if event.turn < keep]
    removed = {event.position for event in events if event.turn >= keep}
    end = find_end_of_turn(stream.entries, kept[-1] + 1) if kept else events[0].position

    places = [i for i, entry in enumerate(stream.entries) if isinstance(entry, ConfigDelta)]
    removed.update(place for place in places if place >= end)

    if not kept:  # reverted changes are removed with their turn
        effective = {places[number] for number, _ in select_effective_deltas(stream.deltas)}
        removed.update(set(places) - effective)

    removed.update(
        index
        for index, entry in enumerate(stream.entries)
        if isinstance(entry, Compaction) and entry.to_turn >= keep
    )

    items = [item for index, item in enumerate(stream.items()) if index not in removed]
    shown = set(chain.from_iterable(read_image_digests(item.entry) for item in items))

    stream.rewrite(
        [x for x in items if not isinstance(x.entry, ImageEntry) or x.entry.digest in shown]
    )


def list_notices(stream: ConversationStream) -> list[str]:
    """Return a line for each entry that is kept but not fully used, with its path."""
    found = [(damage.index, f"{damage.place}: {damage.message}") for damage in stream.damage]

    for index in stream.unresolved():
        why = "the request of this response is unknown, so it is not sent to the model"
        found.append((index, f"events[{index}].request_id: {why}"))

    for index, (entry, raw) in enumerate(zip(stream.entries, stream.raw, strict=True)):
        if isinstance(entry, InquiryResponse) and raw.get("outcome", "answered") not in OUTCOMES:
            why = f"this jp_nb does not know {raw['outcome']!r}; the question is treated as closed"
            found.append((index, f"events[{index}].outcome: {why}"))

    return [text for _, text in sorted(found)]
