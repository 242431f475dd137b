"""Show a tool call while it runs: its line with the arguments, its progress, and its result.

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from jp_nb.agent.calls.call import Call
from jp_nb.agent.display import ToolBegins, ToolEnds, Waits
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.turn_state import TurnContext
from jp_nb.json_values import as_object
from jp_nb.toolkit.arguments.text_arguments import list_text_arguments

ResultStyle = Literal["off", "full"] | int | None
"""The setting `inline_results` or `error.inline_results`; None: the user can unfold the result."""


class CallDisplay:
    """Sends the display events of calls. `CallView` remembers what is on the screen."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn

    def show_begin(self, call: Call, tool: OfferedTool, *, asked: bool = False) -> None:
        """Show the line of `call`, unless it is on the screen already and has not changed.

        `asked` is True while a prompt about the call displays its text arguments, such as code
        (`text_arguments.py`). They are below the line otherwise.
        """
        texts = list_text_arguments(tool.definition.parameters, call.state.arguments)
        asked = asked and bool(texts)
        view = call.view
        if view.is_displayed and not view.needs_redisplay and view.texts_in_prompt == asked:
            return

        view.is_displayed = True
        view.needs_redisplay = False
        view.texts_in_prompt = asked

        shown: Literal["line", "json", "off"] = "line"
        if tool.formatter is not None or tool.parameters == "off":
            shown = "off"
        elif tool.parameters == "json":
            shown = "json"

        ruling = call.state.ruling
        rule = None if ruling is None else ruling.description
        begins = ToolBegins(
            call_id=call.key,
            name=call.request.name,
            arguments=call.state.arguments,
            hidden=tool.hidden,
            parameters=shown,
            formatted=view.formatted,
            edited=call.state.edited_through is not None,
            texts=texts,
            asked=asked,
            rule=rule,
        )
        self._turn.display(begins)

    def show_progress(self, call: Call, text: str) -> None:
        """Show a report of the running tool in the status line."""
        if call.state.response is None:
            self._turn.display(Waits(call.key, call.title, progress=text))

    def show_end(self, call: Call, content: str, *, is_error: bool, skipped: bool) -> None:
        """Show the result of `call`, and as much of the response `content` as its style allows."""
        tool = call.tool
        result_lines: int | None = 0
        can_unfold = False
        if tool is not None and not skipped:
            style = _choose_result_style(tool, is_error=is_error)
            result_lines = _count_result_lines(style)
            can_unfold = style is None

        shown_images = call.state.result.shown_images
        traceback = call.view.traceback
        if traceback:
            traceback = self._turn.secrets.hide(traceback)

        self._turn.display(
            ToolEnds(
                call_id=call.key,
                name=call.request.name,
                content=content,
                is_error=is_error,
                seconds=call.state.seconds,
                hidden=tool is not None and tool.hidden,
                traceback=traceback or None,
                skipped=skipped,
                images=shown_images.images,
                omitted_images=shown_images.omitted,
                result_lines=result_lines,
                folds_result=can_unfold,
                edits=_find_unreviewed_edits(call),
            )
        )


def _choose_result_style(tool: OfferedTool, *, is_error: bool) -> ResultStyle:
    """Return the setting for the display of a result, or of an error if it has its own."""
    if is_error and tool.inline_errors is not None:
        return tool.inline_errors
    return tool.inline_results


def _count_result_lines(style: ResultStyle) -> int | None:
    """Return the number of lines of a result that are displayed; None: all."""
    match style:
        case "full":
            return None
        case int():
            return style
        case _:  # `off`; or None, and the user can unfold all lines
            return 0


def _find_unreviewed_edits(call: Call) -> JsonValue:
    """Return the edits of cells that `call` applied, if the user has not seen them in a review."""
    if call.tool is None or not call.tool.executor.proposes_edits:
        return None
    # The edits as the tool reports them for programs, with the one who decided.
    applied = as_object(call.state.result.structured)
    was_reviewed = applied.get("decided_by") == "user"
    return None if was_reviewed else applied
