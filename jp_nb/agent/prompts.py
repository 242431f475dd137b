"""Prompts for the user: types of prompts, the state of a form, the queue, and prepared answers.

Source: `docs/prompts.md`, `docs/turns.md`, `docs/answers.md`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from pydantic import JsonValue

from jp_nb.record.outcomes import AnswerMark, QuestionOutcome
from jp_nb.text import one_line, spell_invisible
from jp_nb.toolkit.base import error_summary
from jp_nb.toolkit.question import FormAnswer, Question

log = logging.getLogger(__name__)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Channel = Literal["form", "stdin", "terminal"]
Mark = AnswerMark
EMPTY_MARK: Final[frozenset[Mark]] = frozenset({"empty"})
"""Mark of an empty answer that the user confirmed."""
REFUSED_MARK: Final[frozenset[Mark]] = frozenset({"refused"})
"""Mark of a question that the user declined, and did not only leave open."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A valid answer to a question, or the value of an action, `by` a user of a shared notebook."""

    value: JsonValue
    channel: Channel
    remember: bool = False
    marks: frozenset[Mark] = frozenset()
    by: str | None = None


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """A prompt without an answer. `channel` is None if it was dropped before its display."""

    end: Literal["declined", "cancelled", "timed_out", "interrupted"]
    channel: Channel | None = None
    by: str | None = None
    marks: frozenset[Mark] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True)
class FormEnd:
    """The outcome of a form that was not cancelled or interrupted as a whole.

    `ends` has one for each page: `declined` for a question left open on purpose, `cancelled` for
    one that was open when the user chose `reply` (with `text` to the model) or `stop` in the menu.
    """

    ends: tuple[Answered | NotAnswered, ...]
    then: Literal["submitted", "reply", "stop"] = "submitted"
    text: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No user is available, for the `reason`."""

    reason: str


def is_back(end: object) -> bool:
    """Return True if the user closed a prompt to return to the previous one."""
    return isinstance(end, NotAnswered) and end.end in ("cancelled", "declined")


PromptEnd: TypeAlias = T | NotAnswered | Unavailable
"""The outcome of a `Prompt[T]`."""


class Prompt(Generic[T_co]):
    """Something to ask the user. `T_co` is the type of a complete answer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Action:
    """A button that decides at once. `key` is its key on stdin, `on_form` False if only there.

    If it `is_separated`, a line is between it and the buttons before.
    """

    key: str
    label: str
    value: str
    on_form: bool = True
    is_separated: bool = False


def label_name(tool: str) -> str:
    """Return the name of a tool for a button or a title: one line, bounded, nothing unseen."""
    return one_line(spell_invisible(tool), limit=60)


@dataclass(frozen=True, slots=True)
class QuestionPrompt(Prompt[Answered]):
    """A question. `remember` offers "for this turn" (boolean questions only).

    Attributes:
        tool: Name of the tool that asks; None if it is hidden.
        consents: True if the default permits something: an empty line must not do that.
        is_code: True if the text is edited line by line, in a monospaced font.
        code_fields: Ids of the fields that are edited like this, if the question has fields.
        submit: Label of the button that sends the answer, which names the effect; None for the
            usual label.
    """

    question: Question
    label: str | None = None
    tool: str | None = None
    remember: bool = False
    consents: bool = False
    is_code: bool = False
    code_fields: frozenset[str] = frozenset()
    submit: str | None = None

    @property
    def fields(self) -> tuple[QuestionPrompt, ...]:
        """A prompt for each field; the question itself if it has no fields."""
        kind = self.question.answer_type
        if not isinstance(kind, FormAnswer):
            return (self,)
        return tuple(QuestionPrompt(x, is_code=x.id in self.code_fields) for x in kind.fields)


@dataclass(frozen=True, slots=True)
class PromptDetail:
    """Exact content that the user decides about: an object key by key, a text line by line.

    `language` is the one of code, such as `python`.
    """

    caption: str
    value: Mapping[str, JsonValue] | str
    language: str | None = None


@dataclass(frozen=True, slots=True)
class ActionPrompt(Prompt[Answered]):
    """A decision among buttons, none of which is preselected. `text` is the question, in one line.

    Attributes:
        last_line: Text before the keys on stdin, which are then not case-sensitive.
        help: One line, displayed for `?` on stdin.
        only_buttons: True if Esc leaves the form open. Otherwise, Esc cancels the prompt.
        origin: Kind of the tool that the decision is about, such as `Python`.
    """

    text: str
    actions: tuple[Action, ...]
    label: str | None = None
    exhibits: tuple[PromptDetail, ...] = ()
    changes: tuple[ProposedChange, ...] = ()
    last_line: str | None = None
    help: str | None = None
    only_buttons: bool = False
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """One line of a proposed configuration change.

    Attributes:
        now: Current value as JSON; None if it is not set.
        proposed: New value as JSON; None to unset it.
        added: True if `proposed` is an additional item of the list at `path`.
        then: Value after unsetting it, if any.
    """

    path: str
    now: str | None
    proposed: str | None
    added: bool = False
    then: str | None = None

    @property
    def becomes(self) -> str:
        """Text of the new value."""
        if self.proposed is None:
            return UNSET if self.then is None else f"{UNSET}, then {self.then}"
        return f"+ {self.proposed}" if self.added else self.proposed

    def __str__(self) -> str:
        """Return `path: now → proposed`, `path: + item` or `path: (unset)`."""
        if self.proposed is None or self.added:
            return f"{self.path}: {self.becomes}"
        return f"{self.path}: {UNSET if self.now is None else self.now} → {self.becomes}"


UNSET = "(unset)"
"""Text for a value that is not set."""


@dataclass(frozen=True, slots=True)
class FormPrompt(Prompt[FormEnd]):
    """A form with at least one page. Answers take effect only with Submit.

    Attributes:
        pages: One question each, which may have several fields. None offers "for this turn".
        partial: True if required questions may stay open: the tool accepts missing answers.
        menu: True if Cancel offers to reply to the model, to stop the turn, and to go back.
        declines: True if the user may decline each question, which is not the same as Cancel.
    """

    pages: tuple[QuestionPrompt, ...]
    partial: bool = False
    menu: bool = False
    declines: bool = False


def make_prompt(
    pages: tuple[QuestionPrompt, ...],
    *,
    partial: bool = False,
    menu: bool = False,
    declines: bool = False,
) -> QuestionPrompt | FormPrompt:
    """Return a form, or the only page if it needs none: a required question without fields."""
    question = pages[0].question
    if len(pages) > 1 or partial or menu or declines or not question.required:
        return FormPrompt(pages, partial, menu, declines)
    return FormPrompt(pages) if isinstance(question.answer_type, FormAnswer) else pages[0]


SimplePrompt = QuestionPrompt | ActionPrompt
AnyPrompt = SimplePrompt | FormPrompt
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


def with_sender(end: AnyEnd, name: str | None) -> AnyEnd:
    """Return `end` with the name of the user who decided. Automatic outcomes get no name."""
    match end:
        case FormEnd(ends=ends):
            return replace(end, ends=tuple(replace(x, by=_sender_of(x, name)) for x in ends))
        case Answered() | NotAnswered():
            return replace(end, by=_sender_of(end, name))
        case Unavailable():
            return end


def _sender_of(end: Answered | NotAnswered, name: str | None) -> str | None:
    if isinstance(end, NotAnswered):
        return name if end.end in ("declined", "cancelled") else None
    return None if end.marks & {"auto", "timed_out"} else name


Screen = Literal["page", "summary", "menu", "discard"]
"""A page, the summary before sending, the menu of Cancel, or the question before discarding."""


@dataclass(frozen=True, slots=True)
class PageDraft:
    """Content of one page. Its question is open while it has no `answer`.

    `empty` is the answer if the user confirms an empty page; None if that is not valid. `problem`
    is an error message about the input. `timed_out` is True if no answer came in time, and
    `declined` if the user pressed Decline.
    """

    answer: Answered | None = None
    empty: Answered | None = None
    problem: str = ""
    timed_out: bool = False
    declined: bool = False

    @property
    def is_blank(self) -> bool:
        """True if it has neither an answer nor invalid input."""
        return self.answer is None and not self.problem


BLANK = PageDraft()


class FormDraft:
    """State machine of a form up to its `end`, for the notebook and stdin. It draws nothing.

    Attributes:
        step: Changes with each change of the display. Clicks with an older step are stale.
        demanded: True if Submit led to this page because it needs an answer.
        reviewed: True once Submit was tried. Each page offers it from then on.
        end: Outcome of the form; None while it is open. Later input is ignored.
    """

    def __init__(self, prompt: FormPrompt, channel: Channel) -> None:
        self.prompt = prompt
        self.page = 0
        self.screen: Screen = "page"
        self.step = 0
        self.demanded = False
        self.reviewed = False
        self.end: PromptEnd[FormEnd] | None = None
        self._channel = channel
        self._pages = [BLANK] * len(prompt.pages)
        self._leaving = NotAnswered("cancelled", channel)  # the end after the screen `discard`

    @property
    def asked(self) -> QuestionPrompt:
        """Question of the current page."""
        return self.prompt.pages[self.page]

    @property
    def pages(self) -> Sequence[PageDraft]:
        """Content of each page."""
        return self._pages

    @property
    def is_first(self) -> bool:
        """True on the first page."""
        return self.page == 0

    @property
    def is_last(self) -> bool:
        """True on the last page."""
        return self.page == len(self._pages) - 1

    @property
    def can_submit(self) -> bool:
        """True if the current page offers Submit."""
        return self.is_last or self.reviewed

    @property
    def open_pages(self) -> list[int]:
        """Indexes of the pages that are neither answered nor declined."""
        pages = enumerate(self._pages)
        return [index for index, page in pages if page.answer is None and not page.declined]

    @property
    def blocked(self) -> int | None:
        """Index of the first page that prevents Submit; None if the form is complete."""
        blocked = (x for x in self.open_pages if self._pages[x].problem or self._is_missed(x))
        return next(blocked, None)

    def _is_missed(self, index: int) -> bool:
        required = self.prompt.pages[index].question.required
        page = self._pages[index]
        return required and not self.prompt.partial and page.answer is None and not page.declined

    def hold(self, draft: PageDraft) -> None:
        """Store the content of the current page. A blank one leaves a declined page declined."""
        if self.end is None and not (self._pages[self.page].declined and draft.is_blank):
            self._pages[self.page] = draft

    def next(self) -> None:
        """Go to the next page, if there is one."""
        self.go(self.page + 1)

    def back(self) -> None:
        """Go to the previous page, if there is one."""
        self.go(self.page - 1)

    def go(self, page: int) -> None:
        """Go to `page`, if there is one."""
        if 0 <= page < len(self._pages):
            self.page = page
            self._show("page")

    def _show(self, screen: Screen) -> None:
        if self.end is None:
            self.screen = screen
            self.demanded = False
            self.step += 1

    def submit(self) -> None:
        """Send all answers, or show the page that prevents it, or the summary of open pages."""
        self.reviewed = True
        if (blocked := self.blocked) is not None:
            self.go(blocked)
            self.demanded = True
        elif self.open_pages:
            self._show("summary")
        else:
            self._finish()

    def review(self) -> None:
        """Show the summary, even if a page prevents Submit."""
        self.reviewed = True
        self._show("summary")

    def confirm_empty(self, page: int) -> None:
        """Accept the empty answer of `page`."""
        if 0 <= page < len(self._pages) and (empty := self._pages[page].empty) is not None:
            self._pages[page] = PageDraft(empty)
            self.step += 1

    def send(self) -> None:
        """Send the answers if the summary is displayed. Open questions are declined."""
        if self.screen == "summary":
            self._finish()

    def cancel(self, *, entered: bool = False) -> None:
        """Display the menu, or ask before answers are discarded, or end the form.

        `entered` is True if the current page has input that is not stored yet.
        """
        if self.prompt.menu:
            self._show("menu")
        else:
            self._leave(NotAnswered("cancelled", self._channel), entered=entered)

    def decline(self, *, entered: bool = False) -> None:
        """Decline the current page, and go to the next one, or to the summary after the last.

        A form with one page ends, but asks before input is discarded, as `cancel` does.
        """
        if len(self._pages) == 1:
            self._leave(NotAnswered("declined", self._channel, marks=REFUSED_MARK), entered=entered)
            return
        self._pages[self.page] = PageDraft(declined=True)
        if self.is_last or self.reviewed:
            self.review()
        else:
            self.next()

    def _leave(self, end: NotAnswered, *, entered: bool) -> None:
        self._leaving = end
        if entered or not all(page.is_blank for page in self._pages):
            self._show("discard")
        else:
            self._end(end)

    def resume(self) -> None:
        """Return to the current page."""
        self._show("page")

    def discard(self) -> None:
        """End the form and discard the answers."""
        self._end(self._leaving)

    def reply(self, text: str) -> None:
        """Send `text` to the model with the answers so far."""
        self._end(FormEnd(self._ends("cancelled"), then="reply", text=text))

    def stop(self) -> None:
        """Stop the turn. All questions are cancelled."""
        cancelled = NotAnswered("cancelled", self._channel)
        self._end(FormEnd((cancelled,) * len(self._pages), then="stop"))

    def _finish(self) -> None:
        if any(map(self._is_missed, range(len(self._pages)))):  # the time was over
            self._end(NotAnswered("timed_out", self._channel))
        else:
            self._end(FormEnd(self._ends("declined")))

    def _ends(self, left: Literal["declined", "cancelled"]) -> tuple[Answered | NotAnswered, ...]:
        return tuple(page.answer or self._end_without_answer(page, left) for page in self._pages)

    def _end_without_answer(
        self, page: PageDraft, left: Literal["declined", "cancelled"]
    ) -> NotAnswered:
        if page.declined:
            return NotAnswered("declined", self._channel, marks=REFUSED_MARK)
        return NotAnswered("timed_out" if page.timed_out else left, self._channel)

    def _end(self, end: PromptEnd[FormEnd]) -> None:
        if self.end is None:
            self.end = end
            self.step = self.step + 1

    def expire(self, picked: Answered | None = None) -> None:
        """Handle the timeout of the current page, and go to the next page.

        `picked` is a selection on the page that was not sent. On the last page, the form ends. On
        the summary, all open pages time out and the form ends.
        """
        on_summary = self.screen == "summary"
        for index in self.open_pages if on_summary else [self.page]:
            self._time_out(index, None if on_summary else picked)
        if on_summary or self.is_last:
            self._finish()
        else:
            self.next()

    def _time_out(self, index: int, picked: Answered | None = None) -> None:
        # Exclusive questions accept only sent answers, and required ones no automatic answer.
        question = self.prompt.pages[index].question
        held = self._pages[index].answer
        if picked is not None and not question.exclusive:
            late = replace(picked, marks=picked.marks | {"timed_out"})
            self._pages[index] = PageDraft(late, timed_out=True)
        elif held is None and not self._pages[index].declined:
            end = apply_timeout_default(question, NotAnswered("timed_out", self._channel))
            chosen = end if isinstance(end, Answered) else None
            self._pages[index] = PageDraft(chosen, timed_out=True)


class Prompter(Protocol):
    """Asks the user of the notebook."""

    def unavailable(self) -> Unavailable | None:
        """Return the reason if no user is available in the running cell (R083-99).

        It is fast, and safe on any thread. If it is None, a user may be available.
        """

    async def ask(self, prompt: Prompt[T]) -> PromptEnd[T]:
        """Display `prompt` and wait. Canceling the task closes the prompt."""

    def ask_in_cell(self, prompt: Prompt[T], *, keeps_record: bool) -> PromptEnd[T]:
        """Display `prompt` and wait, for code that runs in the cell.

        With `keeps_record`, a line with the answer replaces the form.

        Raises:
            KeyboardInterrupt: The kernel was interrupted. Every prompt has ended by then.
        """

    def interrupt(self) -> None:
        """End all current prompts as interrupted. Called on the agent's event loop."""


class SafeAsk:
    """Displays one prompt and waits. A prompt that fails counts as unavailable."""

    def __init__(self, prompter: Prompter) -> None:
        self._prompter = prompter

    async def __call__(self, prompt: Prompt[T], /) -> PromptEnd[T]:
        """Display `prompt` and wait. It raises no error, except for cancellation."""
        try:
            return await self._prompter.ask(prompt)
        except Exception as exc:
            log.exception("A prompt failed")
            return Unavailable(f"the prompt failed: {error_summary(exc)}")


class PromptQueue(Generic[T]):
    """Queue with at most one item `shown` on screen, for one thread.

    While it is `held`, items are added, but none is displayed. The function `show` may remove the
    item that it gets.
    """

    def __init__(self, show: Callable[[T], None]) -> None:
        self._show = show
        self._line: deque[T] = deque()
        self.shown: T | None = None
        self.held = False

    def add(self, item: T, *, before: Callable[[T], bool] = lambda other: False) -> None:
        """Add `item` at the end, or in front of the first item for which `before` returns True."""
        places = (index for index, other in enumerate(self._line) if before(other))
        self._line.insert(next(places, len(self._line)), item)
        self.show_next()

    def remove(self, item: T) -> bool:
        """Remove `item`; return True if it was on screen. Does not display the next one."""
        if item is self.shown:
            self.shown = None
            return True
        if item in self._line:
            self._line.remove(item)
        return False

    def show_next(self) -> None:
        """Display the next item, unless one is on screen."""
        while self.shown is None and self._line and not self.held:
            self.shown = self._line.popleft()
            self._show(self.shown)

    def clear(self) -> None:
        """Remove all waiting items, but not the one on screen."""
        self._line.clear()


DecisionKind = Literal["question", "permission", "result", "change"]
ANSWERS: Final = "answers"
"""Channel of prepared answers and decisions."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """A valid prepared answer, at `place` in the file. `value` is None for a consent."""

    value: JsonValue
    place: str


@dataclass(frozen=True, slots=True)
class DeclinedByFile:
    """A prepared refusal, at `place` in the file."""

    place: str


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """A prepared answer that is not valid. `why` names the place."""

    why: str


PreparedDecision = GivenAnswer | DeclinedByFile | InvalidAnswer


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """A decision that needed the user, and why there was none.

    `detail` is other content than a question, such as the change.
    """

    kind: DecisionKind
    tool: str
    why: str
    question: Question | None = None
    detail: tuple[str, ...] = ()


class PreparedAnswers(Protocol):
    """Prepared answers and decisions. Called on the agent's thread and the cell's thread."""

    def answer(self, tool: str, question: Question) -> PreparedDecision | None:
        """Return the prepared answer to `question` of `tool`, if any."""

    def answers_questions_of(self, tool: str) -> bool:
        """Return True if answers to questions of `tool` are prepared."""

    def decision(self, kind: DecisionKind, tool: str) -> PreparedDecision | None:
        """Return the prepared decision about `tool`, if any."""

    def note_open(self, decision: OpenDecision) -> None:
        """Note a decision that was not prepared."""
