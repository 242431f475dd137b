"""Failures of code of others: what is told of them, and if they are cancellations.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import traceback
from pathlib import Path
from types import TracebackType

MACHINERY = tuple(
    str(folder) + os.sep
    for folder in (
        Path(__file__).resolve().parent.parent,
        Path(asyncio.__file__).parent,
        Path(concurrent.futures.__file__).parent,
    )
)
"""What runs tools: frames of it say nothing about why a tool failed."""


def is_cancelled() -> bool:
    """True if the running task is being cancelled; false if what it awaits ended by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def summary(exc: BaseException) -> str:
    """Return type and text of `exc`, whatever its own code makes of that."""
    try:
        text = str(exc)
    except Exception:
        text = ""
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def tool_frames(exc: BaseException) -> TracebackType | None:
    """Return the traceback of `exc` from the first frame that is the tool's; None without one."""
    frame = exc.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(MACHINERY):
        frame = frame.tb_next
    return frame


def traceback_of(exc: BaseException) -> str:
    """Return the traceback of `exc` from the first frame that is the tool's."""
    return "".join(traceback.format_exception(type(exc), exc, tool_frames(exc)))
