"""Read a streamed response from its connection.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from typing import Final

from jp_nb.agent.provider_events import Finished, ProviderEvent
from jp_nb.errors import ProviderError
from jp_nb.providers.response_parts.idle_watch import IdleWatch
from jp_nb.providers.response_parts.stream_decoder import StreamDecoder

DRAIN_SECONDS: Final = 0.25


async def stream_events(
    chunks: AsyncGenerator[bytes, None],
    decoder: StreamDecoder,
    *,
    idle_timeout: float,
    sanitize_error: Callable[[ProviderError], ProviderError] = lambda error: error,
    recover: Callable[[ProviderError], ProviderEvent | None] = lambda _: None,
    first: Iterable[ProviderEvent] = (),
) -> AsyncGenerator[ProviderEvent, None]:
    """Yield the events of a response with the body `chunks`, which is always closed.

    The wait for the first chunk includes connecting. `idle_timeout` is the maximum number of
    seconds without content or keep-alives; 0 is no limit. `sanitize_error` makes an error safe to
    show: it has no key. `recover` may return a last event instead of the error, such as a `Retry`.
    `first` are events of the caller, such as notices, which precede those of the response.

    Raises:
        ProviderError: The request fails, or the stream breaks or is idle for too long.
    """
    problem: ProviderError | None = None
    async with aclosing(chunks):
        for event in first:
            yield event

        with IdleWatch(decoder, idle_timeout) as idle:
            try:
                while not decoder.events.finished:
                    chunk = await idle.read_next(chunks)
                    # None is the end of the body.
                    for event in decoder.finish() if chunk is None else decoder.feed(chunk):
                        if type(event) is Finished:
                            await _drain(chunks)  # the consumer may stop after this event
                        yield event
            except ProviderError as exc:
                problem = exc

    chunk = None  # a traceback must not show these raw bytes, which may contain a key
    if problem is None:
        return

    # The ends of texts that the decoder had held back, because a key might have begun there.
    for event in decoder.events.take_redacted_ends():
        yield event

    error = sanitize_error(problem)
    last_event = recover(error)
    if last_event is None:
        raise error
    yield last_event


async def _drain(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read the rest of the body: only then can the connection be reused."""
    with suppress(TimeoutError, ProviderError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass
