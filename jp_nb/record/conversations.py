"""Several conversations in one notebook: list, switch, fork, and notices about them.

Entries of `others` are plain JSON, possibly from someone else. All of them are listed, with
distinct names, and kept unchanged until the user switches to one.

Source: `docs/decisions.md` D19, D33, `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.json_values import copy_nested_json
from jp_nb.record.clock import Clock, IdFactory
from jp_nb.record.document import (
    VERSION,
    Document,
    NewerVersionError,
    conversation_id,
    events_of,
    head_of,
    shape_of,
)
from jp_nb.record.events import (
    CONVERSATION_KINDS,
    OUTCOMES,
    Compaction,
    ConfigDelta,
    ImageEntry,
    InquiryResponse,
    image_digests,
)
from jp_nb.record.stream import ConversationStream, Made, effective_deltas, end_of_turn
from jp_nb.text import one_line

MAX_SUGGESTIONS = 5
MAX_TITLE_CHARS = 40
_DAMAGED = "damaged"
_ORDINARY = re.compile(r"[A-Za-z0-9_.~-]{1,64}")


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """One conversation of a notebook, as far as it can be read.

    Attributes:
        id: Names it in this notebook alone: the stored id, with `~2` and so on behind it where
            several have the same; `damaged` where there is none.
        title: Its title, else the first words of its first request.
        turns: How many turns there are.
        made: `live`, `headless`, `imported`, or what somebody wrote there.
        parent: The stored id of the conversation it came from.
        parent_turn: The last turn that it has in common with its parent, from 0.
        active: Whether turns are added to it.
        damaged: Whether it has no conversation's shape. Its entries are not looked at.
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
    """Return all conversations, the active one first, then the others as stored: newest first."""
    names = _names(document)
    stream = document.conversation
    active = _listed(
        names[0],
        {"conversation": stream.head},
        turns=stream.turn_count,
        first=stream.requests[0].content if stream.requests else "",
        active=True,
    )
    others = zip(names[1:], document.others, strict=True)
    return [active, *(_listed(name, entry, turns=_turns(entry)) for name, entry in others)]


def switch(document: Document, text: str, *, clock: Clock) -> bool:
    """Make the conversation that `text` names the active one; returns whether it was another.

    `text` is an id as in `list_conversations`, or its beginning or end. The conversation that was
    active keeps its signature; it is discarded if it is empty. The new stream has no `on_change`.

    Raises:
        UsageError: If `text` names none or several; the message offers the nearest.
        StorageError: If that conversation is damaged or was written by a newer release; the
            message says where. Nothing changed.
    """
    index = _find(_names(document), text)
    if index == 0:
        return False
    place = index - 1
    loaded = _load(document.others[place], f"jp.others[{place}]", clock)
    document.others = [x for i, x in enumerate(document.others) if i != place] + loaded.others
    document.archive_active()  # takes the signature along
    document.conversation = loaded.conversation
    document.extra = loaded.extra | document.extra
    return True


def drop(document: Document, name: str) -> ConversationInfo:
    """Take a conversation out of the notebook; returns what it was.

    `name` is its whole id in `list_conversations`. It may be damaged.

    Raises:
        UsageError: If there is none of that id, or it is the active one.
    """
    names = _names(document)
    if name not in names:
        raise UsageError(
            f"there is no conversation {_shown(name)}: {_offer(_nearest(names, name))}"
            "`%jp drop` needs the whole id"
        )
    place = names.index(name) - 1
    if place < 0:
        raise UsageError(
            f"{_shown(name)} is the active conversation. Switch to another one first: "
            "`%jp switch ID` or `%jp new`"
        )
    entry = document.others[place]
    dropped = _listed(name, entry, turns=_turns(entry))
    document.others = [x for i, x in enumerate(document.others) if i != place]
    return dropped


# --- naming ----------------------------------------------------------------------------------


def _names(document: Document) -> list[str]:
    """Return unique ids: of the active conversation, then of the others."""
    stored = [document.conversation.id, *map(_stored_id, document.others)]
    literal = set(stored)
    seen: dict[str, int] = {}
    names = []
    for identifier in stored:
        name, number = identifier, seen.get(identifier, 0) + 1
        while number > 1 and (name := f"{identifier}~{number}") in literal:
            number += 1
        seen[identifier] = number
        literal.add(name)  # so that it is given once
        names.append(name)
    return names


def _find(names: Sequence[str], text: str) -> int:
    """Return the index of the one that `text` names."""
    if text in names:
        return names.index(text)
    fitting = [n for n in names if text and (n.startswith(text) or n.endswith(text))]
    if len(fitting) == 1:
        return names.index(fitting[0])
    if fitting:
        raise UsageError(
            f"several conversations match {_shown(text)}: {_some(fitting)}. Give more of the id"
        )
    offer = _offer(_nearest(names, text))
    raise UsageError(
        f"there is no conversation {_shown(text)}: {offer}`%jp log` lists the conversations"
    )


def _nearest(names: Sequence[str], text: str) -> list[str]:
    return difflib.get_close_matches(text[:200], names, n=3)


def _offer(names: Sequence[str]) -> str:
    return f"did you mean {' or '.join(map(_shown, names))}? " if names else ""


def _some(names: Sequence[str]) -> str:
    more = len(names) - MAX_SUGGESTIONS
    shown = ", ".join(map(_shown, names[:MAX_SUGGESTIONS]))
    return f"{shown} and {more} more" if more > 0 else shown


def _shown(name: str) -> str:
    """Return a name in a message: an id of anybody's may be long, or hold what a terminal obeys."""
    if _ORDINARY.fullmatch(name):
        return f"`{name}`"
    return ascii(name if len(name) <= 64 else f"{name[:63]}…")


# --- entries of anybody ----------------------------------------------------------------------


def _load(entry: JsonValue, place: str, clock: Clock) -> Document:
    value = {"version": VERSION, **entry} if isinstance(entry, dict) else entry
    try:
        return Document.load(value, clock=clock)
    except StorageError as exc:
        message = str(exc).removeprefix(f"{exc.place}: ")
        inner = exc.place if exc.place.startswith("jp") else f"jp.{exc.place}"
        kind = NewerVersionError if isinstance(exc, NewerVersionError) else StorageError
        raise kind(message, place=place + inner.removeprefix("jp")) from exc


def _stored_id(entry: JsonValue) -> str:
    return conversation_id(entry) or _DAMAGED


def make_title(text: str) -> str:
    """Return the beginning of `text` as a title: one line, cut between words."""
    line = one_line(text[: 4 * MAX_TITLE_CHARS])
    if len(line) <= MAX_TITLE_CHARS:
        return line
    return f"{line[:MAX_TITLE_CHARS].rpartition(' ')[0] or line[:MAX_TITLE_CHARS]} …"


def _first_request(entry: JsonValue) -> str:
    for event in events_of(entry):
        match event:
            case {"type": "chat_request", "content": str(content)}:
                return content
    return ""


def _listed(
    name: str, entry: JsonValue, *, turns: int, first: str = "", active: bool = False
) -> ConversationInfo:
    head = head_of(entry)
    parent = head.get("parent")
    parent = parent if isinstance(parent, dict) else {}
    return ConversationInfo(
        name,
        title=_words(head.get("title")) or make_title(first or _first_request(entry)) or None,
        turns=turns,
        made=_words(head.get("made")),
        parent=_words(parent.get("id")),
        parent_turn=_whole(parent.get("turn")),
        active=active,
        damaged=not active and not _has_the_shape(entry),
    )


def _words(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: JsonValue) -> int | None:
    """Return a count, also as a page writes it: `3.0`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if value >= 0 else None


def _has_the_shape(entry: JsonValue) -> bool:
    if not isinstance(entry, dict) or shape_of(entry) != "readable":
        return False
    return isinstance(entry.get("base_config", {}), dict)


def _turns(entry: JsonValue) -> int:
    """Return the number of turns; entries before the first `turn_start` are a turn too."""
    count = 0
    for event in events_of(entry):
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "turn_start":
            count += 1
        elif not count and isinstance(kind, str) and kind in CONVERSATION_KINDS:
            count = 1
    return count


def fork(
    stream: ConversationStream,
    *,
    keep_turns: int | None,
    clock: Clock,
    made: Made,
    taken_ids: Iterable[str],
    new_id: IdFactory | None = None,
) -> ConversationStream:
    """Return a conversation of its own with the first `keep_turns` turns of `stream` (None: all).

    It has the base configuration and the entries as they are stored, compactions and unknown
    kinds included, and shares nothing with `stream`; it is repaired. Configuration changes
    behind the last turn that is kept go with the turns they were made for; without any turn,
    those from before the first one stay. Its `parent` names `stream` and the last turn kept.

    Raises:
        UsageError: If `stream` has no such turn.
        StorageError: If `stream` is damaged.
    """
    count = stream.turn_count
    keep = count if keep_turns is None else keep_turns
    if not 0 <= keep <= count:
        turns = f"its turns are 0 to {count - 1}" if count else "it has no turn yet"
        raise UsageError(f"there is no turn {keep - 1} in this conversation: {turns}")
    parent: dict[str, JsonValue] = {"id": stream.id}
    if keep:
        parent["turn"] = keep - 1
    # Its `origin` stays behind: it says how the files of another conversation are spelled.
    head = ConversationStream.new(clock=clock, made=made, parent=parent, taken_ids=taken_ids).head
    if stream.title is not None:
        head["title"] = stream.title
    made_of = ConversationStream(
        head,
        clock=clock,
        base_config=copy_nested_json(stream.base_config),
        raw=copy_nested_json(stream.raw),
        new_id=new_id,
    )
    if keep < count:
        _cut(made_of, keep)
    made_of.repair()
    return made_of


def undo(
    stream: ConversationStream,
    *,
    clock: Clock,
    made: Made,
    taken_ids: Iterable[str],
    new_id: IdFactory | None = None,
) -> ConversationStream:
    """Return a fork of `stream` without its last turn.

    Raises:
        UsageError: If it has none.
        StorageError: If it is damaged.
    """
    if not stream.turn_count:
        raise UsageError("there is no turn to undo: this conversation has none yet")
    keep = stream.turn_count - 1
    return fork(stream, keep_turns=keep, clock=clock, made=made, taken_ids=taken_ids, new_id=new_id)


def _cut(stream: ConversationStream, keep: int) -> None:
    """Keep `keep` turns, and the configuration changes that were made until their end.

    What applies to the conversation as a whole stays, but for compactions of turns that go: their
    numbers would mean other turns.
    """
    events = list(stream.events())
    kept = [event.position for event in events if event.turn < keep]
    gone = {event.position for event in events if event.turn >= keep}
    end = end_of_turn(stream.entries, kept[-1] + 1) if kept else events[0].position
    places = [i for i, entry in enumerate(stream.entries) if isinstance(entry, ConfigDelta)]
    gone.update(place for place in places if place >= end)
    if not kept:  # what is taken back goes with the turn it was made for, as the mark does
        gone.update(set(places) - {places[number] for number, _ in effective_deltas(stream.deltas)})
    gone.update(
        index
        for index, entry in enumerate(stream.entries)
        if isinstance(entry, Compaction) and entry.to_turn >= keep
    )
    gone.update(_unshown(stream, gone))
    stream.rewrite([item for index, item in enumerate(stream.items()) if index not in gone])


def _unshown(stream: ConversationStream, gone: Collection[int]) -> list[int]:
    """Return the images that no entry shows once those at the places in `gone` have left."""
    stays = ((n, entry) for n, entry in enumerate(stream.entries) if n not in gone)
    shown = {digest for _, entry in stays for digest in image_digests(entry)}
    return [
        index
        for index, entry in enumerate(stream.entries)
        if isinstance(entry, ImageEntry) and entry.digest not in shown
    ]


def notices(stream: ConversationStream) -> list[str]:
    """Return a line for each entry that is kept and does not count in full, with its place."""
    found = [(damage.index, f"{damage.place}: {damage.message}") for damage in stream.damage]
    for index in stream.unresolved():
        found.append(
            (
                index,
                f"events[{index}].request_id: the request of this response is unknown, so it is "
                "not sent to the model",
            )
        )
    for index, (entry, raw) in enumerate(zip(stream.entries, stream.raw, strict=True)):
        if isinstance(entry, InquiryResponse) and raw.get("outcome", "answered") not in OUTCOMES:
            found.append(
                (
                    index,
                    f"events[{index}].outcome: this jp_nb does not know {raw['outcome']!r}; "
                    "the question is treated as closed",
                )
            )
    return [text for _, text in sorted(found)]
