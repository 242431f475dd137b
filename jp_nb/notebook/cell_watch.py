"""Watch the cells that a kernel runs: when they begin and end, and what they publish.

`CellWatch` replaces two functions of ipykernel. Each request has a status, `busy` at its begin and
`idle` at its end, which `_publish_status` of the kernel publishes. Each output leaves the kernel
through `send` of its session. `RunningCells` (`running_cells.py`) keeps the cells and outputs.

`%load_ext` loads this module, so it imports little.

Source: `docs/protocol.md`, `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jp_nb.notebook.kernel_requests import get_message_id
from jp_nb.notebook.published import Published
from jp_nb.notebook.running_cells import RunningCells


class CellWatch:
    """Watches the cells of a kernel, and keeps its status busy while one runs. Thread-safe.

    The object itself replaces the function `_publish_status` of the kernel. A page shows the newest
    status, whichever request it belongs to. So if another request ends while a cell runs, the
    kernel must stay busy.

    Attributes:
        cells: The running cells, and those that have ended while no page showed their outputs.
        send: The method of the session that `record_and_send` replaces; None if the kernel has no
            session.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._publish: Callable[..., None] = kernel._publish_status
        self.cells = RunningCells()
        self.cells.begin(kernel.get_parent("shell"))  # the cell that installs the watch

        session = getattr(kernel, "session", None)
        self.send: Callable[..., Any] | None = getattr(session, "send", None)
        if session is not None and self.send is not None:
            session.send = self.record_and_send

    @classmethod
    def of(cls, kernel: Any) -> CellWatch | None:
        """Return the watch of `kernel`; None if the kernel is not ipykernel's.

        The first call, in a running cell, installs it.
        """
        publish = getattr(kernel, "_publish_status", None)
        if isinstance(publish, cls):
            return publish
        if publish is None or not hasattr(kernel, "get_parent"):
            return None

        installed = kernel._publish_status = cls(kernel)
        return installed

    def __call__(self, status: str, channel: str, parent: Any = None) -> None:
        """Publish `status` for the request `parent`, and `busy` again if other cells still run."""
        request = parent or self._kernel.get_parent(channel) or {}
        request_id = get_message_id(request)

        with self.cells.lock:
            if status == "busy":
                self.cells.begin(request)
            elif status == "idle":
                self.cells.end(request_id)

            # The page would look idle only if a request has ended while a cell still runs.
            running = self.cells.find_latest()
            if status != "idle" or running is None or not request_id:
                return self._publish(status, channel, parent)

            # The page needs this `idle`, to end the request by its id. But JupyterLab 4.3 and later
            # do not show the status of some types of requests (`untracked_message_types`), so it
            # is published as if it were of such a type.
            header = {**request["header"], "msg_type": "kernel_info_request"}
            self._publish(status, channel, {**request, "header": header})

            # Other pages and servers show every status, so the kernel says again that it is busy.
            self._publish("busy", "shell", running.request)

    def record_and_send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a message as `Session.send` does. If it is an output, add it to its cell."""
        assert self.send is not None
        with self.cells.recording(Published.read(message, *args, **kwargs)):
            return self.send(stream, message, *args, **kwargs)


def watch_cells(kernel: Any) -> RunningCells | None:
    """Return the cells that `kernel` runs; None if the kernel is not ipykernel's.

    The first call, in a running cell, starts to watch.
    """
    watch = CellWatch.of(kernel)
    return watch.cells if watch is not None else None


def find_watched_cells(kernel: Any) -> RunningCells | None:
    """Return the cells of `kernel` if they are watched already. Any thread may call this."""
    publish = getattr(kernel, "_publish_status", None)
    return publish.cells if isinstance(publish, CellWatch) else None
