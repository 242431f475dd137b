"""The person's side of the cells: which display shows a turn, and how prompts reach the person.

Source: `docs/architecture.md`, `docs/prompts.md`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from jp_nb.agent.prompts import FormPrompt, FormPromptEnd, Prompt, PromptEnd, Unavailable
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import StorageError
from jp_nb.notebook.display.capture import ToolOutput
from jp_nb.notebook.display.console import PrintedTurn, Printer
from jp_nb.notebook.display.turn import DisplayPublisher, TurnDisplay
from jp_nb.notebook.page.cells import read_cells
from jp_nb.notebook.page.live_store import NO_OPEN_PAGE, LiveStore
from jp_nb.notebook.page.locate import is_headless
from jp_nb.notebook.prompt.presence import Presence, PromptSettings
from jp_nb.notebook.prompt.prompter import NotebookPrompter
from jp_nb.rendering.turn import Transcript
from jp_nb.session.cell_loop import CellLoop
from jp_nb.session.host import RecordStore
from jp_nb.tools.notebook_access import CodeRun, NotebookCell, NotebookCells

if TYPE_CHECKING:
    pass


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

    def unavailable_reason(self, config: AppConfig) -> str | None:
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


PATIENCE_S: Final = 3.0
"""Seconds that a page has to tell its cells: it takes 0.1 as a rule."""


class KernelNotebook:
    """An IPython shell and the store of its notebook; implements `NotebookAccess`.

    Args:
        shell: The IPython shell.
        store: Keeps the record, and knows the page.
        ran: The cells that this kernel ran.
        failed: Is given what ended code, and the code.
    """

    def __init__(
        self,
        shell: Any,
        store: RecordStore,
        ran: Iterable[NotebookCell],
        *,
        failed: Callable[[BaseException, str], None] | None = None,
    ) -> None:
        self._shell = shell
        self._store = store
        self._ran = ran
        self._failed = failed

    @property
    def namespace(self) -> Mapping[str, Any]:
        """The user's variables, by name; only to be looked at on the cell's thread."""
        namespace: Mapping[str, Any] = self._shell.user_ns
        return namespace

    async def cells(self, whole: int | str | None = None) -> NotebookCells:
        """Return the cells as the page has them, or what this kernel ran, in order.

        The page is asked now and at no other time. It answers on the control channel, so the cell
        may run meanwhile.
        """
        store = self._store
        if not isinstance(store, LiveStore):
            return self._history(NO_OPEN_PAGE)
        try:
            async with asyncio.timeout(PATIENCE_S):
                text = await asyncio.wrap_future(store.ask_cells(whole))
                running = store.running_cells()
                cells = await asyncio.to_thread(read_cells, text, running)
        except TimeoutError:
            return self._history(f"the open page did not answer within {PATIENCE_S:g} s")
        except StorageError as exc:
            return self._history(str(exc))
        return NotebookCells(cells, "page")

    def _history(self, why: str) -> NotebookCells:
        """Return the cells that this kernel ran."""
        return NotebookCells(tuple(self._ran), "kernel", why)

    def execute(self, code: str) -> CodeRun:
        """Run `code` in the user's namespace; on the cell's thread."""
        from jp_nb.notebook.code_runs import run_code  # few turns run any

        return run_code(self._shell, code, self._failed)
