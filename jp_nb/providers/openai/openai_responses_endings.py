"""Read the end of a response of the Responses API: its usage, reason, and error.

The last event of a stream has an object for the whole response:

    {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage": …}
    {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": …}}

It may also report parts of the request that the server dropped or changed (`list_input_changes`).

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/responses/object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jp_nb.agent.provider_events import Finished, FinishReason, InputChange, Usage
from jp_nb.errors import ProviderError
from jp_nb.providers.network.errors import classify_stream_error
from jp_nb.providers.response_parts.stream_decoder import WireObject

_INCOMPLETE: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refused",
}
"""Finish reasons of an incomplete response, by the reason of the server."""
_REFUSAL_CODES: Final = frozenset({"invalid_prompt", "bio_policy", "misalignment_policy_violation"})
"""Codes of errors that mean that the request was refused."""


def make_finished(status: str, response: WireObject, *, refusal: str) -> Finished:
    """Return the last event for a final `status`, which is not `failed`.

    `refusal` is the text with which the model refused in a complete response; "" without one.
    """
    if status == "completed":
        return Finished("refused", refusal) if refusal else Finished()

    # The status is `incomplete`, with a reason, or another one, such as `cancelled`.
    details = response.get("incomplete_details") or {}
    cause = details.get("reason") if status == "incomplete" else None
    wire_reason = str(cause or status)
    reason = _INCOMPLETE.get(wire_reason, "other")
    detail = None if reason == "max_tokens" else wire_reason
    return Finished(reason, detail)


def read_refused_request(error: Any) -> Finished | None:
    """Return the last event if `error` means that the request was refused; else None."""
    details = _read_details(error)
    code = details.get("code")
    if code not in _REFUSAL_CODES:
        return None

    misalignment = details.get("misalignment") or {}
    explanation = misalignment.get("detailed_explanation") or details.get("message")
    reason = f"{code}: {explanation}" if explanation else code
    return Finished("refused", reason)


def make_response_error(error: Any, *, provider: str) -> ProviderError:
    """Return the error for a response that failed, with the parameter that the server names."""
    details = _read_details(error)
    if param := details.get("param"):
        message = details.get("message") or "unknown error"
        error = {**details, "message": f"{message} (at `{param}`)"}
    return classify_stream_error(error, provider=provider)


def _read_details(error: Any) -> Mapping[str, Any]:
    return error if isinstance(error, dict) else {}


def list_input_changes(response: WireObject) -> Iterator[InputChange]:
    """Yield the reports about reasoning in the request that did not fit the conversation."""
    for change in response.get("input_transformations") or ():
        reason = str(change.get("reason")).removesuffix("_mismatch")  # such as `prefix_mismatch`
        is_dropped = change.get("action") == "removed"
        yield InputChange(reason, is_dropped, mark=str(change.get("id") or ""))


def parse_responses_usage(usage: WireObject) -> Usage:
    """Return the tokens of the response. Its event buffer omits values that are no counts."""
    read = usage.get("input_tokens_details") or {}
    written = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        reasoning_tokens=written.get("reasoning_tokens"),
        cache_read_tokens=read.get("cached_tokens"),
        cache_write_tokens=read.get("cache_write_tokens"),
    )
