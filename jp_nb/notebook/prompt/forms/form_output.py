"""The output of a cell that shows a form, and the text that replaces the form.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from jp_nb.notebook.display.cell_output import OutputFactory
from jp_nb.notebook.prompt.running_cell.running_kernel import get_running_kernel
from jp_nb.rendering.prompt_texts.prompt_summary import PromptSummary


class FormOutput(Protocol):
    """Output that shows a form: a separate one, or the output of a turn.

    `SeparateOutput`, `FormBelowText`, and `TurnDisplay` implement it.
    """

    def show(self, bundle: dict[str, Any], show_above: Callable[[dict[str, str]], None]) -> None:
        """Show the form `bundle`.

        An output that has content already calls `show_above` with it, and the form shows it above.
        """

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Replace the form with a temporary `note` or a permanent `record`."""

    def catch_up(self) -> None:
        """Show all pending output before a question is asked on stdin."""


class SeparateOutput:
    """An output that only the form uses. It implements `FormOutput`.

    With `of_turn`, it belongs to the turn, and not to the output of a tool.
    """

    def __init__(self, *, of_turn: bool = False) -> None:
        from IPython.display import publish_display_data  # imported only when a user is asked

        kernel = get_running_kernel()
        self._publish = OutputFactory(publish_display_data, kernel, of_turn=of_turn)()

    def show(self, bundle: dict[str, Any], show_above: Callable[[dict[str, str]], None]) -> None:
        """Display the form below the current outputs of the cell."""
        self._publish(bundle, update=False, final=False)

    def show_note(self, note: str) -> None:
        """Display `note` until `end` is called."""
        self._publish(_make_bundle(note), update=False, final=False)

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Replace the form with the note or the record."""
        data = _make_bundle(note) if note else {}
        if record is not None:
            data = {"text/plain": record.plain, "text/markdown": record.markdown}
        # A note is temporary: it can be replaced later.
        self._publish(data, update=True, final=not note)

    def catch_up(self) -> None:
        """Do nothing, because nothing is pending."""


def _make_bundle(words: str) -> dict[str, str]:
    return {"text/plain": words, "text/markdown": words}
