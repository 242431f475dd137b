"""The tool choice of a turn: its mark in the metadata of the request, and its missing calls.

A *tool choice* is `auto`, `none`, `required` (any tool), or `tool:NAME`.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from jp_nb.record.entries.events import (
    ChatRequest,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)

TOOL_CHOICE: Final = "tool_choice"
"""Metadata key of the mark, which `make_request_marks` of `marks.py` writes."""
NAMELESS_TOOL_CHOICES: Final = ("auto", "none", "required")
"""Tool choices without a tool's name."""
_NAME_PREFIX: Final = "tool:"


def read_tool_choice(request: ChatRequest) -> str | None:
    """Return the tool choice in the metadata of `request`, or None if it is missing or invalid."""
    mark = request.metadata.get(TOOL_CHOICE)
    is_choice = isinstance(mark, str) and (
        mark in NAMELESS_TOOL_CHOICES or mark.startswith(_NAME_PREFIX)
    )
    return mark if is_choice else None  # type: ignore[return-value]  # it is a text


def to_tool_choice(configured: str) -> str:
    """Return the tool choice for a value of the setting `assistant.tool_choice`."""
    return configured if configured in NAMELESS_TOOL_CHOICES else f"{_NAME_PREFIX}{configured}"


def find_missing_tool(choice: str, names: Collection[str]) -> str | None:
    """Return the tool that `choice` requires if it is not in `names`, else None.

    For `required`, the result is `any tool`. `names` are those of the called tools.
    """
    if choice == "required":
        return None if names else "any tool"
    if not choice.startswith(_NAME_PREFIX):
        return None

    name = choice.removeprefix(_NAME_PREFIX)
    return None if name in names else name


def find_missing_call(entries: Sequence[Entry]) -> str | None:
    """Return the required tool that the first response of a recorded turn did not call, or None."""
    choice: str | None = None  # of the first request with a mark: `auto` is not recorded
    names = set[str]()

    for entry in entries:
        match entry:
            case ChatRequest():
                choice = choice or read_tool_choice(entry)
            case ToolCallRequest(name=name):
                names.add(name)
            case ToolCallResponse():
                break

    return find_missing_tool(choice or "auto", names)
