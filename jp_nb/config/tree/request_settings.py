"""Settings of requests to a model: retries, timeouts, and limits.

Source: `docs/configuration.md`, `docs/providers.md`.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator

from jp_nb.config.tree.base import ConfigTable
from jp_nb.config.tree.value_checks import Count


def _check_idle_timeout(value: int) -> int:
    if 0 < value < 10:
        raise ValueError(f"expected 0 (off) or at least 10 seconds, found {value}")
    return value


IdleTimeout = Annotated[Count, AfterValidator(_check_idle_timeout)]


class Request(ConfigTable):
    """Retries and limits of requests to the model."""

    max_retries: Count = 5
    """Maximum number of retries of a failed request."""
    base_backoff_ms: Count = 1000
    """Wait before the first retry, in milliseconds. It doubles with each retry."""
    max_backoff_secs: Count = 60
    """Longest wait before a retry, in seconds."""
    stream_idle_timeout_secs: IdleTimeout = 60
    """Seconds without content from the server after which a request is sent again. At least 10, or
    0 for no limit."""
    max_response_bytes: Count = 1_048_576
    """Maximum size of one response, in bytes. 0 means no limit."""
    max_tool_calls: Count = 128
    """Maximum number of tool calls of one response that run. 0 means no limit."""
    max_total_tokens: Count = 0
    """Maximum number of tokens of a turn. 0 means no limit."""
    max_schema_retries: Count = 1
    """Maximum number of times that a structured answer goes back to the model in one turn, with the
    reasons why it does not fit its schema. 0 turns this off."""


BACKGROUND_RETRIES: Final = {"max_retries": 3, "base_backoff_ms": 1000, "max_backoff_secs": 30}
"""Default retries of background requests: inquiries and summaries."""


def make_background_request() -> Request:
    """Return the retries and limits of background requests."""
    return Request(**BACKGROUND_RETRIES)


class RequestOverrides(ConfigTable):
    """Overrides of `assistant.request` for a separate task, such as the answer to a question.

    Unset settings are inherited. The limits of a whole turn are not overridden.
    """

    max_retries: Count | None = None
    """Maximum number of retries of a failed request."""
    base_backoff_ms: Count | None = None
    """Wait before the first retry, in milliseconds."""
    max_backoff_secs: Count | None = None
    """Longest wait before a retry, in seconds."""
    stream_idle_timeout_secs: IdleTimeout | None = None
    """Seconds without content after which a request is sent again."""
    max_response_bytes: Count | None = None
    """Maximum size of one response, in bytes. 0 means no limit."""
