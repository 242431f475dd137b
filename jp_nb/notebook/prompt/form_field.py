"""One field of a page of a form: a control with its error message.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable

from jp_nb.agent.prompting.prompts import Answered, QuestionPrompt
from jp_nb.notebook.prompt.answer_widgets import SecretField
from jp_nb.notebook.prompt.controls import make_question_control
from jp_nb.notebook.prompt.form_control import FormMessage, NoValidAnswer
from jp_nb.notebook.prompt.form_heads import make_field_head
from jp_nb.notebook.prompt.form_widgets import isolate_direction, make_box, make_text
from jp_nb.rendering.prompt_texts import form_text
from jp_nb.text import upper_first


class FormField:
    """A control with its error message. If it is `named`, its question is shown above it.

    After each change it calls `changed`: with True, or with False if the last click reported it.
    """

    def __init__(
        self, prompt: QuestionPrompt, changed: Callable[[bool], None], *, named: bool
    ) -> None:
        self.prompt = prompt
        self.control = make_question_control(prompt, in_form=True)
        self.problem = make_text("", "problem")
        self.touched = False
        self._changed = changed
        self._confirmed = False  # whether the user confirmed an empty answer
        self._reported: FormMessage = {}
        self._secret: Answered | None = None
        head = make_field_head(prompt) if named else ()
        entry = [] if self.control.widget is None else [self.control.widget]
        self.widget = make_box("field", *head, *entry, self.problem)

        if prompt.question.required:
            self.widget.add_class("jp-nb-needed")

        self._untouched = self.control.read({})
        self.control.observe(self._on_change)

    def read_and_keep(self, reported: FormMessage) -> Answered | NoValidAnswer:
        """Return the reported value, and keep the report and a secret for later reads."""
        self._reported = reported
        found = self.control.read({**reported, "confirmed": self._confirmed})
        widget = self.control.widget
        if isinstance(widget, SecretField):
            return self._keep_secret(widget, found)

        return found

    def _keep_secret(
        self, widget: SecretField, found: Answered | NoValidAnswer
    ) -> Answered | NoValidAnswer:
        # An empty password field means the secret that was sent before.
        if isinstance(found, Answered):
            self._secret = found
            widget.hint = form_text.SECRET_KEPT
        elif found.blank and self._secret is not None:
            return self._secret

        return found

    def read_as_empty(self, reported: FormMessage) -> Answered | None:
        """Return the empty answer that the user could confirm; None if that is not valid."""
        found = self.control.read({**reported, "confirmed": True})
        return found if isinstance(found, Answered) else None

    def is_touched(self, reported: FormMessage) -> bool:
        """Return True if the user entered something, as the widget or `reported` shows."""
        return self.touched or self.control.read(reported) != self._untouched

    def show_problem(self, words: str, *, confirm: bool = False) -> None:
        """Show an error; "" removes it. With `confirm`, the next click confirms an empty value."""
        self.problem.value = isolate_direction(upper_first(words))
        self._confirmed = confirm

    def _on_change(self) -> None:
        self.touched = True
        is_new = not self.control.matches(self._reported)
        if is_new:  # the message was about the previous content
            self.show_problem("")
        self._changed(is_new)
