"""The cells that run in this kernel, and what they show: for pages that look again meanwhile.

A page shows the newest status that a kernel published, whichever request it was about. While a
cell runs, other requests come and end (a message of the page on the control channel, a click, what
a page asks when it is loaded), and each ends with `idle`. `RunningCells` stands in front of the
kernel's own publisher and says `busy` again for as long as a cell runs.

It also keeps what our code shows in a cell until that ends, so that a page that was loaded again
before anything was saved can be given it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

Bundle = dict[str, Any]


@dataclass(slots=True)
class _Running:
    """A cell that runs: its request, and its outputs by display id."""

    request: Mapping[str, Any]
    outputs: dict[str, tuple[Bundle, Bundle]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CellOutputs:
    """The outputs of a running cell that our code shows.

    Attributes:
        request: The id of the request that runs the cell.
        session: Of the page that sent it.
        cell: The cell's id in the notebook.
        code: Its source as it was run.
        outputs: Display id, data and metadata of each output, in order.
    """

    request: str
    session: str
    cell: str
    code: str
    outputs: tuple[tuple[str, Bundle, Bundle], ...]


class RunningCells:
    """Keeps a kernel's status true, and what its running cells show. Safe from any thread."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._publish: Callable[..., None] = kernel._publish_status
        self._lock = RLock()  # or a cell's end and another request's would cross
        self._cells: dict[str, _Running] = {}
        self._begins(kernel.get_parent("shell"))

    @classmethod
    def of(cls, kernel: Any) -> RunningCells | None:
        """Return that of `kernel`, put in place if it has none; None if it cannot have one.

        Call it in a cell first: that cell runs.
        """
        publish = getattr(kernel, "_publish_status", None)
        if isinstance(publish, cls):
            return publish
        if publish is None or not hasattr(kernel, "get_parent"):
            return None
        made = kernel._publish_status = cls(kernel)
        return made

    def __call__(self, status: str, channel: str, parent: Any = None) -> None:
        """Publish `status`, as the kernel's own method does."""
        about = parent or self._kernel.get_parent(channel) or {}
        with self._lock:
            if status == "busy":
                self._begins(about)
            elif status == "idle":
                self._cells.pop(_id(about), None)
            if status != "idle" or not self._cells or not _id(about):
                return self._publish(status, channel, parent)
            self._publish(status, channel, _untracked(about))
            # For pages and servers that follow what every request ends with.
            self._publish("busy", "shell", next(reversed(self._cells.values())).request)

    def shows(
        self, request: Mapping[str, Any], display_id: str, data: Bundle, metadata: Bundle
    ) -> None:
        """Note that the cell which was run by `request` shows `data` under `display_id` now."""
        with self._lock:
            if (running := self._cells.get(_id(request))) is not None:
                running.outputs[display_id] = (data, metadata)

    def show_again(self, show: Callable[[CellOutputs], None]) -> None:
        """Call `show` with what is shown in each running cell: none of them ends meanwhile."""
        with self._lock:
            for running in self._cells.values():
                shown = _shown(running)
                if shown.cell and shown.outputs:
                    show(shown)

    def cell_ids(self) -> frozenset[str]:
        """Return the ids of the cells that run now, as far as their pages name them."""
        with self._lock:
            return frozenset(name for x in self._cells.values() if (name := _shown(x).cell))

    def _begins(self, request: Any) -> None:
        if (name := _id(request)) and request["header"].get("msg_type") == "execute_request":
            self._cells.setdefault(name, _Running(request))


def _untracked(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return `request` as one that says nothing about the kernel: its `idle` ends it alone.

    A page finds what waits for this end by the request's id, and leaves its own status as it is
    after requests of some types (`untracked_message_types`, JupyterLab 4.3 and later).
    """
    return {**request, "header": {**request["header"], "msg_type": "kernel_info_request"}}


def _id(request: Any) -> str:
    header = request.get("header") if isinstance(request, Mapping) else None
    return str(header.get("msg_id", "")) if isinstance(header, Mapping) else ""


def _shown(running: _Running) -> CellOutputs:
    cell = (running.request.get("metadata") or {}).get("cellId", "")
    code = (running.request.get("content") or {}).get("code", "")
    outputs = tuple((name, *output) for name, output in running.outputs.items())
    name = cell if isinstance(cell, str) else ""
    session = str(running.request["header"].get("session", ""))
    return CellOutputs(_id(running.request), session, name, str(code), outputs)
