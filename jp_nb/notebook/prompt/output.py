"""Outputs of the running cell that show a form.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from jp_nb.notebook.display.turn import DisplayPublisher
from jp_nb.notebook.prompt.presence import running_kernel
from jp_nb.rendering.prompts import PromptSummary


class FormOutput(Protocol):
    """Output that shows a form: a separate one, or the output of a turn."""

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Show the form `bundle`.

        An output that already has content calls `so_far` to show it above the form.
        """
        ...

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Replace the form with a temporary `note` or a permanent `record`."""
        ...

    def catch_up(self) -> None:
        """Show all pending output before a question is asked on stdin."""
        ...


class SeparateOutput:
    """An output that only the form uses; implements `FormOutput`.

    Args:
        of_turn: True if the form belongs to a turn, not to a tool.
    """

    def __init__(self, *, of_turn: bool = False) -> None:
        from IPython.display import publish_display_data  # imported only when a user is asked

        publisher = DisplayPublisher(publish_display_data, running_kernel(), of_turn=of_turn)
        self._publish = publisher()

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Display the form below the current outputs of the cell."""
        self._publish(bundle, update=False, final=False)

    def show_note(self, note: str) -> None:
        """Display `note` until `end` is called."""
        self._publish(_note(note), update=False, final=False)

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Replace the form with the note or the record."""
        data = _note(note) if note else {}
        if record is not None:
            data = {"text/plain": record.plain, "text/markdown": record.markdown}
        self._publish(data, update=True, final=not note)

    def catch_up(self) -> None:
        """Do nothing, because nothing is pending."""


def _note(words: str) -> dict[str, str]:
    return {"text/plain": words, "text/markdown": words}
