"""Ends of prompts: the user's answer, or the reason why there is none.

A prompt ends with an answer (`Answered`, or `FormEnd` for a form), without one (`NotAnswered`), or
because no user is available (`Unavailable`).

A question without an answer is either *declined* or *cancelled*. It is declined if the user left it
open or pressed Decline, and the program continues without this answer. It is cancelled if the user
closed the whole prompt, or ended the turn in its menu.

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, TypeVar

from pydantic import JsonValue

from jp_nb.record.entries.outcomes import AnswerMark, QuestionOutcome
from jp_nb.toolkit.question import Question

T = TypeVar("T")

Channel = Literal["form", "stdin", "terminal"]
EMPTY_MARK: Final[frozenset[AnswerMark]] = frozenset({"empty"})
"""Mark of an empty answer that the user confirmed."""
REFUSED_MARK: Final[frozenset[AnswerMark]] = frozenset({"refused"})
"""Mark of a declined question that was not only left open: the user pressed Decline."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A valid answer to a question, or the value of an action.

    Attributes:
        value: The answer as JSON; for a decision, the `value` of its action.
        channel: The place where the user answered.
        remember: True if the answer is for the rest of the turn.
        marks: Facts about the answer, such as `auto` for one that no user gave.
        by: Name of the user in a shared notebook.
        picks: Keys of the checked items of a decision; None if the prompt has no check boxes.
    """

    value: JsonValue
    channel: Channel
    remember: bool = False
    marks: frozenset[AnswerMark] = frozenset()
    by: str | None = None
    picks: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """A prompt without an answer.

    Attributes:
        end: `declined` or `cancelled` by the user, `timed_out` at a deadline, `interrupted` by an
            interrupt of the kernel.
        channel: None if the prompt was dropped before its display.
        by: Name of the user in a shared notebook.
        marks: `REFUSED_MARK` if the user pressed Decline, otherwise empty.
    """

    end: Literal["declined", "cancelled", "timed_out", "interrupted"]
    channel: Channel | None = None
    by: str | None = None
    marks: frozenset[AnswerMark] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True)
class FormEnd:
    """The outcome of a form that was not cancelled or interrupted as a whole.

    Attributes:
        ends: The outcome of each page. A question that the user left open is `declined`. One that
            was open when the user chose `reply` or `stop` in the menu is `cancelled`.
        then: The user's choice: send the answers, or one of the menu.
        text: The message to the model, after `reply`.
    """

    ends: tuple[Answered | NotAnswered, ...]
    then: Literal["submitted", "reply", "stop"] = "submitted"
    text: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No user is available, for the `reason`."""

    reason: str


def is_back(end: object) -> bool:
    """Return True if the user closed a prompt to return to the previous one.

    A prompt that has a previous one has no use for an open answer, so `declined` leads back too.
    """
    return isinstance(end, NotAnswered) and end.end in ("cancelled", "declined")


PromptEnd: TypeAlias = T | NotAnswered | Unavailable
"""The outcome of a `Prompt[T]`."""
AnyEnd = PromptEnd[Answered | FormEnd]


def get_outcome(end: Answered | NotAnswered) -> QuestionOutcome:
    """Return the outcome of a question whose prompt had this `end`."""
    if isinstance(end, NotAnswered):
        return QuestionOutcome(end.end, end.channel, end.marks, end.by)
    return QuestionOutcome("answered", end.channel, end.marks, end.by)


def apply_timeout_default(question: Question, end: NotAnswered) -> Answered | NotAnswered:
    """Return `end`, or the automatic answer if the time for an optional question is over."""
    if end.end != "timed_out" or question.automatic is None or end.channel is None:
        return end
    return Answered(question.automatic, end.channel, marks=frozenset({"auto", "timed_out"}))


def add_sender(end: AnyEnd, name: str | None) -> AnyEnd:
    """Return `end` with the name of the user who decided. Automatic outcomes get no name."""
    match end:
        case FormEnd(ends=ends):
            with_names = [replace(page, by=_get_sender(page, name)) for page in ends]
            return replace(end, ends=tuple(with_names))
        case Answered() | NotAnswered():
            return replace(end, by=_get_sender(end, name))
        case Unavailable():
            return end


def _get_sender(end: Answered | NotAnswered, name: str | None) -> str | None:
    """Return `name` for an end that the user chose; None for an automatic one."""
    if isinstance(end, NotAnswered):
        return name if end.end in ("declined", "cancelled") else None
    return None if end.marks & {"auto", "timed_out"} else name
