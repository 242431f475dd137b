r"""Differences between two values, two texts, or a recorded and a new request.

Text values are compared line by line, other values as indented JSON. Replaced lines are compared
word by word. Equal parts are folded, and different parts are complete and exact. In a text, a
backslash or invisible character is shown as its JSON escape (`\`, `\t`, `\u200b`; a space at the
end of a line is `\u0020`). In JSON, its own escapes are shown. Folds are in `⟨…⟩`, and a `⟨` of a
value is `\u27e8`, so that no value looks like a fold.

The comparison pairs parts that occur once in both values, in at most `PASSES` passes. It takes
O(n log n) time for values of size n.

Source: `docs/guide.md`, `docs/turns.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise, zip_longest
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.exchanges import NormalizedRequest, RequestPart
from jp_nb.agent.prompts import UNSET, ProposedChange
from jp_nb.config.secrets import hide_secrets
from jp_nb.json_values import (
    MAX_INDENTED_LEVELS,
    JsonObject,
    as_object,
    indented_json,
    is_deeper,
    map_texts,
)
from jp_nb.storage.cassette_file import CassetteContent, StoredExchange
from jp_nb.text import escape_invisible, one_line, plain

SHORT = 100
"""Up to this length, values are shown next to each other as JSON."""
CONTEXT_LINES = 3
"""Equal lines that are shown on either side of a difference."""
CONTEXT_CHARS = 60
"""Equal characters that are shown on either side of a difference in a line."""
PASSES = 12
"""Limit of passes over both values. Parts that are still unpaired count as different."""

Sign = Literal["-", "+", " ", "…"]
_WORDS = re.compile(r"\w+|\W")


class Piece(NamedTuple):
    """A part of a line: equal on both sides, different, or a fold of equal characters."""

    text: str
    kind: Literal["same", "differs", "fold"] = "same"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference: removed, added, equal, or (`…`) a fold of equal lines."""

    sign: Sign
    pieces: tuple[Piece, ...]

    def __str__(self) -> str:
        """Return `- text`; a fold without its sign."""
        text = "".join(piece.text for piece in self.pieces)
        return text if self.sign == "…" else f"{self.sign} {text}".rstrip(" ")


@dataclass(frozen=True, slots=True)
class Difference:
    """A changed value.

    Attributes:
        sizes: `text, 30 lines → text, 31 lines`.
        lines: The differences, with some lines of context.
        now: All lines of the current value; empty if it is not set.
        proposed: All lines of the proposed value; empty if it is removed.
    """

    sizes: str
    lines: tuple[Line, ...]
    now: tuple[str, ...]
    proposed: tuple[str, ...]

    @property
    def is_folded(self) -> bool:
        """True if `lines` omit equal parts."""
        return any(piece.kind == "fold" for line in self.lines for piece in line.pieces)


@dataclass(frozen=True, slots=True)
class _Value:
    kind: str
    lines: tuple[str, ...]
    escaped: Callable[[str], str]

    def show_line(self, index: int) -> str:
        return _escape_line(self.lines[index], self.escaped)

    def show_all(self) -> tuple[str, ...]:
        return tuple(map(self.show_line, range(len(self.lines))))

    def __str__(self) -> str:
        count = len(self.lines)
        return f"{self.kind}, {count:,} line{'' if count == 1 else 's'}" if count else self.kind


def difference(change: ProposedChange) -> Difference | None:
    """Return the differences of `change` line by line; None if its values are short.

    An added item of a list is compared with nothing. An unset value is compared with the inherited
    value that replaces it.
    """
    after = change.then if change.proposed is None else change.proposed
    before = None if change.added else change.now
    if max(len(before or ""), len(after or "")) <= SHORT:
        return None
    now = _value(before)
    proposed = _value(after)
    sizes = f"{now} → {proposed}"
    if change.added:
        sizes = f"+ {proposed}"
    elif change.proposed is None and change.then is not None:
        sizes = f"{now} → {UNSET}, then {proposed}"
    return Difference(sizes, tuple(_diff_lines(now, proposed)), now.show_all(), proposed.show_all())


def line_difference(before: Iterable[str], after: Iterable[str]) -> tuple[Line, ...]:
    """Return the exact differences between lines; empty if there are none."""
    now, then = (_Value("lines", tuple(lines), _escape_json) for lines in (before, after))
    return () if now.lines == then.lines else tuple(_diff_lines(now, then))


def _value(text: str | None) -> _Value:
    if text is None:
        return _Value(UNSET, (), escape_invisible)
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return _Value("JSON", (text,), _escape_json)
    if isinstance(value, str):
        return _Value(
            "text", tuple(value.split("\n")), lambda part: _escape_json(part.replace("\\", r"\\"))
        )
    if not is_deeper(value, MAX_INDENTED_LEVELS):
        text = indented_json(value)
    return _Value("JSON", tuple(text.split("\n")), _escape_json)


def _escape_json(text: str) -> str:
    return escape_invisible(text).replace("⟨", r"\u27e8")


def _escape_line(text: str, escaped: Callable[[str], str]) -> str:
    kept = text.rstrip(" ")
    return escaped(kept) + r"\u0020" * (len(text) - len(kept))


def _diff_lines(now: _Value, proposed: _Value) -> Iterator[Line]:
    at = there = 0
    if now.kind != proposed.kind:  # a line of text never equals a line of JSON
        runs = [SameRun(len(now.lines), len(proposed.lines), 0)]
    else:
        runs = same_runs(now.lines, proposed.lines)
    for run in runs:
        gone = range(at, run.at)
        new = range(there, run.there)
        # Equal numbers of removed and added lines are compared word by word.
        if now.kind == proposed.kind and len(gone) == len(new):
            pairs = [_diff_words(now, proposed, i, j) for i, j in zip(gone, new, strict=True)]
            yield from (Line("-", before) for before, _ in pairs)
            yield from (Line("+", after) for _, after in pairs)
        else:
            yield from (Line("-", (Piece(now.show_line(i)),)) for i in gone)
            yield from (Line("+", (Piece(proposed.show_line(j)),)) for j in new)
        at = run.at + run.length
        there = run.there + run.length
        same = list(map(now.show_line, range(run.at, at)))
        last = at == len(now.lines) and there == len(proposed.lines)
        yield from _context_lines(same, first=run.at == run.there == 0, last=last)


def _context_lines(same: list[str], *, first: bool, last: bool) -> Iterator[Line]:
    head = 0 if first else CONTEXT_LINES
    tail = 0 if last else CONTEXT_LINES
    left = len(same) - head - tail
    if left <= 1:  # a fold would be as long
        head = len(same)
        left = 0
    yield from (Line(" ", (Piece(line),)) for line in same[:head])
    if left:
        yield Line("…", (Piece(f"⟨… {left:,} unchanged lines⟩", "fold"),))
        yield from (Line(" ", (Piece(line),)) for line in same[len(same) - tail :][:tail])


def _diff_words(
    now: _Value, proposed: _Value, i: int, j: int
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    before = _WORDS.findall(now.lines[i])
    after = _WORDS.findall(proposed.lines[j])
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    at = there = 0
    for run in same_runs(before, after):
        gone = "".join(before[at : run.at])
        new = "".join(after[there : run.there])
        at = run.at + run.length
        there = run.there + run.length
        if gone or new:  # if one is empty, an empty piece marks the place, which is not folded
            head = count_equal(gone, new)
            tail = count_equal(gone[head:][::-1], new[head:][::-1])
            for side, text in zip(sides, (gone, new), strict=True):
                end = len(text) - tail
                side += [Piece(text[:head]), Piece(text[head:end], "differs"), Piece(text[end:])]
        for side in sides:
            side.append(Piece("".join(before[run.at : at])))
    return _join_pieces(sides[0], now.escaped), _join_pieces(sides[1], proposed.escaped)


def count_equal(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of equal characters or items at the beginning of both."""
    unlike = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(unlike, min(len(one), len(other)))


def _join_pieces(pieces: list[Piece], escaped: Callable[[str], str]) -> tuple[Piece, ...]:
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].kind == piece.kind:
            joined[-1] = Piece(joined[-1].text + piece.text, piece.kind)
        elif piece.text or piece.kind == "differs":
            joined.append(piece)
    folded = (
        _fold_piece(piece, escaped, first=piece is joined[0], last=piece is joined[-1])
        for piece in joined
    )
    return tuple(chain.from_iterable(folded))


def _fold_piece(
    piece: Piece, escaped: Callable[[str], str], *, first: bool, last: bool
) -> Iterator[Piece]:
    show = partial(_escape_line, escaped=escaped) if last else escaped
    head = 0 if first else CONTEXT_CHARS
    tail = 0 if last else CONTEXT_CHARS
    left = len(piece.text) - head - tail
    if piece.kind == "differs" or left <= CONTEXT_CHARS:
        yield Piece(show(piece.text), piece.kind)
        return
    if head:
        yield Piece(escaped(piece.text[:head]))
    yield Piece(f"⟨… {left:,} unchanged characters⟩", "fold")
    if tail:
        yield Piece(escaped(piece.text[-tail:]))


class SameRun(NamedTuple):
    """A run of equal parts, from `at` on one side and from `there` on the other."""

    at: int
    there: int
    length: int


def same_runs(before: Sequence[str], after: Sequence[str]) -> list[SameRun]:
    """Return the runs of equal parts, in order, and an empty run at the end."""
    same = [0] * (len(before) + 1)  # by index in `before`: index in `after`, plus one
    gaps = [(0, len(before), 0, len(after))]
    for _ in range(PASSES):
        gaps = list(chain.from_iterable(_split_gap(before, after, same, gap) for gap in gaps))
    runs: list[SameRun] = []
    for at, mark in enumerate(same):
        if not mark:
            continue
        if runs and runs[-1].at + runs[-1].length == at and sum(runs[-1][1:]) == mark - 1:
            runs[-1] = runs[-1]._replace(length=runs[-1].length + 1)
        else:
            runs.append(SameRun(at, mark - 1, 1))
    return [*runs, SameRun(len(before), len(after), 0)]


_Gap = tuple[int, int, int, int]


def _split_gap(
    before: Sequence[str], after: Sequence[str], same: list[int], gap: _Gap
) -> Iterator[_Gap]:
    # Marks the equal start, the equal end and the parts that occur once on both sides. Yields the
    # gaps between the marks.
    low, high, there, beyond = gap
    while low < high and there < beyond and before[low] == after[there]:
        same[low] = there + 1
        low = low + 1
        there = there + 1
    while low < high and there < beyond and before[high - 1] == after[beyond - 1]:
        high = high - 1
        beyond = beyond - 1
        same[high] = beyond + 1
    if low == high or there == beyond:
        return
    anchors = _longest_increasing(_once_in_both(before, after, (low, high, there, beyond)))
    for (i, j), (k, m) in pairwise([(low - 1, there - 1), *anchors, (high, beyond)]):
        if k < high:
            same[k] = m + 1
        if anchors and i + 1 < k and j + 1 < m:
            yield i + 1, k, j + 1, m


def _once_in_both(before: Sequence[str], after: Sequence[str], gap: _Gap) -> list[tuple[int, int]]:
    low, high, there, beyond = gap
    count = Counter(before[low:high])
    others = Counter(after[there:beyond])
    places = {after[j]: j for j in range(there, beyond) if others[after[j]] == 1}
    return [
        (i, places[before[i]])
        for i in range(low, high)
        if count[before[i]] == 1 and before[i] in places
    ]


def _longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    # Longest subsequence with increasing second numbers. The first numbers increase already.
    ends: list[int] = []  # by length: the smallest second number that ends such a subsequence
    places: list[int] = []  # by length: index of that pair
    before: list[int] = []  # by pair: index of the previous pair in its subsequence
    for place, (_, there) in enumerate(pairs):
        length = bisect_left(ends, there)
        before.append(places[length - 1] if length else -1)
        if length == len(ends):
            ends.append(there)
            places.append(place)
        else:
            ends[length], places[length] = there, place
    found: list[tuple[int, int]] = []
    place = places[-1] if places else -1
    while place >= 0:
        found.append(pairs[place])
        place = before[place]
    return found[::-1]


def compare_values(
    label: str, old: JsonValue, new: JsonValue, *, limit: int
) -> tuple[str, list[str]]:
    """Return a line about a changed value, and at most `limit` lines of a long difference.

    If there are more, the last line has their number.
    """
    before = _sorted_json(old)
    after = _sorted_json(new)
    found = difference(ProposedChange(label, before, after))
    if found is None:
        sides = (UNSET if text is None else escape_invisible(text) for text in (before, after))
        return f"{label}: {' → '.join(sides)}", []
    lines = [str(line) for line in found.lines]
    if len(lines) > limit:
        lines[limit - 1 :] = [f"⟨… {len(lines) - limit + 1:,} more lines⟩"]
    return f"{label}: {found.sizes}", lines


def _sorted_json(value: JsonValue) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


# --- cassettes -------------------------------------------------------------------------


def format_exchange_count(count: int) -> str:
    """Return the count as words, such as `1 exchange` or `2 exchanges`."""
    return f"{count:,} exchange{'' if count == 1 else 's'}"


def describe_exchange(cassette: CassetteContent, exchange: StoredExchange) -> str:
    """Return line, model, and last message of `exchange`: `line 7, anthropic/opus: Hello`."""
    model = f"{exchange.summary['provider']}/{exchange.summary['model']}"
    last = cassette.parts.get(("message", exchange.last_message))
    said = "" if last is None else str(last.value.get("text") or last.value.get("name") or "")
    # Before the text is cut, because a part of a key is not recognized as a key.
    hidden = hide_secrets(plain(said, limit=sys.maxsize))
    return f"line {exchange.line}, {one_line(model)}: {one_line(hidden, limit=60)}"


_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?")
MAX_PARTS: Final = 12
MAX_LINE_CHARS: Final = 4_000


def format_mismatch(recorded: NormalizedRequest, asked: NormalizedRequest) -> list[str]:
    """Return lines about settings, system texts, attachments, tools, and messages that differ."""
    found: list[str] = []
    for number, (label, old, new) in enumerate(_diff_requests(recorded, asked)):
        if number == MAX_PARTS:
            found.append("… and more")
            break
        found += [*_changed_parts(label, old, new), *_hint(label, old, new)]
    return [
        line
        if (more := len(line) - MAX_LINE_CHARS) <= 0
        else f"{line[:MAX_LINE_CHARS]}⟨… {more:,} more⟩"
        for line in found
    ]


_Change = tuple[str, JsonValue, JsonValue]


def _diff_requests(recorded: NormalizedRequest, asked: NormalizedRequest) -> Iterator[_Change]:
    for key, old, new in _diff_fields(recorded.settings, asked.settings):
        if key == "parameters":
            for name, one, other in _diff_fields(as_object(old), as_object(new)):
                yield f"parameter {name}", one, other
        else:
            yield key.replace("_", " "), old, new
    for number, before, after in _diff_pairs(recorded.system, asked.system):
        yield f"system text {number}", before.get("text"), after.get("text")
    yield from _diff_named_parts("attachment", "source", recorded.attachments, asked.attachments)
    yield from _diff_named_parts("tool", "name", recorded.tools, asked.tools)
    for number, before, after in _diff_pairs(recorded.messages, asked.messages):
        if before.get("role") != after.get("role"):
            yield f"message {number}", before or None, after or None
            continue
        for field, old, new in _diff_fields(before, after):
            more = "" if field == "text" else f", {field}"
            yield f"message {number} ({before['role']}){more}", old, new


def _diff_fields(old: JsonObject, new: JsonObject) -> Iterator[_Change]:
    for key in dict.fromkeys([*old, *new]):
        if _sorted_json(old.get(key)) != _sorted_json(new.get(key)):  # 1, 1.0 and True differ
            yield key, old.get(key), new.get(key)


def _diff_pairs(
    recorded: Sequence[RequestPart], asked: Sequence[RequestPart]
) -> Iterator[tuple[int, JsonObject, JsonObject]]:
    for number, (one, other) in enumerate(zip_longest(recorded, asked), 1):
        if one is None or other is None or one.id != other.id:
            yield number, dict(one.value) if one else {}, dict(other.value) if other else {}


def _diff_named_parts(
    kind: str, key: str, recorded: Sequence[RequestPart], asked: Sequence[RequestPart]
) -> Iterator[_Change]:
    old, new = (
        {str(part.value.get(key)): dict(part.value) for part in parts}
        for parts in (recorded, asked)
    )
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new:
            yield f"{kind} {name}", old.get(name), new.get(name)
            continue
        for field, before, after in _diff_fields(old[name], new[name]):
            yield f"{kind} {name}, {field}", before, after
    orders = [[str(part.value.get(key)) for part in parts] for parts in (recorded, asked)]
    if orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]):
        yield f"the order of the {kind}s", ", ".join(orders[0]), ", ".join(orders[1])


def _changed_parts(label: str, old: JsonValue, new: JsonValue) -> Iterator[str]:
    # Before the texts are cut, because a part of a key is not recognized as a key.
    old = map_texts(old, hide_secrets)
    new = map_texts(new, hide_secrets)
    name = escape_invisible(label)
    if _sorted_json(old) == _sorted_json(new):
        yield f"  {name}: the difference looks like an API key and is not shown"
        return
    about, lines = compare_values(name, old, new, limit=40)
    yield f"  {about}"
    yield from (f"    {line}" for line in lines)


def _hint(label: str, old: JsonValue, new: JsonValue) -> Iterator[str]:
    # For differences with a known cause: times, or a tool that needs a user.
    before, after = (_TIME.sub("", each) if isinstance(each, str) else "" for each in (old, new))
    if before and before == after:
        yield (
            "    only times differ: set `record.reproducible = true` to record and to replay, so "
            "that each run writes the same times"
        )
    if label.startswith("tool ") and isinstance(old, dict) and new is None:
        yield (
            "    headless runs do not offer tools that need a user, such as `ask`: record with "
            "`jp-nb run --record`, which is headless too"
        )
