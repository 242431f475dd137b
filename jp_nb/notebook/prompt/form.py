"""The form for one question, permission, or menu.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import ipywidgets as widgets

from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    NotAnswered,
    QuestionPrompt,
    SimplePrompt,
)
from jp_nb.notebook.prompt.controls import make_action_buttons, make_question_control
from jp_nb.notebook.prompt.exact_text import show_exact_text
from jp_nb.notebook.prompt.form_control import FormMessage, NoValidAnswer
from jp_nb.notebook.prompt.form_heads import make_question_head
from jp_nb.notebook.prompt.form_messages import guard_widgets
from jp_nb.notebook.prompt.form_widgets import (
    make_button,
    make_html,
    make_text,
)
from jp_nb.notebook.prompt.prompt_form import FormContext, PromptForm, make_action_row
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.change_text import render_change_table


class Form(PromptForm):
    """A form for one question or one decision."""

    def __init__(self, prompt: SimplePrompt, context: FormContext) -> None:
        super().__init__(prompt, prompt_text.format_header(prompt), context)
        self._prompt = prompt
        self._confirmed = False  # True after a note about an empty answer: submitting confirms it
        self._reported: FormMessage = {}  # the state of the control, as the last click sent it
        if isinstance(prompt, ActionPrompt):
            self._control = make_action_buttons(prompt)
        else:
            self._control = make_question_control(prompt)

        self._control.observe(self._changed)
        self._actions = {"unchosen": self._report_no_choice}

        if self._control.buttons is None:
            self._actions |= {"submit": self._submit}

        if not (isinstance(prompt, ActionPrompt) and prompt.only_buttons):
            self._actions |= {"cancel": lambda _: self._finish(NotAnswered("cancelled", "form"))}

        entry = [] if self._control.widget is None else [self._control.widget]
        header = prompt_text.format_header(prompt)
        head = [make_text(header, "header")] if header else []
        head += make_question_head(prompt)
        if isinstance(prompt, ActionPrompt):
            exhibits = zip(prompt.exhibits, prompt_text.list_exhibits(prompt), strict=True)
            for detail, (caption, lines) in exhibits:
                head += show_exact_text(caption, lines, detail.language)

            if prompt.changes:
                head.append(make_html(render_change_table(prompt.changes), "table"))
                self._form.add_class("jp-nb-wide")

        self._bridge.controls = [self._control.model_id] if entry else []
        self._bridge.only_buttons = isinstance(prompt, ActionPrompt) and prompt.only_buttons
        row = make_action_row(prompt, self._make_buttons())
        self._form.children = [*head, *entry, self._bridge, self._note, row]
        guard_widgets(self.widget)

    def _is_busy(self) -> bool:
        return self._writing or self._control.in_use()

    def _expire(self) -> None:
        self._finish(NotAnswered("timed_out", "form"))

    def _make_buttons(self) -> Iterator[widgets.Widget]:
        groups: list[list[widgets.Button]] = [[]]
        for label, answer in (self._control.buttons or {}).items():
            if label in self._control.separated:
                groups.append([])
            groups[-1].append(make_button(label, partial(self._finish, answer)))

        if len(groups) == 1:
            yield from groups[0]
        else:
            yield from map(_make_button_group, groups)

        if isinstance(self._prompt, QuestionPrompt):
            if self._control.buttons is None:
                submit = partial(self._press, "submit")
                label = prompt_text.get_submit_label(self._prompt)
                yield make_button(label, submit, does="submit", primary=True)
            yield make_button(prompt_text.CANCEL_LABEL, partial(self._press, "cancel"))

    def _submit(self, message: FormMessage) -> None:
        self._reported = message
        found = self._control.read({**message, "confirmed": self._confirmed})
        if isinstance(found, NoValidAnswer):
            self._confirmed = found.confirmable
            self._show_note(found.why)
        else:
            self._finish(found)

    def _report_no_choice(self, message: FormMessage) -> None:
        # A key submits only a value that the user touched.
        found = self._control.read(message)
        if isinstance(found, NoValidAnswer):
            self._show_note(found.why)
        elif isinstance(self._prompt, QuestionPrompt):
            label = prompt_text.get_submit_label(self._prompt)
            self._show_note(prompt_text.NOTHING_CHANGED.format(label))

    def _changed(self) -> None:
        if not self._control.matches(self._reported):
            self._confirmed = False
            self._show_note("")  # the note was about the previous content
        self._clock.restart()


def _make_button_group(buttons: Iterable[widgets.Button]) -> widgets.HBox:
    group = widgets.HBox([*buttons])
    group.add_class("jp-nb-group")
    return group
