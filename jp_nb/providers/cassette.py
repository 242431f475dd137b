"""Provider that records requests and responses, or replays recorded responses.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import Protocol

from pydantic import JsonValue

from jp_nb.agent.provider import ModelList, ModelRequest, Provider, ProviderEvent, SentRequest
from jp_nb.agent.recording import (
    Exchange,
    ExchangeRecorder,
    FailedResponse,
    Hide,
    IncompleteResponse,
    NormalizedRequest,
    RecordedResult,
    RequestNormalizer,
)
from jp_nb.errors import ProviderError
from jp_nb.record.context import RequestContext


class ExchangeStore(Protocol):
    """Storage of recorded exchanges."""

    @property
    def is_offline(self) -> bool:
        """True if only the cassette answers, and no request is sent to the model."""
        ...

    @property
    def is_recording(self) -> bool:
        """True if the model answers every request."""
        ...

    def replay(self, asked: NormalizedRequest) -> Exchange | None:
        """Return the recorded exchange for `asked`; None if the model has to answer.

        Raises:
            UnrecordedError: No exchange matches, and the model may not answer.
            StorageError: The cassette cannot be read.
        """
        ...

    def results(self, last_message: str) -> Sequence[RecordedResult] | None:
        """Return the recorded tool results after that message; None if tools must run."""
        ...

    def keep(self, exchange: Exchange) -> None:
        """Record an exchange after its response ended or failed.

        Raises:
            StorageError: The exchange cannot be written.
        """
        ...


class CassetteProvider:
    """Wrapper of a provider that records its responses, or replays recorded ones.

    Args:
        name: Name of the wrapped provider.
        make: Creates the wrapped provider when it is first needed.
        cassette: Storage of the exchanges.
        hide: Removes secrets from a text before it is recorded.

    Attributes:
        answered_request: The last request that the cassette answered.
    """

    def __init__(
        self, name: str, make: Callable[[], Provider], cassette: ExchangeStore, hide: Hide = str
    ) -> None:
        self._name = name
        self._make = make
        self._cassette = cassette
        self._hide = hide
        self._normalizer = RequestNormalizer(name, hide)
        self.answered_request: ModelRequest | None = None

    @cached_property
    def _provider(self) -> Provider:
        return self._make()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response of the cassette or of the wrapped provider; see `Provider`."""
        asked = self._normalizer.normalize(request)
        await asyncio.sleep(0)  # let other tasks run, as the wait for a model does
        exchange = self._cassette.replay(asked)
        if exchange is None:
            async with aclosing(self._stream_recorded(request, asked)) as events:
                async for event in events:
                    yield event
            return
        self.answered_request = request
        for event in exchange.events:
            yield event
        if isinstance(exchange.end, FailedResponse):
            raise exchange.end.error()
        if not isinstance(exchange.end, IncompleteResponse):
            yield exchange.end

    async def _stream_recorded(
        self, request: ModelRequest, asked: NormalizedRequest
    ) -> AsyncGenerator[ProviderEvent, None]:
        recorder, ended = ExchangeRecorder(asked, self._hide), False
        try:
            async with aclosing(self._provider.stream(request)) as events:
                async for event in events:
                    if not ended and (exchange := recorder.on_event(event)) is not None:
                        self._cassette.keep(exchange)  # before the turn continues
                        ended = True
                    yield event
        except ProviderError as exc:
            if not ended:
                self._cassette.keep(recorder.failed(exc))
            raise
        if not ended:
            self._cassette.keep(recorder.incomplete())

    def results(self, context: RequestContext) -> Sequence[RecordedResult] | None:
        """Return the recorded results of the last calls in `context`; None if tools must run."""
        return self._cassette.results(self._normalizer.last_message(context))

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return the request that the wrapped provider would send; see `Provider`."""
        return self._provider.preview(request)

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the wrapped provider; see `Provider`.

        Raises:
            ProviderError: The cassette is offline, or the wrapped provider fails.
        """
        if self._cassette.is_offline:
            raise ProviderError(
                f"a cassette replaces {self._name}, so its models cannot be listed "
                "(turn the cassette off: `%jp cassette off`)"
            )
        return await self._provider.models(seconds=seconds)

    @property
    def address(self) -> str:
        """Address of the wrapped provider; "" if the cassette is offline. See `Provider`."""
        return "" if self._cassette.is_offline else self._provider.address

    def check_ready(self, model: str, text: str) -> None:
        """Check the wrapped provider if every request goes to it; see `Provider`."""
        if self._cassette.is_recording:
            self._provider.check_ready(model, text)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Check that the wrapped provider accepts `schema`; see `Provider`."""
        self._provider.check_schema(schema)

    async def aclose(self) -> None:
        """Close the connections of the wrapped provider."""
        if "_provider" in vars(self):
            await self._provider.aclose()
