"""The kinds of entries by their stored `type`, and groups of them.

Source: `docs/record.md`.
"""

from __future__ import annotations

from jp_nb.record.entries.events import (
    LINKS,
    ChatRequest,
    ChatResponse,
    Compaction,
    ConfigDelta,
    Entry,
    ImageEntry,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
)
from jp_nb.record.entries.inquiry_events import InquiryRequest, InquiryResponse

KNOWN: dict[str, type[Entry]] = {
    "turn_start": TurnStart,
    "chat_request": ChatRequest,
    "chat_response": ChatResponse,
    "tool_call_request": ToolCallRequest,
    "tool_call_response": ToolCallResponse,
    "inquiry_request": InquiryRequest,
    "inquiry_response": InquiryResponse,
    "config_delta": ConfigDelta,
    "compaction": Compaction,
    "image": ImageEntry,
}
"""The view of each known kind of entry, by its stored `type`."""
CONVERSATION_KINDS = frozenset(KNOWN) - {"config_delta", "compaction", "image"}
"""Kinds of entries that belong to a turn: the events. The other kinds are about the record."""
LINKABLE = CONVERSATION_KINDS - {"turn_start", "chat_request"}
"""Kinds that may have `request_id`, the id of the chat request that led to them."""

NON_CONFIG_KEYS = frozenset(
    {
        "type",
        "op",
        "timestamp",
        "unsets",
        "claims",
        "metadata",
        *LINKS,  # ids of entries
        "verbatim",
        "spelling",  # added by an import
    }
)
"""Keys of a `config_delta` that are no settings, in the first version of the format.

It had the settings on the entry itself."""
