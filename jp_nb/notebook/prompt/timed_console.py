"""A console that gives each line of a form on stdin its own deadline.

Other prompts on stdin have one deadline in all (`prompt_view.py`).

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from typing import Any

from jp_nb.notebook.prompt.open_prompt import OpenPrompt
from jp_nb.notebook.prompt.running_cell.deadlines import Expired
from jp_nb.notebook.prompt.stdin_prompts.input_console import InputConsole


class Withdrawn(Exception):  # noqa: N818 - not an error
    """The asking code no longer waits for the answer."""


class TimedConsole(InputConsole):
    """A console with a deadline for each line."""

    def __init__(self, kernel: object | None, open_prompt: OpenPrompt[Any], timeout: float) -> None:
        super().__init__(kernel)
        self._open_prompt = open_prompt
        self._timeout = timeout

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return the line typed.

        Raises:
            Expired: The time of the line is over.
            Withdrawn: The prompt was withdrawn.
        """
        try:
            with self._open_prompt.begin_deadline(self._timeout):
                return super().read(prompt, secret=secret)
        except Expired:
            if self._open_prompt.withdrawn:
                raise Withdrawn from None
            raise
