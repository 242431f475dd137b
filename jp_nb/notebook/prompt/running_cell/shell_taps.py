"""Take messages off the kernel's shell channel while a cell runs.

ipykernel 7 reads the channel in another thread, ipykernel 6 in the cell's thread. Each has a
*tap*, which passes the messages to a function instead of the kernel, until it is closed.

Source: `docs/prompts.md`; ipykernel 6.29 to 7.4, `kernelbase.py`.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from math import ceil
from threading import Event
from typing import Any

from jp_nb.session.threads.cell_loop import CellLoop

Frames = list[Any]
"""One received message as `zmq.Frame`s."""


class ShellTap(ABC):
    """Takes messages off the shell stream."""

    def __init__(self, kernel: Any) -> None:
        self._stream = kernel.shell_stream
        # The kernel's own callback, and its option `copy`, while the tap is open.
        self._own: tuple[Any, bool] | None = None

    @abstractmethod
    def open(self, receive: Callable[[Frames], Any]) -> None:
        """Pass each message to `receive` instead of the kernel's own callback."""

    @abstractmethod
    def close(self, unread: deque[Frames]) -> None:
        """Restore the kernel's own callback and pass it the `unread` messages."""

    @abstractmethod
    def call_with_reply_stream(self, reply: Callable[[Any], None]) -> None:
        """Call `reply` with the socket or stream for replies; on the cell's thread."""

    def pass_on(self, frames: Frames) -> Any:
        """Pass a message to the kernel's own callback."""
        return self._own[0](frames) if self._own is not None else None

    def _install(self, receive: Callable[[Frames], Any]) -> None:
        self._own = (self._stream._recv_callback, self._stream._recv_copy)
        self._stream.on_recv(receive, copy=False)

    def _restore(self, unread: deque[Frames], call: Callable[[Any, Frames], Any]) -> None:
        """Restore the kernel's callback; `call` calls it with each of the `unread` messages."""
        if self._own is None:  # interrupted before anything was installed
            return

        callback, copy = self._own
        self._stream.on_recv(callback, copy=copy)
        while unread:
            call(callback, unread.popleft())


class ChannelThreadTap(ShellTap):
    """Tap for ipykernel 7, where a separate thread reads the shell channel."""

    def __init__(self, kernel: Any) -> None:
        super().__init__(kernel)
        self._thread = kernel.shell_channel_thread
        # The cell's thread must not use another thread's socket for replies.
        self._subshell = kernel.get_parent("shell").get("header", {}).get("subshell_id")

    def open(self, receive: Callable[[Frames], Any]) -> None:
        """Pass each message to `receive` instead of the kernel's own callback."""
        self._on_channel_thread(lambda: self._install(receive))

    def close(self, unread: deque[Frames]) -> None:
        """Restore the kernel's own callback and pass it the `unread` messages."""
        # `add_callback` passes on the unread messages before the socket delivers the next one.
        self._on_channel_thread(lambda: self._restore(unread, self._thread.io_loop.add_callback))

    def call_with_reply_stream(self, reply: Callable[[Any], None]) -> None:
        """Call `reply` with the socket or stream for replies; on the cell's thread."""
        reply(self._thread.manager.get_subshell_to_shell_channel_socket(self._subshell))

    def _on_channel_thread(self, function: Callable[[], None]) -> None:
        """Run `function` on the thread that reads the channel, and wait for it."""
        done = Event()

        def run() -> None:
            try:
                function()
            finally:
                done.set()

        self._thread.io_loop.add_callback(run)
        if not done.wait(5.0):
            raise RuntimeError("the kernel's shell channel does not respond")


class SameThreadTap(ShellTap):
    """Tap for ipykernel 6, where the cell's thread reads the shell channel."""

    def __init__(self, kernel: Any, loop: CellLoop) -> None:
        super().__init__(kernel)
        self._loop = loop
        self._listener = _ShellListener(self._stream)

    def open(self, receive: Callable[[Frames], Any]) -> None:
        """Pass each message to `receive` instead of the kernel's own callback."""
        self._install(receive)
        self._loop.set_listener(self._listener)

    def close(self, unread: deque[Frames]) -> None:
        """Restore the kernel's own callback and pass it the `unread` messages."""
        self._loop.set_listener(None)
        self._restore(unread, lambda callback, frames: callback(frames))
        self._listener.close()

    def call_with_reply_stream(self, reply: Callable[[Any], None]) -> None:
        """Call `reply` with the socket or stream for replies; on the cell's thread."""
        import zmq

        reply(self._stream)
        self._stream.flush(zmq.POLLOUT)


class _ShellListener:
    """Lets the loop of the cell's thread wait for the shell channel and for jobs.

    It is the listener of `CellLoop`. The loop calls `wait`, and other threads call `wake` when
    they have added a job.
    """

    def __init__(self, stream: Any) -> None:
        import zmq

        self._stream = stream
        # Sockets, because a pipe cannot be polled on Windows.
        self._wait_socket, self._wake_socket = socket.socketpair()
        self._wait_socket.setblocking(False)
        self._wake_socket.setblocking(False)
        self._poller = zmq.Poller()
        self._poller.register(stream.socket, zmq.POLLIN)
        self._poller.register(self._wait_socket, zmq.POLLIN)
        self._received_messages = zmq.POLLIN  # the flag with which `flush` reads what has arrived

    def wait(self, timeout: float) -> None:
        ready = dict(self._poller.poll(ceil(timeout * 1000)))
        if self._wait_socket.fileno() in ready:
            self._wait_socket.recv(4096)
        if self._stream.socket in ready:
            self._stream.flush(self._received_messages)

    def wake(self) -> None:
        try:
            self._wake_socket.send(b"!")
        except OSError:  # the buffer is full, or the listener is closed
            return

    def close(self) -> None:
        self._wait_socket.close()
        self._wake_socket.close()
