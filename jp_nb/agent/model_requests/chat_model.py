"""A model with its configuration, which builds its requests.

Turns, inquiries, and summaries build their requests here.

Source: `docs/providers.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, JsonValue

from jp_nb.agent.provider import (
    Attachment,
    ModelParameters,
    ModelRequest,
    Provider,
    ToolChoice,
    ToolDefinition,
)
from jp_nb.config.tree.model_settings import ParametersConfig
from jp_nb.config.tree.request_settings import Request as RequestConfig
from jp_nb.config.tree.request_settings import make_background_request
from jp_nb.record.request_context.context import RequestContext


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model with its configuration.

    Attributes:
        provider: Sends the requests.
        model: The provider's own name of the model.
        system: Texts of the system prompt.
        parameters: Sampling settings.
        request: Limits and retries of its requests.
        provider_name: Name of the provider in the configuration.
        is_replayed: True if a cassette is replayed: responses take no time, and inquiries of a
            batch run one by one, in order.
        before_sending: Called with the provider and its name before a request that is not of the
            turn itself, such as for a summary (`complete_responses.py`). It tells the user if the
            conversation goes to another host.
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
