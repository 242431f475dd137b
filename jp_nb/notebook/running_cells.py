"""The running cells of a kernel, their outputs so far, and the kernel's busy status.

`%load_ext` loads this module, so it imports little.

Source: `docs/protocol.md`, `docs/prompts.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final

from jp_nb.notebook.cell_outputs import Bundle, CellOutputs
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
    """Publishes the kernel's status, and keeps the running cells and their outputs. Thread-safe.

    The object itself replaces the function `_publish_status` of the kernel. A page shows the newest
    status, whichever request it belongs to. So if another request ends while a cell runs, the
    kernel must stay busy.

    It also replaces `send` of the kernel's session, through which all outputs leave the kernel.

    `_lock` guards the cells, and each cell has a lock for its outputs. A thread that needs both
    takes `_lock` first. Private methods are called with `_lock` held.

    Attributes:
        send: The method of the session that it replaces; None if the kernel has no session.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._publish: Callable[..., None] = kernel._publish_status
        self._lock = RLock()  # two requests may end at the same time
        # By the ids of their requests: running cells, and ended ones that no page has shown.
        self._cells: dict[str, RunningCell] = {}
        self._unseen: dict[str, RunningCell] = {}
        self._process = os.getpid()
        self._add(kernel.get_parent("shell"))

        session = getattr(kernel, "session", None)
        self.send: Callable[..., Any] | None = getattr(session, "send", None)
        if session is not None and self.send is not None:
            session.send = self.record_and_send

    @classmethod
    def of(cls, kernel: Any) -> RunningCells | None:
        """Return the publisher of `kernel`; None if it is not ipykernel's.

        The first call, in a running cell, installs it.
        """
        publish = getattr(kernel, "_publish_status", None)
        if isinstance(publish, cls):
            return publish
        if publish is None or not hasattr(kernel, "get_parent"):
            return None

        installed = kernel._publish_status = cls(kernel)
        return installed

    @classmethod
    def find(cls, kernel: Any) -> RunningCells | None:
        """Return the publisher of `kernel` if `of` has installed it. Any thread may call it."""
        publish = getattr(kernel, "_publish_status", None)
        return publish if isinstance(publish, cls) else None

    def __call__(self, status: str, channel: str, parent: Any = None) -> None:
        """Publish `status` for the request `parent`, and `busy` again if other cells still run."""
        request = parent or self._kernel.get_parent(channel) or {}
        with self._lock:
            if status == "busy":
                self._add(request)
            elif status == "idle":
                self._end(get_message_id(request))

            # The page would look idle only if a request has ended while a cell still runs.
            if status != "idle" or not self._cells or not get_message_id(request):
                return self._publish(status, channel, parent)

            # JupyterLab 4.3 and later ignore the status after some types of requests
            # (`untracked_message_types`), but still end the request by its id.
            header = {**request["header"], "msg_type": "kernel_info_request"}
            self._publish(status, channel, {**request, "header": header})
            # Other pages and servers use every status.
            latest_cell = next(reversed(self._cells.values()))
            self._publish("busy", "shell", latest_cell.request)

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

        Nothing else is sent to a page inside of the block, so that a page gets each output either
        with the outputs that the cell has, or as a message that follows them.
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

    def record_and_send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a message as `Session.send` does, and add an output to its cell."""
        assert self.send is not None
        with self.recording(Published.read(message, *args, **kwargs)):
            return self.send(stream, message, *args, **kwargs)

    def for_each_cell(self, send: Callable[[RunningCell], None], request: str = "") -> None:
        """Call `send` for each running notebook cell with own outputs. None ends during the call.

        With the id of a `request`, do so only for its cell.
        """
        with self._lock:
            for request_id, cell in self._cells.items():
                is_selected = request in ("", request_id)
                if is_selected and cell.cell_id and cell.outputs.has_own:
                    send(cell)

    def for_each_unseen(self, send: Callable[[RunningCell], None]) -> None:
        """Call `send` for each cell that has ended while no page showed its outputs."""
        with self._lock:
            for cell in self._unseen.values():
                send(cell)

    def mark_seen(self, request: str) -> None:
        """Forget the outputs of the cell that `request` ran: a page shows the final ones."""
        with self._lock:
            self._unseen.pop(request, None)

    def call_at_end(self, request: Mapping[str, Any], function: Callable[[], None]) -> None:
        """Call `function` when the cell that `request` runs has ended and its reply is sent."""
        with self._lock:
            cell = self._cells.get(get_message_id(request))
            if cell is not None:
                cell.at_end.append(function)

    def list_cell_ids(self) -> frozenset[str]:
        """Return the ids of the running cells."""
        with self._lock:
            return frozenset(cell.cell_id for cell in self._cells.values()) - {""}

    def _add(self, request: Any) -> None:
        """Add the cell that `request` runs. Other requests run none."""
        name = get_message_id(request)
        if name and request["header"].get("msg_type") == "execute_request":
            self._cells.setdefault(name, RunningCell(request))

    def _end(self, request: str) -> None:
        """Remove the cell that the request with this id ran, and keep its outputs as unseen."""
        ended = self._cells.pop(request, None)
        if ended is None:
            return

        for function in ended.at_end:
            function()
        if not ended.cell_id:
            return

        for earlier, cell in list(self._unseen.items()):
            if cell.cell_id == ended.cell_id:
                del self._unseen[earlier]  # the page shows the last run of a cell

        if ended.outputs.has_own:
            self._unseen[request] = ended

        while len(self._unseen) > MAX_ENDED:
            del self._unseen[next(iter(self._unseen))]


def get_message_id(request: Any) -> str:
    """Return the id of a Jupyter message; "" if it has none."""
    header = request.get("header") if isinstance(request, Mapping) else None
    return str(header.get("msg_id", "")) if isinstance(header, Mapping) else ""
