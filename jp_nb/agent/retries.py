"""Sends a request to a model again when it fails, after a pause.

Source: `docs/providers.md`, `docs/turns.md`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Final, Protocol, TypeVar

from jp_nb.agent.model_events import Retry
from jp_nb.config.tree.model_config import Request as RequestConfig
from jp_nb.errors import ProviderError, ProviderErrorKind

T = TypeVar("T")

MAX_PATCHES: Final = 10
"""How often in a row a provider may mend its rendering and ask to be called again."""
MAX_BREAKS: Final = 4
"""An answer that goes on a little at each attempt gets so many times `max_retries` attempts."""
_KINDS: Final[Mapping[ProviderErrorKind, str]] = {
    "connect": "no connection",
    "timeout": "no answer in time",
    "rate_limit": "rate limit",
    "transient": "server error",
}


class WaitCallback(Protocol):
    """Is told which model is waited for, and until when if that is known."""

    def __call__(self, model: str, *, again: str = "", until: float | None = None) -> None:
        """Note that `model` is asked, or that it will be at `until`; `again` says why."""
        ...


async def with_retries(
    attempt: Callable[[], Awaitable[T | Retry]],
    *,
    model: str,
    limits: RequestConfig,
    waits: WaitCallback,
    sleep: Callable[[float], Awaitable[None]],
    got_on: Callable[[], bool] = lambda: False,
) -> T:
    """Return the result of `attempt`, which is called until it succeeds or the limits are reached.

    Args:
        attempt: Sends the request once. `Retry` has it called again at once.
        model: Name of the model, for the person.
        limits: How often, and how long the pauses are.
        waits: Is told before each attempt and each pause.
        sleep: Waits that many seconds.
        got_on: Tells if the attempt that failed brought a part of the answer: the count begins
            again then.

    Raises:
        ProviderError: The last one; it says how often the request was tried.
    """
    failures = tries = patches = 0
    most = limits.max_retries
    while True:
        waits(model)
        try:
            result = await attempt()
        except ProviderError as exc:
            tries += 1
            failures = 1 if got_on() else failures + 1
            if not exc.retryable or failures > most or tries > MAX_BREAKS * max(most, 1):
                _say_tries(exc, tries)
                raise
            seconds = backoff(limits, failures, exc.retry_after)
            waits(model, again=_reason(exc, failures, most), until=monotonic() + seconds)
            await sleep(seconds)
            continue
        if not isinstance(result, Retry):
            return result
        patches += 1
        if patches > MAX_PATCHES:
            raise ProviderError(f"the provider keeps rejecting the conversation: {result.reason}")


def backoff(limits: RequestConfig, attempt: int, retry_after: float | None) -> float:
    """Return the seconds between attempt number `attempt` (from 1) and the next.

    The server's wish counts, capped; without one the pause doubles, with up to half a second of
    jitter so that many kernels do not come back at one time.
    """
    ceiling = float(limits.max_backoff_secs)
    if retry_after is not None:
        return min(retry_after, ceiling)
    base = limits.base_backoff_ms / 1000
    jitter = random.uniform(0, min(0.5, base))
    return float(min(base * 2 ** (attempt - 1) + jitter, ceiling))


def _reason(error: ProviderError, attempt: int, retries: int) -> str:
    """Say why attempt number `attempt` failed, and which one is next: `429 rate limit, …`."""
    status = f"{error.status} " if error.status is not None else ""
    kind = _KINDS.get(error.kind, "temporarily refused")
    return f"{status}{kind}, attempt {attempt + 1} of {retries + 1}"


def _say_tries(error: ProviderError, tries: int) -> None:
    """Have `error`, the last one, say how often the request was tried, if that is worth a word."""
    if error.retryable or tries > 1:
        times = "once" if tries == 1 else f"{tries} times"
        error.args = (f"{str(error).rstrip('. ')}. It was tried {times}.",)
