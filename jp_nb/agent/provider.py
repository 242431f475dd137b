"""Interface of model providers: their methods, and the requests that they get.

A provider answers a `ModelRequest` by a stream of events (`provider_events.py`). It can also show
the request as it would send it (`SentRequest`), for reports to the user. `jp_nb/providers/`
implements `Provider`. Tests use a scripted provider.

The *head* of a request is all of it but the messages: instructions, tools, attachments, and some
settings. The record has the head of each request. If it changes in a conversation, a provider may
leave the old one in front and append the change as a message, so that prompt caches still cover the
beginning of the request.

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from pydantic import JsonValue

# Names with `as` are parts of this interface: providers and their users import them from here.
from jp_nb.agent.model_info import ModelList
from jp_nb.agent.provider_events import ProviderEvent
from jp_nb.agent.shared_prefix import BodyPart
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.request_context.request_head import Attachment as Attachment
from jp_nb.record.request_context.request_head import (
    AttachmentDigest,
    RequestHead,
    digest_attachment,
)
from jp_nb.record.request_context.request_head import ToolDefinition as ToolDefinition

ToolChoice = str  # "auto", "none", "required", or "tool:NAME"


def find_chosen_tool(choice: ToolChoice) -> str | None:
    """Return the name of the tool that `choice` requires; None if it names no tool."""
    kind, _, name = choice.partition(":")
    return name if kind == "tool" else None


@dataclass(frozen=True, slots=True)
class ModelParameters:
    """Sampling settings. None means that the provider decides. Unknown keys are in `other`."""

    max_tokens: int | None = None
    reasoning: JsonValue = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_words: tuple[str, ...] = ()
    other: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model.

    Attributes:
        model: The provider's own name of the model.
        context: The conversation. It is not copied: the next request of the conversation has the
            same object, grown, so providers only render the new entries. If it ends in an
            incomplete response of the model, the provider continues that response.
        system: Texts of the system prompt.
        attachments: Files in front of the messages, the same object as long as nothing changes.
        tools: Definitions of the tools that the model may call.
        tool_choice: The tools that the model may or must call.
        parameters: Sampling settings.
        schema: JSON schema of a structured response; None for text.
        idle_timeout: Maximum time without an event, in seconds; 0 for no limit.
        max_response_bytes: Maximum size of the streamed text; 0 for no limit.
        conversation_id: An id that is stable in a conversation, for prompt caching.
        is_turn: True if the next request of the conversation begins with this one.
    """

    model: str
    context: RequestContext
    system: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = "auto"
    parameters: ModelParameters = ModelParameters()
    schema: Mapping[str, JsonValue] | None = None
    idle_timeout: float = 60.0
    max_response_bytes: int = 1_048_576
    conversation_id: str = ""
    is_turn: bool = False

    @property
    def head(self) -> RequestHead:
        """The parts that are not messages, in the form that is recorded."""
        return RequestHead(
            self.system,
            self.tools,
            tuple(map(digest_attachment, self.attachments)),
            self.parameters.reasoning,
            self.schema,
            self.tool_choice,
        )

    def with_head(
        self, head: RequestHead, contents: Mapping[AttachmentDigest, Attachment]
    ) -> ModelRequest:
        """Return this request with another head, such as a recorded one.

        A head has only the digests of attachments. Those without contents are omitted.
        """
        return replace(
            self,
            system=head.system,
            tools=head.tools,
            attachments=tuple(
                contents[digest] for digest in head.attachments if digest in contents
            ),
            parameters=replace(self.parameters, reasoning=head.reasoning),
            schema=head.schema,
            tool_choice=head.tool_choice,
        )


@dataclass(frozen=True, slots=True)
class KeyReference:
    """The position of an API key in a request, and its environment variable. Never the key itself.

    Attributes:
        header: Name of the header with the key.
        before: Text before the key in the header, such as `Bearer `.
        variable: Name of the environment variable.
        is_set: True if the variable has a value now.
    """

    header: str
    before: str
    variable: str
    is_set: bool


@dataclass(frozen=True, slots=True)
class AppendedChange:
    """A changed part of a request, such as its instructions, that is sent as a message.

    Attributes:
        items: Number of the context's items before it.
        part: Name of the changed part, such as `instructions`.
        content: The message.
        tools: Definitions of tools in the message.
    """

    items: int
    part: str
    content: str | Attachment
    tools: tuple[ToolDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request in its final form, without its API key.

    Attributes:
        method: The HTTP method; "" without a network.
        url: The address without secrets; a description if there is no network.
        headers: The headers, with lower-case names.
        body: The exact body, with `[key]` in place of the API key.
        key: The position of the API key; None if none is sent.
        omitted: Settings that are not sent, each with the reason.
        is_exact: False if a secret was removed from the body.
        parts: The parts of the body, in the order of prompt caches.
        front: A request whose `system`, `tools`, and `attachments` are in front of the messages.
            They are older than those of the request if changes are appended. None: they are those
            of the request.
        changes: The changes that are sent as messages.
        members: Names of the members of the JSON body that have the front and the messages. All
            other members are settings.
        hide: Removes the API key from a text.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    key: KeyReference | None = None
    omitted: tuple[str, ...] = ()
    is_exact: bool = True
    parts: tuple[BodyPart, ...] = field(default=(), repr=False)
    front: ModelRequest | None = field(default=None, repr=False)
    changes: tuple[AppendedChange, ...] = field(default=(), repr=False)
    members: frozenset[str] = frozenset()
    hide: Callable[[str], str] = field(default=str, repr=False, compare=False)


class Provider(Protocol):
    """A model provider, such as `anthropic`."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response, ending with `Finished` (or `Retry`).

        Closing the generator closes the connection.

        Raises:
            ProviderError: The request failed or the stream broke. `retryable` is True if the same
                request may succeed later. Events already yielded stay valid.
            ConfigError: The configuration, such as the key, has changed since `check_ready`, and
                cannot be used.
        """

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return the request that `stream` would send.

        Any thread may call this while no response is streamed.

        Raises:
            ProviderError: `request` cannot be sent as it is.
        """

    @property
    def address(self) -> str:
        """Return the address of the server; "" if requests are not sent over a network.

        Raises:
            ConfigError: The address cannot be used.
        """

    def check_ready(self, model: str, text: str) -> None:
        """Raise if a turn with the request `text` to `model` cannot begin. Sends nothing.

        Raises:
            ProviderError: The key is missing or cannot be sent.
            ConfigError: The model is not configured, or an address cannot be used.
        """

    async def models(self, *, seconds: float) -> ModelList:
        """Fetch the list of models, in at most that many `seconds`.

        Raises:
            ProviderError: The server does not return a list.
        """

    async def count_tokens(self, request: ModelRequest, *, seconds: float) -> int:
        """Ask the server for the number of input tokens of `request`, in at most `seconds`.

        Raises:
            ProviderError: The provider does not count tokens, or the request fails.
        """

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Raise if the provider does not support structured responses with `schema`. Sends nothing.

        Raises:
            UsageError: The message names the position in the schema and a remedy.
        """

    async def aclose(self) -> None:
        """Close connections."""
