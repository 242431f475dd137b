"""Describe an exception of a tool: for the model in a sentence, for the user with a traceback.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

_RUNTIME_FOLDERS = tuple(
    str(folder) + os.sep
    for folder in (
        Path(__file__).resolve().parents[2],
        Path(asyncio.__file__).parent,
        Path(concurrent.futures.__file__).parent,
    )
)
"""Folders of the code that runs tools. A traceback for the model omits their frames."""
MAX_EXCEPTION_CHARS: Final = 1_000_000
"""Characters of the text of an exception: it may contain a whole data set."""


def summarize_error(exc: BaseException) -> str:
    """Return type and text of `exc`, or only the type if its `__str__` fails.

    The middle of a very long text is omitted.
    """
    try:
        text = str(exc)
    except Exception:
        text = ""

    text = _shorten_error(text)
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def _shorten_error(text: str) -> str:
    omitted = len(text) - MAX_EXCEPTION_CHARS
    if omitted <= 0:
        return text

    half = MAX_EXCEPTION_CHARS // 2
    return f"{text[:half]}\n[… {omitted:,} characters of this error are omitted …]\n{text[-half:]}"


def format_error_text(exc: BaseException) -> str:
    """Return `summarize_error` as a sentence and the notes of `exc`, each in a line."""
    summary = summarize_error(exc)
    found = getattr(exc, "__notes__", None)
    listed = found if isinstance(found, list) else []
    notes = [note for note in listed if isinstance(note, str)]

    if notes and not summary.endswith((".", "!", "?")):
        summary += "."
    return _shorten_error("\n".join([summary, *notes]))


def tool_frames(exc: BaseException) -> TracebackType | None:
    """Return the traceback of `exc` from the first frame of the tool's code; None without one."""
    frame = exc.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_RUNTIME_FOLDERS):
        frame = frame.tb_next
    return frame


def format_traceback(exc: BaseException) -> str:
    """Return the text of `tool_frames`, with the exception.

    If the text of an exception is very long, its causes are omitted: the traceback module would
    copy each text many times.
    """
    if any(map(_has_long_text, _find_causes(exc))):
        frames = "".join(traceback.format_tb(tool_frames(exc)))
        return f"Traceback (most recent call last):\n{frames}{summarize_error(exc)}\n"
    return "".join(traceback.format_exception(type(exc), exc, tool_frames(exc)))


def _find_causes(exc: BaseException) -> Iterator[BaseException]:
    """Yield `exc`, and the exceptions that its traceback would show."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [exc]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue

        seen.add(id(one))
        yield one
        todo += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            todo += one.exceptions


def _has_long_text(exc: BaseException) -> bool:
    return len(summarize_error(exc)) > MAX_EXCEPTION_CHARS
