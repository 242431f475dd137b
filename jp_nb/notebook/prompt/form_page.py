"""One page of a form: one question, or one whose answer has several fields.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import ipywidgets as widgets
from pydantic import JsonValue

from jp_nb.agent.form_draft import PageDraft
from jp_nb.agent.prompts import Answered, QuestionPrompt
from jp_nb.notebook.prompt.beacon import SecretField, close_widgets
from jp_nb.notebook.prompt.controls import field_control
from jp_nb.notebook.prompt.form_control import Message, Unread
from jp_nb.notebook.prompt.form_parts import (
    above,
    entry_of,
    html,
    is_as_told,
    isolated,
    model_id_of,
    outputs,
    text,
    told_of,
)
from jp_nb.rendering import form_words, wording
from jp_nb.rendering.markdown import safe_markdown
from jp_nb.tooling.question import REQUIRED, FormAnswer

log = logging.getLogger(__name__)

FOR_ALL = -1
"""Place of a problem that concerns no single field."""


Changed = Callable[[bool], None]
"""Called after a change: True if the user made it, False if an earlier click reported it."""


@dataclass(frozen=True, slots=True)
class PageReading:
    """What stands on a page.

    Attributes:
        draft: What it comes to.
        problems: What is wrong or missing, by the number of the field; `FOR_ALL` for the whole.
        confirmable: The fields that give an empty answer once the person confirms it.
    """

    draft: PageDraft
    problems: Mapping[int, str] = field(default_factory=dict)
    confirmable: frozenset[int] = frozenset()


class PageField:
    """A control with what is said about it. `named`: it is one of several, under its own name."""

    def __init__(self, prompt: QuestionPrompt, *, named: bool, changed: Changed) -> None:
        self.prompt = prompt
        self.control = field_control(prompt)
        self.problem = text("", "problem")
        self.touched = False
        self._changed = changed
        self._confirmed = False  # that an empty answer is meant
        self._told: Message = {}
        self._secret: Answered | None = None
        entry = entry_of(self.control)
        assert entry is not None  # no button of a page acts at once
        self._entry = entry
        above_it = _about(prompt) if named else ()
        self.widget = widgets.VBox([*above_it, entry, self.problem])
        self.widget.add_class("jp-nb-field")
        if prompt.question.required:
            self.widget.add_class("jp-nb-needed")
        self._untouched = self.control.read({})
        self.control.observe(self._on_change)

    def read(self, told: Message) -> Answered | Unread:
        """Return what stands in it, as the page `told`; a secret that was sent before counts."""
        self._told = told
        found = self.control.read({**told, "confirmed": self._confirmed})
        if not self.control.secret:
            return found
        if isinstance(found, Answered):
            self._secret = found
            assert isinstance(self._entry, SecretField)
            self._entry.hint = form_words.SECRET_KEPT
        elif found.blank and self._secret is not None:
            return self._secret
        return found

    def if_empty(self, told: Message) -> Answered | None:
        """Return what it gives once the person confirms that nothing is meant; None if nothing."""
        found = self.control.read({**told, "confirmed": True})
        return found if isinstance(found, Answered) else None

    def is_touched(self, told: Message) -> bool:
        """Return True if the person entered something here."""
        return self.touched or self.control.read(told) != self._untouched

    def say(self, words: str, *, confirm: bool = False) -> None:
        """Say what is wrong; with `confirm`, to send it once more is to mean it."""
        self.problem.value = isolated(words[:1].upper() + words[1:])
        self._confirmed = confirm

    def _on_change(self) -> None:
        self.touched = True
        anew = not is_as_told(self.control, self._told)
        if anew:  # what was said was about what stood there before
            self.say("")
        self._changed(anew)


class FormPage:
    """One page, which stays what it is while others are up.

    `changed` is called upon every change that the person makes.
    """

    def __init__(self, prompt: QuestionPrompt, changed: Changed) -> None:
        self._prompt = prompt
        kind = prompt.question.answer_type
        self._form = kind if isinstance(kind, FormAnswer) else None
        asked = [prompt] if self._form is None else [*map(QuestionPrompt, self._form.fields)]
        named = self._form is not None
        self.fields = [PageField(each, named=named, changed=changed) for each in asked]
        # Of what concerns all fields; one alone has its own.
        self._problem = text("", "problem") if named else self.fields[0].problem
        below = (self._problem,) if named else ()
        self.widget = widgets.VBox([*above(prompt), *(each.widget for each in self.fields), *below])
        self.widget.add_class("jp-nb-page")

    @property
    def model_ids(self) -> list[str]:
        """The models of its controls, in order."""
        return [model_id_of(each.control) for each in self.fields]

    def is_busy(self) -> bool:
        """Return True while a text stands in a box of it that is not sent."""
        return any(each.control.in_use() for each in self.fields)

    def is_touched(self, told: Iterable[Message]) -> bool:
        """Return True if the person entered something here, as the page `told` or before."""
        return any(each.is_touched(one) for each, one in zip(self.fields, told, strict=True))

    @property
    def touched(self) -> bool:
        """True once the person changed something here."""
        return any(each.touched for each in self.fields)

    @property
    def untold(self) -> Sequence[Message]:
        """What a page says that says nothing: the state of the widgets counts."""
        return [{}] * len(self.fields)

    def told(self, message: Message) -> Sequence[Message]:
        """Return what a page says of each control."""
        return told_of(message, len(self.fields))

    def say(self, reading: PageReading) -> None:
        """Say beside each field what `reading` found. To send it once more confirms it."""
        for number, each in enumerate(self.fields):
            words = reading.problems.get(number, "")
            each.say(words, confirm=bool(words) and number in reading.confirmable)
        if self._form is not None:
            self._problem.value = isolated(reading.problems.get(FOR_ALL, ""))

    def say_nothing(self) -> None:
        """Take back what was said."""
        self.say(PageReading(PageDraft()))

    def read(self, told: Sequence[Message]) -> PageReading:
        """Return what stands on it, as the page `told`."""
        if self._form is not None:
            return self._read_fields(self._form, told)
        [each], [one] = self.fields, told
        found = each.read(one)
        if isinstance(found, Answered):
            return PageReading(PageDraft(found))
        empty = each.if_empty(one)
        confirmable = frozenset({0} if empty is not None else ())
        draft = PageDraft(empty=empty) if found.blank else PageDraft(problem=found.why)
        return PageReading(draft, {0: found.why}, confirmable)

    def _read_fields(self, form: FormAnswer, told: Sequence[Message]) -> PageReading:
        values: dict[str, JsonValue] = {}
        problems: dict[int, str] = {}
        wrong, confirmable = False, set[int]()
        for number, (each, one) in enumerate(zip(self.fields, told, strict=True)):
            question, found = each.prompt.question, each.read(one)
            if isinstance(found, Unread):
                wrong = wrong or not found.blank
                empty = each.if_empty(one)
                if empty is not None and question.required:
                    confirmable.add(number)
                if found.blank and not question.required:
                    # What was proposed is not there any more: that is an answer, if it can be.
                    cleared = wording.preselected(each.prompt) is not None
                    if empty is None or not cleared:
                        continue
                    found = empty
            if isinstance(found, Answered):
                values[question.id] = found.value
            elif number in confirmable or not found.blank:
                problems[number] = found.why
            else:
                problems[number] = REQUIRED
        if problems:
            is_open = not wrong and not (values and self.is_touched(told))
            draft = PageDraft() if is_open else PageDraft(problem=next(iter(problems.values())))
            return PageReading(draft, problems, frozenset(confirmable))
        return self._checked(form, values)

    def _checked(self, form: FormAnswer, values: dict[str, JsonValue]) -> PageReading:
        numbers = {each.id: number for number, each in enumerate(form.fields)}
        problems: dict[int, str] = {}
        for name, why in _found(form, values).items():
            number = numbers.get(name, FOR_ALL)
            problems[number] = f"{problems[number]} {why}" if number in problems else why
        if problems:
            return PageReading(PageDraft(problem=next(iter(problems.values()))), problems)
        return PageReading(PageDraft(Answered(values, "form")))

    def close(self) -> None:
        """Close its widgets."""
        close_widgets(self.widget)
        close_widgets(self._problem)  # one field alone shows none


def _found(form: FormAnswer, values: Mapping[str, JsonValue]) -> Mapping[str, str]:
    """Return what is wrong with `values`; a check that fails lets nothing pass."""
    try:
        return form.problems(values)
    except Exception as exc:  # it is somebody else's, and the form must still be left
        log.exception("The check of a form failed")
        return {"": form_words.UNCHECKED.format(type(exc).__name__)}


def _about(prompt: QuestionPrompt) -> Iterator[widgets.Widget]:
    """Yield the name of a field and what is said about it."""
    name = isolated(wording.question(prompt))
    mark = ' <span class="jp-nb-mark" aria-hidden="true">*</span>'
    yield html(f"{name}{mark if prompt.question.required else ''}", "field-name")
    if context := wording.context(prompt):
        shown = widgets.Output(outputs=outputs({"text/markdown": safe_markdown(context)}))
        shown.add_class("jp-nb-about")
        yield shown
    if hint := wording.draft(prompt).hint:
        yield text(hint, "hint")
