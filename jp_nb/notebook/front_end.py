"""Display of turns and prompts in the running cell, or in a terminal.

A turn is shown as outputs of the cell (`TurnDisplay`) if a notebook can show them, else it is
printed (`PrintedTurn`).

Source: `docs/architecture.md`, `docs/prompts.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from jp_nb.agent.prompting.prompt_ends import Unavailable
from jp_nb.config.tree.app import AppConfig, Style
from jp_nb.notebook.display.cell_output import OutputFactory
from jp_nb.notebook.display.console import PrintedTurn
from jp_nb.notebook.display.printed import PrintedTexts
from jp_nb.notebook.display.tool_output import ToolOutput
from jp_nb.notebook.display.turn_display import TurnDisplay
from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.page.surroundings import is_headless
from jp_nb.notebook.prompt.forms.console_form import FormBelowText
from jp_nb.notebook.prompt.forms.form_output import FormOutput
from jp_nb.notebook.prompt.prompter import NotebookPrompter
from jp_nb.notebook.prompt.running_cell.presence import Presence
from jp_nb.rendering.transcripts.transcript import Transcript
from jp_nb.rendering.turn_counts import TurnCounts
from jp_nb.session.threads.cell_loop import CellLoop


class NotebookFrontEnd:
    """Shows turns and prompts in the running cell, or in a terminal.

    Implements `FrontEnd` (`session/host.py`). A turn calls `begin_turn`, and then `end`. A question
    that the user's code asks outside of a turn calls `begin_question` and `end`.

    Args:
        shell: The IPython shell.
        cell: Runs jobs on the cell's thread while a turn runs: displays and prompts.
        run_in_agent_loop: Runs a function on the event loop of the agent's thread.
    """

    def __init__(
        self, shell: Any, cell: CellLoop, run_in_agent_loop: Callable[[Callable[[], None]], None]
    ) -> None:
        self._shell = shell
        self._cell = cell
        self._run_in_agent_loop = run_in_agent_loop
        self.prompter = NotebookPrompter(cell)

    def find_unavailable_reason(self, config: AppConfig) -> str | None:
        """Return the reason why no user can answer in the running cell, or None."""
        route = Presence.detect().choose_route(config.prompt)
        return route.reason if isinstance(route, Unavailable) else None

    def begin_turn(self, config: AppConfig) -> TurnDisplay | PrintedTurn:
        """Return the display of a turn in the running cell. It also shows the turn's prompts."""
        display = self._make_display(config)

        # Forms are shown at the end of the turn's outputs, or in an output below the printed text.
        place: FormOutput | None = None
        match display:
            case TurnDisplay():
                place = display
            case PrintedTurn():
                place = FormBelowText(display)

        self.prompter.cell_begins(config.prompt, place=place)
        return display

    def begin_question(self, config: AppConfig) -> None:
        """Show each prompt of the user's code in a separate output of the running cell."""
        self.prompter.cell_begins(config.prompt)

    def end(self) -> None:
        """Close all open prompts."""
        self.prompter.cell_ends()

    def cell_interrupted(self) -> None:
        """Show no further prompt in the cell: it has ended, but another thread runs a turn."""
        self.prompter.cell_interrupted()

    def _make_display(self, config: AppConfig) -> TurnDisplay | PrintedTurn:
        """Return the display for the running cell: printed in a console or a terminal."""
        kernel = getattr(self._shell, "kernel", None)
        is_live = kernel is not None and not is_headless(kernel)

        # Jupyter Console has a kernel, but no cells. IPython in a terminal has no kernel.
        is_console = kernel is None and sys.stdout.isatty()
        if is_live:
            is_console = Presence.detect().is_console

        if is_console:
            style = config.style
            interval = style.update_interval_ms / 1000
            return PrintedTurn(self._cell, show_tools=style.tool_call.show, interval=interval)

        return self._make_turn_display(config.style, kernel, is_live=is_live)

    def _make_turn_display(self, style: Style, kernel: Any, *, is_live: bool) -> TurnDisplay:
        """Return the display of a turn as outputs of the cell.

        In a headless run (not `is_live`), outputs are published once, in their final form and
        order. So the outputs of tools are held back until then.
        """
        interval = style.update_interval_ms / 1000

        # Without a kernel, tools have no outputs that could be watched.
        tools = None
        printed = None
        show_end: Callable[[TurnCounts], None] | None = None
        if kernel is not None:
            tools = ToolOutput(kernel, hold=not is_live, interval=interval)
            printed = PrintedTexts()
            tools.on_clear = printed.clear  # a tool that clears its outputs also clears its text
            show_end = partial(KernelPages.of(kernel).show_turn_end, kernel.get_parent("shell"))

        # `static` is a fixed text in place of the reasoning. Here, the status line is that text.
        hides_reasoning = style.reasoning.display in ("hidden", "static")
        transcript = Transcript(
            show_reasoning=not hides_reasoning,
            show_tools=style.tool_call.show,
            image_hosts=style.remote_images,
        )
        return TurnDisplay(
            transcript,
            self._cell,
            OutputFactory(self._shell.display_pub.publish, kernel, of_turn=True),
            run_in_agent_loop=self._run_in_agent_loop,
            tools=tools,
            printed=printed,
            show_end=show_end,
            interval=interval,
            live=is_live,
        )
