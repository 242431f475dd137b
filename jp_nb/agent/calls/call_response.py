"""Make the response to a tool call: its text in special cases, and its entry of the record.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

import re

from pydantic import JsonValue

from jp_nb.agent.calls.call import Call
from jp_nb.agent.interrupts import Verdict
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.json_values import copy_json, copy_nested_json
from jp_nb.record.entries.entry_images import make_images_metadata
from jp_nb.record.entries.events import ToolCallResponse
from jp_nb.record.reading.call_marks import (
    RULE,
    SKIPPED_KEY,
    make_edit_metadata,
    make_server_marks,
)
from jp_nb.record.reading.plan_marks import PLAN_APPROVED
from jp_nb.toolkit.truncation import truncate_middle

UNAVAILABLE_TOOL_TEXT = (
    "Tool '{}' is not available. It may have been available earlier in this conversation but is "
    "no longer enabled. Do not retry this tool until it is available again in the list of enabled "
    "tools."
)
NO_SUCH_NAME_TEXT = (
    "There is no tool {}, so nothing ran. Call one of the tools in your list by its exact name."
)
"""Response to a call whose name no tool can have."""
MAX_MADE_UP_NAME_CHARS = 80
"""Maximum number of characters of such a name that are repeated to the model."""
CANCELLED_WITH_MESSAGE_TEXT = "Tool run cancelled by user with a custom message:\n\n{}"
RAN_BEFORE_TEXT = (
    "This call may already have run, fully or partly, and its effects may remain. It "
    "did not run again: {}"
)
"""Response to a call that does not run again, with the reason."""
CANCELED_ITSELF_TEXT = "The tool cancelled itself."
STOPPED_TEXT = "Interrupted before it finished. Its effects up to then may remain."
NOT_RUN_TEXT = "It did not run: an interrupt came first."
LEFT_RUNNING_TEXT = (
    "The user stopped the turn before it finished. Its effects up to then may remain."
)
LEFT_UNRUN_TEXT = "It did not run: the user stopped the turn first."
_POSSIBLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def describe_missing_tool(name: str) -> str:
    """Return the response to a call of a tool that is not offered."""
    if _POSSIBLE_NAME.fullmatch(name):
        return UNAVAILABLE_TOOL_TEXT.format(name)
    if not name.strip():
        return NO_SUCH_NAME_TEXT.format("without a name")

    # A word such as `<|channel|>` may be a command of the model's format.
    shown = re.sub("[^A-Za-z0-9_.:-]", "_", name)[:MAX_MADE_UP_NAME_CHARS]
    return NO_SUCH_NAME_TEXT.format(f"with the name `{shown}`")


def format_stopped_response(call: Call, verdict: Verdict) -> str:
    """Return the response to a call that did not finish because of `verdict`.

    It is the user's message to the model, if there is one. A call that the user canceled by an
    interrupt has the configured text. Otherwise, the response tells what happened.
    """
    if verdict.text:
        return CANCELLED_WITH_MESSAGE_TEXT.format(verdict.text)

    # The user has not canceled the call if the turn continues, if no user was there, or if the user
    # stopped the turn in the form of a tool's question (`by_interrupt` is False).
    is_canceled = verdict.choice != "continue" and verdict.by != "unattended"
    if is_canceled and verdict.by_interrupt and call.tool is not None:
        return call.tool.cancellation_response
    return describe_stopped_call(verdict, ran=call.state.ran)


def describe_stopped_call(verdict: Verdict, *, ran: bool) -> str:
    """Return the sentences that tell the model why a call did not finish.

    `ran` is True if the call had begun. An example: "It did not run: an interrupt came first. The
    user ended the turn."
    """
    if not verdict.by_interrupt:
        return LEFT_RUNNING_TEXT if ran else LEFT_UNRUN_TEXT

    effect = STOPPED_TEXT if ran else NOT_RUN_TEXT
    by_user = verdict.by == "person"
    if verdict.choice == "continue":
        after = "The user chose to continue." if by_user else "The turn continues."
    else:
        after = "The user ended the turn." if by_user else "The turn was ended."

    return f"{effect} {after}"


def make_call_response(
    call: Call, content: str, *, is_error: bool, skipped: bool = False
) -> ToolCallResponse:
    """Return the entry of the record with the response `content`.

    Its metadata has facts about the call that the model does not get, such as the rule that
    permitted it. The structured result is omitted if the user edited the text, or if the call was
    `skipped`: the user or a rule refused it or its result, or stopped it.
    """
    state = call.state
    result = state.result
    metadata: dict[str, JsonValue] = {}

    if call.tool is not None:
        metadata |= make_server_marks(call.tool.executor.server, call.tool.executor.server_tool)
    if state.edited_through is not None:
        metadata |= make_edit_metadata(copy_json(state.arguments), state.edited_through)
    if result.structured is not None and not skipped and content == result.delivered:
        metadata["structured"] = copy_nested_json(result.structured)
    if state.ruling is not None and state.ruling.metadata is not None:
        metadata[RULE] = copy_nested_json(state.ruling.metadata)
    if state.approves_plan and not skipped:
        metadata[PLAN_APPROVED] = True
    metadata |= make_images_metadata(result.shown_images.images)
    if skipped:
        metadata[SKIPPED_KEY] = True

    return ToolCallResponse(
        id=call.request.id, content=content, is_error=is_error, metadata=metadata
    )


def truncate_result(text: str, tool: OfferedTool) -> str:
    """Return `text` within the setting `result_max_chars` of `tool`."""
    path = f"conversation.tools.{tool.name}.result_max_chars"
    return truncate_middle(text, tool.result_max_chars, path)
