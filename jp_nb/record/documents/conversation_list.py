"""The conversations of a notebook: list them, switch to one, and drop one.

A `Document` has the active conversation, and in `others` the inactive ones as plain JSON. They are
kept as they are until the user switches to one, because they may be damaged or from someone else.
Stored ids may occur twice, so each conversation gets a unique *name*, which is its id for the user.
`conversation_info.py` reads the facts about each of them. In this module, the argument `entry` is
one of `others`, in the shape of `record_shape.py`.

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D33.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.record.documents.conversation_info import ConversationInfo, count_turns, read_info
from jp_nb.record.documents.document import Document, NewerVersionError
from jp_nb.record.documents.record_shape import (
    RECORD_VERSION,
    get_conversation_id,
)
from jp_nb.record.entries.clock import Clock
from jp_nb.record.entries.events import read_words
from jp_nb.text import MAX_FEW_NAMES

_DAMAGED = "damaged"
_ORDINARY = re.compile(r"[A-Za-z0-9_.~-]{1,64}")


def list_conversations(document: Document) -> list[ConversationInfo]:
    """Return all conversations: the active one, then the others in stored order, newest first."""
    names = _make_unique_names(document)

    stream = document.conversation
    first = read_words(stream.requests[0]) if stream.requests else ""
    active = read_info(
        names[0],
        {"conversation": stream.properties},
        turns=stream.turn_count,
        first=first,
        active=True,
    )

    others = [
        read_info(name, entry, turns=count_turns(entry))
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
    # Of other keys that both have, those of the notebook stay.
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
    dropped = read_info(name, entry, turns=count_turns(entry))
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
