r"""Text of permission, configuration and interrupt prompts.

A text is compared line by line, anything else as indented JSON; lines that took the place of each
other are compared word by word. What is the same is folded, what differs is whole and exact: in a
text a backslash, and whatever nobody would see, is its JSON escape (`\`, `\t`, `\u200b`; a space
at the end of a line is `\u0020`), in JSON its own escapes stand. Folds are in `⟨…⟩`, and a `⟨` of
a value is `\u27e8`: no value looks as if something were folded.

The work is linear in the size of the values, up to a logarithm, whatever they hold: parts are
paired by what occurs once in both, in a bounded number of passes.

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
from typing import Literal, NamedTuple, assert_never

from pydantic import JsonValue

from jp_nb.agent.prompts import (
    UNSET,
    ActionPrompt,
    Answered,
    NotAnswered,
    Prompt,
    PromptEnd,
    ProposedChange,
    QuestionPrompt,
    Unavailable,
)
from jp_nb.json_values import MAX_INDENTED_LEVELS, indented_json, is_deeper
from jp_nb.record.question_log import EMPTY, UNANSWERED_LABELS
from jp_nb.text import (
    ONE_LINE,
    escape_invisible,
    escape_markdown,
    format_object,
    format_user_name,
    lookalike_key,
    one_line,
    plain,
    spell_editable,
    spell_invisible,
    spell_lines,
    spell_prose,
    unspell,
)
from jp_nb.tools.answer_types import AnswerType, SelectAnswer

SHORT = 100
"""Values of up to so many characters are shown beside each other, as JSON."""
CONTEXT_LINES = 3
CONTEXT_CHARS = 60
"""On either side of what differs."""
PASSES = 12

Sign = Literal["-", "+", " ", "…"]
_WORDS = re.compile(r"\w+|\W")


class Piece(NamedTuple):
    """A part of a line; `kind` says whether it is another on the other side, or a fold."""

    text: str
    kind: Literal["same", "differs", "fold"] = "same"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference: gone, new, the same, or (`…`) a fold of lines that are the same."""

    sign: Sign
    pieces: tuple[Piece, ...]

    def __str__(self) -> str:
        """`- text`; a fold without its sign."""
        text = "".join(piece.text for piece in self.pieces)
        return text if self.sign == "…" else f"{self.sign} {text}".rstrip(" ")


@dataclass(frozen=True, slots=True)
class Difference:
    """A changed value.

    Attributes:
        sizes: `text, 30 lines → text, 31 lines`.
        lines: What differs, with some lines of context.
        now: All of what it is, line by line; empty if it is not set.
        proposed: All of what it becomes, likewise.
    """

    sizes: str
    lines: tuple[Line, ...]
    now: tuple[str, ...]
    proposed: tuple[str, ...]

    @property
    def is_folded(self) -> bool:
        """True if `lines` leave out something that is the same."""
        return any(piece.kind == "fold" for line in self.lines for piece in line.pieces)


@dataclass(frozen=True, slots=True)
class _Value:
    kind: str
    lines: tuple[str, ...]
    escaped: Callable[[str], str]

    @property
    def whole(self) -> tuple[str, ...]:
        return tuple(_line(line, self.escaped) for line in self.lines)

    def __str__(self) -> str:
        count = len(self.lines)
        return f"{self.kind}, {count:,} line{'' if count == 1 else 's'}" if count else self.kind


_NOTHING = _Value(UNSET, (), escape_invisible)


def difference(change: ProposedChange) -> Difference | None:
    """Return what `change` changes, line by line; None if its values are short enough as they are.

    One more item of a list is all new. What a file says once a value is unset is compared as if
    it were proposed.
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
    return Difference(sizes, tuple(_lines(now, proposed)), now.whole, proposed.whole)


def line_difference(before: Iterable[str], after: Iterable[str]) -> tuple[Line, ...]:
    """Return how lines differ, each of them exact; empty if none does."""
    now, then = (_Value("lines", tuple(lines), _of_json) for lines in (before, after))
    return () if now.lines == then.lines else tuple(_lines(now, then))


def _value(text: str | None) -> _Value:
    """Return the lines of what is written as JSON in `text`."""
    if text is None:
        return _NOTHING
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return _Value("JSON", (text,), _of_json)
    if isinstance(value, str):
        return _Value("text", tuple(value.split("\n")), _of_text)
    if not is_deeper(value, MAX_INDENTED_LEVELS):
        text = indented_json(value)
    return _Value("JSON", tuple(text.split("\n")), _of_json)


def _of_json(text: str) -> str:
    return escape_invisible(text).replace("⟨", r"\u27e8")


def _of_text(text: str) -> str:
    return _of_json(text.replace("\\", r"\\"))


def _line(text: str, escaped: Callable[[str], str]) -> str:
    kept = text.rstrip(" ")
    return escaped(kept) + r"\u0020" * (len(text) - len(kept))


# --- lines -----------------------------------------------------------------------------------


def _lines(now: _Value, proposed: _Value) -> Iterator[Line]:
    at = there = 0
    if now.kind != proposed.kind:  # a line of text is no line of JSON, even if it looks like one
        runs = [SameRun(len(now.lines), len(proposed.lines), 0)]
    else:
        runs = same_runs(now.lines, proposed.lines)
    for run in runs:
        yield from _changed(now, proposed, range(at, run.at), range(there, run.there))
        at, there = run.at + run.length, run.there + run.length
        same = [_line(line, now.escaped) for line in now.lines[run.at : at]]
        last = at == len(now.lines) and there == len(proposed.lines)
        yield from _context(same, first=run.at == run.there == 0, last=last)


def _changed(now: _Value, proposed: _Value, gone: range, new: range) -> Iterator[Line]:
    """Yield the lines that went, and those that came; as many of either are compared one by one."""
    if now.kind == proposed.kind and len(gone) == len(new):
        pairs = [_pieces(now, proposed, i, j) for i, j in zip(gone, new, strict=True)]
        yield from (Line("-", before) for before, _ in pairs)
        yield from (Line("+", after) for _, after in pairs)
    else:
        yield from (Line("-", (Piece(_line(now.lines[i], now.escaped)),)) for i in gone)
        yield from (Line("+", (Piece(_line(proposed.lines[j], proposed.escaped)),)) for j in new)


def _context(same: list[str], *, first: bool, last: bool) -> Iterator[Line]:
    """Yield the lines next to what differs, and a fold for the others."""
    head, tail = (0 if first else CONTEXT_LINES), (0 if last else CONTEXT_LINES)
    left = len(same) - head - tail
    if left <= 1:  # a fold would take as much room
        head, left = len(same), 0
    yield from (Line(" ", (Piece(line),)) for line in same[:head])
    if left:
        yield Line("…", (Piece(f"⟨… {left:,} lines as they are⟩", "fold"),))
        yield from (Line(" ", (Piece(line),)) for line in same[len(same) - tail :][:tail])


# --- within a line -----------------------------------------------------------------------------


def _pieces(
    now: _Value, proposed: _Value, i: int, j: int
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Return two lines in pieces, each of which is the same in both or differs."""
    before, after = _WORDS.findall(now.lines[i]), _WORDS.findall(proposed.lines[j])
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    at = there = 0
    for run in same_runs(before, after):
        _add_changed(sides, "".join(before[at : run.at]), "".join(after[there : run.there]))
        at, there = run.at + run.length, run.there + run.length
        same = "".join(before[run.at : at])
        for side in sides:
            side.append(Piece(same))
    return _shown(sides[0], now.escaped), _shown(sides[1], proposed.escaped)


def _add_changed(sides: tuple[list[Piece], list[Piece]], gone: str, new: str) -> None:
    """Add what stands in place of each other, without what both begin and end with.

    Where one side has nothing, an empty piece says where: what is around it is not folded.
    """
    if not gone and not new:
        return
    head = _alike(gone, new)
    tail = _alike(gone[head:][::-1], new[head:][::-1])
    for side, text in zip(sides, (gone, new), strict=True):
        end = len(text) - tail
        side += [Piece(text[:head]), Piece(text[head:end], "differs"), Piece(text[end:])]


def _alike(one: str, other: str) -> int:
    """Return the number of characters that both begin with."""
    unlike = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(unlike, min(len(one), len(other)))


def _shown(pieces: list[Piece], escaped: Callable[[str], str]) -> tuple[Piece, ...]:
    """Return `pieces` joined where they are alike, and long ones that are the same folded."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].kind == piece.kind:
            joined[-1] = Piece(joined[-1].text + piece.text, piece.kind)
        elif piece.text or piece.kind == "differs":
            joined.append(piece)
    last = len(joined) - 1
    return tuple(
        chain.from_iterable(
            _folded(piece, escaped, first=at == 0, last=at == last)
            for at, piece in enumerate(joined)
        )
    )


def _folded(
    piece: Piece, escaped: Callable[[str], str], *, first: bool, last: bool
) -> Iterator[Piece]:
    show = partial(_line, escaped=escaped) if last else escaped
    head, tail = (0 if first else CONTEXT_CHARS), (0 if last else CONTEXT_CHARS)
    left = len(piece.text) - head - tail
    if piece.kind == "differs" or left <= CONTEXT_CHARS:
        yield Piece(show(piece.text), piece.kind)
        return
    if head:
        yield Piece(escaped(piece.text[:head]))
    yield Piece(f"⟨… {left:,} characters as they are⟩", "fold")
    if tail:
        yield Piece(escaped(piece.text[-tail:]))


# --- what is the same ----------------------------------------------------------------------------


class SameRun(NamedTuple):
    """A number of parts that are the same, from `at` on one side and from `there` on the other."""

    at: int
    there: int
    length: int


def same_runs(before: Sequence[str], after: Sequence[str]) -> list[SameRun]:
    """Return the runs that are the same on both sides, in order, and an empty one at the ends."""
    same = [0] * (len(before) + 1)  # of each part before: which one it is afterwards, plus one
    gaps = [(0, len(before), 0, len(after))]
    for _ in range(PASSES):
        gaps = list(chain.from_iterable(_narrowed(before, after, same, gap) for gap in gaps))
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


def _narrowed(
    before: Sequence[str], after: Sequence[str], same: list[int], gap: _Gap
) -> Iterator[_Gap]:
    """Mark what begins and ends `gap` and is the same; yield the gaps between what occurs once."""
    low, high, there, beyond = gap
    while low < high and there < beyond and before[low] == after[there]:
        same[low] = there + 1
        low, there = low + 1, there + 1
    while low < high and there < beyond and before[high - 1] == after[beyond - 1]:
        high, beyond = high - 1, beyond - 1
        same[high] = beyond + 1
    if low == high or there == beyond:
        return
    anchors = _rising(_once_in_both(before, after, (low, high, there, beyond)))
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


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the most of `pairs` whose second numbers rise with the first."""
    ends: list[int] = []  # the least second number that ends a row of each length, and its place
    places: list[int] = []
    before: list[int] = []
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
"""Marks what a tool would choose. It is never chosen for the person."""
COLUMNS = ("path", "now", "proposed")
NOW_WHOLE = "The whole current value"
PROPOSED_WHOLE = "The whole proposed value"
MAX_VALUE_CHARS = 200
"""Of a path or a value of a changed configuration, once that is decided."""
MAX_CHANGES = 50
SPELLED_OUT = "⟨U+200B⟩ stands for one invisible character; U+200B is its code point."
MAX_DIFFERENCE_LINES = 100
"""Of all changed values together, once they are decided."""
NOTHING_CHOSEN = "Nothing is chosen yet. Press Tab or an arrow key to reach the buttons."
NOTHING_CHANGED = "You changed nothing. To send the proposed value, press Submit."
ANSWERED_BELOW = "The form is not shown here. Please answer in the input box below."
UNSEEN = "This cell waits for an answer, but no page has shown its form yet. The form stays open."
STDIN_INSTEAD = "To answer in an input box instead, interrupt the kernel (■)."


def unseen(*, stdin: bool) -> str:
    """Return the notice about a form that no page has shown in time.

    Args:
        stdin: Whether an interrupt turns it into a prompt on stdin.
    """
    return f"{UNSEEN} {STDIN_INSTEAD}" if stdin else UNSEEN


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few answers: its label on a form, its key on stdin and what the key means."""

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
    """Return the answer that the tool of a boolean question would choose, None if it names none."""
    preset = preselected(prompt)
    return next((c for c in choices(prompt) if c.value is preset and not c.remember), None)


def header(prompt: Prompt) -> str | None:
    """Return the header's text, None without a label."""
    return one_name(prompt.label) if prompt.label else None


def asked_by(prompt: Prompt) -> str | None:
    """Return the words that name the tool which really asks; None if none does, or a hidden one."""
    tool = None if isinstance(prompt, ActionPrompt) else prompt.tool
    return f"asked by tool {one_name(tool)}" if tool else None


def one_name(text: str) -> str:
    """Return a name as it is shown: in one line, with nothing unseen in it."""
    return plain(spell_invisible(text), limit=200)


def context(prompt: Prompt) -> str | None:
    """Return the lines above the question."""
    background = None if isinstance(prompt, ActionPrompt) else prompt.question.context
    return plain(background).strip("\n") if background else None


class CaptionedLines(NamedTuple):
    """A caption of ours, and below it lines that are not."""

    caption: str
    lines: list[str]


def exhibits(prompt: Prompt) -> list[CaptionedLines]:
    """Return what is decided about, whole, however long: nobody may allow what is cut off."""
    shown = []
    for exhibit in prompt.exhibits if isinstance(prompt, ActionPrompt) else ():
        if isinstance(exhibit.value, str):
            count, lines = spell_lines(exhibit.value)
            counted = "" if count == ONE_LINE else f": {count}"
            shown.append(CaptionedLines(f"{exhibit.caption}{counted}", lines))
        else:
            shown.append(CaptionedLines(exhibit.caption, format_object(exhibit.value)))
    return shown


def question(prompt: Prompt) -> str:
    """Return the question, in one line."""
    text = prompt.text if isinstance(prompt, ActionPrompt) else prompt.question.text
    return plain(re.sub(r"[\n\t]+", " ", spell_prose(text)).strip(), limit=2000)


def exactly(change: ProposedChange, *, limit: int = sys.maxsize) -> ProposedChange:
    """Return `change` with nothing unseen in it, its path and each value cut to `limit`."""

    def shown(text: str | None) -> str | None:
        return None if text is None else plain(escape_invisible(text), limit=limit)

    path = plain(spell_invisible(change.path), limit=limit) or '""'
    now, proposed, then = map(shown, (change.now, change.proposed, change.then))
    return replace(change, path=path, now=now, proposed=proposed, then=then)


class Decided(NamedTuple):
    """A decided change as it stays: a line, and what differs if its values are long."""

    line: str
    difference: tuple[str, ...] = ()


def decided(changes: tuple[ProposedChange, ...]) -> list[Decided]:
    """Return what remains of `changes`, bounded."""
    shown: list[Decided] = []
    room = MAX_DIFFERENCE_LINES
    for change in changes[:MAX_CHANGES]:
        bounded = exactly(change, limit=MAX_VALUE_CHARS)
        if (found := difference(change)) is None:
            shown.append(Decided(str(bounded)))
        else:
            kept = _bounded(found, room)
            room -= min(room, len(kept))
            shown.append(Decided(f"{bounded.path}: {found.sizes}", kept))
    left = len(changes) - len(shown)
    more = f"… {left} more change{'' if left == 1 else 's'}"
    return [*shown, Decided(more)] if left else shown


def _bounded(found: Difference, room: int) -> tuple[str, ...]:
    lines = [plain(str(line), limit=MAX_VALUE_CHARS) for line in found.lines[:room]]
    left = len(found.lines) - len(lines)
    more = f"… {left} more line{'' if left == 1 else 's'} that differ{'s' if left == 1 else ''}"
    return (*lines, more) if left else tuple(lines)


def option_labels(options: tuple[str, ...]) -> list[str]:
    """Return a distinct label for each of `options`, with the code of those that look alike."""
    labels: dict[str, None] = {}  # in order, and quick to look up
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


def wanted(kind: AnswerType) -> str:
    """Return what is to be entered: `a text of at most 5 characters`."""
    return kind.expects.replace("a string", "a text", 1)


def picks_wanted(kind: SelectAnswer) -> str:
    """Return how many options are to be picked, in words; "" if any number may be."""
    least, most = kind.min_picks, kind.max_picks
    if most is None:
        return f"Please pick at least {least}." if least else ""
    if least in (0, most):
        return f"Please pick {'' if least else 'at most '}{most}."
    return f"Please pick {least} to {most}."


class PromptSummary(NamedTuple):
    """The line that stays where a prompt was, of either kind."""

    plain: str
    markdown: str


def static_record(prompt: Prompt, end: PromptEnd) -> PromptSummary:
    """Return what remains of `prompt` after its `end`. A secret is never in it."""
    asked, answer = titled(prompt), _answer(prompt, end)
    return PromptSummary(
        f"{asked} → {answer}", f"{escape_markdown(asked)} → **{escape_markdown(answer)}**"
    )


def titled(prompt: Prompt) -> str:
    """Return the question behind its header, with what would change and who asks, in one line."""
    title = header(prompt)
    asked = f"{title}: {question(prompt)}" if title else question(prompt)
    if isinstance(prompt, ActionPrompt) and prompt.changes:
        asked = f"{asked}: {'; '.join(one.line for one in decided(prompt.changes))}"
    return f"{asked} ({by})" if (by := asked_by(prompt)) else asked


def _answer(prompt: Prompt, end: PromptEnd) -> str:
    match end:
        case Answered(by=by):
            return f"{given(prompt, end)}{by_in_words(by)}"
        case NotAnswered(by=by):
            return f"{UNANSWERED_LABELS[end.end]}{by_in_words(by)}"
        case Unavailable():
            return f"not asked ({one_line(end.reason)})"
        case _:
            assert_never(end)


def by_in_words(name: str | None) -> str:
    """Return ` (by Ada)`, to stand at the end of what a person did; "" if nobody is named."""
    return f" (by {format_user_name(name)})" if name is not None else ""


def given(prompt: Prompt, end: Answered) -> str:
    """Return the words of an answer."""
    if isinstance(prompt, ActionPrompt):
        labels = {action.value: action.label for action in prompt.actions}
        return spell_invisible(labels.get(str(end.value), str(end.value)))
    words = prompt.question.answer_type.format_answer(end.value) or '""'
    return f"{words}, for this turn" if end.remember else words


def preselected(prompt: QuestionPrompt) -> JsonValue:
    """Return the default if it is an answer to the question, else None."""
    question = prompt.question
    return question.default if question.fits_default else None  # never a hint for a secret


@dataclass(frozen=True, slots=True)
class EditableText:
    """The text that somebody may edit, as the box holds it.

    Attributes:
        shown: The default, with what nobody would see in it spelled out.
        hint: What that looks like; None if there is nothing of the kind.
    """

    shown: str
    hint: str | None

    def meant(self, text: str) -> str:
        """Return what `text` says, which was edited from `shown`."""
        return text if self.hint is None else unspell(text)


def draft(prompt: QuestionPrompt) -> EditableText:
    """Return what stands in the box of a question for a text."""
    preset = preselected(prompt)
    text = preset if isinstance(preset, str) else ""
    shown = spell_editable(text)
    return EditableText(shown, SPELLED_OUT if shown != text else None)
