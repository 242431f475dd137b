"""Receive messages of a page while a cell runs.

The messages of widgets and other comms arrive on the shell channel, which waits until the cell has
ended. So the page sends those for jp_nb on the control channel, which has a thread of its own.
ipykernel handles no `comm_msg` there; the handler is added here.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Receive = Callable[[Any], None]


class _CommRouter:
    """Handler of `comm_msg` on the control channel, for the comms that are registered.

    Messages of other comms go to the `previous` handler, if there was one.
    """

    def __init__(self, previous: Any) -> None:
        self.receivers: dict[str, Receive] = {}
        self._previous = previous

    def __call__(self, stream: Any, ident: Any, message: dict[str, Any]) -> Any:
        content = message.get("content", {})
        if receive := self.receivers.get(content.get("comm_id", "")):
            receive(content.get("data"))
            return None
        return self._previous(stream, ident, message) if self._previous else None


def find_unsupported_reason(kernel: Any) -> str | None:
    """Return the reason why `kernel` receives no comm messages while a cell runs, or None."""
    if not isinstance(getattr(kernel, "control_handlers", None), dict):
        return "this kernel receives no messages from the page while a cell runs"
    if getattr(kernel, "control_thread", None) is None:
        return "this kernel has no control thread"
    return None


def receive_on_control(kernel: Any, comm_id: str, receive: Receive) -> None:
    """Register `receive`: the control thread calls it with the data of each message of the comm."""
    router = kernel.control_handlers.get("comm_msg")
    if not isinstance(router, _CommRouter):
        router = kernel.control_handlers["comm_msg"] = _CommRouter(router)
    router.receivers[comm_id] = receive


def stop_receiving(kernel: Any, comm_id: str) -> None:
    """Undo `receive_on_control`."""
    router = getattr(kernel, "control_handlers", {}).get("comm_msg")
    if isinstance(router, _CommRouter):
        router.receivers.pop(comm_id, None)
