"""A tool call, as the cell shows its beginning and its end.

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

from typing import Literal

from jp_nb.agent.calls import Call
from jp_nb.agent.display_events import ToolBegins, ToolEnds
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.tooling.text_arguments import text_arguments


def call_begins(call: Call, tool: OfferedTool, *, asked: bool = False) -> ToolBegins:
    """Return the event of a call that is about to run, or about which somebody is `asked`."""
    texts = text_arguments(tool.definition.parameters, call.arguments)
    shown: Literal["line", "json", "off"] = "line"
    if tool.formatter is not None or tool.parameters == "off":
        shown = "off"
    elif tool.parameters == "json":
        shown = "json"
    return ToolBegins(
        call.key,
        call.request.name,
        call.arguments,
        tool.hidden,
        parameters=shown,
        formatted=call.formatted,
        edited=call.edited is not None,
        texts=texts,
        asked=asked and bool(texts),
    )


def call_ends(
    call: Call, content: str, *, traceback: str | None, is_error: bool, skipped: bool
) -> ToolEnds:
    """Return the event of a call that has its response."""
    tool = call.tool
    return ToolEnds(
        call_id=call.key,
        name=call.request.name,
        content=content,
        is_error=is_error,
        seconds=call.seconds,
        hidden=tool is not None and tool.hidden,
        traceback=traceback,
        skipped=skipped,
        images=call.shown.images,
        left_out=call.shown.left_out,
        result_lines=0 if tool is None or skipped else _lines(tool, is_error=is_error),
    )


def _lines(tool: OfferedTool, *, is_error: bool) -> int | None:
    """Return how many lines of a result are shown below the call; None: all of them."""
    shown = tool.inline_results
    if is_error and tool.inline_errors is not None:
        shown = tool.inline_errors
    return None if shown == "full" else shown if isinstance(shown, int) else 0
