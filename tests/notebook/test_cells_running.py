"""Status messages while cells run, with a kernel that only collects published messages."""

from __future__ import annotations

import os

import pytest

from tests.kit.kernel_outputs import BusyKernel


def status_of_page(kernel: BusyKernel) -> str:
    """Return the status that a page shows: the last one that it follows."""
    return [s for s, _, kind in kernel.statuses if kind != "kernel_info_request"][-1]


def test_kernel_is_idle_only_after_the_last_cell() -> None:
    kernel = BusyKernel()
    kernel.set_status("busy", "control")
    kernel.set_status("idle", "control")
    assert kernel.statuses[-2:] == [
        ("idle", "control", "kernel_info_request"),
        ("busy", "first", "execute_request"),
    ]
    second = kernel.request("second")
    kernel.set_status("busy", request=second)  # in a subshell
    kernel.set_status("idle")
    assert status_of_page(kernel) == "busy"
    kernel.set_status("idle", request=second)
    assert kernel.statuses[-1] == ("idle", "second", "execute_request")
    kernel.set_status("idle", "control")
    assert kernel.statuses[-1] == ("idle", "control", "comm_msg")


def test_outputs_of_a_cell_are_kept_until_it_ends() -> None:
    kernel = BusyKernel()
    kernel.show_own("a", {"text/plain": "1"})
    kernel.show_own("b", {"text/plain": "2"})
    kernel.show_own("a", {"text/plain": "3"}, {"x": 1})
    kernel.show_own("c", {}, request=kernel.request("unknown"))
    assert kernel.outputs() == [
        {"display_id": "a", "data": {"text/plain": "3"}, "metadata": {"x": 1}},
        {"display_id": "b", "data": {"text/plain": "2"}, "metadata": {}},
    ]
    [cell] = kernel.cells()
    assert (cell["msg_id"], cell["session"]) == ("first", "")
    assert (cell["id"], cell["code"]) == ("cell of first", "1")
    kernel.set_status("idle")
    assert kernel.cells() == []


def test_forked_process_keeps_no_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = BusyKernel()
    text = {"name": "stdout", "text": "printed"}
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        kernel.publish("stream", **text)
        assert kernel.outputs() == []

    kernel.publish("stream", **text)
    assert kernel.outputs() == [text]


def test_unknown_kind_of_kernel_is_left_alone() -> None:
    assert not BusyKernel.is_watched(None)
    assert not BusyKernel.is_watched(object())
