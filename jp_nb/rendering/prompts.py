r"""Text of permission, configuration and interrupt prompts.

Text values are compared line by line, other values as indented JSON. Replaced lines are compared
word by word. Equal parts are folded, and different parts are complete and exact. In a text, a
backslash or invisible character is shown as its JSON escape (`\`, `\t`, `\u200b`; a space at the
end of a line is `\u0020`). In JSON, its own escapes are shown. Folds are in `⟨…⟩`, and a `⟨` of a
value is `\u27e8`, so that no value looks like a fold.

The comparison pairs parts that occur once in both values, in at most `PASSES` passes. It takes
O(n log n) time for values of size n.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.prompts import (
    UNSET,
    ActionPrompt,
    Answered,
    ProposedChange,
    QuestionPrompt,
    SimplePrompt,
)
from jp_nb.json_values import MAX_INDENTED_LEVELS, indented_json, is_deeper
from jp_nb.record.question_log import EMPTY
from jp_nb.text import (
    ONE_LINE,
    escape_invisible,
    format_object,
    format_user_name,
    lookalike_key,
    plain,
    spell_editable,
    spell_invisible,
    spell_lines,
    spell_prose,
    unspell,
)
from jp_nb.tools.answer_types import AnswerType, SelectAnswer

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

    @property
    def whole(self) -> tuple[str, ...]:
        return tuple(_escape_line(line, self.escaped) for line in self.lines)

    def __str__(self) -> str:
        count = len(self.lines)
        return f"{self.kind}, {count:,} line{'' if count == 1 else 's'}" if count else self.kind


_NOTHING = _Value(UNSET, (), escape_invisible)


def difference(change: ProposedChange) -> Difference | None:
    """Return the differences of `change` line by line; None if its values are short.

    An added item of a list is compared with nothing. An unset value is compared with the inherited
    value that replaces it.
    """
    after = change.then if change.proposed is None else change.proposed
    before = None if change.added else change.now
    if max(len(before or ""), len(after or "")) <= SHORT:
        return None
    now, proposed = _value(before), _value(after)
    sizes = f"{now} → {proposed}"
    if change.added:
        sizes = f"+ {proposed}"
    elif change.proposed is None and change.then is not None:
        sizes = f"{now} → {UNSET}, then {proposed}"
    return Difference(sizes, tuple(_diff_lines(now, proposed)), now.whole, proposed.whole)


def line_difference(before: Iterable[str], after: Iterable[str]) -> tuple[Line, ...]:
    """Return the exact differences between lines; empty if there are none."""
    now, then = (_Value("lines", tuple(lines), _escape_json) for lines in (before, after))
    return () if now.lines == then.lines else tuple(_diff_lines(now, then))


def _value(text: str | None) -> _Value:
    if text is None:
        return _NOTHING
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return _Value("JSON", (text,), _escape_json)
    if isinstance(value, str):
        return _Value("text", tuple(value.split("\n")), _escape_text)
    if not is_deeper(value, MAX_INDENTED_LEVELS):
        text = indented_json(value)
    return _Value("JSON", tuple(text.split("\n")), _escape_json)


def _escape_json(text: str) -> str:
    return escape_invisible(text).replace("⟨", r"\u27e8")


def _escape_text(text: str) -> str:
    return _escape_json(text.replace("\\", r"\\"))


def _escape_line(text: str, escaped: Callable[[str], str]) -> str:
    kept = text.rstrip(" ")
    return escaped(kept) + r"\u0020" * (len(text) - len(kept))


# --- lines -----------------------------------------------------------------------------------


def _diff_lines(now: _Value, proposed: _Value) -> Iterator[Line]:
    at = there = 0
    if now.kind != proposed.kind:  # a line of text never equals a line of JSON
        runs = [SameRun(len(now.lines), len(proposed.lines), 0)]
    else:
        runs = same_runs(now.lines, proposed.lines)
    for run in runs:
        yield from _changed_lines(now, proposed, range(at, run.at), range(there, run.there))
        at, there = run.at + run.length, run.there + run.length
        same = [_escape_line(line, now.escaped) for line in now.lines[run.at : at]]
        last = at == len(now.lines) and there == len(proposed.lines)
        yield from _context_lines(same, first=run.at == run.there == 0, last=last)


def _changed_lines(now: _Value, proposed: _Value, gone: range, new: range) -> Iterator[Line]:
    # Equal numbers of removed and added lines are compared word by word.
    if now.kind == proposed.kind and len(gone) == len(new):
        pairs = [_diff_words(now, proposed, i, j) for i, j in zip(gone, new, strict=True)]
        yield from (Line("-", before) for before, _ in pairs)
        yield from (Line("+", after) for _, after in pairs)
    else:
        yield from (Line("-", (Piece(_escape_line(now.lines[i], now.escaped)),)) for i in gone)
        yield from (
            Line("+", (Piece(_escape_line(proposed.lines[j], proposed.escaped)),)) for j in new
        )


def _context_lines(same: list[str], *, first: bool, last: bool) -> Iterator[Line]:
    head, tail = (0 if first else CONTEXT_LINES), (0 if last else CONTEXT_LINES)
    left = len(same) - head - tail
    if left <= 1:  # a fold would be as long
        head, left = len(same), 0
    yield from (Line(" ", (Piece(line),)) for line in same[:head])
    if left:
        yield Line("…", (Piece(f"⟨… {left:,} unchanged lines⟩", "fold"),))
        yield from (Line(" ", (Piece(line),)) for line in same[len(same) - tail :][:tail])


# --- within a line -----------------------------------------------------------------------------


def _diff_words(
    now: _Value, proposed: _Value, i: int, j: int
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    before, after = _WORDS.findall(now.lines[i]), _WORDS.findall(proposed.lines[j])
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    at = there = 0
    for run in same_runs(before, after):
        _add_changed(sides, "".join(before[at : run.at]), "".join(after[there : run.there]))
        at, there = run.at + run.length, run.there + run.length
        same = "".join(before[run.at : at])
        for side in sides:
            side.append(Piece(same))
    return _join_pieces(sides[0], now.escaped), _join_pieces(sides[1], proposed.escaped)


def _add_changed(sides: tuple[list[Piece], list[Piece]], gone: str, new: str) -> None:
    # If one side has no text, an empty piece marks the place. Its context is then not folded.
    if not gone and not new:
        return
    head = _count_equal(gone, new)
    tail = _count_equal(gone[head:][::-1], new[head:][::-1])
    for side, text in zip(sides, (gone, new), strict=True):
        end = len(text) - tail
        side += [Piece(text[:head]), Piece(text[head:end], "differs"), Piece(text[end:])]


def _count_equal(one: str, other: str) -> int:
    unlike = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(unlike, min(len(one), len(other)))


def _join_pieces(pieces: list[Piece], escaped: Callable[[str], str]) -> tuple[Piece, ...]:
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].kind == piece.kind:
            joined[-1] = Piece(joined[-1].text + piece.text, piece.kind)
        elif piece.text or piece.kind == "differs":
            joined.append(piece)
    last = len(joined) - 1
    return tuple(
        chain.from_iterable(
            _fold_piece(piece, escaped, first=at == 0, last=at == last)
            for at, piece in enumerate(joined)
        )
    )


def _fold_piece(
    piece: Piece, escaped: Callable[[str], str], *, first: bool, last: bool
) -> Iterator[Piece]:
    show = partial(_escape_line, escaped=escaped) if last else escaped
    head, tail = (0 if first else CONTEXT_CHARS), (0 if last else CONTEXT_CHARS)
    left = len(piece.text) - head - tail
    if piece.kind == "differs" or left <= CONTEXT_CHARS:
        yield Piece(show(piece.text), piece.kind)
        return
    if head:
        yield Piece(escaped(piece.text[:head]))
    yield Piece(f"⟨… {left:,} unchanged characters⟩", "fold")
    if tail:
        yield Piece(escaped(piece.text[-tail:]))


# --- equal parts ---------------------------------------------------------------------------------


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
        low, there = low + 1, there + 1
    while low < high and there < beyond and before[high - 1] == after[beyond - 1]:
        high, beyond = high - 1, beyond - 1
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
    count, others = Counter(before[low:high]), Counter(after[there:beyond])
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


SUBMIT = "Submit"
CANCEL = "Cancel"
SUGGESTED = "suggested"
"""Mark of the tool's default on a button or in a list of keys."""
COLUMNS = ("path", "now", "proposed")
NOW_WHOLE = "The whole current value"
PROPOSED_WHOLE = "The whole proposed value"
MAX_VALUE_CHARS = 200
"""Limit of a path or value in the record of a decided change."""
MAX_CHANGES = 50
SPELLED_OUT = "⟨U+200B⟩ stands for one invisible character; U+200B is its code point."
MAX_DIFFERENCE_LINES = 100
"""Limit of all changed values together in the record of a decision."""
NOTHING_CHOSEN = "Nothing is chosen yet. Press Tab or an arrow key to reach the buttons."
NOTHING_CHANGED = "You changed nothing. To send the proposed value, press Submit."
ANSWERED_BELOW = "The form is not shown here. Please answer in the input box below."
UNSEEN = "This cell waits for an answer, but no page has shown its form yet. The form stays open."
STDIN_INSTEAD = "To answer in an input box instead, interrupt the kernel (■)."


def unseen(*, stdin: bool) -> str:
    """Return the notice for a form that no page has shown in time.

    Args:
        stdin: Whether an interrupt changes it to a prompt on stdin.
    """
    return f"{UNSEEN} {STDIN_INSTEAD}" if stdin else UNSEEN


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to a boolean question: its button in a form, and its key on stdin."""

    label: str
    key: str
    meaning: str
    value: bool
    remember: bool = False


ONCE = (Choice("Yes", "y", "yes", True), Choice("No", "n", "no", False))
FOR_THIS_TURN = (
    Choice("Yes", "y", "yes, just this once", True),
    Choice("Yes, for this turn", "Y", "yes, and remember for this turn", True, remember=True),
    Choice("No", "n", "no, just this once", False),
    Choice("No, for this turn", "N", "no, and remember for this turn", False, remember=True),
)


def choices(prompt: QuestionPrompt) -> tuple[Choice, ...]:
    """Return the answers that a boolean question offers."""
    remember = prompt.remember and prompt.question.persistence == "turn"
    return FOR_THIS_TURN if remember else ONCE


def suggested(prompt: QuestionPrompt) -> Choice | None:
    """Return the tool's suggested answer to a boolean question; None without one."""
    preset = preselected(prompt)
    return next((c for c in choices(prompt) if c.value is preset and not c.remember), None)


def header(prompt: SimplePrompt) -> str | None:
    """Return the label of the prompt in one line; None without a label."""
    return one_name(prompt.label) if prompt.label else None


def asked_by(prompt: SimplePrompt) -> str | None:
    """Return `asked by tool …`; None if the tool is hidden or no tool asks."""
    tool = None if isinstance(prompt, ActionPrompt) else prompt.tool
    return f"asked by tool {one_name(tool)}" if tool else None


def one_name(text: str) -> str:
    """Return a name in one line, without invisible characters."""
    return plain(spell_invisible(text), limit=200)


def context(prompt: SimplePrompt) -> str | None:
    """Return the background text to show above the question; None without one."""
    background = None if isinstance(prompt, ActionPrompt) else prompt.question.context
    return plain(background).strip("\n") if background else None


class CaptionedLines(NamedTuple):
    """A caption, and lines of untrusted text below it."""

    caption: str
    lines: list[str]


def exhibits(prompt: SimplePrompt) -> list[CaptionedLines]:
    """Return the complete details of the decision, because the user approves all of them."""
    shown = []
    for exhibit in prompt.exhibits if isinstance(prompt, ActionPrompt) else ():
        if isinstance(exhibit.value, str):
            count, lines = spell_lines(exhibit.value)
            counted = "" if count == ONE_LINE else f": {count}"
            shown.append(CaptionedLines(f"{exhibit.caption}{counted}", lines))
        else:
            shown.append(CaptionedLines(exhibit.caption, format_object(exhibit.value)))
    return shown


def question(prompt: SimplePrompt) -> str:
    """Return the question in one line."""
    text = prompt.text if isinstance(prompt, ActionPrompt) else prompt.question.text
    return plain(re.sub(r"[\n\t]+", " ", spell_prose(text)).strip(), limit=2000)


def exactly(change: ProposedChange, *, limit: int = sys.maxsize) -> ProposedChange:
    """Return `change` without invisible characters, with its path and values cut to `limit`."""

    def shown(text: str | None) -> str | None:
        return None if text is None else plain(escape_invisible(text), limit=limit)

    path = plain(spell_invisible(change.path), limit=limit) or '""'
    now, proposed, then = map(shown, (change.now, change.proposed, change.then))
    return replace(change, path=path, now=now, proposed=proposed, then=then)


class Decided(NamedTuple):
    """Summary of a decided change: a line, and the differences of long values."""

    line: str
    difference: tuple[str, ...] = ()


def decided(changes: tuple[ProposedChange, ...]) -> list[Decided]:
    """Return a summary of each of the first `MAX_CHANGES` changes, and the number of others."""
    shown: list[Decided] = []
    room = MAX_DIFFERENCE_LINES
    for change in changes[:MAX_CHANGES]:
        bounded = exactly(change, limit=MAX_VALUE_CHARS)
        if (found := difference(change)) is None:
            shown.append(Decided(str(bounded)))
        else:
            kept = _limit_lines(found, room)
            room -= min(room, len(kept))
            shown.append(Decided(f"{bounded.path}: {found.sizes}", kept))
    left = len(changes) - len(shown)
    more = f"… {left} more change{'' if left == 1 else 's'}"
    return [*shown, Decided(more)] if left else shown


def _limit_lines(found: Difference, room: int) -> tuple[str, ...]:
    lines = [plain(str(line), limit=MAX_VALUE_CHARS) for line in found.lines[:room]]
    left = len(found.lines) - len(lines)
    more = f"… {left} more line{'' if left == 1 else 's'} that differ{'s' if left == 1 else ''}"
    return (*lines, more) if left else tuple(lines)


def option_labels(options: tuple[str, ...]) -> list[str]:
    """Return a distinct label for each of `options`.

    Labels that look alike include their JSON escapes.
    """
    labels: dict[str, None] = {}  # an ordered set
    twins: dict[str, int] = {}
    alike = Counter(map(lookalike_key, dict.fromkeys(options)))
    for option in options:
        label = text = spell_invisible(option) or EMPTY
        if alike[lookalike_key(option)] > 1 and not option.isascii():
            label = text = f"{label} ({json.dumps(option)})"
        while label in labels:  # widgets find an option by its label
            twins[text] = twins.get(text, 1) + 1
            label = f"{text} ({twins[text]})"
        labels[label] = None
    return list(labels)


def describe_expected(kind: AnswerType) -> str:
    """Return the expected input as text: `a text of at most 5 characters`."""
    return kind.expects.replace("a string", "a text", 1)


def picks_wanted(kind: SelectAnswer) -> str:
    """Return the expected number of options as text; "" if any number is valid."""
    least, most = kind.min_picks, kind.max_picks
    if most is None:
        return f"Please pick at least {least}." if least else ""
    if least in (0, most):
        return f"Please pick {'' if least else 'at most '}{most}."
    return f"Please pick {least} to {most}."


class PromptSummary(NamedTuple):
    """The record that replaces a prompt, as text and as Markdown."""

    plain: str
    markdown: str


def titled(prompt: SimplePrompt) -> str:
    """Return header, question, proposed changes and asking tool in one line."""
    title = header(prompt)
    asked = f"{title}: {question(prompt)}" if title else question(prompt)
    if isinstance(prompt, ActionPrompt) and prompt.changes:
        asked = f"{asked}: {'; '.join(one.line for one in decided(prompt.changes))}"
    return f"{asked} ({by})" if (by := asked_by(prompt)) else asked


def by_in_words(name: str | None) -> str:
    """Return the sender of an answer as ` (by Ada)`; "" without a name."""
    return f" (by {format_user_name(name)})" if name is not None else ""


def format_answer(prompt: SimplePrompt, end: Answered) -> str:
    """Return the text of an answer."""
    if isinstance(prompt, ActionPrompt):
        labels = {action.value: action.label for action in prompt.actions}
        return spell_invisible(labels.get(str(end.value), str(end.value)))
    return prompt.question.answer_type.format_answer(end.value) or '""'


def preselected(prompt: QuestionPrompt) -> JsonValue:
    """Return the default if it is a valid answer and not a secret, else None."""
    question = prompt.question
    return question.default if question.fits_default else None


@dataclass(frozen=True, slots=True)
class EditableText:
    """A text as the user edits it in a box.

    Attributes:
        shown: The default, with invisible characters spelled out.
        hint: Explanation of the spelled-out characters; None if there are none.
    """

    shown: str
    hint: str | None

    def unspell_edited(self, text: str) -> str:
        """Return the text that the user meant by the edited `text`."""
        return text if self.hint is None else unspell(text)


def draft(prompt: QuestionPrompt) -> EditableText:
    """Return the initial content of the text box of a question."""
    preset = preselected(prompt)
    text = preset if isinstance(preset, str) else ""
    shown = spell_editable(text)
    return EditableText(shown, SPELLED_OUT if shown != text else None)
