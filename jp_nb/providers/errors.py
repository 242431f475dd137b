"""Map errors of a server, decide about retries, and advise the user.

The loop that waits and tries again is in `jp_nb/agent/response.py`.

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

from jp_nb.config.tree.models import AVAILABLE, Llm
from jp_nb.errors import ProviderError, ProviderErrorKind
from jp_nb.providers.endpoint import Endpoint

_QUOTA: Final = re.compile(
    r"insufficient[_ ]quota|insufficient credits|out of credits|billing_error"
    r"|credit balance is too low|quota exceeded",
    re.IGNORECASE,
)
_TOO_LONG: Final = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum (?:context|prompt length|model length)"
    r"|(?:prompt|input) is too long|too many (?:input )?tokens|request_too_large|reduce the length"
    r"|exceeds the maximum number of tokens",
    re.IGNORECASE,
)
_PROXY: Final = re.compile(r"unreachable|upstream", re.IGNORECASE)
_SHORT_BODY: Final = 300
MAX_MESSAGE: Final = 2000
"""Characters of what a server says about an error."""
MAX_WAIT: Final = 30 * 86400.0
"""Seconds that a server may ask to wait; more than a month is no answer."""

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
    message = _bounded(error_message(body) or f"HTTP {status}")
    verdict = headers.get("x-should-retry", "").strip().lower()
    kind = _kind(status, verdict, f"{message}\n{body}")
    wait = None
    if kind in ("rate_limit", "transient"):
        wait = retry_after(headers, body, now=now)
    elif kind == "other" and verdict != "false":
        # Rate limit headers come with every answer; only an explicit request to come back counts.
        wait = _explicit_wait(headers, time.time() if now is None else now)
    said = f"{status}: {message}" if message != f"HTTP {status}" else message
    limit = _limit_reached(headers, wait) if kind == "rate_limit" else ""
    return ProviderError(
        f"{provider} answered {said}{limit}",
        kind=kind,
        status=status,
        retry_after=wait,
    )


def classify_in_stream(error: Any, *, provider: str) -> ProviderError:
    """Return the error that an error object inside a stream of status 200 stands for.

    Shapes: `{"type", "message"}`, `{"code": int | str, "message"}`, or a text.
    """
    fields: Mapping[str, Any] = error if isinstance(error, dict) else {"message": error}
    message = _bounded(_word(fields.get("message")) or "unknown error")
    words = [word for name in ("code", "type") if (word := _bounded(_word(fields.get(name))))]
    status = next((s for s in map(_status_of, words) if s is not None), None)
    text = " ".join([*words, message])
    kind = _kind(status or 400, "", text)
    return ProviderError(
        f"{provider} stopped with an error: {message}"
        + (f" ({', '.join(words)})" if words else ""),
        kind=kind,
        status=status,
        retry_after=_wait_in_text(text) if kind in ("rate_limit", "transient") else None,
    )


def _word(value: Any) -> str:
    """`value` where a text or a number should be; "" for anything else."""
    return str(value) if isinstance(value, (str, int, float)) else ""


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"


def _limit_reached(headers: Mapping[str, str], wait: float | None) -> str:
    """Return which limit is used up and for how long, as far as the headers tell, after `; `."""
    reached = [
        (match[1] or match[2]).replace("-", " ")
        for name, left in headers.items()
        if left.strip() == "0" and (match := _REMAINING.fullmatch(name.lower()))
    ]
    which = f"; the limit of {' and '.join(reached)} is reached" if reached else ""
    return which + (f"; retry after {wait:.3g} s" if wait is not None else "")


_REMAINING: Final = re.compile(
    r"x-ratelimit-remaining-([a-z-]{1,40})|anthropic-ratelimit-([a-z-]{1,40})-remaining"
)


def error_message(body: str) -> str | None:
    """The message of an error body: `error.message`, `error`, `message` or `detail`.

    A short text that is no JSON is its own message; a page of HTML has none.
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
    candidates = (
        error.get("message") if isinstance(error, dict) else error,
        value.get("message"),
        value.get("detail"),
    )
    return next((text for text in candidates if isinstance(text, str) and text), None)


def retry_after(
    headers: Mapping[str, str], body: str = "", *, now: float | None = None
) -> float | None:
    """Seconds that the server asks to wait, by order of authority; None if unsaid."""
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
        if seconds is not None and 0 < seconds <= MAX_WAIT:
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
    """Seconds of a duration such as `6m0s`, `1h30m`, `200ms` or `12.5`; None if it is not one."""
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
        return seconds if seconds <= MAX_WAIT else None
    try:
        wait = parsedate_to_datetime(text).timestamp() - now
    except (ValueError, TypeError, LookupError, ArithmeticError, OSError):  # whatever it holds
        return None
    return wait if 0 < wait <= MAX_WAIT else None


def _rate_limit_field(text: str) -> float | None:
    match = re.search(rf"\b(?:t|reset)\s*=\s*({_NUMBER})", text)
    return float(match[1]) if match else None


def _unix_reset(text: str, now: float) -> float | None:
    value = _number(text)
    if value is None:
        return None
    return (value / 1000 if value > 1e11 else value) - now  # OpenRouter sends milliseconds


def _wait_in_text(text: str) -> float | None:
    match = _HINT.search(text)
    if match is None:
        return None
    amount, word = match[1], match[2]
    seconds = seconds_of(amount + _WORDS[word[:3].lower()] if word else amount)
    return float(math.ceil(seconds)) if seconds and seconds <= MAX_WAIT else None


def _positive(text: str) -> float | None:
    value = _number(text)
    return value if value is not None and 0 < value <= MAX_WAIT * 1000 else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _status_of(word: str) -> int | None:
    if re.fullmatch("[45][0-9][0-9]", word):
        return int(word)
    return _STATUS_OF_WORD.get(word)


def _kind(status: int, verdict: str, text: str) -> ProviderErrorKind:
    if status == 402 or _QUOTA.search(text):
        return "quota"
    if status in (400, 413, 422) and _TOO_LONG.search(text):
        return "too_long"
    if verdict == "false":
        return "other"
    if status == 429:
        return "rate_limit"
    if verdict == "true" or status in (408, 409) or status >= 500:
        return "transient"
    return "transient" if _PROXY.search(text) else "other"


CHOOSE: Final = "`%jp config assistant.model.id=PROVIDER/NAME`"

_ROOM: Final[Mapping[str, str]] = {
    "llamacpp": ", or start llama-server with a larger `--ctx-size`",
    "ollama": ", or start Ollama with a larger OLLAMA_CONTEXT_LENGTH",
}
_START: Final[Mapping[str, str]] = {
    "llamacpp": "Start it (`llama-server -m MODEL.gguf --port 8080`)",
    "ollama": "Start it (`ollama serve`)",
}


def set_key(variable: str) -> str:
    """Return the statement that sets the key in `variable` in a running kernel, and hides it."""
    return f'import os, getpass; os.environ["{variable}"] = getpass.getpass()'


def ways_to_choose(llm: Llm) -> str:
    """Return lines about each provider: how to choose it, and whether its key is set."""
    rows: list[tuple[str, str]] = []
    missing: list[str] = []
    for name in AVAILABLE:
        if (settings := getattr(llm, name, None)) is None:
            continue  # a script is no model
        variable = settings.api_key_env
        if variable is None:
            said = f"no key; server at {settings.base_url}"
        elif os.environ.get(variable, "").strip():
            said = f"{variable} is set"
        else:
            said = f"{variable} is not set"
            missing.append(variable)
        rows.append((f"%%jp -m {name}/MODEL", said))
    width = max(len(option) for option, _ in rows)
    lines = [f"  {option.ljust(width)}  {said}" for option, said in rows]
    lines.insert(0, "Choose a model; it is used for the rest of the conversation:")
    if missing:
        lines.append(f"Set a key in this running kernel: {set_key(missing[0])}")
    lines.append(f"Keep a model for all notebooks: {CHOOSE.replace('config ', 'config --user ')}")
    return "\n".join(lines)


def advice(error: ProviderError, endpoint: Endpoint) -> str:
    """Return what to do about `error`, in whole sentences; "" if it says so itself."""
    match error.kind:
        case "refused" | "connect":
            return _reach(endpoint, refused=error.kind == "refused")
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
                "`conversation.compaction.auto.max_tokens=N`. Or ask a shorter "
                "request, attach less, start a new conversation (`%jp new`), "
                "continue from an earlier turn (`%jp fork TURN`), or choose a model "
                f"with a larger context window ({CHOOSE})" + _ROOM.get(endpoint.provider, "")
            )
        case "other":
            return _refused(error, endpoint)
        case _:
            return ""


def _reach(endpoint: Endpoint, *, refused: bool) -> str:
    if endpoint.override:
        where = f"The address is in the environment variable {endpoint.base_url_env}"
    else:
        where = (
            f"Its address is the setting {endpoint.setting}.base_url. Change it with `%jp "
            f"config {endpoint.setting}"
        )
        where += ".base_url=http://HOST:PORT`"
    start = _START.get(endpoint.provider, "Start it") if refused else "Is the server running?"
    return f"{start}, or set its address. {where}" if refused else f"{start} {where}"


def _refused(error: ProviderError, endpoint: Endpoint) -> str:
    match error.status:
        case 401 | 403 if endpoint.key_env and not endpoint.key_is_set:
            return f"The environment variable {endpoint.key_env} for the key is not set"
        case 401 | 403 if endpoint.key_env:
            return f"Check the key in the environment variable {endpoint.key_env}"
        case 401 | 403:
            return (
                f"Set {endpoint.setting}.api_key_env to the name of the environment "
                "variable with the key"
            )
        case 404 if endpoint.provider == "ollama":
            return (
                "Check that the model is installed: `ollama list` shows the "
                "installed models, and `ollama pull NAME` downloads one. Or choose "
                f"another model: {CHOOSE}"
            )
        case 404:
            return f"Check the model ({CHOOSE}) and {endpoint.setting}.base_url ({endpoint.url})"
    return ""
