"""Marks of a turn that begins with a plan: of its request, and of the response with the approval.

The content of such a request ends with a note for the model in brackets: `[Plan first: …]`. It is
removed again where the user's request is repeated or compared.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jp_nb.record.entries.events import TYPED, ChatRequest, Entry, ToolCallResponse

PLAN_FIRST: Final = "plan_first"
"""Key in the metadata of a request whose turn begins with a plan."""
PLAN_APPROVED: Final = "plan_approved"
"""Key in the metadata of the response to a call whose plan the user approved."""
PLAN_NOTE_BEGIN: Final = "\n[Plan first: "
"""Beginning of the note for the model in the content of such a request."""


def add_plan_note(request: ChatRequest, note: str) -> ChatRequest:
    """Return `request` with the mark of a turn that begins with a plan, and a `note` to the model.

    The words of the user are kept beside the content.
    """
    # The metadata may have the words already, as of a text into which values were put.
    metadata = {TYPED: request.content, **request.metadata, PLAN_FIRST: True}
    content = f"{request.content}{PLAN_NOTE_BEGIN}{note}]"
    return request.model_copy(update={"content": content, "metadata": metadata})


def begins_with_plan(request: ChatRequest) -> bool:
    """Return True if the turn of `request` begins with a plan."""
    return request.metadata.get(PLAN_FIRST) is True


def read_content_without_note(request: ChatRequest) -> str:
    """Return the content of `request` without the note about the plan."""
    if not begins_with_plan(request):
        return request.content
    # The note is at the end. The user's text may have the same words, as a copy of such a request.
    content, note_begin, _ = request.content.rpartition(PLAN_NOTE_BEGIN)
    return content if note_begin else request.content


def has_approved_plan(entries: Iterable[Entry]) -> bool:
    """Return True if one of the `entries` of a turn says that the user approved its plan."""
    responses = (entry for entry in entries if isinstance(entry, ToolCallResponse))
    return any(response.metadata.get(PLAN_APPROVED) is True for response in responses)
