"""Describe the traceback of a tool's code for the model: lines of the code and of cells, no files.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import linecache
import traceback
from types import TracebackType
from typing import Any, Final

from jp_nb.notebook.last_errors import CODE_FILE

MAX_CODE_FRAMES: Final = 20
"""Maximum number of frames of a traceback that the model gets."""


def describe_code_frames(
    shell: Any, error: BaseException, begin: TracebackType | None, name: str
) -> str:
    """Return the traceback from `begin` on, of code with the file name `name`.

    Shape:
        line 2, in <module>: half(0)
        line 1, in half (in a cell): return 1 / number
    """
    if isinstance(error, SyntaxError) and error.filename == name:
        # Without the first line, which names the file, and the message: the line with the error,
        # and a caret below it.
        lines = "".join(traceback.format_exception_only(type(error), error)).split("\n")
        shown = filter(None, lines[1:-2])
        return "\n".join([f"line {error.lineno}:", *shown])

    frames = []
    for frame, number in traceback.walk_tb(begin):
        file = frame.f_code.co_filename
        origin = "" if file == name else _describe_origin(shell, file)
        if origin is not None:
            text = linecache.getline(file, number).strip()
            frames.append(f"line {number}, in {frame.f_code.co_name}{origin}: {text}")

    omitted = len(frames) - MAX_CODE_FRAMES
    if omitted > 0:  # deep recursion: the first and the last frames tell most
        frames[MAX_CODE_FRAMES // 2 : -MAX_CODE_FRAMES // 2] = [f"… {omitted} more frames"]

    return "\n".join(frames)


def _describe_origin(shell: Any, file: str) -> str | None:
    """Return a suffix for a frame of earlier code or a cell; None for code in files.

    `CODE_FILE` is the beginning of the file names that `code_runs.py` gives to code of tools.
    """
    if file.startswith(CODE_FILE):
        return " (in earlier code)"

    format_name = getattr(shell.compile, "format_code_name", None)
    if file.startswith("<ipython-input-") or (format_name is not None and format_name(file)):
        return " (in a cell)"

    return None
