"""The conversations of a notebook: list them, switch to one, and drop one.

A `Document` has the active conversation, and in `others` the inactive ones as plain JSON. They are
kept as they are until the user switches to one, because they may be damaged or from someone else.
The user knows a conversation by its *name*, which is its id made unique (`conversation_names.py`).
`conversation_info.py` reads the facts about each of them. In this module, the argument `entry` is
one of `others`, in the shape of `record_shape.py`.

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D33.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.record.documents.conversation_info import ConversationInfo, count_turns, read_info
from jp_nb.record.documents.conversation_names import (
    find_name_index,
    make_unique_names,
    quote_name,
    suggest_names,
)
from jp_nb.record.documents.document import Document, NewerVersionError
from jp_nb.record.documents.record_shape import RECORD_VERSION
from jp_nb.record.entries.clock import Clock
from jp_nb.record.entries.events import read_words


def list_conversations(document: Document) -> list[ConversationInfo]:
    """Return all conversations: the active one, then the others in stored order, newest first."""
    names = make_unique_names(document)

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
    index = find_name_index(make_unique_names(document), text)
    if index == 0:  # the first name is that of the active conversation
        return False
    other_index = index - 1
    loaded = _load(document.others[other_index], f"jp.others[{other_index}]", clock)

    # Only the notebook's `jp` object should have `others`. If the activated entry has some too, it
    # is damaged, but no conversation is lost.
    document.others = _remove_other(document, other_index) + loaded.others

    # This moves its signature from `document.extra` into `others`, so that the signature of the
    # activated conversation in `loaded.extra` can take its place.
    document.archive_active()
    document.conversation = loaded.conversation
    # If both have the same other key, the value of the notebook stays.
    document.extra = loaded.extra | document.extra
    return True


def drop_conversation(document: Document, name: str) -> ConversationInfo:
    """Remove a conversation from the notebook and return its facts.

    `name` is its whole name in `list_conversations`. It may be damaged.

    Raises:
        UsageError: The name is unknown, or the conversation is active.
    """
    names = make_unique_names(document)
    if name not in names:
        raise UsageError(
            f"there is no conversation {quote_name(name)}: "
            f"{suggest_names(names, name)}`%jp drop` needs the whole id"
        )

    other_index = names.index(name) - 1
    if other_index < 0:
        raise UsageError(
            f"{quote_name(name)} is the active conversation. Switch to another one first: "
            "`%jp switch ID` or `%jp new`"
        )

    entry = document.others[other_index]
    dropped = read_info(name, entry, turns=count_turns(entry))
    document.others = _remove_other(document, other_index)
    return dropped


def _remove_other(document: Document, other_index: int) -> list[JsonValue]:
    return [entry for index, entry in enumerate(document.others) if index != other_index]


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
