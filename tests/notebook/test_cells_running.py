"""Status messages while cells run, with a kernel that only collects published messages."""

from __future__ import annotations

import os
from typing import Any

import pytest

from jp_nb.notebook.published import Published
from jp_nb.notebook.running_cells import RunningCells, get_message_id


def request(name: str, kind: str = "execute_request", **content: Any) -> dict[str, Any]:
    header = {"msg_id": name, "msg_type": kind}
    return {"header": header, "metadata": {"cellId": f"cell of {name}"}, "content": content}


class Kernel:
    """Replaces ipykernel's kernel; `said` collects status, request, and its type."""

    def __init__(self) -> None:
        self.parents = {"shell": request("first", code="1"), "control": request("c", "comm_msg")}
        self.said: list[tuple[str, str, str]] = []

    def get_parent(self, channel: str) -> dict[str, Any]:
        return self.parents[channel]

    def _publish_status(self, status: str, channel: str, parent: Any = None) -> None:
        header = (parent or self.get_parent(channel))["header"]
        self.said.append((status, header["msg_id"], header["msg_type"]))


def status_of_page(kernel: Kernel) -> str:
    """Return the status that a page shows: the last one that it follows."""
    return [s for s, _, kind in kernel.said if kind != "kernel_info_request"][-1]


def test_kernel_is_idle_only_after_the_last_cell() -> None:
    kernel = Kernel()
    assert RunningCells.of(kernel) is RunningCells.of(kernel)
    kernel._publish_status("busy", "control")
    kernel._publish_status("idle", "control")
    assert kernel.said[-2:] == [
        ("idle", "c", "kernel_info_request"),
        ("busy", "first", "execute_request"),
    ]
    kernel._publish_status("busy", "shell", request("second"))  # in a subshell
    kernel._publish_status("idle", "shell")
    assert status_of_page(kernel) == "busy"
    kernel._publish_status("idle", "shell", request("second"))
    assert kernel.said[-1] == ("idle", "second", "execute_request")
    kernel._publish_status("idle", "control")
    assert kernel.said[-1] == ("idle", "c", "comm_msg")


def test_outputs_of_a_cell_are_kept_until_it_ends() -> None:
    kernel = Kernel()
    cells = RunningCells.of(kernel)
    assert cells is not None
    first = kernel.get_parent("shell")
    cells.set_output(first, "a", {"text/plain": "1"}, {})
    cells.set_output(first, "b", {"text/plain": "2"}, {})
    cells.set_output(first, "a", {"text/plain": "3"}, {"x": 1})
    cells.set_output(request("unknown"), "c", {}, {})
    outputs = [
        {"display_id": "a", "data": {"text/plain": "3"}, "metadata": {"x": 1}},
        {"display_id": "b", "data": {"text/plain": "2"}, "metadata": {}},
    ]
    found: list[Any] = []
    cells.for_each_cell(found.append)
    [cell] = found
    assert (get_message_id(cell.request), cell.session) == ("first", "")
    assert (cell.cell_id, cell.code) == ("cell of first", "1")
    assert cell.outputs.to_json(with_printed=True) == outputs
    kernel._publish_status("idle", "shell")
    found.clear()
    cells.for_each_cell(found.append)
    assert found == []


def test_forked_process_keeps_no_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    cells = RunningCells.of(kernel)
    assert cells is not None
    cells.set_output(kernel.get_parent("shell"), "a", {}, {})
    text = {"name": "stdout", "text": "printed"}
    published = Published.read("stream", text, kernel.get_parent("shell"))
    found: list[Any] = []
    cells.for_each_cell(found.append)
    [cell] = found

    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with cells.recording(published):
            assert text not in cell.outputs.to_json(with_printed=True)

    with cells.recording(published):
        assert text in cell.outputs.to_json(with_printed=True)


def test_unknown_kind_of_kernel_is_left_alone() -> None:
    assert RunningCells.of(None) is None
    assert RunningCells.of(object()) is None
