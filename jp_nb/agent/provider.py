"""Port `Provider`, its requests and events, and information about models.

`jp_nb/providers/` implements the port. Tests use a scripted provider.

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pydantic import JsonValue

from jp_nb.record.context import RequestContext


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model as its provider describes it. None, "" and () mean that it does not say.

    Attributes:
        id: The provider's own name of it, as requests have it.
        name: What people call it.
        context_window: Tokens that it reads at most.
        max_output: Tokens that it writes at most.
        inputs: What else than text it reads, such as `image`.
        tools: Whether it calls tools.
        reasoning: Whether it can reason before it answers.
        input_price: US dollars for a million tokens that it reads.
        output_price: US dollars for a million tokens that it writes.
        created: When it came, in seconds since 1970; to sort by.
        parameters: How large it is, such as `8.0B`.
        quantization: How its weights are stored, such as `Q4_K_M`.
        size_bytes: How much room its weights take.
        state: `deprecated` if it is about to end, `retired` if it has ended.
        ends: The day on which it ends or ended, such as `2026-12-01`.
    """

    id: str
    name: str = ""
    context_window: int | None = None
    max_output: int | None = None
    inputs: tuple[str, ...] = ()
    tools: bool | None = None
    reasoning: bool | None = None
    input_price: float | None = None
    output_price: float | None = None
    created: float | None = None
    parameters: str = ""
    quantization: str = ""
    size_bytes: int | None = None
    state: Literal["", "deprecated", "retired"] = ""
    ends: str = ""


@dataclass(frozen=True, slots=True)
class ModelList:
    """The models that a provider offers, in its order; `is_cut` if it went on and on."""

    models: tuple[ModelInfo, ...] = ()
    is_cut: bool = False

    def find(self, name: str) -> ModelInfo | None:
        """Return the model that requests call `name`."""
        return next((model for model in self.models if model.id == name), None)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text of item `index` of the response."""

    index: int
    kind: Literal["message", "reasoning", "structured"]
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """Item `index` is a tool call; its arguments follow."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """A fragment of the JSON text of the arguments of item `index`."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Flush:
    """Item `index` is complete; `metadata` is stored with it and replayed to the provider."""

    index: int
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The server is alive; resets the idle timer and nothing else."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of this request so far. None: not reported. A later report overrides by field."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


FinishReason = Literal["completed", "max_tokens", "refused", "other"]


@dataclass(frozen=True, slots=True)
class Finished:
    """The response is complete. Exactly one, and last; a stream without it broke off.

    `detail` is the provider's word or explanation for `refused` and `other`.
    """

    reason: FinishReason = "completed"
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The provider mended its own rendering of the thread: build the request again and call.

    `drop_metadata` is the key of stored metadata that the provider rejected and no longer sends.
    """

    reason: str
    drop_metadata: str | None = None


ProviderEvent = (
    TextPart | ToolCallStart | ToolCallArguments | Flush | KeepAlive | Usage | Finished | Retry
)

ToolChoice = str  # "auto", "none", "required", or "tool:NAME"


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model sees it: `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ModelParameters:
    """Sampling settings; None means that the provider decides. Unknown keys are in `other`."""

    max_tokens: int | None = None
    reasoning: JsonValue = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_words: tuple[str, ...] = ()
    other: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attachment:
    """Material that a model is given before the conversation begins.

    Attributes:
        source: Where it is from, as the model is told: `notes.md`.
        media_type: `text/plain` for whatever is text, else such as `image/png`.
        content: The text, or the bytes of what is none.
    """

    source: str
    media_type: str
    content: str | bytes


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model.

    Attributes:
        model: The provider's own name of the model.
        system: System texts in order, kept apart.
        attachments: What the model is given before the thread: those of the configuration in
            force, whichever turn attached them. The same object as long as nothing changed.
        thread: The visible entries. The same object, grown, comes with the next request of the
            conversation: providers keep their rendering of it and render what was appended. One
            that ends in an answer of the model broke off there: the provider has it continued.
        tool_choice: `auto`, `none`, `required`, or `tool:NAME`.
        schema: JSON schema of a structured answer; None for text.
        idle_timeout: Seconds without any event after which the stream counts as dead; 0 is off.
        max_response_bytes: Ceiling of the streamed text; 0 is off.
        conversation_id: Stable for the conversation, for prompt caching.
    """

    model: str
    thread: RequestContext
    system: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = "auto"
    parameters: ModelParameters = ModelParameters()
    schema: Mapping[str, JsonValue] | None = None
    idle_timeout: float = 60.0
    max_response_bytes: int = 1_048_576
    conversation_id: str = ""


@dataclass(frozen=True, slots=True)
class KeyReference:
    """The place of a key in a request, and the name of the variable that holds it; never a key.

    Attributes:
        header: The header it is sent in.
        before: What stands before it there, such as `Bearer `.
        variable: The environment variable.
        is_set: True if that holds something now.
    """

    header: str
    before: str
    variable: str
    is_set: bool


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as it goes out, without its key.

    Attributes:
        method: Of HTTP; "" if nothing goes over a network.
        url: The address, without what is secret in it; where there is no network, in words.
        headers: Those that say something of the request; names in lower case.
        body: What is posted, byte for byte; `[key]` stands for the key if that is in it.
        key: Where the key goes; None if none is sent.
        omitted: What is configured and not sent, each with the reason.
        is_exact: False if something secret was taken out of it.
        hide: Takes the key out of a text.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    key: KeyReference | None = None
    omitted: tuple[str, ...] = ()
    is_exact: bool = True
    hide: Callable[[str], str] = field(default=str, repr=False, compare=False)


class Provider(Protocol):
    """A model provider, such as `anthropic`."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response, ending with `Finished` (or `Retry`).

        Closing the generator closes the connection.

        Raises:
            ProviderError: If the request fails or the stream breaks; `retryable` says whether
                the same request may succeed later. Events already yielded stay valid.
        """
        ...

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return what `stream` would send for `request`. Sends nothing and says nothing.

        Called on any thread while nothing is streamed.

        Raises:
            ProviderError: If `request` cannot be sent as it is.
        """
        ...

    @property
    def address(self) -> str:
        """Return the address of the server; "" if requests are not sent over a network.

        Raises:
            ConfigError: If the address cannot be used.
        """
        ...

    def check_ready(self, model: str, text: str) -> None:
        """Raise if a turn with the request `text` to `model` cannot begin. Sends nothing.

        Called before anything is recorded.

        Raises:
            ProviderError: If the key is missing or cannot be sent.
            ConfigError: If the model is not configured, or an address cannot be used.
        """
        ...

    async def models(self, *, seconds: float) -> ModelList:
        """Ask the server what it offers, for at most so many `seconds`.

        Raises:
            ProviderError: If it does not say.
        """
        ...

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Raise if no structured answer can be asked for with `schema`. Sends nothing.

        Raises:
            UsageError: If not; the message names the place in the schema and what to do.
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
