"""The running cells of a kernel, and their outputs so far.

`cell_watch.py` reports each request and each output of a kernel. A page that opens while a cell
runs gets the outputs from here. If no page is open when a cell ends, its outputs are kept as
*unseen*, for the next page. An *own* output is one that jp_nb displays, such as a turn.

`%load_ext` loads this module, so it imports little.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final

from jp_nb.notebook.cell_outputs import Bundle, CellOutputs
from jp_nb.notebook.kernel_requests import get_message_id
from jp_nb.notebook.published import OUTPUT_CHANGES, Published

MAX_ENDED: Final = 32
"""Limit of ended cells whose outputs no page has shown; the oldest is removed."""


@dataclass(slots=True)
class RunningCell:
    """A cell that runs, or that has ended while no page showed its outputs.

    Attributes:
        request: The Jupyter message `execute_request` that runs the cell.
        outputs: Its outputs so far.
        at_end: Functions that are called when it ends.
    """

    request: Mapping[str, Any]
    outputs: CellOutputs = field(default_factory=CellOutputs)
    at_end: list[Callable[[], None]] = field(default_factory=list)

    @property
    def session(self) -> str:
        """The session of the page that runs the cell."""
        header = self.request.get("header") or {}
        return str(header.get("session", ""))

    @property
    def cell_id(self) -> str:
        """The id of the cell in the notebook. Cells of consoles have none."""
        cell_id = (self.request.get("metadata") or {}).get("cellId", "")
        return cell_id if isinstance(cell_id, str) else ""

    @property
    def code(self) -> str:
        """The source that runs."""
        return str((self.request.get("content") or {}).get("code", ""))


class RunningCells:
    """Keeps the running cells and their outputs. Thread-safe.

    `lock` guards the cells, and each cell has a lock for its outputs. A thread that needs both
    takes `lock` first. Private methods are called with `lock` held. A thread that shows an output
    looks up its cell without `lock`, so that it does not wait while outputs are sent to a page.

    Attributes:
        lock: `CellWatch` also holds it while it publishes the kernel's status, because two requests
            may end at the same time.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        # By the ids of their requests: running cells, and ended ones that no page has shown.
        self._cells: dict[str, RunningCell] = {}
        self._unseen: dict[str, RunningCell] = {}
        self._process = os.getpid()

    # --- requests ----------------------------------------------------------------------------

    def begin(self, request: Any) -> None:
        """Add the cell that `request` runs. Other requests run none."""
        request_id = get_message_id(request)
        if request_id and request["header"].get("msg_type") == "execute_request":
            with self.lock:
                self._cells.setdefault(request_id, RunningCell(request))

    def end(self, request_id: str) -> None:
        """Remove the cell that the request with this id ran, and keep its outputs as unseen."""
        with self.lock:
            ended = self._cells.pop(request_id, None)
            if ended is None:
                return

            for function in ended.at_end:
                function()
            if ended.cell_id:
                self._keep_unseen(request_id, ended)

    def _keep_unseen(self, request_id: str, ended: RunningCell) -> None:
        """Keep the own outputs of an ended cell, in place of those of an earlier run."""
        for earlier, cell in list(self._unseen.items()):
            if cell.cell_id == ended.cell_id:
                del self._unseen[earlier]  # the page shows the last run of a cell

        if ended.outputs.has_own:
            self._unseen[request_id] = ended

        while len(self._unseen) > MAX_ENDED:
            del self._unseen[next(iter(self._unseen))]

    def find_latest(self) -> RunningCell | None:
        """Return the running cell that has begun last; None if no cell runs."""
        with self.lock:
            return next(reversed(self._cells.values()), None)

    def call_at_end(self, request: Mapping[str, Any], function: Callable[[], None]) -> None:
        """Call `function` when the cell that `request` runs has ended and its reply is sent.

        It is called with `lock` held.
        """
        with self.lock:
            cell = self._cells.get(get_message_id(request))
            if cell is not None:
                cell.at_end.append(function)

    def list_cell_ids(self) -> frozenset[str]:
        """Return the ids of the running cells."""
        with self.lock:
            return frozenset(cell.cell_id for cell in self._cells.values()) - {""}

    # --- outputs -----------------------------------------------------------------------------

    def set_output(
        self,
        request: Mapping[str, Any],
        display_id: str,
        data: Bundle,
        metadata: Bundle,
        *,
        update: bool = False,
    ) -> None:
        """Set the output `display_id` of the cell that `request` runs, as jp_nb displays it."""
        cell = self._cells.get(get_message_id(request))
        if cell is not None:
            with cell.outputs.lock:
                cell.outputs.set_own(display_id, data, metadata, update=update)

    @contextmanager
    def recording(self, published: Published) -> Iterator[None]:
        """Add an output to its cell if that runs. Send the message inside of the block.

        Nothing else is sent to a page inside of the block. So a page gets each output once: with
        the earlier outputs of the cell, or as a message that follows them.
        """
        cell = None
        # Another thread may have held the lock when this process was forked.
        is_forked = os.getpid() != self._process
        if published.kind in OUTPUT_CHANGES and not is_forked:
            cell = self._cells.get(str(published.parent.get("msg_id", "")))

        if cell is None:
            yield
            return

        with cell.outputs.lock:
            cell.outputs.add_published(published)
            yield

    def for_each_cell(self, send: Callable[[RunningCell], None], request_id: str = "") -> None:
        """Call `send` for each running notebook cell with own outputs. None ends during the call.

        `send` has to acquire the lock of the cell's outputs, as `recording` does.

        With a `request_id`, do so only for the cell that this request runs.
        """
        with self.lock:
            for running_id, cell in self._cells.items():
                is_selected = request_id in ("", running_id)
                if is_selected and cell.cell_id and cell.outputs.has_own:
                    send(cell)

    def for_each_unseen(self, send: Callable[[RunningCell], None]) -> None:
        """Call `send` for each cell that has ended while no page showed its outputs."""
        with self.lock:
            for cell in self._unseen.values():
                send(cell)

    def mark_seen(self, request_id: str) -> None:
        """Forget the outputs of the cell that the request ran: a page shows the final ones."""
        with self.lock:
            self._unseen.pop(request_id, None)
