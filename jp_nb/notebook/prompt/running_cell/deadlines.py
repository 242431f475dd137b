"""Deadlines of prompts: they end a blocking read from stdin.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import _thread
import signal
import threading
from time import sleep
from types import TracebackType
from typing import Self


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
        self._guard = threading.Lock()  # for the three states, which the timer's thread changes
        self._armed = False  # True while the block runs in the main thread
        self._expired = False
        self._interrupted = False  # True if the deadline has interrupted its block
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
                # The block has ended before its interrupt arrived. Wait for that, as it would end
                # later code.
                sleep(1.0)
        except KeyboardInterrupt:
            if not self._interrupted:
                raise

        # Another exception of the block is more important than the deadline.
        if self._interrupted and (kind is None or kind is KeyboardInterrupt):
            raise Expired from None
