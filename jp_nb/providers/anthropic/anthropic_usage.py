"""Count the tokens of a response of Anthropic Messages, which the server reports in several parts.

Source: `docs/providers.md`, https://platform.claude.com/docs/en/build-with-claude/streaming.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jp_nb.agent.provider_events import Usage
from jp_nb.json_values import as_object
from jp_nb.providers.response_parts.stream_decoder import WireObject

_USAGE: Final[Mapping[str, str]] = {
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
    "thinking_tokens": "reasoning_tokens",
}
"""Fields of `Usage`, by the field of the server."""


class AnthropicUsage:
    """The tokens of one response. The server reports some at its start, and some at its end."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}  # by the field of the server

    def update(self, usage: WireObject) -> Usage:
        """Add a report of the server; return the usage so far.

        Input tokens include cached ones, as with the other providers.
        """
        details = as_object(usage.get("output_tokens_details"))  # has `thinking_tokens`
        reported = {**usage, **details}
        self._counts.update({key: n for key, n in reported.items() if isinstance(n, int)})

        counts: dict[str, int] = {
            ours: self._counts[theirs] for theirs, ours in _USAGE.items() if theirs in self._counts
        }
        if "input_tokens" in self._counts:
            cached = (counts.get(name, 0) for name in ("cache_read_tokens", "cache_write_tokens"))
            counts["input_tokens"] = self._counts["input_tokens"] + sum(cached)

        return Usage(**counts)
