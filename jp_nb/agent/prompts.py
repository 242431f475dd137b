"""What a person is asked, and what comes back.

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from pydantic import JsonValue

from jp_nb.record.inquiry_events import AnswerMark
from jp_nb.tooling.question import FormAnswer, Question


@dataclass(frozen=True, slots=True)
class Action:
    """A button that decides at once; `key` is its single key on stdin.

    `on_form` is false for what only makes sense on stdin, such as printing once more.
    """

    key: str
    label: str
    value: str
    on_form: bool = True


@dataclass(frozen=True, slots=True)
class QuestionPrompt:
    """A tool's question. `remember` offers "for this turn" (boolean questions only).

    `label` is the header's text, `tool` the name of the tool that really asks (None if hidden).
    `consents`: to answer with the default lets something happen, such as a call with arguments
    that were to be edited: an empty line must not do that. `is_code`: the text is edited line by
    line, in letters of one width.
    """

    question: Question
    label: str | None = None
    tool: str | None = None
    remember: bool = False
    consents: bool = False
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Something that is decided about, shown exactly and whole under its `caption`.

    Attributes:
        value: An object is shown key by key, a text line by line.
        language: Of a text that is code, such as `python`: a form highlights it.
    """

    caption: str
    value: Mapping[str, JsonValue] | str
    language: str | None = None


@dataclass(frozen=True, slots=True)
class ActionPrompt:
    """A decision among buttons: permission, result delivery, a changed configuration, a menu.

    None of them is preselected: nothing happens that nobody chose.

    Attributes:
        text: One line: what is to be decided.
        exhibits: What is decided about, below it, such as the arguments of a call.
        changes: What would change, below it: a table on a form, a line for each on stdin.
        last_line: What stands before the keys on stdin, where a form has its buttons. Case makes
            no difference there.
        help: One line that `?` shows on stdin below the keys.
        only_buttons: Whether nothing but a button decides: Esc leaves the form open. Elsewhere Esc
            cancels the prompt.
    """

    text: str
    actions: tuple[Action, ...]
    label: str | None = None
    exhibits: tuple[Exhibit, ...] = ()
    changes: tuple[ProposedChange, ...] = ()
    last_line: str | None = None
    help: str | None = None
    only_buttons: bool = False


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """One line of a proposed configuration change, as a person reads it.

    Attributes:
        path: What changes.
        now: What it is, as JSON; None if it is not set.
        proposed: What it is to become, as JSON; None if it is to be unset.
        added: True if `proposed` is one more item of the list at `path`, which keeps the others.
        then: What shows when it is unset, because the program or a tool brings it along.
    """

    path: str
    now: str | None
    proposed: str | None
    added: bool = False
    then: str | None = None

    @property
    def becomes(self) -> str:
        """The text of what is at `path` afterwards."""
        if self.proposed is None:
            return UNSET if self.then is None else f"{UNSET}, then {self.then}"
        return f"+ {self.proposed}" if self.added else self.proposed

    def __str__(self) -> str:
        """Return `path: now → proposed`, `path: + item` or `path: (unset)`."""
        if self.proposed is None or self.added:
            return f"{self.path}: {self.becomes}"
        return f"{self.path}: {UNSET if self.now is None else self.now} → {self.becomes}"


UNSET = "(unset)"
"""Stands for what is not set, or is to be unset."""


@dataclass(frozen=True, slots=True)
class FormPrompt:
    """Several questions on one form: a page each, in order; Back, Next, and Submit on the last.

    Nothing is an answer before Submit.

    Attributes:
        pages: At least one; a question of kind `form` is a page with several fields. None offers
            "for this turn".
        partial: Whether required questions, too, may be left open on purpose: who asked takes what
            there is.
        menu: Whether Cancel offers to reply to the model, to stop the turn, and to go back. Else it
            ends the form.
    """

    pages: tuple[QuestionPrompt, ...]
    partial: bool = False
    menu: bool = False

    @property
    def label(self) -> str | None:
        """The header's text of the first page."""
        return self.pages[0].label

    @property
    def tool(self) -> str | None:
        """The name of the tool that asks; None if it is hidden."""
        return self.pages[0].tool


def needs_form(question: Question) -> bool:
    """Return True if `question` is asked by a `FormPrompt` even if it is alone.

    It has several fields, or may stay open.
    """
    return isinstance(question.answer_type, FormAnswer) or not question.required


Prompt = QuestionPrompt | ActionPrompt
AnyPrompt = Prompt | FormPrompt
Channel = Literal["form", "stdin", "terminal"]
Mark = AnswerMark
EMPTY_MARK: Final[frozenset[Mark]] = frozenset({"empty"})
"""Marks an answer that is blank, and was confirmed to be."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Somebody answered. `value` fits the question, or is an action's value.

    `by` is who, as the page says that sent it; None where one person has the notebook.
    """

    value: JsonValue
    channel: Channel
    remember: bool = False
    marks: frozenset[Mark] = frozenset()
    by: str | None = None


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """Somebody was there and no answer came: never an empty or default answer.

    `channel` is None for a prompt that was dropped before it was shown; `by` is who left it so, as
    in `Answered`.
    """

    end: Literal["declined", "cancelled", "timed_out", "interrupted"]
    channel: Channel | None = None
    by: str | None = None


def chosen_late(question: Question, end: NotAnswered) -> Answered | NotAnswered:
    """Return `end`; for an optional question whose time is over, the answer that nobody chose."""
    if end.end != "timed_out" or question.automatic is None or end.channel is None:
        return end
    return Answered(question.automatic, end.channel, marks=frozenset({"auto", "timed_out"}))


@dataclass(frozen=True, slots=True)
class FormEnd:
    """A form with several pages ended otherwise than by being cancelled or interrupted as a whole.

    Attributes:
        ends: One for each page, in order: `declined` is a question that was left open on purpose,
            `cancelled` one that was open when the person replied or stopped.
        then: `submitted`; or what was chosen on the way out: to `reply` with `text` to the model,
            or to `stop` the turn.
    """

    ends: tuple[Answered | NotAnswered, ...]
    then: Literal["submitted", "reply", "stop"] = "submitted"
    text: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Nobody can be asked; `reason` says why, in words."""

    reason: str


PromptEnd = Answered | NotAnswered | Unavailable
FormPromptEnd = FormEnd | NotAnswered | Unavailable
AnyEnd = PromptEnd | FormEnd


def sent_by(end: AnyEnd, name: str | None) -> AnyEnd:
    """Return `end` as one that came of what `name` did; what nobody chose in it is nobody's."""
    match end:
        case FormEnd(ends=ends):
            return replace(end, ends=tuple(replace(x, by=_chosen_by(x, name)) for x in ends))
        case Answered() | NotAnswered():
            return replace(end, by=_chosen_by(end, name))
        case Unavailable():
            return end


def _chosen_by(end: Answered | NotAnswered, name: str | None) -> str | None:
    if isinstance(end, NotAnswered):
        return name if end.end in ("declined", "cancelled") else None
    return None if end.marks & {"auto", "timed_out"} else name


class Prompter(Protocol):
    """Asks the person in front of the notebook."""

    def nobody(self) -> Unavailable | None:
        """Return why nobody can be asked in the running cell; None if somebody may be there.

        Cheap, and safe from any thread: the one predicate of routing (R083-99).
        """
        ...

    async def ask(self, prompt: Prompt) -> PromptEnd:
        """Put `prompt` to the person and wait. Cancelling the task takes the prompt away."""
        ...

    async def ask_form(self, prompt: FormPrompt) -> FormPromptEnd:
        """Put `prompt` to the person, as `ask` does."""
        ...

    def interrupt(self) -> None:
        """End every prompt that was put so far as interrupted, soon; from the agent's loop."""
        ...
