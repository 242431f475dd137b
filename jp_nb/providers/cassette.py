"""A provider that records what another one is asked and answers, or answers in its place.

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


class Tape(Protocol):
    """Where exchanges are kept."""

    @property
    def is_offline(self) -> bool:
        """True if nobody but the tape answers."""
        ...

    @property
    def is_recording(self) -> bool:
        """True if the model answers every request."""
        ...

    def replay(self, asked: NormalizedRequest) -> Exchange | None:
        """Return what `asked` was answered; None: the model is to be asked.

        Raises:
            UnrecordedError: If only the tape may answer, and it cannot.
            StorageError: If the tape cannot be read.
        """
        ...

    def results(self, last_message: str) -> Sequence[RecordedResult] | None:
        """Return the results behind the message with that id; None: tools run."""
        ...

    def keep(self, exchange: Exchange) -> None:
        """Keep `exchange`, which has ended.

        Raises:
            StorageError: If that is not possible.
        """
        ...


class CassetteProvider:
    """Stands between the turn and a provider.

    Args:
        name: The provider's.
        make: Makes it. It is made when something is sent, or only it can say.
        tape: Where exchanges are kept, or come from.
        hide: Takes secrets out of what is kept.

    Attributes:
        answered: The last request that the tape answered.
    """

    def __init__(
        self, name: str, make: Callable[[], Provider], tape: Tape, hide: Hide = str
    ) -> None:
        self._name = name
        self._make = make
        self._tape = tape
        self._hide = hide
        self._asked = RequestNormalizer(name, hide)
        self.answered: ModelRequest | None = None

    @cached_property
    def _provider(self) -> Provider:
        return self._make()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response, of the tape or of the provider; see `Provider`."""
        asked = self._asked.of(request)
        await asyncio.sleep(0)  # others may begin, as where an answer takes its time
        exchange = self._tape.replay(asked)
        if exchange is None:
            async with aclosing(self._recorded(request, asked)) as events:
                async for event in events:
                    yield event
            return
        self.answered = request
        for event in exchange.events:
            yield event
        if isinstance(exchange.end, FailedResponse):
            raise exchange.end.error()
        if not isinstance(exchange.end, IncompleteResponse):
            yield exchange.end

    async def _recorded(
        self, request: ModelRequest, asked: NormalizedRequest
    ) -> AsyncGenerator[ProviderEvent, None]:
        """Stream what the provider answers; it is kept before its end is told."""
        listening, ended = ExchangeRecorder(asked, self._hide), False
        try:
            async with aclosing(self._provider.stream(request)) as events:
                async for event in events:
                    if not ended and (exchange := listening.on_event(event)) is not None:
                        self._tape.keep(exchange)
                        ended = True
                    yield event
        except ProviderError as exc:
            if not ended:
                self._tape.keep(listening.failed(exc))
            raise
        if not ended:
            self._tape.keep(listening.incomplete())

    def results(self, thread: RequestContext) -> Sequence[RecordedResult] | None:
        """Return the results of the calls that `thread` ends in; None: they run."""
        return self._tape.results(self._asked.last_message(thread))

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return what the provider would send; see `Provider`."""
        return self._provider.preview(request)

    async def models(self, *, seconds: float) -> ModelList:
        """Ask the provider what there is; see `Provider`."""
        if self._tape.is_offline:
            raise ProviderError(
                f"a cassette replaces {self._name}, so its models cannot be listed "
                "(turn the cassette off: `%jp cassette off`)"
            )
        return await self._provider.models(seconds=seconds)

    @property
    def address(self) -> str:
        """Return the provider's address, unless only the tape answers; see `Provider`."""
        return "" if self._tape.is_offline else self._provider.address

    def check_ready(self, model: str, text: str) -> None:
        """Refuse what the provider refuses, unless the tape may answer; see `Provider`."""
        if self._tape.is_recording:
            self._provider.check_ready(model, text)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Refuse what the provider refuses; see `Provider`."""
        self._provider.check_schema(schema)

    async def aclose(self) -> None:
        """Close the provider's connections, if there are any."""
        if "_provider" in vars(self):
            await self._provider.aclose()
