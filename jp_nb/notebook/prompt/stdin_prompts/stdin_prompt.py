"""The base of a prompt on stdin: the loop over the screens of its `FormDraft`.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from jp_nb.agent.prompting.form_draft import FormDraft, Screen
from jp_nb.agent.prompting.prompt_ends import AnyEnd
from jp_nb.agent.prompting.prompts import AnyPrompt
from jp_nb.notebook.prompt.running_cell.deadlines import Expired
from jp_nb.notebook.prompt.stdin_prompts.input_console import Console
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import StdinChannel, write_lines

TIME_IS_OVER: Final = "The time to answer is over."


class StdinPrompt(ABC):
    """One prompt, which the user controls by typing lines. Subclasses ask on its screens."""

    def __init__(self, prompt: AnyPrompt, console: Console, channel: StdinChannel) -> None:
        self._console = console
        self._channel = channel
        self._draft = FormDraft(prompt, channel)

    @abstractmethod
    def _write_head(self) -> None:
        """Write the lines above the first screen."""

    @abstractmethod
    def _ask_screen(self, screen: Screen) -> None:
        """Ask on the current screen once, and tell the draft the outcome."""

    @abstractmethod
    def _handle_end_of_input(self) -> None:
        """Leave the screen, because there is no input."""

    def run(self) -> AnyEnd:
        """Ask until the prompt ends."""
        draft = self._draft
        self._write_head()

        while draft.end is None:
            try:
                self._ask_screen(draft.screen)
            except Expired:
                self._write("", TIME_IS_OVER)  # below the unfinished line
                draft.expire()
            except EOFError:
                self._handle_end_of_input()

        return draft.end

    def _write(self, *lines: str) -> None:
        write_lines(self._console, lines)
