"""The tool run to which the current code belongs, on any thread.

A tool's code can print and ask, also from threads that it starts, and its output goes to its call.

Source: `docs/architecture.md` (two threads), `docs/turns.md`.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True, eq=False)
class ToolRun:
    """One run of a tool.

    Attributes:
        is_over: True if its result is not awaited any more. Code of the tool may still run, such as
            a thread that it started, and must not display or ask anything then.
        call_id: Names the call for the display.
    """

    is_over: bool = False
    call_id: str = ""


TOOL_THREAD: Final = "jp_nb tool"
"""The beginning of the names of threads in which tools with `thread=True` run."""
CURRENT_RUN: ContextVar[ToolRun | None] = ContextVar("jp_nb_tool_run", default=None)
"""The run of the current code, also in the threads that it starts. None outside of tools."""
