"""Send a request again after errors that may pass, with growing pauses.

An attempt may also end with a `Retry`: the provider has repaired the conversation, and the next
attempt follows at once.

Source: `docs/providers.md` (errors and retries).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol, TypeVar

from jp_nb.agent.provider_events import Retry
from jp_nb.config.tree.request_settings import Request as RequestConfig
from jp_nb.errors import ProviderError, ProviderErrorKind

T = TypeVar("T")
MAX_REPAIRS: Final = 10
"""Maximum number of `Retry` events of a request: repairs of the conversation by the provider."""
_LAST_DOUBLING: Final = 60
"""Doublings after which a pause grows no more: even one of 1 ms is then above any maximum."""
# Kinds of errors in words, for the pause before the next attempt.
_KINDS: Final[Mapping[ProviderErrorKind, str]] = {
    "connect": "no connection",
    "timeout": "no answer in time",
    "rate_limit": "rate limit",
    "transient": "server error",
}


class WaitCallback(Protocol):
    """Shows the model of a running request, or the pause before the next attempt."""

    def __call__(self, model: str, *, again: str = "", until: float | None = None) -> None:
        """Show that `model` is working, or the reason and `time.monotonic` of the next attempt."""


@dataclass(slots=True)
class Failures:
    """The failed attempts of one answer, which may take several requests."""

    count: int = 0


async def with_retries(
    attempt: Callable[[], Awaitable[T | Retry]],
    *,
    model: str,
    limits: RequestConfig,
    waits: WaitCallback,
    sleep: Callable[[float], Awaitable[None]],
    failures: Failures | None = None,
) -> T:
    """Call `attempt`, which sends a request once, until it succeeds, and return its result.

    After a `Retry` it is called again at once, up to `MAX_REPAIRS` times.

    Args:
        attempt: Sends the request once.
        model: Name of the model, for the user.
        limits: Maximum number of retries, and the pauses.
        waits: Called before each attempt and each pause.
        sleep: Waits for a number of seconds.
        failures: The earlier failures of the same answer; None for a new answer. All of them
            together are limited to `max_retries`, also if attempts received a part of the answer.

    Raises:
        ProviderError: The error of the last attempt, with the number of attempts; or there were
            too many repairs.
    """
    failures = Failures() if failures is None else failures
    repairs = 0

    while True:
        waits(model)
        try:
            result = await attempt()
        except ProviderError as exc:
            failures.count += 1
            if not exc.retryable or failures.count > limits.max_retries:
                _add_attempts(exc, failures.count)
                raise

            seconds = compute_backoff(limits, failures.count, exc.retry_after)
            reason = _format_reason(exc, failures.count, limits.max_retries)
            waits(model, again=reason, until=monotonic() + seconds)
            await sleep(seconds)
            continue

        if not isinstance(result, Retry):
            return result

        repairs += 1
        if repairs > MAX_REPAIRS:
            raise ProviderError(f"the provider keeps rejecting the conversation: {result.reason}")


def _add_attempts(error: ProviderError, attempts: int) -> None:
    """Add the number of attempts to the text of `error`, if there might have been several."""
    if error.retryable or attempts > 1:
        times = "once" if attempts == 1 else f"{attempts} times"
        error.args = (f"{str(error).rstrip('. ')}. It was tried {times}.",)


def compute_backoff(limits: RequestConfig, attempt: int, retry_after: float | None) -> float:
    """Return the seconds between attempt number `attempt` (from 1) and the next.

    The server's `retry_after` has precedence. Otherwise, the pause doubles with each attempt, and a
    random time is added. Both are limited to the maximum.
    """
    ceiling = float(limits.max_backoff_secs)
    if retry_after is not None:
        return min(retry_after, ceiling)

    base = limits.base_backoff_ms / 1000
    doublings = min(attempt - 1, _LAST_DOUBLING)
    jitter = random.uniform(0, min(0.5, base))  # so that many kernels do not retry together
    return min(base * 2.0**doublings + jitter, ceiling)


def _format_reason(error: ProviderError, attempt: int, retries: int) -> str:
    """Return the reason for a pause: `529 server error, attempt 2 of 6`."""
    status = f"{error.status} " if error.status is not None else ""
    kind = _KINDS.get(error.kind, "temporarily refused")
    return f"{status}{kind}, attempt {attempt + 1} of {retries + 1}"
