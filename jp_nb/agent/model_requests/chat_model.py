"""A model with its configuration: build its requests, and get one complete response.

Turns, inquiries, and summaries build their requests here.

Source: `docs/providers.md`, `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from pydantic import BaseModel, JsonValue

from jp_nb.agent.model_requests.response_builder import ResponseBuilder
from jp_nb.agent.model_requests.retries import WaitCallback, with_retries
from jp_nb.agent.provider import (
    Attachment,
    Finished,
    ModelParameters,
    ModelRequest,
    Provider,
    ProviderEvent,
    Retry,
    ToolChoice,
    ToolDefinition,
    Usage,
)
from jp_nb.config.tree.model_settings import ParametersConfig
from jp_nb.config.tree.request_settings import Request as RequestConfig
from jp_nb.config.tree.request_settings import make_background_request
from jp_nb.errors import ProviderError
from jp_nb.record.entries.events import Entry
from jp_nb.record.request_context.context import RequestContext


class RefusalError(ProviderError):
    """The model refused to answer."""


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model with its configuration.

    Attributes:
        model: The provider's own name of the model.
        system: Texts of the system prompt.
        parameters: Sampling settings.
        request: Limits and retries of its requests.
        is_replayed: True for a cassette: responses take no time, and inquiries of a batch run one
            by one, in order.
        before_sending: Shows the user, before a request, that the conversation goes to another
            host. Called with the provider and its name.
    """

    provider: Provider
    model: str
    system: tuple[str, ...] = ()
    parameters: ModelParameters = field(default_factory=ModelParameters)
    request: RequestConfig = field(default_factory=make_background_request)
    provider_name: str = ""
    is_replayed: bool = False
    before_sending: Callable[[Provider, str], None] = lambda provider, name: None

    @property
    def full_name(self) -> str:
        """Name of the model in the configuration: `PROVIDER/NAME`."""
        return f"{self.provider_name}/{self.model}" if self.provider_name else self.model

    def make_request(
        self,
        context: RequestContext,
        *,
        attachments: tuple[Attachment, ...] = (),
        tools: tuple[ToolDefinition, ...] = (),
        choice: ToolChoice = "none",
        schema: Mapping[str, JsonValue] | None = None,
        conversation_id: str,
    ) -> ModelRequest:
        """Return the request to this model that continues `context`."""
        return ModelRequest(
            model=self.model,
            context=context,
            system=self.system,
            attachments=attachments,
            tools=tools,
            tool_choice=choice,
            parameters=self.parameters,
            schema=schema,
            idle_timeout=float(self.request.stream_idle_timeout_secs),
            max_response_bytes=self.request.max_response_bytes,
            conversation_id=conversation_id,
        )


def make_model_parameters(config: ParametersConfig) -> ModelParameters:
    """Return the sampling settings of a configuration for a request."""
    reasoning: JsonValue
    if isinstance(config.reasoning, BaseModel):
        reasoning = config.reasoning.model_dump()
    else:
        reasoning = config.reasoning

    return ModelParameters(
        max_tokens=config.max_tokens,
        reasoning=reasoning,
        temperature=config.temperature,
        top_p=config.top_p,
        top_k=config.top_k,
        stop_words=tuple(config.stop_words),
        other=config.model_extra or {},
    )


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
    """Return the entries of a response whose `events` are complete. Raises as `request_once`."""
    builder = ResponseBuilder()
    fed = [builder.feed(event) for event in events]
    entries = [entry for entry in fed if entry is not None]

    if builder.usage != Usage():
        on_usage(builder.usage)
    return _finish_entries(builder, entries)


def _finish_entries(builder: ResponseBuilder, entries: list[Entry]) -> list[Entry] | Retry:
    """Return all entries of a response that has ended. Raises as `request_once`."""
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
