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
"""Folders of the code that runs tools. A traceback begins after their frames."""
MAX_EXCEPTION_CHARS: Final = 1_000_000
"""Maximum length of the text of an exception: it may contain a whole data set."""


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
    """Return type and text of `exc`, and its notes (`BaseException.add_note`), each in a line."""
    summary = summarize_error(exc)
    added = getattr(exc, "__notes__", None)
    listed = added if isinstance(added, list) else []  # a program can set any value
    notes = [note for note in listed if isinstance(note, str)]

    # Notes are sentences, so the line before them ends as one.
    if notes and not summary.endswith((".", "!", "?")):
        summary += "."
    return _shorten_error("\n".join([summary, *notes]))


def find_tool_traceback(exc: BaseException) -> TracebackType | None:
    """Return the traceback of `exc` from the first frame of the tool's code; None without one."""
    link = exc.__traceback__
    while link is not None and link.tb_frame.f_code.co_filename.startswith(_RUNTIME_FOLDERS):
        link = link.tb_next
    return link


def format_traceback(exc: BaseException) -> str:
    """Return the traceback of the tool's code as text, with the exception.

    If the text of an exception is very long, its causes are omitted: the traceback module would
    copy each text many times.
    """
    tool_traceback = find_tool_traceback(exc)
    if any(map(_has_long_text, _find_causes(exc))):
        frames = "".join(traceback.format_tb(tool_traceback))
        return f"Traceback (most recent call last):\n{frames}{summarize_error(exc)}\n"
    return "".join(traceback.format_exception(type(exc), exc, tool_traceback))


def _find_causes(exc: BaseException) -> Iterator[BaseException]:
    """Yield `exc`, and the exceptions that its traceback would show."""
    seen_ids: set[int] = set()
    pending: list[BaseException | None] = [exc]
    while pending:
        cause = pending.pop()
        if cause is None or id(cause) in seen_ids:
            continue

        seen_ids.add(id(cause))
        yield cause
        pending += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            pending += cause.exceptions


def _has_long_text(exc: BaseException) -> bool:
    # A summary also has the name of the type, so a shortened text is over the limit as well.
    return len(summarize_error(exc)) > MAX_EXCEPTION_CHARS
