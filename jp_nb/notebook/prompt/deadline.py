"""Ends a blocking read on the main thread from outside."""

from __future__ import annotations

import _thread
import signal
import threading
from time import sleep
from types import TracebackType
from typing import Self


class Expired(Exception):  # noqa: N818 - what happened, not what is wrong
    """The block was ended by its deadline."""


class Deadline:
    """A context whose block ends with `Expired` after `seconds` (0: never) or upon `expire`.

    A read from stdin waits for nothing but stdin and for an interrupt. So this one interrupts
    the main thread as the kernel's stop button does, and gives its own interrupt another name.
    In other threads, where no interrupt arrives, a block that runs is not ended. One that expired
    before its block began does not let it begin.
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
        """True once it is over."""
        return self._expired

    def expire(self) -> None:
        """End the block now, or as it begins; from any thread."""
        with self._guard:
            interrupts = self._armed and not self._expired
            self._expired = True  # before the interrupt, which is told by it
            if interrupts:
                self._interrupted = True
                _interrupt_main_thread()

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
                sleep(1.0)  # our interrupt is on its way and must not hit what comes next
        except KeyboardInterrupt:
            if not self._interrupted:
                raise
        if self._interrupted and (kind is None or kind is KeyboardInterrupt):
            raise Expired from None


def _interrupt_main_thread() -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)  # ends a system call, too
    else:
        _thread.interrupt_main()
