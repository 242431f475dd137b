"""A provider that records the responses of another one on a cassette, or replays them.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property

from pydantic import JsonValue

from jp_nb.agent.calls.recorded_results import RecordedResult
from jp_nb.agent.model_info import ModelList
from jp_nb.agent.model_requests.exchange_recorder import ExchangeRecorder
from jp_nb.agent.model_requests.normalized_request import NormalizedRequest
from jp_nb.agent.model_requests.recorded_exchange import (
    Exchange,
    FailedResponse,
    IncompleteResponse,
)
from jp_nb.agent.model_requests.request_normalizer import HideSecrets, RequestNormalizer
from jp_nb.agent.provider import ModelRequest, Provider, SentRequest
from jp_nb.agent.provider_events import PrefixLoss, PromptCut, ProviderEvent, Usage
from jp_nb.errors import ProviderError
from jp_nb.record.request_context.context import RequestContext
from jp_nb.session.model_access.open_cassette import OpenCassette
from jp_nb.session.model_access.paced_provider import report_request


class CassetteProvider:
    """Wrapper of a provider that records its responses, or replays recorded ones.

    It implements `Provider` (`agent/provider.py`). The *wrapped* provider is the one that sends
    requests.

    Args:
        name: Name of the wrapped provider.
        make: Creates the wrapped provider when it is first needed.
        cassette: The open cassette.
        hide: Removes secrets from a text before it is recorded; `str` leaves it as it is.

    Attributes:
        answered_request: The last request that the cassette answered; None before.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Provider],
        cassette: OpenCassette,
        hide: HideSecrets = str,
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
        normalized = self._normalizer.normalize(request)
        await asyncio.sleep(0)  # let other tasks run, as the wait for a model does
        exchange = self._cassette.replay(normalized)

        if exchange is None:
            async with aclosing(self._stream_and_record(request, normalized)) as events:
                async for event in events:
                    yield event
            return

        self.answered_request = request
        self._report_replay(exchange)

        for event in exchange.events:
            yield event

        # `end` is a failure, a broken stream, or the last event of a response.
        if isinstance(exchange.end, FailedResponse):
            raise exchange.end.make_error()
        if not isinstance(exchange.end, IncompleteResponse):
            yield exchange.end

    def _report_replay(self, exchange: Exchange) -> None:
        # The runner of a notebook also counts replayed requests. The last usage is the total.
        usages = [event for event in exchange.events if isinstance(event, Usage)]
        used = usages[-1] if usages else Usage()
        report_request(self._name, used)

    async def _stream_and_record(
        self, request: ModelRequest, normalized: NormalizedRequest
    ) -> AsyncGenerator[ProviderEvent, None]:
        """Stream the response of the wrapped provider, and keep it on the cassette."""
        recorder = ExchangeRecorder(normalized, self._hide)
        is_kept = False
        try:
            async with aclosing(self._provider.stream(request)) as events:
                async for event in events:
                    # A replay does not know the bytes of the request.
                    if isinstance(event, PrefixLoss | PromptCut):
                        continue

                    # The last event completes the exchange.
                    exchange = None if is_kept else recorder.on_event(event)
                    if exchange is not None:
                        self._cassette.keep(exchange)  # before the turn continues
                        is_kept = True
                    yield event
        except ProviderError as exc:
            if not is_kept:
                self._cassette.keep(recorder.end_failed(exc))
            raise

        if not is_kept:
            self._cassette.keep(recorder.end_incomplete())

    def find_recorded_results(self, context: RequestContext) -> Sequence[RecordedResult] | None:
        """Return the recorded results of the last calls in `context`; None if tools must run."""
        return self._cassette.find_results(self._normalizer.find_last_message(context))

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

    async def count_tokens(self, request: ModelRequest, *, seconds: float) -> int:
        """Ask the server of the wrapped provider, and record nothing; see `Provider`.

        Raises:
            ProviderError: The cassette is offline, or the wrapped provider fails.
        """
        if self._cassette.is_offline:
            raise ProviderError(
                f"a cassette replaces {self._name}, so it cannot count tokens "
                "(turn the cassette off: `%jp cassette off`)"
            )
        return await self._provider.count_tokens(request, seconds=seconds)

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
