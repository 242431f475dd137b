"""The words of a prompt, the same on a form, on stdin and in the record that remains.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

from pydantic import JsonValue

from jp_nb.agent.prompts import (
    ActionPrompt,
    Answered,
    NotAnswered,
    Prompt,
    PromptEnd,
    ProposedChange,
    QuestionPrompt,
    Unavailable,
)
from jp_nb.record.answer_words import EMPTY, LEFT
from jp_nb.rendering.difference import Difference, difference
from jp_nb.safe_text import (
    ONE_LINE,
    escape_markdown,
    escape_unseen,
    lookalike_key,
    object_lines,
    one_line,
    plain,
    shown_name,
    spell_editable,
    spell_prose,
    spell_unseen,
    spelled_lines,
    unspell,
)
from jp_nb.tooling.question_kinds import AnswerType
from jp_nb.tooling.select_kind import SelectAnswer

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
    return plain(spell_unseen(text), limit=200)


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
            count, lines = spelled_lines(exhibit.value)
            counted = "" if count == ONE_LINE else f": {count}"
            shown.append(CaptionedLines(f"{exhibit.caption}{counted}", lines))
        else:
            shown.append(CaptionedLines(exhibit.caption, object_lines(exhibit.value)))
    return shown


def question(prompt: Prompt) -> str:
    """Return the question, in one line."""
    text = prompt.text if isinstance(prompt, ActionPrompt) else prompt.question.text
    return plain(re.sub(r"[\n\t]+", " ", spell_prose(text)).strip(), limit=2000)


def exactly(change: ProposedChange, *, limit: int = sys.maxsize) -> ProposedChange:
    """Return `change` with nothing unseen in it, its path and each value cut to `limit`."""

    def shown(text: str | None) -> str | None:
        return None if text is None else plain(escape_unseen(text), limit=limit)

    path = plain(spell_unseen(change.path), limit=limit) or '""'
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
        label = text = spell_unseen(option) or EMPTY
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


class StaticRecord(NamedTuple):
    """The line that stays where a prompt was, of either kind."""

    plain: str
    markdown: str


def static_record(prompt: Prompt, end: PromptEnd) -> StaticRecord:
    """Return what remains of `prompt` after its `end`. A secret is never in it."""
    asked, answer = titled(prompt), _answer(prompt, end)
    return StaticRecord(
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
            return f"{LEFT[end.end]}{by_in_words(by)}"
        case Unavailable():
            return f"not asked ({one_line(end.reason)})"
        case _:
            assert_never(end)


def by_in_words(name: str | None) -> str:
    """Return ` (by Ada)`, to stand at the end of what a person did; "" if nobody is named."""
    return f" (by {shown_name(name)})" if name is not None else ""


def given(prompt: Prompt, end: Answered) -> str:
    """Return the words of an answer."""
    if isinstance(prompt, ActionPrompt):
        labels = {action.value: action.label for action in prompt.actions}
        return spell_unseen(labels.get(str(end.value), str(end.value)))
    words = prompt.question.answer_type.in_words(end.value) or '""'
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
