"""Facts about one conversation of a notebook, for lists of all of them.

The conversation may be from someone else, and damaged. Its entries are counted, and not decoded. In
this module, the argument `entry` is an inactive conversation, one of `others` (`record_shape.py`).
Of the active one, it has only the properties.

Source: `docs/guide.md`, `docs/decisions.md` D18, D33.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.json_values import as_object
from jp_nb.record.documents.record_shape import find_shape, get_events, get_properties
from jp_nb.record.entries.entry_kinds import CONVERSATION_KINDS
from jp_nb.record.entries.events import read_typed
from jp_nb.text import begin_line

MAX_TITLE_CHARS = 40


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


def make_title(text: str) -> str:
    """Return the beginning of `text` as a title: one line, cut between words."""
    line, is_cut = begin_line(text, MAX_TITLE_CHARS)
    if not is_cut:
        return line

    # A cut `line` is longer than the limit, so that its last word may be incomplete. It is shorter
    # only if `begin_line` has read little more than spaces of a long text.
    beginning = line[:MAX_TITLE_CHARS]
    if len(line) > MAX_TITLE_CHARS:
        beginning = beginning.rpartition(" ")[0] or beginning
    return f"{beginning} …".lstrip()


def _read_first_request(entry: JsonValue) -> str:
    for event in get_events(entry):
        match event:
            case {"type": "chat_request", "content": str(content)}:
                # Values may have been put into the words that the user typed.
                metadata = as_object(as_object(event).get("metadata"))
                return read_typed(metadata) or content
    return ""


def read_info(
    name: str, entry: JsonValue, *, turns: int, first: str = "", active: bool = False
) -> ConversationInfo:
    """Return the facts about a conversation.

    `name` is its unique id (`ConversationInfo.id`). `first` is its first request, if it is known.
    """
    properties = get_properties(entry)
    parent = as_object(properties.get("parent"))

    # `find_shape` does not look at the base configuration. If it is no object, loading fails.
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


def count_turns(entry: JsonValue) -> int:
    """Return the number of turns. Events before the first `turn_start` are a turn too."""
    count = 0

    for event in get_events(entry):
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "turn_start":
            count += 1
        elif not count and isinstance(kind, str) and kind in CONVERSATION_KINDS:
            count = 1

    return count
