"""What an error of a provider means: whether to try again, and when.

The loop that waits and calls again is `agent/turn.py`. Source: `spec/providers.md` section 2.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from jp_nb.errors import ProviderError, ProviderErrorKind

_QUOTA: Final = re.compile(
    r"insufficient[_ ]quota|insufficient credits|out of credits|billing_error"
    r"|credit balance is too low|quota exceeded",
    re.IGNORECASE,
)
_PROXY: Final = re.compile(r"unreachable|upstream", re.IGNORECASE)
_SHORT_BODY: Final = 300

# Errors inside a stream have no status of their own: the one that HTTP would have given them.
_STATUS_OF_WORD: Final[Mapping[str, int]] = {
    "api_error": 500,
    "authentication_error": 401,
    "billing_error": 402,
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "insufficient_quota": 402,
    "invalid_api_key": 401,
    "invalid_request_error": 400,
    "model_not_found": 404,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "server_error": 500,
    "server_is_overloaded": 503,
    "service_unavailable_error": 503,
    "timeout_error": 504,
    "unavailable_error": 503,
}


def classify(
    status: int,
    headers: Mapping[str, str],
    body: str,
    *,
    provider: str,
    now: float | None = None,
) -> ProviderError:
    """Return the error that an HTTP response with an error `status` stands for.

    Args:
        status: Its status.
        headers: Its headers, with lower-case names.
        body: Its body, as far as it was read.
        provider: Whose response it is, for the message.
        now: Unix time, for headers that hold a date; the clock's if None.
    """
    message = error_message(body) or f"HTTP {status}"
    verdict = headers.get("x-should-retry", "").strip().lower()
    kind = _kind(status, verdict, f"{message}\n{body}")
    wait = None
    if kind in ("rate_limit", "transient"):
        wait = retry_after(headers, body, now=now)
    elif kind == "other" and verdict != "false":
        # Rate limit headers come with every answer; only an explicit request to come back counts.
        wait = _explicit_wait(headers, time.time() if now is None else now)
    return ProviderError(
        f"{provider} answered {status}: {message}"
        if message != f"HTTP {status}"
        else f"{provider} answered {message}",
        kind=kind,
        status=status,
        retry_after=wait,
    )


def classify_in_stream(error: Any, *, provider: str) -> ProviderError:
    """Return the error that an error object inside a stream of status 200 stands for.

    Shapes: `{"type", "message"}`, `{"code": int | str, "message"}`, or a text.
    """
    fields: Mapping[str, Any] = error if isinstance(error, dict) else {"message": error}
    message = str(fields.get("message") or "unknown error")
    words = [str(fields[name]) for name in ("code", "type") if fields.get(name) is not None]
    status = next((s for s in map(_status_of, words) if s is not None), None)
    text = " ".join([*words, message])
    kind = _kind(status or 400, "", text)
    return ProviderError(
        f"{provider} broke off: {message}" + (f" ({', '.join(words)})" if words else ""),
        kind=kind,
        status=status,
        retry_after=_wait_in_text(text) if kind in ("rate_limit", "transient") else None,
    )


def error_message(body: str) -> str | None:
    """The message of an error body: `error.message`, `error`, `message` or `detail`.

    A short text that is no JSON is its own message; a page of HTML has none.
    """
    try:
        value = json.loads(body)
    except ValueError:
        text = body.strip()
        return text if 0 < len(text) <= _SHORT_BODY and not text.startswith("<") else None
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    candidates = (
        error.get("message") if isinstance(error, dict) else error,
        value.get("message"),
        value.get("detail"),
    )
    return next((text for text in candidates if isinstance(text, str) and text), None)


def retry_after(
    headers: Mapping[str, str], body: str = "", *, now: float | None = None
) -> float | None:
    """Seconds that the server asks to wait, by order of authority (section 2.3); None if unsaid."""
    clock = time.time() if now is None else now
    resets = (
        seconds_of(headers.get(f"x-ratelimit-reset-{what}", "")) for what in ("requests", "tokens")
    )
    for seconds in (
        _explicit_wait(headers, clock),
        _rate_limit_field(headers.get("ratelimit", "")),
        max((wait for wait in resets if wait), default=None),
        _unix_reset(headers.get("x-ratelimit-reset", ""), clock),
    ):
        if seconds is not None and seconds > 0:
            return seconds
    return _wait_in_text(body)


_UNITS: Final[Mapping[str, float]] = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[dhms])?", re.IGNORECASE)
_NUMBER: Final = r"\d+(?:\.\d+)?"
_HINT: Final = re.compile(
    rf"""(?:retry[-_ ]?after|retry\ in|try\ again\ in|wait(?:\ for)?|"retryDelay")
        [\s:"=]*(?:about\s+)?
        ( (?:{_NUMBER}\s*(?:ms|[dhms])(?![a-z]))+ | {_NUMBER} )
        \s*(seconds?|minutes?|hours?|milliseconds?)?""",
    re.IGNORECASE | re.VERBOSE,
)
_WORDS: Final[Mapping[str, str]] = {"mil": "ms", "sec": "s", "min": "m", "hou": "h"}


def seconds_of(text: str) -> float | None:
    """Seconds of a duration such as `6m0s`, `1h30m`, `200ms` or `12.5`; None if it is none."""
    compact = text.strip().lower()
    if not compact or _DURATION.sub("", compact).strip():
        return None
    return sum(float(number) * _UNITS[unit or "s"] for number, unit in _DURATION.findall(compact))


def _explicit_wait(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = _positive(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    seconds = _positive(text)
    if seconds is not None:
        return seconds
    try:
        wait = parsedate_to_datetime(text).timestamp() - now
    except ValueError:
        return None
    return wait if wait > 0 else None


def _rate_limit_field(text: str) -> float | None:
    match = re.search(rf"\b(?:t|reset)\s*=\s*({_NUMBER})", text)
    return float(match[1]) if match else None


def _unix_reset(text: str, now: float) -> float | None:
    value = _positive(text)
    if value is None:
        return None
    return (value / 1000 if value > 1e11 else value) - now  # OpenRouter sends milliseconds


def _wait_in_text(text: str) -> float | None:
    match = _HINT.search(text)
    if match is None:
        return None
    amount, word = match[1], match[2]
    seconds = seconds_of(amount + _WORDS[word[:3].lower()] if word else amount)
    return float(math.ceil(seconds)) if seconds else None


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _status_of(word: str) -> int | None:
    if word.isascii() and word.isdigit() and 400 <= int(word) <= 599:
        return int(word)
    return _STATUS_OF_WORD.get(word)


def _kind(status: int, verdict: str, text: str) -> ProviderErrorKind:
    if status == 402 or _QUOTA.search(text):
        return "quota"
    if verdict == "false":
        return "other"
    if status == 429:
        return "rate_limit"
    if verdict == "true" or status in (408, 409) or status >= 500:
        return "transient"
    return "transient" if _PROXY.search(text) else "other"
