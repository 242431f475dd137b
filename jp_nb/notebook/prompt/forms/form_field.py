"""One field of a page of a form: a control with its error message.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as widgets

from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.notebook.prompt.answer_widgets import SecretField
from jp_nb.notebook.prompt.controls.controls import make_question_control
from jp_nb.notebook.prompt.controls.form_control import FormMessage, NoValidAnswer
from jp_nb.notebook.prompt.controls.form_widgets import isolate_direction, make_box, make_text
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.notebook.prompt.forms.form_heads import make_field_head
from jp_nb.rendering.prompt_texts import form_text
from jp_nb.text import upper_first


class FormField:
    """A control with its error message. If it is `named`, its question is shown above it.

    A click of the user sends a *report*, the state of the control (`FormMessage`), which
    `read_and_keep` gets. The update of the widget with the same state may arrive later. After each
    update, the field calls `changed`: with True if it is a new input, and with False if the last
    report had it already.

    Attributes:
        prompt: The question of the field.
        control: The control of the question.
        problem: The widget of the error message.
        touched: True once the user has changed something.
        widget: The box with the question, the control, and the error message.
    """

    def __init__(
        self,
        prompt: QuestionPrompt,
        changed: Callable[[bool], None],
        *,
        named: bool,
        in_form: bool = True,
    ) -> None:
        self.prompt = prompt
        self.control = make_question_control(prompt, in_form=in_form)
        self.problem = make_text("", "problem")
        self.touched = False
        self._changed = changed
        self._confirmed = False  # True if the next click confirms an empty answer
        self._reported: FormMessage = {}  # the last report of the page
        self._secret: Answered | None = None  # the last secret that was sent
        self._head = [*make_field_head(prompt)] if named else []
        self._stock_view: widgets.Widget | None = None
        self.widget = make_box("field")
        self._arrange(self.control.widget)

        if prompt.question.required:
            self.widget.add_class("jp-nb-needed")

        # The answer before the user has entered anything: the default, or none.
        self._initial = self.control.read_report({}, confirmed=False)
        self.control.observe(self._on_change)

    def _arrange(self, entry: widgets.Widget | None) -> None:
        entries = [] if entry is None else [entry]
        self.widget.children = [*self._head, *entries, self.problem]

    def use_stock_view(self, *, stock: bool) -> None:
        """Show the control with stock ipywidgets alone, or with its own widget again."""
        make_view = self.control.make_stock_view
        if make_view is None or stock == (self._stock_view is not None):
            return

        if self._stock_view is None:
            self._stock_view = make_view()
            self._arrange(self._stock_view)
        else:
            self._arrange(self.control.widget)
            close_widgets(self._stock_view)
            self._stock_view = None

    def close(self) -> None:
        """Close all widgets, also the one that a stock view replaces."""
        close_widgets(self.widget)
        if self.control.widget is not None:
            close_widgets(self.control.widget)

    def read_and_keep(self, reported: FormMessage) -> Answered | NoValidAnswer:
        """Return the reported value, and keep the report and a secret for later reads."""
        self._reported = reported
        result = self.control.read_report(reported, confirmed=self._confirmed)
        widget = self.control.widget
        if isinstance(widget, SecretField):
            return self._keep_secret(widget, result)
        return result

    def _keep_secret(
        self, widget: SecretField, result: Answered | NoValidAnswer
    ) -> Answered | NoValidAnswer:
        """Keep a secret, and return it if the password field is empty in a later read."""
        if isinstance(result, Answered):
            self._secret = result
            widget.hint = form_text.SECRET_KEPT
        elif result.may_stay_open and self._secret is not None:
            return self._secret

        return result

    def read_as_empty(self, reported: FormMessage) -> Answered | None:
        """Return the empty answer that the user could confirm; None if that is not valid."""
        result = self.control.read_report(reported, confirmed=True)
        return result if isinstance(result, Answered) else None

    def is_touched(self, reported: FormMessage) -> bool:
        """Return True if the user entered something, as the widget or `reported` shows."""
        result = self.control.read_report(reported, confirmed=False)
        return self.touched or result != self._initial

    def show_problem(self, words: str, *, confirm: bool = False) -> None:
        """Show an error; "" removes it. With `confirm`, the next click confirms an empty value."""
        self.problem.value = isolate_direction(upper_first(words))
        self._confirmed = confirm

    def _on_change(self) -> None:
        """Handle a change of the widget. The error message is about its previous content."""
        self.touched = True
        is_new = not self.control.matches(self._reported)  # the last report had another state
        if is_new:
            self.show_problem("")
        self._changed(is_new)
