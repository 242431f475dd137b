"""Prompts for the user, and the port through which they are asked.

A prompt is a question, a decision among buttons (*actions*), or a form with pages of questions. A
`Prompter` of the front end displays it. `prompt_ends.py` has the outcomes.

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pydantic import JsonValue

from jp_nb.agent.prompting.prompt_ends import Answered, FormEnd, PromptEnd, T, Unavailable
from jp_nb.exact_form import spell_invisible
from jp_nb.text import one_line
from jp_nb.toolkit.question import FormAnswer, Question

if TYPE_CHECKING:  # most turns edit no cells
    from jp_nb.toolkit.editing.source_diff import SourceDiff

T_co = TypeVar("T_co", covariant=True)

UNSET_VALUE = "(unset)"
"""Text for a value that is not set."""


class Prompt(Generic[T_co]):
    """Something to ask the user. `T_co` is the type of a complete answer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Action:
    """A button that decides at once.

    Attributes:
        key: Its key on stdin.
        label: Text on the button.
        value: The decision, which `Answered.value` has.
        on_form: False if only a dialogue on stdin offers it.
        is_separated: True if a line separates it from the buttons before.
        format_label: Returns the label for a number of checked items. The button needs at least
            one.
    """

    key: str
    label: str
    value: str
    on_form: bool = True
    is_separated: bool = False
    format_label: Callable[[int], str] | None = None


def format_label_name(tool: str) -> str:
    """Return the name of a tool for a button or a title: one line, bounded, nothing unseen."""
    return one_line(spell_invisible(tool), limit=60)


@dataclass(frozen=True, slots=True)
class QuestionPrompt(Prompt[Answered]):
    """A question.

    Attributes:
        question: The question, with the type of its answer and its default.
        label: Header of the question, such as `Assistant`; None: the tool.
        remember: True to offer "for this turn", for questions whose type allows it.
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

        return tuple(
            QuestionPrompt(field, is_code=field.id in self.code_fields) for field in kind.fields
        )


@dataclass(frozen=True, slots=True)
class PromptItem:
    """A part of a decision that the user can exclude, by a check box on a form.

    Attributes:
        key: Its name in `Answered.picks`.
        is_checked: True if the part is chosen at first.
        actions: Buttons beside the check box, which has the caption of the content as its name.
    """

    key: str
    is_checked: bool = True
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptDetail:
    """Exact content that the user decides about: an object key by key, a text line by line.

    Attributes:
        caption: Title of the content.
        value: The content itself.
        language: Language of a code, such as `python`.
        size_text: Text behind the caption, in place of the number of lines of `value`.
        diff: The difference whose text is `value`. A form shows it as code of `language`.
        item: The check box by which the user can leave the content out.
    """

    caption: str
    value: Mapping[str, JsonValue] | str
    language: str | None = None
    size_text: str | None = None
    diff: SourceDiff | None = None
    item: PromptItem | None = None


@dataclass(frozen=True, slots=True)
class PromptCell:
    """A cell of the notebook that a decision is about, which a page can outline and show.

    Attributes:
        cell_id: Id of the cell, or `start` for the place above the first cell.
        label: Words for the cell beside its outline, such as `edit 1`.
        is_place: True if the decision is about the place below the cell.
        item: Key of the `PromptItem` beside whose check box a button shows the cell.
    """

    cell_id: str
    label: str
    is_place: bool = False
    item: str = ""


@dataclass(frozen=True, slots=True)
class ActionPrompt(Prompt[Answered]):
    """A decision among buttons, none of which is preselected.

    Attributes:
        text: The question, in one line.
        actions: The buttons, in their order.
        label: Header of the prompt; None: the usual one.
        exhibits: The content that the user decides about.
        changes: The configuration changes that the user decides about.
        last_line: Text before the keys on stdin, which are then not case-sensitive.
        help: One line, displayed for `?` on stdin.
        document: Text in Markdown that the user decides about, above the question.
        only_buttons: True if Esc leaves the form open. Otherwise, Esc cancels the prompt.
        origin: Kind of the tool that the decision is about, such as `Python`.
        cells: Cells of the notebook that the decision is about.
    """

    text: str
    actions: tuple[Action, ...]
    label: str | None = None
    exhibits: tuple[PromptDetail, ...] = ()
    changes: tuple[ProposedChange, ...] = ()
    last_line: str | None = None
    help: str | None = None
    document: str | None = None
    only_buttons: bool = False
    origin: str | None = None
    cells: tuple[PromptCell, ...] = ()


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """One line of a proposed configuration change.

    Attributes:
        path: Path of the setting, or of the list that an item belongs to.
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
            return UNSET_VALUE if self.then is None else f"{UNSET_VALUE}, then {self.then}"
        return f"+ {self.proposed}" if self.added else self.proposed

    def __str__(self) -> str:
        """Return `path: now → proposed`, `path: + item` or `path: (unset)`."""
        if self.proposed is None or self.added:
            return f"{self.path}: {self.becomes}"
        now = UNSET_VALUE if self.now is None else self.now
        return f"{self.path}: {now} → {self.becomes}"


@dataclass(frozen=True, slots=True)
class FormPrompt(Prompt[FormEnd]):
    """A form with at least one page. Answers take effect only with Submit.

    Attributes:
        pages: One question each, which may have several fields. No page offers "for this turn".
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
    """Return the prompt for `pages`: a form, or the page itself.

    A single required question without fields needs no form, unless one of the options is set.
    """
    question = pages[0].question
    if len(pages) > 1 or partial or menu or declines or not question.required:
        return FormPrompt(pages, partial, menu, declines)
    if isinstance(question.answer_type, FormAnswer):
        return FormPrompt(pages)
    return pages[0]


SimplePrompt = QuestionPrompt | ActionPrompt
AnyPrompt = SimplePrompt | FormPrompt


class Prompter(Protocol):
    """Asks the user of the notebook."""

    def unavailable(self) -> Unavailable | None:
        """Return the reason if no user is available in the running cell.

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
