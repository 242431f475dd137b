"""Map the errors of servers to `ProviderError`: its kind, its text, and the wait until a retry.

The *kind*, such as `rate_limit` or `too_long`, decides whether the request is sent again, and which
advice the user gets (`error_advice.py`). An error is an HTTP response with an error status, or an
object within a stream. The retry loop is in `jp_nb/agent/model_requests/retries.py`.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, Final

from jp_nb.errors import ProviderError, ProviderErrorKind
from jp_nb.providers.network.retry_waits import find_wait, parse_explicit_wait, parse_retry_after

_QUOTA: Final = re.compile(
    r"insufficient[_ ]quota|insufficient credits|out of credits|billing_error"
    r"|credit balance is too low|quota exceeded",
    re.IGNORECASE,
)
"""Words of an error that mean that the account has no money or no tokens left."""
_GOOGLE_LIMIT: Final = re.compile(r"PerMinute|\"retryDelay\"|[Pp]lease retry in")
"""Words of Google for a limit that ends soon."""
_TOO_LONG: Final = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum (?:context|prompt length|model length)"
    r"|(?:prompt|input) is too long|too many (?:input )?tokens|request_too_large|reduce the length"
    r"|exceeds the maximum number of tokens",
    re.IGNORECASE,
)
"""Words that mean that the request does not fit into the context of the model."""
_MEDIA_WORD: Final = re.compile(
    r"(?<![a-z0-9_])(?:images?|image_url|vision|multi-?modal|mmproj|pdfs?|documents?)(?![a-z0-9_])",
    re.IGNORECASE,
)
"""Words for images and PDFs."""
_UNSUPPORTED: Final = re.compile(
    r"not (?:yet )?support|n't support|unsupported|not (?:a |an )?(?:multi-?modal|vision)"
    r"|not (?:compiled|configured|able to (?:process|accept))|missing data"
    r"|(?:can't|cannot|could not|failed to) (?:be )?(?:load|decode)|only supported by"
    r"|no (?:vision|multi-?modal|image) (?:support|capabilit)",
    re.IGNORECASE,
)
"""Words that mean that the server cannot use a part of the request."""
_REMAINING: Final = re.compile(
    r"x-ratelimit-remaining-([a-z-]{1,40})|anthropic-ratelimit-([a-z-]{1,40})-remaining"
)
"""Headers with the rest of a limit, such as `x-ratelimit-remaining-tokens`; a group names it."""
_PROXY: Final = re.compile(r"unreachable|upstream", re.IGNORECASE)
"""Words of a proxy or router that could not reach the server of the model."""
MEDIA_FAILURES: Final = (500, 501)
"""Statuses with which servers refuse a kind of input that their model does not take."""
_SHORT_BODY_CHARS: Final = 300
"""Maximum length of a body that is a message itself."""
MAX_SERVER_MESSAGE_CHARS: Final = 2000
"""Maximum number of characters of a server's error message."""

# Errors inside a stream have no status. These are the statuses of the same errors in HTTP.
_STATUS_OF_WORD: Final[Mapping[str, int]] = {
    "aborted": 409,
    "api_error": 500,
    "authentication_error": 401,
    "billing_error": 402,
    "context_length_exceeded": 400,
    "deadline_exceeded": 504,
    "exceed_context_size_error": 400,
    "failed_precondition": 400,
    "insufficient_quota": 402,
    "internal": 500,
    "invalid_api_key": 401,
    "invalid_argument": 400,
    "invalid_request_error": 400,
    "model_not_found": 404,
    "not_found": 404,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_denied": 403,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "resource_exhausted": 429,
    "server_error": 500,
    "server_is_overloaded": 503,
    "service_unavailable_error": 503,
    "timeout_error": 504,
    "unauthenticated": 401,
    "unavailable": 503,
    "unavailable_error": 503,
    "vector_store_timeout": 504,
}


def classify_response(
    status: int,
    headers: Mapping[str, str],
    body: str,
    *,
    provider: str,
    now: float | None = None,
) -> ProviderError:
    """Return the exception for an HTTP response with an error status.

    The names of `headers` are in lower case, `body` may be incomplete, and `now` is the Unix time
    for headers with a date; None for the current time.
    """
    message = _truncate(parse_error_message(body) or f"HTTP {status}")
    retry_header = headers.get("x-should-retry", "").strip().lower()
    kind = _classify_kind(status, retry_header, f"{message}\n{body}")

    if retry_header != "true" and _refuses_media(status, message):
        kind = "other"  # not sent again, unlike other errors with this status

    wait = None
    if kind in ("rate_limit", "transient"):
        wait = parse_retry_after(headers, body, now=now)
    elif kind == "other" and retry_header != "false":
        # Rate limit headers are in every response. For other errors, only `retry-after` counts.
        current_time = time.time() if now is None else now
        wait = parse_explicit_wait(headers, current_time)

    described = f"{status}: {message}" if message != f"HTTP {status}" else message
    if kind == "rate_limit":
        described += _describe_rate_limit(headers, wait)

    return ProviderError(
        f"{provider} answered {described}", kind=kind, status=status, retry_after=wait
    )


def _describe_rate_limit(headers: Mapping[str, str], wait: float | None) -> str:
    """Return the limits that are reached, by their headers, and the wait."""
    exhausted = [name.lower() for name, remaining in headers.items() if remaining.strip() == "0"]
    matches = filter(None, map(_REMAINING.fullmatch, exhausted))
    limits = [(match[1] or match[2]).replace("-", " ") for match in matches]

    described = ""
    if limits:
        described += f"; the limit of {' and '.join(limits)} is reached"
    if wait is not None:
        described += f"; retry after {wait:.3g} s"
    return described


def classify_stream_error(error: Any, *, provider: str) -> ProviderError:
    """Return the exception for an error object inside a stream with status 200.

    The object is `{"type", "message"}`, `{"code": int | str, "message"}`, or a text.
    """
    fields: Mapping[str, Any] = error if isinstance(error, dict) else {"message": error}
    message = _truncate(_read_scalar(fields.get("message")) or "unknown error")

    code_and_type = [_truncate(_read_scalar(fields.get(name))) for name in ("code", "type")]
    words = [word for word in code_and_type if word]
    statuses = [status for status in map(_read_status, words) if status is not None]
    status = statuses[0] if statuses else None

    text = " ".join([*words, message])
    kind = _classify_kind(status or 400, "", text)

    if _refuses_media(status, message):
        kind = "other"  # not sent again, unlike other errors with this status

    wait = find_wait(text) if kind in ("rate_limit", "transient") else None
    details = f" ({', '.join(words)})" if words else ""
    return ProviderError(
        f"{provider} stopped with an error: {message}{details}",
        kind=kind,
        status=status,
        retry_after=wait,
    )


def _read_status(word: str) -> int | None:
    """Return the HTTP status that the code or the type of an error means."""
    is_number = re.fullmatch("[45][0-9][0-9]", word) is not None
    return int(word) if is_number else _STATUS_OF_WORD.get(word.lower())


def _read_scalar(value: Any) -> str:
    """Return a text or a number of an error as text; "" for another value."""
    return str(value) if isinstance(value, (str, int, float)) else ""


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_SERVER_MESSAGE_CHARS else f"{text[:MAX_SERVER_MESSAGE_CHARS]}…"


def parse_error_message(body: str) -> str | None:
    """Return the message of an error body: `error.message`, `error`, `message` or `detail`.

    A short text that is not JSON is the message itself. Return None for HTML.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        text = body.strip()
        is_html = text.startswith("<")
        return text if 0 < len(text) <= _SHORT_BODY_CHARS and not is_html else None

    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None

    error = value.get("error")
    inner = error.get("message") if isinstance(error, dict) else error
    candidates = (inner, value.get("message"), value.get("detail"))

    return next((text for text in candidates if isinstance(text, str) and text), None)


def _classify_kind(status: int, retry_header: str, text: str) -> ProviderErrorKind:
    """Return the kind of an error: the first one that fits, in the order of the rules.

    `retry_header` is the value of `x-should-retry`. It decides only about errors that the text does
    not explain. `text` has the message and the body.
    """
    if status == 429 and "RESOURCE_EXHAUSTED" in text.upper():
        return _classify_google_429(text)

    if status == 402 or _QUOTA.search(text):
        return "quota"
    if status in (400, 413, 422) and _TOO_LONG.search(text):
        return "too_long"

    if retry_header == "false":
        return "other"

    if status == 429:
        return "rate_limit"
    if retry_header == "true" or status in (408, 409) or status >= 500:
        return "transient"
    return "transient" if _PROXY.search(text) else "other"


def _classify_google_429(text: str) -> ProviderErrorKind:
    """Return the kind of an error of Google, which has one sentence for limits and quotas."""
    if "PerDay" in text:
        return "quota"
    if _GOOGLE_LIMIT.search(text):
        return "rate_limit"
    return "quota" if "check your plan and billing" in text else "rate_limit"


def _refuses_media(status: int | None, message: str) -> bool:
    """Return True if the server cannot read an image or a PDF. Another attempt fails as well.

    llama.cpp and Ollama answer 500 to an image for a model without vision.
    """
    if status not in MEDIA_FAILURES:
        return False
    return _MEDIA_WORD.search(message) is not None and _UNSUPPORTED.search(message) is not None
