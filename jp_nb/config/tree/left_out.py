"""Settings that nothing in a notebook reads, or nothing yet.

JP and `jp_nb` read the same files, so that these settings are not errors there. They are ignored.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LEFT_OUT: Final = frozenset(
    {
        "assistant.request.cache",
        "conversation.default_id",
        "conversation.inquiry.assistant.request.cache",
        "conversation.start_local",
        "conversation.title",
        "conversation.tools.*.questions.*.target.request.cache",
        "conversation.tools.*.style.error.results_file_link",
        "conversation.tools.*.style.results_file_link",
        "editor",
        "interrupt.*.compose_in_editor",
        "loader",
        "plugins",
        "providers.llm.*.auth",
        "providers.mcp",
        "style.code",
        "style.inline_code",
        "style.lock_wait",
        "style.markdown",
        "style.mcp_startup",
        "style.reasoning.background",
        "style.reasoning.extend_across_tool_calls",
        "style.reasoning.summary_model",
        "style.streaming",
        "style.tool_call.preparing",
        "style.tool_call.progress",
        "style.typewriter",
    }
)
"""Paths that count for nothing, with all below them; `*` is any one key."""

PATTERNS: Final = tuple(tuple(path.split(".")) for path in sorted(LEFT_OUT))


def left_out(keys: Sequence[str]) -> bool:
    """True if a setting that counts for nothing is at `keys`, or above."""
    return any(
        len(keys) >= len(pattern)
        and all(part in ("*", key) for part, key in zip(pattern, keys, strict=False))
        for pattern in PATTERNS
    )
