"""Says why a request to a model is sent again, and how often it was."""

from __future__ import annotations

from collections.abc import Mapping

from jp_nb.errors import ProviderError, ProviderErrorKind

_KINDS: Mapping[ProviderErrorKind, str] = {
    "connect": "no connection",
    "timeout": "no answer in time",
    "rate_limit": "rate limit",
    "transient": "server in trouble",
}


def retry_words(error: ProviderError, attempt: int, retries: int) -> str:
    """Why attempt number `attempt` (from 1) failed, and which one is next: `429 rate limit, …`."""
    status = f"{error.status} " if error.status is not None else ""
    kind = _KINDS.get(error.kind, "refused for now")
    return f"{status}{kind}, attempt {attempt + 1} of {retries + 1}"


def say_tries(error: ProviderError, tries: int) -> None:
    """Have `error`, the last one, say how often it was tried, if that is worth a word."""
    if error.retryable or tries > 1:
        times = "once" if tries == 1 else f"{tries} times"
        error.args = (f"{str(error).rstrip('. ')}. It was tried {times}.",)
