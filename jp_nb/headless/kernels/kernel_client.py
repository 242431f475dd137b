"""nbclient's client, with bounds for the processes and the output of unattended kernels.

`Execution` (`execution.py`) makes one for each run. Without bounds, it differs from nbclient's
client only in its waits, which end when the kernel is ready, and when it has ended. `jp-nb run`
uses it so for one notebook. Workers of a batch set bounds.

Source: `docs/many-notebooks.md`, https://nbclient.readthedocs.io/.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty
from typing import Any, Final, TypeVar

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from nbclient import NotebookClient
from nbformat.v4 import new_output
from traitlets import default

from jp_nb.headless.kernels.cell_file import CellFile
from jp_nb.headless.kernels.kernel_processes import KernelProcesses, format_left_processes
from jp_nb.headless.kernels.kernel_template import KernelTemplate, can_fork

V = TypeVar("V")
MAX_CELL_OUTPUT_CHARS: Final = 20_000_000
"""Output of one cell of a batch that is kept. A notebook of this size still opens."""
RECONNECT_MS: Final = 10
"""Milliseconds between two attempts to connect to a kernel; 100 by default."""
REPLY_S: Final = 1.0
"""Seconds after which the question if a kernel is ready is asked again."""
STATUS_S: Final = 0.05
"""Seconds in which a ready kernel sends its status after its reply."""
MAX_MISSED_STATUSES: Final = 4
"""How often a kernel is asked that sends other messages, but no such status."""
END_POLL_S: Final = 0.01
"""Seconds between two looks at a kernel that shuts down; 0.1 in `jupyter_client`."""


@dataclass(frozen=True, slots=True)
class KernelBounds:
    """Bounds of a kernel; None: no such bound.

    Attributes:
        processes: Ends what the kernel leaves, and the kernel if this program is killed.
        terminate_after_s: Seconds after an interrupt at which the kernel gets SIGTERM.
        max_cell_output_chars: Output of a cell beyond which further output is dropped.
        template: The process from which kernels are forked.
    """

    processes: KernelProcesses | None = None
    terminate_after_s: float | None = None
    max_cell_output_chars: int | None = None
    template: KernelTemplate | None = None


class PromptKernelClient(AsyncKernelClient):
    """Waits for a kernel until it is ready, and no longer.

    `jupyter_client` waits until a kernel has been silent for 0.2 seconds. Its status after the
    reply says the same at once.
    """

    def start_channels(self, *args: Any, **options: Any) -> None:
        """Connect, and try again often: the kernel listens only after its imports."""
        self.context.reconnect_ivl = RECONNECT_MS
        super().start_channels(*args, **options)

    async def wait_for_ready(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until the kernel answers on all channels.

        Raises:
            RuntimeError: The kernel ended, or did not answer in `timeout` seconds.
        """
        end = time.monotonic() + timeout if timeout is not None else None
        missed = 0

        while True:
            self.kernel_info()
            reply = await self._read_info_reply()
            if reply is not None:
                is_connected, is_idle = await self._read_status(reply)
                missed += is_connected
                if is_idle or missed > MAX_MISSED_STATUSES:
                    self._handle_kernel_info_reply(reply)
                    return

            if not await self.is_alive():
                raise RuntimeError("Kernel died before replying to kernel_info")
            if end is not None and time.monotonic() > end:
                raise RuntimeError(f"Kernel didn't respond in {timeout:.0f} seconds")

    async def _read_info_reply(self) -> dict[str, Any] | None:
        try:
            reply: dict[str, Any] = await self.get_shell_msg(timeout=REPLY_S)
        except Empty:
            return None
        return reply if reply["msg_type"] == "kernel_info_reply" else None

    async def _read_status(self, reply: dict[str, Any]) -> tuple[bool, bool]:
        """Return if there were messages after `reply`, and if one says that it was the last."""
        request = reply["parent_header"].get("msg_id")
        is_connected = False
        while True:
            try:
                message = await self.get_iopub_msg(timeout=STATUS_S)
            except Empty:  # the channel was not yet connected
                return is_connected, False
            is_connected = True
            is_idle = message["content"].get("execution_state") == "idle"
            if is_idle and message["parent_header"].get("msg_id") == request:
                return True, True


class RunKernelManager(AsyncKernelManager):
    """Starts kernels of IPython as forks of `template`, if there is one, and notices ends soon."""

    template: KernelTemplate | None = None

    @default("client_factory")
    def _make_client_factory(self) -> type[AsyncKernelClient]:
        return PromptKernelClient

    async def _async_finish_shutdown(
        self,
        waittime: float | None = None,
        pollinterval: float = END_POLL_S,
        restart: bool = False,
    ) -> None:
        await super()._async_finish_shutdown(waittime, pollinterval, restart)

    async def _async_launch_kernel(self, kernel_cmd: list[str], **options: Any) -> None:
        provisioner: Any = self.provisioner
        is_local = isinstance(provisioner, LocalProvisioner)
        if self.template is None or not is_local or not can_fork(kernel_cmd):
            await super()._async_launch_kernel(kernel_cmd, **options)
            return

        cwd = str(options.get("cwd") or os.getcwd())
        kernel = self.template.fork(kernel_cmd, cwd=cwd, env=options["env"])
        provisioner.process = kernel
        provisioner.pid = kernel.pid
        provisioner.pgid = os.getpgid(kernel.pid)
        self._reconcile_connection_info(provisioner.connection_info)


class KernelClient(NotebookClient):
    """Client of one kernel with `bounds`.

    Attributes:
        warnings: Warnings for the user about the kernel's processes and output.
    """

    def __init__(
        self, notebook: Any, *, bounds: KernelBounds, cell_file: CellFile, **options: Any
    ) -> None:
        super().__init__(notebook, kernel_manager_class=RunKernelManager, **options)
        self.warnings: list[str] = []
        self._bounds = bounds
        self._sizes: dict[int, int] = {}
        self._cell_file = cell_file
        self._is_ordering = False

    async def async_start_new_kernel(self, **options: Any) -> None:
        """Start the kernel, and watch its processes."""
        if isinstance(self.km, RunKernelManager):
            self.km.template = self._bounds.template
        await super().async_start_new_kernel(**options)
        provisioner = getattr(self.km, "provisioner", None)
        pid = getattr(provisioner, "pid", None)
        if self._bounds.processes is not None and pid is not None:
            self._bounds.processes.add(pid)

    async def async_execute_cell(
        self,
        cell: Any,
        cell_index: int,
        execution_count: int | None = None,
        store_history: bool = True,
    ) -> Any:
        """Execute all cells in the order of the notebook, which the cells may change.

        nbclient calls this for each cell that it finds. The first call executes all of them.
        """
        if not self._is_ordering:
            self._is_ordering = True
            await self._execute_in_order()
        return cell

    async def _execute_in_order(self) -> None:
        done: list[Any] = []
        current: Any = None

        while True:
            found = self._find_next(current, done)
            if found is None:
                return

            index, current = found
            done.append(current)
            count = self.code_cells_executed + 1
            try:
                await super().async_execute_cell(current, index, execution_count=count)
            finally:
                self._apply_edits()
                # Cells that ran in a turn have numbers of the kernel, too.
                last_count = self._cell_file.last_count
                self.code_cells_executed = max(self.code_cells_executed, last_count)

    def _find_next(self, current: Any, done: list[Any]) -> tuple[int, Any] | None:
        """Return the first cell below `current` that is to be executed, and its index."""
        cells = self.nb.cells
        start = 0
        if current is not None:
            [start] = [index + 1 for index, cell in enumerate(cells) if cell is current]

        for index in range(start, len(cells)):
            cell = cells[index]
            is_done = any(each is cell for each in done)
            if not is_done and not self._cell_file.is_skipped(cell):
                return index, cell
        return None

    def _apply_edits(self) -> None:
        """Apply the edits of the cell that ended, and keep what nbclient knows by index."""
        before = list(self.nb.cells)
        if not self._cell_file.apply_reported():
            return

        indices = {id(cell): index for index, cell in enumerate(self.nb.cells)}
        moved = {old: indices.get(id(cell)) for old, cell in enumerate(before)}
        self._sizes = _move_keys(self._sizes, moved)
        for display_id, places in self._display_id_map.items():
            self._display_id_map[display_id] = _move_keys(places, moved)

        # A cell with a new source has lost its outputs.
        for places in self._display_id_map.values():
            for index, outputs in places.items():
                count = len(self.nb.cells[index].get("outputs", ()))
                places[index] = [each for each in outputs if each < count]

    def end_processes(self) -> None:
        """End what the kernel has left. Call it after the kernel has ended."""
        if self._bounds.processes is None:
            return
        left = self._bounds.processes.end()
        if left:
            self.warnings.append(format_left_processes(left))

    def clear_output(self, outs: list[Any], msg: Any, cell_index: int) -> None:
        """Clear the outputs of a cell, which may then have new ones."""
        super().clear_output(outs, msg, cell_index)
        self._sizes.pop(cell_index, None)

    def output(self, outs: list[Any], msg: Any, display_id: str | None, cell_index: int) -> Any:
        """Add an output to a cell, unless the cell has too much of it."""
        limit = self._bounds.max_cell_output_chars
        if limit is None:
            return super().output(outs, msg, display_id, cell_index)

        content = msg["content"]
        before = self._sizes.get(cell_index, 0)
        size = before + _count_chars(content)
        self._sizes[cell_index] = size
        if size <= limit or msg["msg_type"] == "error":
            return super().output(outs, msg, display_id, cell_index)
        if before > limit:
            return None

        if msg["msg_type"] == "stream":
            text = content["text"][: limit - before]
            outs.append(new_output("stream", name=content["name"], text=text))
        note = f"cell {cell_index + 1} has more than {limit:,} characters of output"
        self.warnings.append(f"{note}: the rest was dropped")
        outs.append(new_output("stream", name="stderr", text=f"\n[jp-nb: {note}]\n"))
        return None


def _move_keys(values: Mapping[int, V], moved: Mapping[int, int | None]) -> dict[int, V]:
    """Return `values` with the new index of each cell, without those of deleted cells."""
    kept: dict[int, V] = {}
    for old, value in values.items():
        index = moved.get(old)
        if index is not None:
            kept[index] = value
    return kept


def _count_chars(content: Any) -> int:
    text = content.get("text")
    if isinstance(text, str):
        return len(text)
    data = content.get("data", {})
    texts = (each if isinstance(each, str) else json.dumps(each) for each in data.values())
    return sum(map(len, texts))
