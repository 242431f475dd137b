"""A provider that tells the runner of each request, and keeps the pace of its batch.

A batch (`jp-nb run -o OUT/`) runs several notebooks at the same time, in kernels that share the
limits of a provider (`shared_pace.py`). `append_run_event` writes an event to a file that the
runner reads, which adds up the tokens.

`ProviderPool` wraps each provider with it in a headless run. A cassette wraps the result, so that
replayed requests need no pace. `cassette_provider.py` reports these.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelList
from jp_nb.agent.provider import ModelRequest, Provider, SentRequest
from jp_nb.agent.provider_events import ProviderEvent, Usage
from jp_nb.errors import ProviderError
from jp_nb.storage.run_events import append_run_event
from jp_nb.storage.shared_pace import SharedPace


class PacedProvider:
    """Wrapper of a provider in a headless run; it implements `Provider` (`agent/provider.py`).

    `pace` limits the requests of all runs of a batch; None if the run is not of a batch.
    """

    def __init__(self, name: str, provider: Provider, pace: SharedPace | None) -> None:
        self._name = name
        self._provider = provider
        self._pace = pace

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response, once the batch allows it; see `Provider`.

        A request that fails is reported too, without tokens if the server has sent no usage.
        """
        used = Usage()
        async with AsyncExitStack() as stack:
            if self._pace is not None:  # waits until the request may start
                await stack.enter_async_context(self._pace.running(self._name))
            try:
                events = await stack.enter_async_context(aclosing(self._provider.stream(request)))
                async for event in events:
                    if isinstance(event, Usage):
                        used = event
                    yield event
            except ProviderError as exc:
                if self._pace is not None and exc.kind == "rate_limit":
                    # All kernels of the batch wait before their next request.
                    self._pace.hold(self._name, exc.retry_after)
                raise
            finally:
                report_request(self._name, used)

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return the request that the wrapped provider would send; see `Provider`."""
        return self._provider.preview(request)

    @property
    def address(self) -> str:
        """Address of the wrapped provider; see `Provider`."""
        return self._provider.address

    def check_ready(self, model: str, text: str) -> None:
        """Check the wrapped provider; see `Provider`."""
        self._provider.check_ready(model, text)

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the wrapped provider; see `Provider`."""
        return await self._provider.models(seconds=seconds)

    async def count_tokens(self, request: ModelRequest, *, seconds: float) -> int:
        """Ask the server of the wrapped provider; see `Provider`."""
        return await self._provider.count_tokens(request, seconds=seconds)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Check that the wrapped provider accepts `schema`; see `Provider`."""
        self._provider.check_schema(schema)

    async def aclose(self) -> None:
        """Close the connections of the wrapped provider."""
        await self._provider.aclose()


def report_request(name: str, used: Usage) -> None:
    """Tell the runner of a request to the provider `name`, also of a replayed one."""
    tokens = {"input": used.input_tokens or 0, "output": used.output_tokens or 0}
    append_run_event(request=name, **tokens)
