"""Outputs that show a form.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from jp_nb.notebook.display.turn import DisplayPublisher
from jp_nb.notebook.prompt.presence import running_kernel
from jp_nb.rendering.prompts import PromptSummary


class FormOutput(Protocol):
    """Shows a form: in an output of its own, or in the one that a turn has."""

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Show `bundle`. `so_far` takes what stood there before: the form shows it above itself."""
        ...

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Take the form away. A `note` is for now, a `record` for good."""
        ...

    def catch_up(self) -> None:
        """Show all that is to be shown before a question is asked on stdin."""
        ...


class SeparateOutput:
    """An output that only the form uses; implements `FormOutput`.

    `of_turn`: a turn shows it, not a tool.
    """

    def __init__(self, *, of_turn: bool = False) -> None:
        from IPython.display import publish_display_data  # not before somebody is asked

        publisher = DisplayPublisher(publish_display_data, running_kernel(), of_turn=of_turn)
        self._publish = publisher()

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Display the form below what the cell has drawn so far."""
        self._publish(bundle, update=False, final=False)

    def show_note(self, note: str) -> None:
        """Display `note` for now, until `end`."""
        self._publish(_note(note), update=False, final=False)

    def end(self, note: str | None, record: PromptSummary | None) -> None:
        """Put the note or the record where the form was."""
        data = _note(note) if note else {}
        if record is not None:
            data = {"text/plain": record.plain, "text/markdown": record.markdown}
        self._publish(data, update=True, final=not note)

    def catch_up(self) -> None:
        """Do nothing: all is shown."""


def _note(words: str) -> dict[str, str]:
    return {"text/plain": words, "text/markdown": words}
