"""Show a form below the printed text of a turn in a console.

Some consoles can show a form. If this one does not, the question is asked on stdin soon after.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jp_nb.notebook.display.console import PrintedTurn
from jp_nb.notebook.prompt.forms.form_output import SeparateOutput
from jp_nb.rendering.prompt_texts.prompt_summary import PromptSummary


class FormBelowText:
    """Output of a form below the printed text of `turn`; implements `FormOutput`."""

    def __init__(self, turn: PrintedTurn) -> None:
        self._turn = turn
        self._form: SeparateOutput | None = None  # while a form is open

    def show(self, bundle: dict[str, Any], show_above: Callable[[dict[str, str]], None]) -> None:
        """Print all text, and display the MIME `bundle` of the form below it.

        `show_above` is for front ends that show the text inside of the form.
        """
        self._turn.catch_up()
        self._form = SeparateOutput()
        self._form.show(bundle, show_above)

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Replace the form with the `note`. The `record` is not shown: the answer is printed."""
        if self._form is not None:
            self._form.end(note, None)
            self._form = None

    def catch_up(self) -> None:
        """Print all text, because a question on stdin follows."""
        self._turn.catch_up()
