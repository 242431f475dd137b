"""Display of turns and prompts, and access of tools to the notebook's cells and variables.

Source: `docs/architecture.md`, `docs/prompts.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from jp_nb.agent.prompts import Unavailable
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import StorageError
from jp_nb.images import MEDIA_TYPES, Image
from jp_nb.notebook.code_runs import run_code
from jp_nb.notebook.collaborators import Collaborators
from jp_nb.notebook.display.console import PrintedTurn
from jp_nb.notebook.display.printed import PrintedTexts
from jp_nb.notebook.display.tool_output import ToolOutput
from jp_nb.notebook.display.turn_display import TurnDisplay
from jp_nb.notebook.display.turn_outputs import DisplayPublisher
from jp_nb.notebook.page.live_store import NO_OPEN_PAGE, LiveStore
from jp_nb.notebook.page.page_cells import MALFORMED_CELLS
from jp_nb.notebook.page.surroundings import is_headless
from jp_nb.notebook.prompt.presence import Presence
from jp_nb.notebook.prompt.prompter import NotebookPrompter
from jp_nb.rendering.status import TurnCounts
from jp_nb.rendering.transcript import Transcript
from jp_nb.session.cell_loop import CellLoop
from jp_nb.session.host import RecordStore
from jp_nb.toolkit.base import CellOutput, CellState, CodeRun, NotebookCell, NotebookCells


class NotebookFrontEnd:
    """Shows turns and prompts in the running cell, or in a terminal; implements `FrontEnd`."""

    def __init__(
        self, shell: Any, cell: CellLoop, run_in_agent_loop: Callable[[Callable[[], None]], None]
    ) -> None:
        self._shell = shell
        self._cell = cell
        self._run_in_agent_loop = run_in_agent_loop
        self.prompter = NotebookPrompter(cell)

    def unavailable_reason(self, config: AppConfig) -> str | None:
        """Return the reason why no user can answer in the running cell, or None."""
        route = Presence.here().route(config.prompt)
        return route.reason if isinstance(route, Unavailable) else None

    def begin_turn(self, config: AppConfig) -> TurnDisplay | PrintedTurn:
        """Return the display of a turn in the running cell. It also shows the turn's prompts."""
        display = self._make_display(config)
        self.prompter.cell_begins(config.prompt, place=display)
        return display

    def begin_question(self, config: AppConfig) -> None:
        """Show each prompt of the user's code in a separate output of the running cell."""
        self.prompter.cell_begins(config.prompt)

    def end(self) -> None:
        """Close all open prompts."""
        self.prompter.cell_ends()

    def cell_interrupted(self) -> None:
        """Ask nothing more in the cell, whose threads still run a turn."""
        self.prompter.cell_interrupted()

    def _make_display(self, config: AppConfig) -> TurnDisplay | PrintedTurn:
        kernel = getattr(self._shell, "kernel", None)
        live = kernel is not None and not is_headless(kernel)
        style = config.style
        interval = style.update_interval_ms / 1000
        is_console = kernel is None and sys.stdout.isatty()
        if live:
            is_console = Presence.here().is_console
        if is_console:
            return PrintedTurn(self._cell, show_tools=style.tool_call.show, interval=interval)

        tools = None
        printed = None
        show_end: Callable[[TurnCounts], None] | None = None
        if kernel is not None:
            tools = ToolOutput(kernel, hold=not live, interval=interval)
            printed = PrintedTexts()
            tools.clears = printed.clear
            show_end = partial(Collaborators.of(kernel).show_end, kernel.get_parent("shell"))

        transcript = Transcript(
            show_reasoning=style.reasoning.display not in ("hidden", "static"),
            show_tools=style.tool_call.show,
            image_hosts=style.remote_images,
        )
        return TurnDisplay(
            transcript,
            self._cell,
            DisplayPublisher(self._shell.display_pub.publish, kernel, of_turn=True),
            run_in_agent_loop=self._run_in_agent_loop,
            tools=tools,
            printed=printed,
            show_end=show_end,
            interval=interval,
            live=live,
        )


CELLS_TIMEOUT_S: Final = 3.0  # a page usually reports its cells within 0.1 s


@dataclass(frozen=True, slots=True)
class KernelNotebook:
    """Access of tools to the cells and variables of a notebook; implements `NotebookAccess`.

    `executed` are the cells that this kernel executed. `record_error` is called with the exception
    and the code if the code that a tool runs fails.
    """

    shell: Any
    store: RecordStore
    executed: Iterable[NotebookCell]
    record_error: Callable[[BaseException, str], None] | None = None

    @property
    def namespace(self) -> Mapping[str, Any]:
        """The user's variables, by name. Read it on the cell's thread only."""
        namespace: Mapping[str, Any] = self.shell.user_ns
        return namespace

    async def cells(self, whole: int | str | None = None) -> NotebookCells:
        """Return the cells of the open page, or the cells that this kernel executed.

        `whole` is the number or id of the cell whose images and longer text are returned. The page
        answers on the control channel, so it can answer while a cell runs.
        """
        store = self.store
        if not isinstance(store, LiveStore):
            return self._executed_cells(NO_OPEN_PAGE)

        try:
            async with asyncio.timeout(CELLS_TIMEOUT_S):
                text = await asyncio.wrap_future(store.ask_cells(whole))
                running = store.running_cells()
                cells = await asyncio.to_thread(read_cells, text, running)
        except TimeoutError:
            why = f"the open page did not answer within {CELLS_TIMEOUT_S:g} s"
            return self._executed_cells(why)
        except StorageError as exc:
            return self._executed_cells(str(exc))

        return NotebookCells(cells, "page")

    def _executed_cells(self, why: str) -> NotebookCells:
        return NotebookCells(tuple(self.executed), "kernel", why)

    def execute(self, code: str) -> CodeRun:
        """Run `code` in the user's namespace, on the cell's thread."""
        return run_code(self.shell, code, self.record_error)


_TYPES: Final = ("code", "markdown", "raw")
_KINDS: Final = ("stream", "display", "result", "error")


def read_cells(text: str, running: frozenset[str]) -> tuple[NotebookCell, ...]:
    """Parse a page's answer, a JSON list of cells.

    `running` are the ids of running cells. The page cannot distinguish these from queued cells.

    Raises:
        StorageError: It is no such list.
    """
    try:
        cells = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise StorageError(MALFORMED_CELLS) from exc

    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise StorageError(MALFORMED_CELLS)

    return tuple(_read_cell(number, cell, running) for number, cell in enumerate(cells))


def _read_cell(number: int, cell: Mapping[str, Any], running: frozenset[str]) -> NotebookCell:
    kind: Any = cell.get("type")
    if kind not in _TYPES:
        kind = "raw"
    count = cell.get("execution_count")
    if not isinstance(count, int) or isinstance(count, bool):
        count = None
    omitted = cell.get("left_out")
    if not isinstance(omitted, int):
        omitted = 0
    outputs = tuple(map(_read_output, _objects(cell.get("outputs"))))
    cell_id = _text(cell.get("id"))
    state: CellState

    if cell_id in running:
        state = "running"
    elif cell.get("busy") is True:
        state = "queued"
    elif any(output.kind == "error" for output in outputs):
        state = "failed"
    else:
        state = "done" if count is not None else "not run"

    return NotebookCell(
        number,
        _text(cell.get("source")),
        kind=kind,
        cell_id=cell_id,
        execution_count=count,
        state=state,
        outputs=outputs,
        edited=cell.get("edited") is True and count is not None,
        left_out=omitted,
    )


def _read_output(output: Mapping[str, Any]) -> CellOutput:
    kind: Any = output.get("kind")
    if kind not in _KINDS:
        kind = "display"
    images = filter(None, map(_read_image, _objects(output.get("images"))))
    return CellOutput(kind, _text(output.get("text")), tuple(images))


def _read_image(image: Mapping[str, Any]) -> Image | None:
    kind = image.get("type")
    data = image.get("data")
    if kind not in MEDIA_TYPES or not isinstance(data, str):
        return None

    try:
        return Image(kind, base64.b64decode(data))
    except (binascii.Error, ValueError):
        return None


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
