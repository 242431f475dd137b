"""Delay interrupts of the kernel (SIGINT) on the cell's thread while our code runs there.

Python raises `KeyboardInterrupt` between any two steps of the main thread. Our code, such as a
display or the queue of `CellLoop`, must not end halfway. So a handler counts the interrupts
meanwhile, and `check` raises one `KeyboardInterrupt` later. The user's code runs in `allow`, where
an interrupt takes effect at once.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Final

_DEFAULT_HANDLER: Final = signal.default_int_handler
MAX_INTERRUPTS: Final = 3
"""The interrupt with this number ends even work that handles none, such as a hanging callback."""


def _never() -> bool:
    return False


class DeferredInterrupts:
    """Delays SIGINT while jobs run, so that it cannot end a job halfway.

    Python runs the signal handler between two steps of the main thread. So there is no lock, which
    an interrupt could leave locked, and each method is right after an interrupt at any step.

    Attributes:
        deferring: True while SIGINT is only counted.
        received: Number of interrupts of the kernel so far.
        on_interrupt: Called with each interrupt. It runs in the signal handler, and must not take
            a lock. None if no turn runs.
        next_handler: Called instead with the next interrupt, if it is deferred, and then forgotten.
            For example, it moves a question from the page to stdin. It also runs in the signal
            handler.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.on_interrupt: Callable[[], None] | None = None
        self.next_handler: Callable[[], None] | None = None
        self.received = 0
        self.deferring = False
        self._count = 0  # deferred interrupts that `check` has not raised yet
        self._is_internal: Callable[[], bool] = _never

    @contextmanager
    def defer(self, *, in_job: bool = False) -> Iterator[None]:
        """Defer interrupts in the block, and raise `KeyboardInterrupt` after it.

        The outermost block on the main thread installs the signal handler, unless other code has
        replaced the handler of Python. `in_job` tells that the block is part of a job of `serve`,
        which has installed it.
        """
        was_deferring = self.deferring
        installs = False
        if not in_job and _is_main_thread():
            installs = signal.getsignal(signal.SIGINT) is _DEFAULT_HANDLER

        try:  # an interrupt can arrive between any two of these lines
            self.deferring = True
            if installs:
                signal.signal(signal.SIGINT, self._handle_signal)
            yield
        finally:
            self.deferring = was_deferring
            if installs:
                signal.signal(signal.SIGINT, _DEFAULT_HANDLER)

        # The outermost block raises the interrupts of all blocks inside of it.
        if not was_deferring:
            self.check()

    @contextmanager
    def allow(self, is_internal: Callable[[], bool] = _never) -> Iterator[None]:
        """Allow interrupts in the block, which runs user code or waits for a line of input.

        The program may interrupt the wait itself, for example when the page has answered first.
        Interrupts for which `is_internal` returns True are such ones: they are raised, but not
        passed to `on_interrupt`.
        """
        self.check()

        was_deferring = self.deferring
        self.deferring = False
        self._is_internal = is_internal

        try:
            yield
        finally:
            self.deferring = was_deferring
            self._is_internal = _never

    def check(self) -> None:
        """Raise one `KeyboardInterrupt` if interrupts were deferred."""
        count = self._count
        self._count = 0
        if count:
            raise KeyboardInterrupt

    def is_unchanged(self, received: int) -> bool:
        """Return True if no interrupt arrived since the number of interrupts was `received`.

        Return False if that is not known, because another handler receives the interrupts.
        """
        if not _is_main_thread() or signal.getsignal(signal.SIGINT) != self._handle_signal:
            return False
        return self.received == received

    def receive(self) -> None:
        """Count an interrupt, which `check` raises later, and report it at once.

        `CellLoop.interrupt` also calls it, in a job that interrupts the turn without a signal.
        """
        self._count += 1
        if self.on_interrupt is not None and not self._is_internal():
            self.on_interrupt()

    def _handle_signal(self, *_: object) -> None:
        """Handle SIGINT: run `next_handler`, or raise at once, or count it for `check`."""
        self.received += 1
        if self.deferring and self.next_handler is not None:
            handler = self.next_handler
            self.next_handler = None
            handler()
            return

        self.receive()
        if not self.deferring or self._count >= MAX_INTERRUPTS:
            self._count = 0
            raise KeyboardInterrupt

        self._wake()


def _is_main_thread() -> bool:
    return current_thread() is main_thread()
