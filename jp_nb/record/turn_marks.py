"""What entries of a turn say about it in their `metadata`, for whoever reads it later.

`chat_request`: {"tool_choice": "tool:NAME"} or {"tool_choice": "required"}, what the first request
to the model demanded. `chat_response`: {"continues": true}, the text goes on in the middle of the
one before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)

TOOL_CHOICE: Final = "tool_choice"
CONTINUES: Final = "continues"


def demanding(request: ChatRequest, choice: str) -> ChatRequest:
    """`request` with the tool choice of its turn, if that demands a call."""
    if choice in ("auto", "none"):
        return request
    return request.model_copy(update={"metadata": {**request.metadata, TOOL_CHOICE: choice}})


def uncalled(choice: str, names: Collection[str]) -> str | None:
    """What `choice` demanded and is not among the `names` that were called; None if it is."""
    if choice == "required":
        return None if names else "any tool"
    name = choice.removeprefix("tool:")
    return None if name == choice or name in names else name


def uncalled_in(entries: Sequence[Entry]) -> str | None:
    """The same of a recorded turn: its first answer should have had the call."""
    choice, names = "auto", set[str]()
    for entry in entries:
        match entry:
            case ChatRequest(metadata={"tool_choice": str(demanded)}) if choice == "auto":
                choice = demanded
            case ToolCallRequest(name=name):
                names.add(name)
            case ToolCallResponse():
                break
    return uncalled(choice, names)


def continuing(response: ChatResponse) -> ChatResponse:
    """`response` as one whose text goes on where the one before was cut off."""
    return response.model_copy(update={"metadata": {**response.metadata, CONTINUES: True}})


def continues(response: ChatResponse) -> bool:
    """Whether its text goes on in the middle of the one before."""
    return response.metadata.get(CONTINUES) is True
