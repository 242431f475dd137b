"""Comm messages on the control channel: they arrive while a cell runs.

A message on the shell channel waits behind the running cell, and under Run All behind all of
them. ipykernel serves the control channel from a thread of its own, but knows no comm messages
there; its table of handlers is public and takes one more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Receive = Callable[[Any], None]


class _CommRouter:
    """The kernel's handler of `comm_msg` on control: hands a message to who asked for its comm."""

    def __init__(self, previous: Any) -> None:
        self.receivers: dict[str, Receive] = {}
        self._previous = previous

    def __call__(self, stream: Any, ident: Any, message: dict[str, Any]) -> Any:
        content = message.get("content", {})
        if receive := self.receivers.get(content.get("comm_id", "")):
            receive(content.get("data"))
            return None
        return self._previous(stream, ident, message) if self._previous else None


def why_not(kernel: Any) -> str | None:
    """Return why `kernel` takes no comm messages while a cell runs; None if it does."""
    if not isinstance(getattr(kernel, "control_handlers", None), dict):
        return "this kernel receives no messages from the page while a cell runs"
    if getattr(kernel, "control_thread", None) is None:
        return "this kernel has no control thread"
    return None


def receive_on_control(kernel: Any, comm_id: str, receive: Receive) -> None:
    """Call `receive` in the control thread with the data of each message for `comm_id`."""
    router = kernel.control_handlers.get("comm_msg")
    if not isinstance(router, _CommRouter):
        router = kernel.control_handlers["comm_msg"] = _CommRouter(router)
    router.receivers[comm_id] = receive


def stop_receiving(kernel: Any, comm_id: str) -> None:
    """Undo `receive_on_control`."""
    router = getattr(kernel, "control_handlers", {}).get("comm_msg")
    if isinstance(router, _CommRouter):
        router.receivers.pop(comm_id, None)
