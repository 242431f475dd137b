"""Deadlines of prompts: a clock that waits for an idle user, and the end of a blocking read.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable
from time import sleep
from types import TracebackType
from typing import Self

from jp_nb.session.threads.cell_jobs import Timer
from jp_nb.session.threads.cell_loop import CellLoop


class IdleClock:
    """Calls back when the user has been idle for some time. Used on the cell's thread.

    The clock stops while the thread is busy, because clicks are not read then. It also stops while
    `busy` returns True, and restarts afterwards. With 0 `seconds`, `expired` is never called.
    """

    def __init__(
        self,
        loop: CellLoop,
        seconds: float,
        *,
        busy: Callable[[], bool],
        expired: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._busy = busy
        self._expired = expired
        self._deadline = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start the time."""
        self.stop()
        if self._seconds > 0:
            self._deadline = self._loop.idle_s + self._seconds
            self._timer = self._loop.call_after_idle(self._seconds, self._check)

    def restart(self) -> None:
        """Restart the time if it runs."""
        self._deadline = self._loop.idle_s + self._seconds  # keeps the timer, which checks it again

    def stop(self) -> None:
        """Stop the time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        if self._busy():
            self.restart()

        left = self._deadline - self._loop.idle_s
        if left > 0:
            self._timer = self._loop.call_after_idle(left, self._check)
        else:
            self._timer = None
            self._expired()


class Expired(Exception):  # noqa: N818 - not an error
    """The deadline ended its block."""


class Deadline:
    """Context manager that ends its block with `Expired` after `seconds` (0: never) or `expire`.

    Only an interrupt ends a read from stdin. So a deadline interrupts the main thread, as the
    kernel's stop button does, and raises `Expired` instead of its own `KeyboardInterrupt`. In other
    threads, it cannot end a running block. A deadline that expired earlier raises `Expired` before
    its block starts.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._guard = threading.Lock()
        self._armed = False
        self._expired = False
        self._interrupted = False
        self._timer: threading.Timer | None = None

    @property
    def expired(self) -> bool:
        """True after it expired."""
        return self._expired

    def expire(self) -> None:
        """End the block now, or when it starts; from any thread."""
        with self._guard:
            interrupts = self._armed and not self._expired
            self._expired = True  # before the interrupt, whose handler reads it
            if interrupts:
                self._interrupted = True
                main = threading.main_thread().ident
                if hasattr(signal, "pthread_kill") and main is not None:
                    signal.pthread_kill(main, signal.SIGINT)  # also ends a system call
                else:
                    _thread.interrupt_main()

    def __enter__(self) -> Self:
        with self._guard:
            if self._expired:
                raise Expired
            self._armed = threading.current_thread() is threading.main_thread()

        if self._armed and self._seconds > 0:
            self._timer = threading.Timer(self._seconds, self.expire)
            self._timer.daemon = True
            self._timer.start()

        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._timer is not None:
                self._timer.cancel()

            with self._guard:
                self._armed = False

            if self._interrupted and kind is None:
                sleep(1.0)  # wait for our own pending interrupt, or it would end later code
        except KeyboardInterrupt:
            if not self._interrupted:
                raise

        if self._interrupted and (kind is None or kind is KeyboardInterrupt):
            raise Expired from None
