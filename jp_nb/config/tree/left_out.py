"""What JP configures and a notebook has no use for.

JP and `jp_nb` read the same files, so that these settings are no errors here. They are ignored.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import re
from typing import Final

LEFT_OUT: Final = frozenset(
    {
        "conversation.default_id",
        "conversation.start_local",
        "conversation.tools.*.style.error.results_file_link",
        "conversation.tools.*.style.results_file_link",
        "editor",
        "interrupt.*.compose_in_editor",
        "plugins",
        "providers.llm.*.auth",
        "style.code",
        "style.inline_code",
        "style.lock_wait",
        "style.markdown",
        "style.reasoning.background",
        "style.reasoning.extend_across_tool_calls",
        "style.reasoning.summary_model",
        "style.typewriter",
    }
)
"""Paths that count for nothing, with all below them; `*` is any one key."""

_KEY = re.compile(r'\["(?P<quoted>(?:[^"\\]|\\.)*)"\]|(?P<plain>[^.\[\]]+)')
_PATTERNS = tuple(tuple(path.split(".")) for path in sorted(LEFT_OUT))


def left_out(path: str) -> bool:
    """Whether `path`, or something above it, is a setting of JP's alone."""
    keys = [match["plain"] or match["quoted"] for match in _KEY.finditer(path)]
    return any(
        len(keys) >= len(pattern)
        and all(part in ("*", key) for part, key in zip(pattern, keys, strict=False))
        for pattern in _PATTERNS
    )
