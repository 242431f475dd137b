"""Exchange messages with a page while a cell runs.

They are received on the control channel, and sent in the context of the cell.

Any thread may send: ipykernel passes iopub messages to one thread, in the order of the calls. Each
message has a parent, and nbclient drops messages of other cells. ipykernel 7 keeps the parent in a
context variable. In another thread, this variable is missing (an error in 7.0), or names the cell
that started the thread. So `CellContext` keeps it.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

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
    """Register `receive`: the control thread calls it with the data of each message."""
    router = kernel.control_handlers.get("comm_msg")
    if not isinstance(router, _CommRouter):
        router = kernel.control_handlers["comm_msg"] = _CommRouter(router)
    router.receivers[comm_id] = receive


def stop_receiving(kernel: Any, comm_id: str) -> None:
    """Undo `receive_on_control`."""
    router = getattr(kernel, "control_handlers", {}).get("comm_msg")
    if isinstance(router, _CommRouter):
        router.receivers.pop(comm_id, None)


P = ParamSpec("P")

T = TypeVar("T")


class CellContext:
    """Context variables of the running cell, for other threads. Create it in the cell's thread.

    With a `shell`, it follows each later cell.
    """

    def __init__(self, shell: Any = None) -> None:
        self._context = copy_context()
        self._shell = shell
        if shell is not None:
            shell.events.register("pre_run_cell", self._update)

    def _update(self, info: Any) -> None:
        self._context = copy_context()

    def run(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call `function` in the context of the running cell. Thread-safe."""
        # Two threads cannot enter one context at once; a copy is cheap.
        return self._context.copy().run(function, *args, **options)

    def close(self) -> None:
        """Stop following the cells."""
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._update)
            self._shell = None
