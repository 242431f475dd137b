"""The tool choice of a recorded request, for a command that sends the request again.

A cell names a tool that the model has to call with `%%jp -u NAME`. `%jp retry` and `%jp resume`
send its request again with this choice.

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from jp_nb.agent.provider import ToolChoice
from jp_nb.record.entries.events import ChatRequest
from jp_nb.record.entries.tool_choice_marks import (
    NAMELESS_TOOL_CHOICES,
    read_tool_choice,
    to_tool_choice,
)
from jp_nb.session.conversation import ActiveConversation


def find_own_tool_choice(
    active: ActiveConversation, request: ChatRequest, own_requests: AbstractSet[str]
) -> ToolChoice | None:
    """Return the tool choice that the recorded `request` itself had (`%%jp -u NAME`).

    It is None if the choice is the configured one, or if someone else may have named the tool: the
    record is untrusted, and the request is none of `own_requests`, which has the `event_id` of each
    request that this kernel sent.
    """
    choice = read_tool_choice(request)
    if choice is None:
        return None

    stream = active.document.conversation
    index = next(index for index, entry in enumerate(stream.entries) if entry is request)
    is_own = stream.raw[index].get("event_id") in own_requests
    names_tool = choice not in NAMELESS_TOOL_CHOICES
    if names_tool and not (active.trust.trusted or is_own):
        return None

    # The configuration as it was before the request.
    config_of_request = active.settings.projection.until(stream.until(index)).config()
    configured = to_tool_choice(config_of_request.assistant.tool_choice)
    return None if choice == configured else choice
