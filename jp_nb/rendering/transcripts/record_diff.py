"""The differences between two records.

The comparison ignores ids and times, because they differ in each run. Secrets are masked, and
differing inactive conversations are only counted. Everything else is shown completely and exactly,
as the lines of `record_lines.py`. The work is linear in the size of the records.

Source: `docs/decisions.md` D121.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.config.masked_settings import mask_secrets
from jp_nb.exact_form import escape_invisible
from jp_nb.json_values import as_object
from jp_nb.json_writing import canonical_json
from jp_nb.record.compactions.compaction import find_compactions
from jp_nb.record.compactions.compaction_text import format_compactions
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import get_events, get_properties
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.turn_reader import read_turns
from jp_nb.rendering.same_runs import find_same_runs
from jp_nb.rendering.text_diff import diff_lines
from jp_nb.rendering.transcripts.record_lines import format_json, list_turn_lines
from jp_nb.text import one_line

_TITLE_CHARS: Final = 60
_IGNORED_KEYS: Final = frozenset({"event_id", "request_id", "timestamp", "id"})


@dataclass(frozen=True, slots=True)
class ComparedRecord:
    """The compared parts of a notebook's record, as lines.

    Attributes:
        beginning: Title and configuration of the active conversation.
        requests: The request of each turn, by which the turns of two records are paired.
        turns: The lines of each turn.
        others: The other conversations, without ids and times.
    """

    beginning: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    turns: tuple[tuple[str, ...], ...] = ()
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Document) -> ComparedRecord:
        """Return the record in `document`, whose entries may be damaged."""
        stream = document.conversation
        turns = read_turns(stream)
        turn_lines = []
        for turn, turn_entries in zip(turns, stream.turns(), strict=True):
            turn_lines.append(list(list_turn_lines(turn, turn_entries.entries)))

        beginning = [f"title: {stream.title}"] if stream.title else []
        beginning += format_json("configuration", mask_secrets(stream.base_config))
        beginning += [f"damaged: {damage.message}" for damage in stream.damage]

        # A compaction belongs to no turn: it is listed with the one that it comes after. Its
        # stored range may reach past this turn, so `effective` has the turns that it covers.
        for placed in find_compactions(stream.entries):
            end = " (undone)" if placed.is_reverted else ""
            line = f"compaction: {format_compactions([placed.effective])}{end}"
            if 0 <= placed.after < len(turn_lines):
                turn_lines[placed.after].append(line)
            else:  # before the first turn
                beginning.append(line)

        return cls(
            tuple(beginning),
            tuple(turn.request for turn in turns),
            tuple(map(tuple, turn_lines)),
            tuple(map(_normalize_conversation, document.others)),
        )


def diff_records(before: ComparedRecord, after: ComparedRecord) -> list[str]:
    """Return the differences as lines; empty if the records are equal."""
    lines: list[str] = []
    if beginning := diff_lines(before.beginning, after.beginning):
        lines += ["at the beginning", *map(str, beginning), ""]

    for pair in _pair_turns(before.requests, after.requests):
        lines += _diff_turns(before, after, pair)

    if others := _count_differing_others(before, after):
        lines += ["other conversations", *others, ""]

    return lines


class _TurnPair(NamedTuple):
    """The indices of a turn in both records; None in the record that has no such turn."""

    before: int | None
    after: int | None


def _diff_turns(before: ComparedRecord, after: ComparedRecord, pair: _TurnPair) -> list[str]:
    """Return a heading, and the differences of a pair; empty if both turns are equal."""
    old_lines: tuple[str, ...] = ()
    new_lines: tuple[str, ...] = ()
    request = ""

    if pair.before is not None:
        old_lines = before.turns[pair.before]
        request = before.requests[pair.before]
    if pair.after is not None:
        new_lines = after.turns[pair.after]
        request = after.requests[pair.after]

    is_in_both = pair.before is not None and pair.after is not None
    if is_in_both and old_lines == new_lines:
        return []

    title = escape_invisible(one_line(request, limit=_TITLE_CHARS))
    heading = f"{_format_turn_place(pair)}: {title}"
    return [heading, *map(str, diff_lines(old_lines, new_lines)), ""]


def _format_turn_place(pair: _TurnPair) -> str:
    """Return the number of a turn: `+ turn 3` if it was added, or `turn 3 → 4` if it moved."""
    match pair:
        case _TurnPair(before=None, after=int(added)):
            return f"+ turn {to_shown_turn(added)}"
        case _TurnPair(before=int(removed), after=None):
            return f"- turn {to_shown_turn(removed)}"
        case _TurnPair(before=int(old), after=int(new)) if old != new:
            return f"turn {to_shown_turn(old)} → {to_shown_turn(new)}"
    return f"turn {to_shown_turn(pair.before or 0)}"


def _count_differing_others(before: ComparedRecord, after: ComparedRecord) -> list[str]:
    """Return lines with the numbers of other conversations that only one record has."""
    old = Counter(before.others)
    new = Counter(after.others)
    counts = (("-", (old - new).total()), ("+", (new - old).total()))
    return [f"{sign} {count} without a counterpart" for sign, count in counts if count]


def _pair_turns(before: Sequence[str], after: Sequence[str]) -> Iterator[_TurnPair]:
    """Pair turns with equal requests. Between them, pair equal numbers of turns in order.

    Two runs of a notebook whose requests contain a date then still have pairs, and no turn counts
    as removed and added.
    """
    before_end = 0  # of the last run of equal requests
    after_end = 0

    # A run has the indices of successive equal requests in both records. The last run is empty and
    # at the end, so that the turns after all equal ones come before it.
    for run in find_same_runs(before, after):
        removed = range(before_end, run.before_start)
        added = range(after_end, run.after_start)

        if len(removed) == len(added):
            yield from map(_TurnPair, removed, added)
        else:
            yield from (_TurnPair(index, None) for index in removed)
            yield from (_TurnPair(None, index) for index in added)

        before_end = run.before_end
        after_end = run.after_end
        same = zip(
            range(run.before_start, before_end), range(run.after_start, after_end), strict=True
        )
        yield from (_TurnPair(*indices) for indices in same)


def _normalize_conversation(entry: JsonValue) -> str:
    """Return a stored conversation as JSON without ids and times; a damaged one as it is.

    Its own object has an id too, so only its title is taken of it.
    """
    # An inactive conversation without entries is not kept, so this one is damaged.
    if not get_events(entry):
        return canonical_json(entry)

    events = [_remove_ignored_keys(event) for event in get_events(entry)]

    title = get_properties(entry).get("title")
    config = as_object(entry).get("base_config")
    return canonical_json({"title": title, "base_config": config, "events": events})


def _remove_ignored_keys(event: JsonValue) -> JsonValue:
    if not isinstance(event, dict):
        return event

    return {key: value for key, value in event.items() if key not in _IGNORED_KEYS}
