"""Get one complete response of a model, for requests that are no turns.

A turn displays its response as it arrives (`response_receiver.py`). Inquiries, summaries, and rows
of a table only need the whole, and a response that is incomplete is an error.

Source: `docs/providers.md`, `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial

from jp_nb.agent.model_requests.chat_model import ChatModel
from jp_nb.agent.model_requests.response_builder import ResponseBuilder
from jp_nb.agent.model_requests.retries import WaitCallback, with_retries
from jp_nb.agent.provider import ModelRequest, Provider
from jp_nb.agent.provider_events import Finished, ProviderEvent, Retry, Usage
from jp_nb.errors import ProviderError
from jp_nb.record.entries.events import Entry


class RefusalError(ProviderError):
    """The model refused to answer."""


async def request_response(
    model: ChatModel,
    request: ModelRequest,
    *,
    waits: WaitCallback,
    on_usage: Callable[[str, Usage], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[Entry]:
    """Return the entries of one complete response to `request`, with retries.

    `on_usage` receives the model and the tokens of each attempt, including failed ones. `waits` is
    called before each pause. Canceling the task cancels the request.

    Raises:
        ProviderError: No attempt succeeded.
    """
    name = model.full_name

    # Tells the user if the conversation goes to another host than that of the turn.
    model.before_sending(model.provider, model.provider_name)

    return await with_retries(
        partial(request_once, model.provider, request, partial(on_usage, name)),
        model=name,
        limits=model.request,
        waits=waits,
        sleep=sleep,
    )


async def request_once(
    provider: Provider, request: ModelRequest, on_usage: Callable[[Usage], None]
) -> list[Entry] | Retry:
    """Return the entries of one response, or `Retry` if the provider asks for another request.

    Raises:
        RefusalError: The model refused to answer.
        ProviderError: The request failed, or the answer is incomplete.
    """
    builder = ResponseBuilder()
    entries: list[Entry] = []

    try:
        async with aclosing(provider.stream(request)) as events:
            async for event in events:
                entry = builder.feed(event)
                if entry is not None:
                    entries.append(entry)
    finally:
        if builder.usage != Usage():
            on_usage(builder.usage)

    return _finish_entries(builder, entries)


def receive_entries(
    events: Iterable[ProviderEvent], on_usage: Callable[[Usage], None]
) -> list[Entry] | Retry:
    """Return the entries of a response of a batch API, which has all `events` at once.

    Raises:
        ProviderError: As in `request_once`.
    """
    builder = ResponseBuilder()
    fed = [builder.feed(event) for event in events]
    entries = [entry for entry in fed if entry is not None]

    if builder.usage != Usage():
        on_usage(builder.usage)

    return _finish_entries(builder, entries)


def _finish_entries(builder: ResponseBuilder, entries: list[Entry]) -> list[Entry] | Retry:
    """Return all entries of a response that has ended.

    Raises:
        ProviderError: As in `request_once`.
    """
    match builder.get_end():
        case Retry() as retry:
            return retry
        case Finished(reason="refused", detail=detail):
            reason = f": {detail}" if detail else ""
            raise RefusalError(f"the model refused to answer{reason}")
        case Finished(reason="max_tokens"):
            raise ProviderError(
                "the answer reached the token limit and is incomplete", kind="output_limit"
            )

    return entries + builder.make_unflushed_entries()
