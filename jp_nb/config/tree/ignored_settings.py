"""The settings that only JP has. JP is another program that reads the same files.

They are dropped when a file or a variable is read, so that a configuration of JP works unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

IGNORED_SETTINGS: Final = frozenset(
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
        "style.code",
        "style.inline_code",
        "style.lock_wait",
        "style.markdown",
        "style.reasoning.background",
        "style.reasoning.extend_across_tool_calls",
        "style.reasoning.summary_model",
        "style.streaming",
        "style.tool_call.preparing",
        "style.tool_call.progress",
        "style.typewriter",
    }
)
"""Paths of settings that only JP has, with all settings below; `*` matches any key."""

IGNORED_PATTERNS: Final = tuple(tuple(path.split(".")) for path in sorted(IGNORED_SETTINGS))


def overlaps_keys(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    """Return True if `pattern` is at, above, or below `keys`; `*` in it matches any key."""
    return all(part in ("*", key) for part, key in zip(pattern, keys, strict=False))


def covers_keys(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    """Return True if `pattern` is at or above `keys`."""
    return len(pattern) <= len(keys) and overlaps_keys(pattern, keys)


def is_ignored(keys: Sequence[str]) -> bool:
    """Return True if `keys` are a setting that only JP has, or below one."""
    return any(covers_keys(pattern, keys) for pattern in IGNORED_PATTERNS)
