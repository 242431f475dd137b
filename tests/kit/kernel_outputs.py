"""Outputs of running code: those that a page gets that opens later, and those for the model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jp_nb.notebook.cell_watch import watch_cells
from jp_nb.notebook.running_cells import RunningCell


class BusyKernel:
    """A kernel whose request `first` runs the cell `cell of first`. It only collects messages.

    Attributes:
        statuses: Each published status, with its request and the type of the request.
    """

    def __init__(self) -> None:
        self.statuses: list[tuple[str, str, str]] = []
        self._parents = {
            "shell": self.request("first", code="1"),
            "control": self.request("control", "comm_msg"),
        }
        self._kernel: Any = SimpleNamespace(
            session=SimpleNamespace(send=lambda *_, **__: None),
            get_parent=lambda channel: self._parents[channel],
            _publish_status=self._publish_status,
        )
        cells = watch_cells(self._kernel)
        assert cells is not None
        assert watch_cells(self._kernel) is cells
        self._cells = cells

    @staticmethod
    def is_watched(kernel: Any) -> bool:
        """Return True if the cells of `kernel` would be watched."""
        return watch_cells(kernel) is not None

    @staticmethod
    def request(name: str, kind: str = "execute_request", **content: Any) -> dict[str, Any]:
        """Return the message with the id `name`."""
        header = {"msg_id": name, "msg_type": kind}
        return {"header": header, "metadata": {"cellId": f"cell of {name}"}, "content": content}

    def set_status(self, status: str, channel: str = "shell", request: Any = None) -> None:
        """Publish the status of a request, by default of the one that runs on the channel."""
        self._kernel._publish_status(status, channel, request)

    def publish(self, kind: str, **content: Any) -> None:
        """Publish an output of the running cell, as user code does."""
        self._kernel.session.send(None, kind, content, self._parents["shell"])

    def show_own(
        self, display_id: str, data: Any, metadata: Any = None, *, request: Any = None
    ) -> None:
        """Show an output of jp_nb, by default in the running cell."""
        about = request or self._parents["shell"]
        self._cells.set_output(about, display_id, data, metadata or {})

    def outputs(self, *, with_printed: bool = True) -> list[Any]:
        """Return the outputs of the running cell as a page gets them."""
        return self._cells._cells["first"].outputs.to_json(with_printed=with_printed)

    def cells(self) -> list[dict[str, Any]]:
        """Return the running cells with outputs of jp_nb, with the headers of their requests."""
        found: list[RunningCell] = []
        self._cells.for_each_cell(found.append)
        return [
            cell.request["header"]
            | {"session": cell.session, "id": cell.cell_id, "code": cell.code}
            for cell in found
        ]

    def _publish_status(self, status: str, channel: str, parent: Any = None) -> None:
        header = (parent or self._parents[channel])["header"]
        self.statuses.append((status, header["msg_id"], header["msg_type"]))
