"""Interrupts at every step of a function."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import jp_nb

PACKAGE = str(Path(jp_nb.__file__).parent)


def interrupt_at_step(number: int, function: Callable[[], object]) -> bool:
    """Call `function`, and interrupt it at this step; return False if it ends before.

    The steps are those of `jp_nb` and of its `with` blocks.

    Raises:
        KeyboardInterrupt: The interrupt ended `function`.
    """
    left = number

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename.startswith((PACKAGE, contextlib.__file__)):
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
