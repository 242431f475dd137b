"""Port `Prompter`, the prompts it shows, their queue, and prepared answers.

Source: `docs/prompts.md`, `docs/turns.md`, `docs/answers.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from pydantic import JsonValue

from jp_nb.record.events import AnswerMark
from jp_nb.text import one_line, spell_invisible
from jp_nb.tools.base import error_summary
from jp_nb.tools.question import FormAnswer, Question


@dataclass(frozen=True, slots=True)
class Action:
    """A button that decides at once; `key` is its single key on stdin.

    `on_form` is false for what only makes sense on stdin, such as printing once more.
    """

    key: str
    label: str
    value: str
    on_form: bool = True


def label_name(tool: str) -> str:
    """Return the name of a tool for a button or a title: one line, bounded, nothing unseen."""
    return one_line(spell_invisible(tool), limit=60)


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
class PromptDetail:
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
    exhibits: tuple[PromptDetail, ...] = ()
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


def apply_timeout_default(question: Question, end: NotAnswered) -> Answered | NotAnswered:
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


def with_sender(end: AnyEnd, name: str | None) -> AnyEnd:
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

    def unavailable(self) -> Unavailable | None:
        """Return why no user can be asked in the running cell; None if a user may be available.

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


log = logging.getLogger(__name__)

T = TypeVar("T")
Ask = Callable[[Prompt], Awaitable[PromptEnd]]
"""Puts one prompt and waits. Never raises but to be cancelled: a prompt that fails asks nobody."""
PromptEvent = Callable[[], None]
"""Something that happened: what changes because of it, for the coordinator's loop to call."""
Spawn = Callable[[Callable[[], Awaitable[PromptEvent]]], "asyncio.Task[None]"]
"""Runs work beside the coordinator's loop; what the work returns is called in the loop."""
Dialogue = Callable[[Ask], Awaitable[T]]
"""Has the screen for itself until it returns: a prompt as a rule, and those it leads to."""


def safe_ask(prompter: Prompter) -> Ask:
    """Return the function by which a dialogue asks `prompter`."""

    async def ask(prompt: Prompt) -> PromptEnd:
        try:
            return await prompter.ask(prompt)
        except Exception as exc:
            log.exception("A prompt failed")
            return Unavailable(f"the prompt failed: {error_summary(exc)}")

    return ask


async def ask_form(prompter: Prompter, prompt: FormPrompt) -> FormPromptEnd:
    """Put `prompt` to the person. Never raises but to be cancelled, as an `Ask`."""
    try:
        return await prompter.ask_form(prompt)
    except Exception as exc:
        log.exception("A form failed")
        return Unavailable(f"the form failed: {error_summary(exc)}")


class PromptQueue(Generic[T]):
    """Shows one thing at a time to a person: first come, first served. Of one thread.

    Args:
        show: Shows what has come to its turn, or has it leave at once.

    Attributes:
        shown: What is on screen.
        held: True while nothing new is shown.
    """

    def __init__(self, show: Callable[[T], None]) -> None:
        self._show = show
        self._line: deque[T] = deque()
        self.shown: T | None = None
        self.held = False

    def add(self, item: T, *, before: Callable[[T], bool] = lambda other: False) -> None:
        """Put `item` at the end, or in front of the first one that it goes `before`."""
        places = (index for index, other in enumerate(self._line) if before(other))
        self._line.insert(next(places, len(self._line)), item)
        self.show_next()

    def leave(self, item: T) -> bool:
        """Take `item` away, and return whether it was on screen. The next one is not shown yet."""
        if item is self.shown:
            self.shown = None
            return True
        if item in self._line:
            self._line.remove(item)
        return False

    def show_next(self) -> None:
        """Show what is next, unless something is on screen."""
        while self.shown is None and self._line and not self.held:
            self.shown = self._line.popleft()
            self._show(self.shown)

    def clear(self) -> None:
        """Forget what waits. What is on screen stays there."""
        self._line.clear()


@dataclass(slots=True, eq=False)
class _WaitingDialogue(Generic[T]):
    """A dialogue in line; `settle` takes its result, `skip` says that it is not needed any more."""

    dialogue: Dialogue[T]
    settle: Callable[[T], None]
    skip: Callable[[], bool]
    first: bool
    task: asyncio.Task[None] | None = None


class Prompts:
    """The dialogues of a turn, one at a time. All of it in the coordinator's loop.

    Args:
        prompter: Asks the person.
        spawn: Runs work beside the loop; what the work returns is called in the loop.
    """

    def __init__(self, prompter: Prompter, spawn: Spawn) -> None:
        self._ask = safe_ask(prompter)
        self._spawn = spawn
        self._queue = PromptQueue[_WaitingDialogue[Any]](self._show)

    def add(
        self,
        dialogue: Dialogue[T],
        settle: Callable[[T], None],
        *,
        skip: Callable[[], bool] = lambda: False,
        first: bool = False,
        again: bool = False,
    ) -> None:
        """Have `dialogue` when it is its turn; `first`: right after the one on screen.

        `again`: it was on screen already, and only those that came `first` go before it.
        `skip` is called when its turn has come: true means that it settled things itself.
        """
        self._queue.add(
            _WaitingDialogue(dialogue, settle, skip, first),
            before=lambda other: first or (again and not other.first),
        )

    def hold(self) -> None:
        """Show nothing new until `release`: something else is to be shown before."""
        self._queue.held = True

    def release(self) -> None:
        """Show what is next."""
        self._queue.held = False
        self._queue.show_next()

    def clear(self) -> None:
        """Drop what is on screen and what waits, unsettled."""
        self._queue.clear()
        if (shown := self._queue.shown) is not None:
            self._queue.leave(shown)
            if shown.task is not None:
                shown.task.cancel()

    def _show(self, waiting: _WaitingDialogue[T]) -> None:
        if waiting.skip():
            self._queue.leave(waiting)
        else:
            waiting.task = self._spawn(lambda: self._have(waiting))

    async def _have(self, waiting: _WaitingDialogue[T]) -> PromptEvent:
        result = await waiting.dialogue(self._ask)

        def settle() -> None:
            if self._queue.leave(waiting):  # else it was dropped when it had just ended
                waiting.settle(result)
                self._queue.show_next()

        return settle


DecisionKind = Literal["question", "permission", "result", "change"]
ANSWERS: Final = "answers"
"""The channel of what was decided so."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """The answer, or that a call runs, its result is delivered or its change applied.

    Attributes:
        value: Fits the question; None for the other kinds.
        place: Where that is written, as a person reads it.
    """

    value: JsonValue
    place: str


@dataclass(frozen=True, slots=True)
class DeclinedByFile:
    """It is not to be answered, run, delivered or applied; `place` as with `GivenAnswer`."""

    place: str


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """What is written there is no answer; `why` names the place."""

    why: str


PreparedDecision = GivenAnswer | DeclinedByFile | InvalidAnswer


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """Something that nobody decided.

    Attributes:
        tool: Name of the tool.
        question: What it asked, if that is the decision.
        detail: What else it is about, as a person reads it, such as the change.
        why: Why nobody did.
    """

    kind: DecisionKind
    tool: str
    why: str
    question: Question | None = None
    detail: tuple[str, ...] = ()


class PreparedAnswers(Protocol):
    """Knows what was decided beforehand. All of it from the agent's thread or the cell's."""

    def answer(self, tool: str, question: Question) -> PreparedDecision | None:
        """Return the answer to `question` of `tool`; None if there is none."""
        ...

    def decision(self, kind: DecisionKind, tool: str) -> PreparedDecision | None:
        """Return what was decided about `tool`, but for its questions; None if nothing was."""
        ...

    def note_open(self, decision: OpenDecision) -> None:
        """Note what nobody decided."""
        ...


class NothingPrepared:
    """Nobody decided anything beforehand."""

    def answer(self, tool: str, question: Question) -> None:
        """Return None."""

    def decision(self, kind: DecisionKind, tool: str) -> None:
        """Return None."""

    def note_open(self, decision: OpenDecision) -> None:
        """Forget it."""


NOTHING_PREPARED: Final = NothingPrepared()
