"""The person's side of the cells: which display shows a turn, and how prompts reach the person.

Source: `docs/architecture.md`, `docs/prompts.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from jp_nb.agent.prompts import FormPrompt, FormPromptEnd, Prompt, PromptEnd, Unavailable
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.notebook.display_publisher import DisplayPublisher
from jp_nb.notebook.document.finding import is_headless
from jp_nb.notebook.printed_turn import PrintedTurn, Printer
from jp_nb.notebook.prompt.engine import NotebookPrompter
from jp_nb.notebook.prompt.presence import Presence, PromptSettings
from jp_nb.notebook.tool_output import ToolOutput
from jp_nb.notebook.turn_display import TurnDisplay
from jp_nb.rendering.transcript import Transcript
from jp_nb.session.cell_loop import CellLoop


class NotebookFrontEnd:
    """Displays and prompts of a kernel's cells, or of a terminal; implements `FrontEnd`.

    Args:
        shell: The IPython shell.
        cell: What the cell's thread does while it waits.
        elsewhere: Has a job run on the agent's loop.
    """

    def __init__(
        self, shell: Any, cell: CellLoop, elsewhere: Callable[[Callable[[], None]], None]
    ) -> None:
        self._shell = shell
        self._cell = cell
        self._elsewhere = elsewhere
        self.prompter = NotebookPrompter(cell)

    def nobody(self, config: AppConfig) -> str | None:
        """Return why nobody can be asked in the running cell; None if somebody may be there."""
        route = Presence.here().route(_prompt_settings(config))
        return route.reason if isinstance(route, Unavailable) else None

    def begin_turn(self, config: AppConfig) -> TurnDisplay | PrintedTurn:
        """Return what shows a turn in the running cell; prompts are put there from now on."""
        display = self._display(config)
        self.prompter.cell_begins(_prompt_settings(config), place=display)
        return display

    def begin_question(self, config: AppConfig) -> None:
        """Have prompts of ordinary code put in outputs of their own in the running cell."""
        self.prompter.cell_begins(_prompt_settings(config))

    def ask_form_here(self, prompt: FormPrompt, *, keeps_record: bool) -> FormPromptEnd:
        """Put `prompt` to the person as `ask_here` does."""
        return self.prompter.ask_form_here(prompt, keeps_record=keeps_record)

    def ask_here(self, prompt: Prompt, *, keeps_record: bool) -> PromptEnd:
        """Put `prompt` to the person and wait, on the cell's thread."""
        return self.prompter.ask_here(prompt, keeps_record=keeps_record)

    def end(self) -> None:
        """Take away whatever is still open."""
        self.prompter.cell_ends()

    def _display(self, config: AppConfig) -> TurnDisplay | PrintedTurn:
        kernel = getattr(self._shell, "kernel", None)
        live = kernel is not None and not is_headless(kernel)
        style = config.style
        interval = style.update_interval_ms / 1000
        here = Presence.here()
        if here.is_console if live else kernel is None and sys.stdout.isatty():
            printer = Printer(show_tools=style.tool_call.show)
            return PrintedTurn(printer, self._cell, interval=interval)
        tools = None
        if kernel is not None:
            tools = ToolOutput(kernel, hold=not live, interval=interval)
        transcript = Transcript(
            show_reasoning=style.reasoning.display not in ("hidden", "static"),
            show_tools=style.tool_call.show,
            image_hosts=style.remote_images,
        )
        return TurnDisplay(
            transcript,
            self._cell,
            DisplayPublisher(self._shell.display_pub.publish, kernel, of_turn=True),
            elsewhere=self._elsewhere,
            tools=tools,
            interval=interval,
            live=live,
        )


def _prompt_settings(config: AppConfig) -> PromptSettings:
    return PromptSettings(
        channel=config.prompt.channel,
        rendered_timeout=config.prompt.rendered_timeout_s,
        timeout=config.prompt.timeout_s,
        notify=config.prompt.notify == "on",
    )
