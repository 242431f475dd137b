"""Access of tools to the notebook: the interface, and the cells and outputs that it returns.

`NotebookAccess` is None in a `ToolContext` without a notebook.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from jp_nb.images import Image

if TYPE_CHECKING:  # most turns edit no cells
    from jp_nb.toolkit.editing.document_cells import DocumentCells
    from jp_nb.toolkit.editing.document_change import CellChange, ChangeResult

CellState = Literal["running", "queued", "done", "failed", "not run", "ran"]
"""`ran` means that the kernel does not know if the cell failed."""


@dataclass(frozen=True, slots=True)
class CellOutput:
    """One output of a cell.

    Attributes:
        kind: `result` for the value of the last line, `display` for other displayed values,
            `stream` for printed text, and `error` for an exception.
        text: The text; of an error, the traceback without terminal escapes.
        images: Its images.
    """

    kind: Literal["stream", "display", "result", "error"]
    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """One cell.

    Attributes:
        number: Its position in the notebook, from 1, as JupyterLab counts in its status bar.
        source: Its source, which may be cut (`left_out`).
        kind: Its type.
        cell_id: Its id; "" if it is not known.
        execution_count: The number of its last run; None if it did not run.
        state: The state of its last run; `not run` without one.
        outputs: The outputs, with images only for the cell that was requested.
        edited: True if the source changed after the last run.
        left_out: Number of omitted characters of a long source and its outputs together.
    """

    number: int
    source: str
    kind: Literal["code", "markdown", "raw"] = "code"
    cell_id: str = ""
    execution_count: int | None = None
    state: CellState = "not run"
    outputs: tuple[CellOutput, ...] = ()
    edited: bool = False
    left_out: int = 0

    @property
    def version(self) -> str:
        """The version of its source for edits; "" if the source may be cut (`left_out`)."""
        from jp_nb.toolkit.editing.document_cells import cell_version

        return "" if self.left_out else cell_version(self.source)


@dataclass(frozen=True, slots=True)
class NotebookCells:
    """The cells of a notebook.

    Attributes:
        cells: The cells, in order.
        source_view: `page` for the open document, and `file` for the file of a headless run. With
            `kernel`, these are the cells that the kernel ran, in that order, without outputs.
        why: The reason for the view `kernel`, such as that no page answers; "" for the others.
    """

    cells: tuple[NotebookCell, ...]
    source_view: Literal["page", "file", "kernel"]
    why: str = ""


@dataclass(frozen=True, slots=True)
class CodeRun:
    """Result of executed code.

    Attributes:
        outputs: Its outputs, with the value of the last expression.
        error: Type and text of the exception; None without one.
        frames: The lines of the code and of cells in the traceback of the exception.
    """

    outputs: tuple[CellOutput, ...] = ()
    error: str | None = None
    frames: str = ""


class NotebookAccess(Protocol):
    """Access to the notebook in which a turn runs. The front end implements it."""

    @property
    def namespace(self) -> Mapping[str, Any]:
        """The user's variables by name. Read them only in the cell's thread."""
        ...

    async def cells(self, whole: int | str | None = None) -> NotebookCells:
        """Return the cells of the open page, or of the kernel if no page answers.

        Call it in the agent's event loop. Images and longer text are those of the cell with the
        number or id `whole`.
        """
        ...

    @property
    def is_shared(self) -> bool:
        """True if several users may edit the open notebook at the same time."""
        ...

    async def document(self) -> DocumentCells:
        """Return the cells that may be edited, with their whole sources.

        Call it in the agent's event loop.

        Raises:
            ToolError: Nothing can be edited here. The message has the reason and the remedy.
        """
        ...

    async def change(self, change: CellChange) -> ChangeResult:
        """Change the document if its cells are as expected, as a whole or not at all.

        Call it in the agent's event loop.
        """
        ...

    def offer(self, sources: Sequence[tuple[str, str]]) -> None:
        """Give the user new cells that no program can insert, by their types and sources.

        Call it in the cell's thread.
        """
        ...

    def run_cell(self, cell_id: str, source: str) -> CodeRun:
        """Run the cell with this id, which has this source.

        Call it in the cell's thread, where it can raise `KeyboardInterrupt`.
        """
        ...

    def execute(self, code: str) -> CodeRun:
        """Run `code` like a cell. Its outputs appear in the running cell.

        Call it in the cell's thread, where it can raise `KeyboardInterrupt`.
        """
        ...
