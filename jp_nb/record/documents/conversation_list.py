"""The conversations of a notebook: list them, switch to one, and drop one.

A `Document` has the active conversation, and in `others` the inactive ones as plain JSON. They are
kept as they are until the user switches to one, because they may be damaged or from someone else.
Stored ids may occur twice, so each conversation gets a unique *name*, which is its id for the user.
In this module, the argument `entry` is the `jp` object or one of `others` (`record_shape.py`).

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D33.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.json_values import as_object
from jp_nb.record.documents.document import Document, NewerVersionError
from jp_nb.record.documents.record_shape import (
    RECORD_VERSION,
    find_shape,
    get_conversation_id,
    get_events,
    get_properties,
)
from jp_nb.record.entries.clock import Clock
from jp_nb.record.entries.entry_kinds import CONVERSATION_KINDS
from jp_nb.record.entries.events import read_typed, read_words
from jp_nb.text import MAX_FEW_NAMES, begin_line

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
        turns: The number of turns.
        made: `live`, `headless`, or `imported`. Untrusted records may have another text.
        parent: Stored id of the conversation that it was forked from.
        parent_turn: The last turn that it shares with its parent, counted from 0.
        active: True for the conversation that continues in this notebook.
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
    names = _make_unique_names(document)

    stream = document.conversation
    first = read_words(stream.requests[0]) if stream.requests else ""
    active = _read_info(
        names[0],
        {"conversation": stream.properties},
        turns=stream.turn_count,
        first=first,
        active=True,
    )

    others = [
        _read_info(name, entry, turns=_count_turns(entry))
        for name, entry in zip(names[1:], document.others, strict=True)
    ]
    return [active, *others]


def switch_conversation(document: Document, text: str, *, clock: Clock) -> bool:
    """Activate the conversation with the name `text`. Return False if it is active already.

    `text` is a name as in `list_conversations`, or its beginning or end. The conversation that was
    active keeps its signature; it is discarded if it is empty. The new stream has no `on_change`.

    Raises:
        UsageError: `text` matches no conversation, or several. The message has the nearest ids.
        StorageError: The conversation is damaged, or from a newer release. Nothing is changed.
    """
    index = _find_index(_make_unique_names(document), text)
    if index == 0:  # the names begin with that of the active conversation
        return False
    other_index = index - 1
    loaded = _load(document.others[other_index], f"jp.others[{other_index}]", clock)

    # `others` of one of `others` is damage, but these conversations are kept.
    document.others = _remove_other(document, other_index) + loaded.others

    # This moves its signature from `document.extra` into `others`, so that the signature of the
    # activated conversation in `loaded.extra` can take its place.
    document.archive_active()
    document.conversation = loaded.conversation
    document.extra = loaded.extra | document.extra
    return True


def drop_conversation(document: Document, name: str) -> ConversationInfo:
    """Remove a conversation from the notebook and return its facts.

    `name` is its whole name in `list_conversations`. It may be damaged.

    Raises:
        UsageError: The name is unknown, or the conversation is active.
    """
    names = _make_unique_names(document)
    if name not in names:
        raise UsageError(
            f"there is no conversation {_format_name(name)}: "
            f"{_suggest(names, name)}`%jp drop` needs the whole id"
        )

    other_index = names.index(name) - 1
    if other_index < 0:
        raise UsageError(
            f"{_format_name(name)} is the active conversation. Switch to another one first: "
            "`%jp switch ID` or `%jp new`"
        )

    entry = document.others[other_index]
    dropped = _read_info(name, entry, turns=_count_turns(entry))
    document.others = _remove_other(document, other_index)
    return dropped


def _remove_other(document: Document, other_index: int) -> list[JsonValue]:
    return [entry for index, entry in enumerate(document.others) if index != other_index]


# --- naming ----------------------------------------------------------------------------------


def _make_unique_names(document: Document) -> list[str]:
    """Return a name for the active conversation, and for each of `others` in their order."""
    others = (get_conversation_id(entry) or _DAMAGED for entry in document.others)
    stored = [document.conversation.id, *others]
    taken = set(stored)

    numbers: dict[str, int] = {}  # of the last name, by stored id
    names = []

    for identifier in stored:
        name = identifier
        number = numbers.get(identifier, 0) + 1
        # The first one keeps its id. `jp-c1~2` may also be the id of another conversation.
        while number > 1 and (name := f"{identifier}~{number}") in taken:
            number += 1

        numbers[identifier] = number
        taken.add(name)
        names.append(name)

    return names


def _find_index(names: Sequence[str], text: str) -> int:
    """Return the index of the name that is `text`, or the only one that begins or ends with it."""
    if text in names:
        return names.index(text)

    fitting = [name for name in names if text and (name.startswith(text) or name.endswith(text))]
    if len(fitting) == 1:
        return names.index(fitting[0])
    if fitting:
        shown = ", ".join(map(_format_name, fitting[:MAX_FEW_NAMES]))
        more = len(fitting) - MAX_FEW_NAMES
        if more > 0:
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
    """Return an id for a message. An untrusted one may be long or have control characters."""
    if _ORDINARY.fullmatch(name):
        return f"`{name}`"
    if len(name) > 64:
        name = f"{name[:63]}…"
    return ascii(name)


# --- untrusted entries -----------------------------------------------------------------------


def _load(entry: JsonValue, place: str, clock: Clock) -> Document:
    """Return one of `others` as a document. Errors have its `place`, such as `jp.others[2]`."""
    # Only the notebook's `jp` object has a version.
    value = {"version": RECORD_VERSION, **entry} if isinstance(entry, dict) else entry
    try:
        return Document.load(value, clock=clock)
    except StorageError as exc:
        # `jp.events[3]` or `events[3]` becomes `jp.others[2].events[3]`.
        message = str(exc).removeprefix(f"{exc.place}: ")
        inner = exc.place if exc.place.startswith("jp") else f"jp.{exc.place}"
        kind = NewerVersionError if isinstance(exc, NewerVersionError) else StorageError
        raise kind(message, place=place + inner.removeprefix("jp")) from exc


def make_title(text: str) -> str:
    """Return the beginning of `text` as a title: one line, cut between words."""
    line, is_cut = begin_line(text, MAX_TITLE_CHARS)
    if not is_cut:
        return line

    # `line` may be short though `text` is long: only a beginning of it was read, of many spaces.
    beginning = line[:MAX_TITLE_CHARS]
    if len(line) > MAX_TITLE_CHARS:
        beginning = beginning.rpartition(" ")[0] or beginning
    return f"{beginning} …".lstrip()


def _read_first_request(entry: JsonValue) -> str:
    for event in get_events(entry):
        match event:
            case {"type": "chat_request", "content": str(content)}:
                metadata = as_object(as_object(event).get("metadata"))
                return read_typed(metadata) or content
    return ""


def _read_info(
    name: str, entry: JsonValue, *, turns: int, first: str = "", active: bool = False
) -> ConversationInfo:
    """Return the facts about a conversation. `first` is its first request, if it is known."""
    properties = get_properties(entry)
    parent = as_object(properties.get("parent"))

    # `find_shape` does not look at the base configuration, without which nothing can be loaded.
    is_readable = active or (
        find_shape(entry) == "readable"
        and isinstance(as_object(entry).get("base_config", {}), dict)
    )

    title = _read_text(properties.get("title")) or make_title(first or _read_first_request(entry))
    return ConversationInfo(
        name,
        title=title or None,
        turns=turns,
        made=_read_text(properties.get("made")),
        parent=_read_text(parent.get("id")),
        parent_turn=_read_count(parent.get("turn")),
        active=active,
        damaged=not is_readable,
    )


def _read_text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and value else None


def _read_count(value: JsonValue) -> int | None:
    """Return a number of turns, which a page may write as `3.0`; None if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if value >= 0 else None


def _count_turns(entry: JsonValue) -> int:
    """Return the number of turns. Events before the first `turn_start` are a turn too."""
    count = 0

    for event in get_events(entry):
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "turn_start":
            count += 1
        elif not count and isinstance(kind, str) and kind in CONVERSATION_KINDS:
            count = 1

    return count
