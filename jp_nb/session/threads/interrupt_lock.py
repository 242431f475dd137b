"""A lock for short blocks that an interrupt of the kernel must not end halfway.

Python raises `KeyboardInterrupt` between any two steps of the main thread, also in a `with` block.
This lock replaces the handler of SIGINT until the block has ended.
"""

from __future__ import annotations

import signal
from threading import Lock, current_thread, main_thread
from typing import Any


class InterruptSafeLock:
    """Lock for short blocks. An interrupt that arrives in a block takes effect at its end.

    Only the main thread handles signals, so only there the lock replaces the handler. It does so
    before it is acquired, and puts the handler back after it is released. In another order, an
    interrupt between the two steps would leave the lock held forever.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # The handler of SIGINT that is put back; None if a thread without signals has the lock.
        self._replaced_handler: Any = None
        self._is_interrupted = False

    def __enter__(self) -> None:
        handler = signal.getsignal(signal.SIGINT) if current_thread() is main_thread() else None
        if handler is not None:
            signal.signal(signal.SIGINT, self._note_interrupt)
        self._lock.acquire()
        self._replaced_handler = handler

    def _note_interrupt(self, *_: object) -> None:
        self._is_interrupted = True

    def __exit__(self, *_: object) -> None:
        handler = self._replaced_handler
        self._lock.release()
        if handler is None:
            return

        signal.signal(signal.SIGINT, handler)
        if self._is_interrupted:
            self._is_interrupted = False
            signal.raise_signal(signal.SIGINT)
