"""Map server errors to `ProviderError`, with the kind, the wait, and advice for the user.

The retry loop is in `jp_nb/agent/retries.py`.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from jp_nb.config.tree.providers_table import Llm
from jp_nb.errors import ProviderError, ProviderErrorKind
from jp_nb.providers.endpoint import Endpoint

_QUOTA: Final = re.compile(
    r"insufficient[_ ]quota|insufficient credits|out of credits|billing_error"
    r"|credit balance is too low|quota exceeded",
    re.IGNORECASE,
)
# Google answers 429 to both, with the same sentence about the quota and the billing.
_GOOGLE_LIMIT: Final = re.compile(r"PerMinute|\"retryDelay\"|[Pp]lease retry in")
_GOOGLE_QUOTA: Final = re.compile(r"PerDay|check your plan and billing")
_TOO_LONG: Final = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum (?:context|prompt length|model length)"
    r"|(?:prompt|input) is too long|too many (?:input )?tokens|request_too_large|reduce the length"
    r"|exceeds the maximum number of tokens",
    re.IGNORECASE,
)
# llama.cpp and Ollama answer 500 to an image for a model without vision: it would fail again.
_NO_MEDIA: Final = re.compile(
    r"(?<![a-z0-9_])(?:images?|image_url|vision|multi-?modal|mmproj|pdfs?|documents?)(?![a-z0-9_])",
    re.IGNORECASE,
)
_UNSUPPORTED: Final = re.compile(
    r"not (?:yet )?support|n't support|unsupported|not (?:a |an )?(?:multi-?modal|vision)"
    r"|not (?:compiled|configured|able to (?:process|accept))|missing data"
    r"|(?:can't|cannot|could not|failed to) (?:be )?(?:load|decode)|only supported by"
    r"|no (?:vision|multi-?modal|image) (?:support|capabilit)",
    re.IGNORECASE,
)
_REMAINING: Final = re.compile(
    r"x-ratelimit-remaining-([a-z-]{1,40})|anthropic-ratelimit-([a-z-]{1,40})-remaining"
)
_PROXY: Final = re.compile(r"unreachable|upstream", re.IGNORECASE)
_SHORT_BODY: Final = 300
MAX_SERVER_MESSAGE_CHARS: Final = 2000
"""Maximum number of characters of a server's error message."""
MAX_RETRY_WAIT_S: Final = 30 * 86400.0
"""Maximum wait that a server may ask for. Longer waits are ignored."""

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
        kind = "other"

    wait = None
    if kind in ("rate_limit", "transient"):
        wait = parse_retry_after(headers, body, now=now)
    elif kind == "other" and retry_header != "false":
        # Rate limit headers are in every response. For other errors, only `retry-after` counts.
        clock = time.time() if now is None else now
        wait = _parse_explicit_wait(headers, clock)

    described = f"{status}: {message}" if message != f"HTTP {status}" else message

    if kind == "rate_limit":
        exhausted = (name.lower() for name, left in headers.items() if left.strip() == "0")
        matches = filter(None, map(_REMAINING.fullmatch, exhausted))
        limits = ((match[1] or match[2]).replace("-", " ") for match in matches)
        if reached := " and ".join(limits):
            described += f"; the limit of {reached} is reached"
        if wait is not None:
            described += f"; retry after {wait:.3g} s"

    return ProviderError(
        f"{provider} answered {described}", kind=kind, status=status, retry_after=wait
    )


def classify_stream_error(error: Any, *, provider: str) -> ProviderError:
    """Return the exception for an error object inside a stream with status 200.

    The object is `{"type", "message"}`, `{"code": int | str, "message"}`, or a text.
    """
    fields: Mapping[str, Any] = error if isinstance(error, dict) else {"message": error}
    message = _truncate(_read_scalar(fields.get("message")) or "unknown error")

    given = (_truncate(_read_scalar(fields.get(name))) for name in ("code", "type"))
    words = [word for word in given if word]
    statuses = map(_read_status, words)
    status = next((status for status in statuses if status is not None), None)

    text = " ".join([*words, message])
    kind = _classify_kind(status or 400, "", text)

    if _refuses_media(status, message):
        kind = "other"

    wait = _find_wait(text) if kind in ("rate_limit", "transient") else None
    details = f" ({', '.join(words)})" if words else ""
    return ProviderError(
        f"{provider} stopped with an error: {message}{details}",
        kind=kind,
        status=status,
        retry_after=wait,
    )


def _read_status(word: str) -> int | None:
    is_number = re.fullmatch("[45][0-9][0-9]", word) is not None
    return int(word) if is_number else _STATUS_OF_WORD.get(word.lower())


def _read_scalar(value: Any) -> str:
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
        return text if 0 < len(text) <= _SHORT_BODY and not text.startswith("<") else None

    if isinstance(value, list) and value:
        value = value[0]

    if not isinstance(value, dict):
        return None

    error = value.get("error")
    inner = error.get("message") if isinstance(error, dict) else error
    candidates = (inner, value.get("message"), value.get("detail"))

    return next((text for text in candidates if isinstance(text, str) and text), None)


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
_UNIT_PREFIXES: Final[Mapping[str, str]] = {"mil": "ms", "sec": "s", "min": "m", "hou": "h"}


def parse_retry_after(
    headers: Mapping[str, str], body: str = "", *, now: float | None = None
) -> float | None:
    """Return the seconds that the server asks to wait; None if it does not ask.

    Sources in order of precedence: `retry-after`, rate limit headers, the text of the body.
    """
    clock = time.time() if now is None else now

    limit = re.search(rf"\b(?:t|reset)\s*=\s*({_NUMBER})", headers.get("ratelimit", ""))
    resets = (
        parse_duration(headers.get(f"x-ratelimit-reset-{unit}", ""))
        for unit in ("requests", "tokens")
    )

    moment = _parse_number(headers.get("x-ratelimit-reset", ""))
    if moment is not None and moment > 1e11:
        moment /= 1000  # OpenRouter sends milliseconds

    until_limit = float(limit[1]) if limit else None
    until_moment = None if moment is None else moment - clock

    candidates = (
        _parse_explicit_wait(headers, clock),
        until_limit,
        max((wait for wait in resets if wait), default=None),
        until_moment,
    )
    for seconds in candidates:
        if seconds is not None and 0 < seconds <= MAX_RETRY_WAIT_S:
            return seconds

    return _find_wait(body)


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration, such as `6m0s`, `200ms` or `12.5`, or None."""
    compact = text.strip().lower()
    if not compact or _DURATION.sub("", compact).strip():
        return None
    return sum(float(number) * _UNITS[unit or "s"] for number, unit in _DURATION.findall(compact))


def _parse_explicit_wait(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = _parse_positive(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000

    text = headers.get("retry-after", "").strip()
    seconds = _parse_positive(text)
    if seconds is not None:
        return seconds if seconds <= MAX_RETRY_WAIT_S else None

    try:
        wait = parsedate_to_datetime(text).timestamp() - now
    except (ValueError, TypeError, LookupError, ArithmeticError, OSError):  # any text of a server
        return None

    return wait if 0 < wait <= MAX_RETRY_WAIT_S else None


def _find_wait(text: str) -> float | None:
    match = _HINT.search(text)
    if match is None:
        return None
    amount = match[1]
    word = match[2]
    unit = _UNIT_PREFIXES[word[:3].lower()] if word else ""
    seconds = parse_duration(amount + unit)
    return float(math.ceil(seconds)) if seconds and seconds <= MAX_RETRY_WAIT_S else None


def _parse_positive(text: str) -> float | None:
    value = _parse_number(text)
    return value if value is not None and 0 < value <= MAX_RETRY_WAIT_S * 1000 else None


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _classify_kind(status: int, retry_header: str, text: str) -> ProviderErrorKind:
    if status == 429 and "RESOURCE_EXHAUSTED" in text.upper():
        is_limit = "PerDay" not in text and _GOOGLE_LIMIT.search(text)
        return "quota" if _GOOGLE_QUOTA.search(text) and not is_limit else "rate_limit"

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


MEDIA_FAILURES: Final = (500, 501)
"""Statuses with which servers refuse a kind of input that their model does not take."""


def _refuses_media(status: int | None, message: str) -> bool:
    if status not in MEDIA_FAILURES:
        return False
    return _NO_MEDIA.search(message) is not None and _UNSUPPORTED.search(message) is not None


CHOOSE: Final = "`%jp config assistant.model.id=PROVIDER/NAME`"

_LARGER_CONTEXT: Final[Mapping[str, str]] = {
    "llamacpp": ", or start llama-server with a larger `--ctx-size`",
    "ollama": ", or start Ollama with a larger OLLAMA_CONTEXT_LENGTH",
}
_START_SERVER: Final[Mapping[str, str]] = {
    "llamacpp": "Start it (`llama-server -m MODEL.gguf`)",
    "ollama": "Start it (`ollama serve`)",
}


def format_key_statement(variable: str) -> str:
    """Return the statement that sets a key in a running kernel with hidden input."""
    return f'import os, getpass; os.environ["{variable}"] = getpass.getpass()'


def format_model_choices(llm: Llm) -> str:
    """Return lines that tell how to choose a model, and which keys are set."""
    rows: list[tuple[str, str]] = []
    missing: list[str] = []
    for name in llm.list_names():
        if (settings := llm.get_settings(name)) is None:
            continue  # the scripted provider
        variable = settings.api_key_env
        if variable is None:
            places = (
                settings.DEFAULT_ADDRESSES if settings.base_url is None else [settings.base_url]
            )
            state = f"no key; server at {' or '.join(places)}"
        elif os.environ.get(variable, "").strip():
            state = f"{variable} is set"
        else:
            state = f"{variable} is not set"
            missing.append(variable)
        rows.append((f"%%jp -m {name}/MODEL", state))

    width = max(len(option) for option, _ in rows)
    lines = [f"  {option.ljust(width)}  {state}" for option, state in rows]
    lines.insert(0, "Choose a model; it is used for the rest of the conversation:")

    if missing:
        lines.append(f"Set a key in this running kernel: {format_key_statement(missing[0])}")

    lines.append(f"Keep a model for all notebooks: {CHOOSE.replace('config ', 'config --user ')}")

    return "\n".join(lines)


def format_advice(error: ProviderError, endpoint: Endpoint) -> str:
    """Return advice that helps the user to solve `error`; "" for errors without advice."""
    match error.kind:
        case "refused" | "connect":
            return _advise_connection(endpoint, refused=error.kind == "refused")
        case "rate_limit":
            return (
                "Wait, then run the cell again. To retry longer automatically, set "
                "`%jp config assistant.request.max_retries=N` and "
                "`assistant.request.max_backoff_secs=SECONDS`"
            )
        case "quota":
            return f"Check your account at the provider, or choose another model: {CHOOSE}"
        case "too_long":
            return (
                "The conversation is longer than the model's context window. Compact "
                "the earlier turns with `%jp compact`, then continue with `%jp "
                "resume`. To compact automatically at N tokens, set "
                "`conversation.compaction.auto.max_tokens=N`. You can also "
                "shorten the request, attach less, start a new conversation (`%jp new`), or "
                "continue from an earlier turn (`%jp fork TURN`). Or choose a model "
                f"with a larger context window ({CHOOSE})"
                + _LARGER_CONTEXT.get((endpoint.local or endpoint.provider), "")
            )
        case "other":
            return _advise_status(error, endpoint)
        case _:
            return ""


def _advise_connection(endpoint: Endpoint, *, refused: bool) -> str:
    setting = f"{endpoint.setting_path}.base_url"
    if endpoint.environment_url:
        source = f"The address is in the environment variable {endpoint.base_url_env}"
    else:
        source = (
            f"Its address is the setting {setting}. Change it with `%jp config "
            f"{setting}=http://HOST:PORT`"
        )
    if not refused:
        return f"Is the server running? {source}"

    start = _START_SERVER.get((endpoint.local or endpoint.provider), "Start it")
    return f"{start}, or set its address. {source}"


def _advise_status(error: ProviderError, endpoint: Endpoint) -> str:
    status = 401 if "API key not valid" in str(error) else error.status  # Google answers 400
    match status:
        case 401 | 403 if endpoint.key_env and not endpoint.has_key:
            return f"The environment variable {endpoint.key_env} for the key is not set"
        case 401 | 403 if endpoint.key_env:
            return f"Check the key in the environment variable {endpoint.key_env}"
        case 401 | 403:
            return (
                f"Set {endpoint.setting_path}.api_key_env to the name of the environment "
                "variable with the key"
            )
        case 404 if (endpoint.local or endpoint.provider) == "ollama":
            return (
                "Check that the model is installed: `ollama list` shows the "
                "installed models, and `ollama pull NAME` downloads one. Or choose "
                f"another model: {CHOOSE}"
            )
        case 404 | 405 if endpoint.path.endswith("/responses") and not endpoint.is_openai:
            return (
                f"If the model exists, this server does not have the Responses API. Use chat "
                f"completions: `%jp config {endpoint.setting_path}.dialect=chat`. Otherwise, "
                f"choose another model: {CHOOSE}"
            )
        case 404 | 405 if endpoint.path.endswith("/interactions"):
            return (
                f"Check the model ({CHOOSE}). If it exists, the Interactions API does not have it, "
                "or this server does not have that API. Use generateContent: `%jp config "
                f"{endpoint.setting_path}.dialect=generate`"
            )
        case 404:
            return (
                f"Check the model ({CHOOSE}) and {endpoint.setting_path}.base_url ({endpoint.url})"
            )
    return ""
