"""Receive clicks while the kernel is busy with the cell that waits for them.

A click is a `comm_msg` on the kernel's shell channel, which queues behind the running cell. While
a prompt waits, a tap on the shell stream takes out the comm messages. It also takes the two
requests that a reloaded page sends to restore its widgets. The cell's thread handles all of them.
Other messages are passed to the kernel in their order.

Source: `docs/prompts.md`; ipykernel 6.29 to 7.4, `kernelbase.py`. The module uses internals of
ipykernel: call `find_missing_internals` first, which checks for each of them.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections import deque
from threading import current_thread, main_thread
from typing import Any, Final

from jp_nb.notebook.cell_watch import watch_cells
from jp_nb.notebook.prompt.running_cell.shell_taps import (
    ChannelThreadTap,
    Frames,
    SameThreadTap,
    ShellTap,
)
from jp_nb.session.threads.cell_loop import CellLoop

log = logging.getLogger(__name__)

HANDLED = frozenset(
    {"comm_open", "comm_msg", "comm_close", "comm_info_request", "kernel_info_request"}
)
"""Types of messages that the pump takes out of the channel."""

FORM_COMMS: Final[set[str]] = set()
"""Comms of open forms. A page cannot close them, or open another one with the same id."""

_INTERNALS = (
    "session.feed_identities",
    "session.deserialize",
    "session.unpack",
    "shell_stream.on_recv",
    "shell_stream.flush",
    "shell_stream.socket",
    "shell_stream._recv_callback",
    "shell_stream._recv_copy",
    "comm_manager.comms",
    "comm_manager.comm_open",
    "comm_manager.comm_close",
    "shell_handlers",
    "get_parent",
    "set_parent",
    "_parent_ident",
    "_publish_status",
)
_INTERNALS_OF_CHANNEL_THREAD = (
    "shell_channel_thread.io_loop.add_callback",
    "shell_channel_thread.manager.get_subshell_to_shell_channel_socket",
)


def find_missing_internals(kernel: Any) -> str | None:
    """Return the reason why `kernel` cannot receive clicks while a cell runs; None if it can."""
    needed: tuple[str, ...] = _INTERNALS
    if getattr(kernel, "shell_channel_thread", None):
        needed += _INTERNALS_OF_CHANNEL_THREAD
    elif current_thread() is not main_thread():  # two threads must not read the same socket
        return "this kernel receives no form input in other threads than the cell's"

    for path in needed:
        value = kernel
        for name in path.split("."):
            if not hasattr(value, name):
                return f"this kernel receives no form input while a cell runs (it has no {path})"
            value = getattr(value, name)

    return None


class CommPump:
    """Handles comm messages on the cell's thread, from `open` to `close`.

    Both methods are idempotent, so they can be repeated after an interrupt. They raise
    `RuntimeError` if the thread of the kernel's shell channel does not respond within 5 seconds.
    """

    def __init__(self, kernel: Any, loop: CellLoop) -> None:
        self._kernel = kernel
        self._loop = loop
        self._tap: ShellTap
        if getattr(kernel, "shell_channel_thread", None):
            self._tap = ChannelThreadTap(kernel)
        else:
            self._tap = SameThreadTap(kernel, loop)

        # Keeps the status busy. After a click, the kernel would otherwise look idle, and servers
        # may stop idle kernels.
        watch_cells(kernel)
        self._opened = False
        self._frames: deque[Frames] = deque()  # messages that were taken, and not handled yet
        # The identity of the page's connection, and the request of the running cell, to which the
        # outputs of the cell belong.
        self._cell = (kernel._parent_ident["shell"], kernel.get_parent("shell"))

    def open(self) -> None:
        """Start to receive; on the cell's thread."""
        if not self._opened:
            self._opened = True
            self._tap.open(self._receive)

    def close(self) -> None:
        """Return the shell stream and unread messages to the kernel; on the cell's thread."""
        if self._opened:
            self._tap.close(self._frames)  # empties `_frames`
            self._return_to_cell()
            self._opened = False

    def _receive(self, frames: Frames) -> Any:
        """Queue a message that the pump handles, or pass it on; on the thread of the channel.

        Only its type is read here: `deserialize` refuses a second call as a replayed message.
        """
        session = self._kernel.session
        try:
            _, rest = session.feed_identities(frames, copy=False)
            is_handled = session.unpack(rest[1].bytes)["msg_type"] in HANDLED
        except Exception:
            is_handled = False  # the kernel reports invalid messages

        if not is_handled:
            return self._tap.pass_on(frames)

        self._frames.append(frames)
        self._loop.post(self._handle_first)
        return None

    def _handle_first(self) -> None:
        """Handle the oldest message that was taken, as the kernel would; on the cell's thread."""
        if not self._frames:
            return  # `close` has passed the message to the kernel

        kernel = self._kernel
        frames = self._frames.popleft()

        try:
            ident, rest = kernel.session.feed_identities(frames, copy=False)
            message = kernel.session.deserialize(rest, content=True, copy=False)
        except Exception:
            log.exception("A message for a widget could not be read")
            return

        _flush_prints()  # earlier prints belong to the cell
        try:
            kernel.set_parent(ident, message, "shell")
            # A page sends the next change of a widget only after the idle status for the last one.
            kernel._publish_status("busy", "shell", parent=message)
            self._handle(ident, message)
        except Exception:
            log.exception("A message for a widget could not be handled")
        finally:
            try:
                _flush_prints()
                kernel._publish_status("idle", "shell", parent=message)
            finally:
                self._return_to_cell()

    def _return_to_cell(self) -> None:
        """Let later outputs belong to the running cell again."""
        ident, request = self._cell
        self._kernel.set_parent(ident, request, "shell")

    def _handle(self, ident: Any, message: dict[str, Any]) -> None:
        """Do what the kernel does with this message. A page cannot open or close a form's comm."""
        kernel = self._kernel
        kind = message["header"]["msg_type"]
        comm_id = str(message["content"].get("comm_id"))
        if kind == "comm_msg":
            # `get_comm` prints a warning about an unknown comm into the cell.
            comm = kernel.comm_manager.comms.get(comm_id)
            # Not comm.handle_msg, which runs the hooks of a cell's end. They would flush open
            # figures to an output that no cell shows.
            callback = getattr(comm, "_msg_callback", None)
            if callback is not None:
                callback(message)
        elif kind in ("comm_open", "comm_close"):
            if comm_id in FORM_COMMS:
                return
            getattr(kernel.comm_manager, kind)(None, ident, message)
        else:
            handler = kernel.shell_handlers[kind]
            self._tap.call_with_reply_stream(
                lambda stream: _run_to_end(handler(stream, ident, message))
            )


def _run_to_end(result: Any) -> None:
    """Run a coroutine of ipykernel's handlers of info requests, which never suspends."""
    if not inspect.iscoroutine(result):
        return

    try:
        result.send(None)
    except StopIteration:
        return

    result.close()
    raise RuntimeError("the kernel's handler of info requests must not wait")


def _flush_prints() -> None:
    """Send the text that was printed for the current request."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
