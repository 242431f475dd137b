"""Interrupts at every step of a function."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any


def interrupt_at_step(number: int, function: Callable[[], object], *modules: ModuleType) -> bool:
    """Call `function`, and interrupt it at a step of these modules; return False if it ends before.

    Raises:
        KeyboardInterrupt: The interrupt ended `function`.
    """
    files = {module.__file__ for module in modules}
    left = number

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename in files:
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
        return trace

    def run() -> Iterator[object]:
        # An interrupt within an `except` block may leave its exception behind as the one that is
        # handled. It ends with the generator.
        yield function()

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        next(run())
    finally:
        sys.settrace(before)
    return left <= 0
