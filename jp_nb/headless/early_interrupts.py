"""Ctrl+C while a command loads its modules, when there is nothing to clean up.

The import system may print or lose a `KeyboardInterrupt` that arrives in it, so the process ends
without one: https://github.com/python/cpython/issues/90370
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

INTERRUPTED_EXIT_CODE: Final = 128 + 2  # exit code of a command that SIGINT ended, as in a shell


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """End the process at once on Ctrl+C in this block, unless the program handles SIGINT itself."""
    is_main = threading.current_thread() is threading.main_thread()  # only it may set handlers
    previous = signal.getsignal(signal.SIGINT)
    if not is_main or previous is not signal.default_int_handler:
        yield
        return

    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _exit(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"jp-nb: interrupted\n")
    os._exit(INTERRUPTED_EXIT_CODE)
