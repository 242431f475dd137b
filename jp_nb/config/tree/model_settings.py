"""Settings of providers and their models, and of the assistant with its system prompt.

To add a provider, follow `docs/extending.md`. A provider without settings needs an entry of
`PROVIDER_CLASSES` instead of a field of `ProviderTable`.

Source: `docs/configuration.md`, `docs/extending.md`, `docs/decisions.md` D26.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Final, Literal, cast, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from jp_nb.config.directives import DEFAULT_MODEL
from jp_nb.config.secrets import hide_credentials, is_secret
from jp_nb.config.tree.base import (
    APPEND_MERGE,
    APPEND_SET_MERGE,
    PLAIN_FORM,
    REPLACE_MERGE,
    TABLE_FORM,
    TABLE_OR_PLAIN_FORM,
    TEXT_MERGE,
    ConfigTable,
    Count,
    Flag,
    Number,
    Positive,
    ShortTable,
    UnexpectedValueError,
    Whole,
    before,
    merge_by_keys,
    not_blank,
    one_of,
    read_number,
    read_on_off,
    shorten_for_error,
    table,
)
from jp_nb.config.tree.server_settings import McpServer, McpServerName
from jp_nb.errors import ConfigError


def _check_address(value: str) -> str:
    try:
        parts = urlsplit(value)
    except ValueError:
        raise ValueError("expected an address such as https://host") from None

    advice = "into an environment variable and set api_key_env to its name"
    if "@" in parts.netloc:
        raise ValueError(f"an address cannot contain a user name or password. Put the key {advice}")
    if "?" in value or "#" in value:
        raise ValueError(f"an address cannot contain `?` or `#`. Put a key {advice}")
    return value


def _check_path(value: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", value) or "/.." in value:
        raise UnexpectedValueError("a path such as /v1/chat/completions", value)
    return value


def _check_variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("expected the name of an environment variable, not a key")
    return value


SERVERS_PATH: Final = "providers.llm.servers"

Address = Annotated[str, AfterValidator(_check_address)]
Variable = Annotated[str, AfterValidator(_check_variable)]


class ProviderConfig(ConfigTable):
    """Address of a provider, and the environment variable that contains its key."""

    FACTORY: ClassVar[str] = ""
    """`module:function` that creates the provider, with the module in `jp_nb.providers`.

    The function takes the provider's name and its settings, an object of this class. "" if the
    provider is not available.
    """

    DEFAULT_ADDRESSES: ClassVar[tuple[str, ...]] = ()
    """Addresses at which the server may run if `base_url` is unset."""

    MODELS: ClassVar[str] = ""
    """Pattern for the beginnings of names of models that suggest this provider."""

    api_key_env: Variable | None = None
    """Environment variable that contains the API key."""
    base_url: Address | None = None
    """Address of the server."""


class ChatCompletionsProvider(ProviderConfig):
    """Server that speaks chat completions. Its profile is in `providers/chat_profiles.py`."""

    FACTORY: ClassVar[str] = "openai_chat:create"

    images: Flag | None = None
    """`true` if the models accept images. Unset, it depends on the provider."""


class Anthropic(ProviderConfig):
    """Anthropic's Messages API."""

    FACTORY: ClassVar[str] = "anthropic:create"
    MODELS: ClassVar[str] = "claude|fable|haiku|mythos|opus|sonnet"

    api_key_env: Variable | None = "ANTHROPIC_API_KEY"
    base_url: Address | None = "https://api.anthropic.com"
    chain_on_max_tokens: Flag = True
    """Continue an answer that reaches the model's limit."""
    beta_headers: Annotated[list[str], APPEND_SET_MERGE] = Field(default_factory=list)
    """Values of the header `anthropic-beta`."""
    strict_tools: Flag = True
    """Let the API enforce the parameters of tools, if their schemas allow it."""


class Cerebras(ChatCompletionsProvider):
    """Cerebras."""

    api_key_env: Variable | None = "CEREBRAS_API_KEY"
    base_url: Address | None = "https://api.cerebras.ai"


class DeepSeek(ChatCompletionsProvider):
    """DeepSeek."""

    MODELS: ClassVar[str] = "deepseek-"

    api_key_env: Variable | None = "DEEPSEEK_API_KEY"
    base_url: Address | None = "https://api.deepseek.com"


class Google(ProviderConfig):
    """Google Gemini."""

    FACTORY: ClassVar[str] = "google_interactions:create"
    MODELS: ClassVar[str] = "gemini-"

    api_key_env: Variable | None = "GEMINI_API_KEY"
    base_url: Address | None = "https://generativelanguage.googleapis.com"
    dialect: Literal["interactions", "generate"] = "interactions"
    """API of the server: `interactions`, or `generate` for `generateContent`, which proxies and
    older models need."""
    append_instructions: Flag = True
    """Append changed instructions to the conversation as a message of the user, marked as from the
    system. `false` replaces the instructions in front, so the cached prefix is lost."""


class Groq(ChatCompletionsProvider):
    """Groq."""

    api_key_env: Variable | None = "GROQ_API_KEY"
    base_url: Address | None = "https://api.groq.com"


class LlamaCpp(ChatCompletionsProvider):
    """A llama.cpp server."""

    DEFAULT_ADDRESSES: ClassVar[tuple[str, ...]] = (
        "http://127.0.0.1:9931",
        "http://127.0.0.1:8080",  # the default of older versions
    )

    base_url: Address | None = None
    """Address of the server. Unset, it is the one of http://127.0.0.1:9931 and
    http://127.0.0.1:8080 that answers."""
    dialect: Literal["chat", "responses"] = "chat"
    """API of the server: `chat` for chat completions, or `responses`."""


class Mistral(ChatCompletionsProvider):
    """Mistral."""

    MODELS: ClassVar[str] = "(?:(?:open-)?mistral|ministral|magistral|codestral|devstral|pixtral)-"

    api_key_env: Variable | None = "MISTRAL_API_KEY"
    base_url: Address | None = "https://api.mistral.ai"


class Ollama(ChatCompletionsProvider):
    """An Ollama server."""

    MODELS: ClassVar[str] = "(?:llama|qwen|gemma|phi)[0-9.]*(?:[:-]|$)|mistral[0-9.]*(?::|$)"

    base_url: Address | None = "http://localhost:11434"


class OpenAi(ChatCompletionsProvider):
    """OpenAI, or a compatible server."""

    MODELS: ClassVar[str] = "gpt-|chatgpt-|o[1-9](?:-|$)"

    api_key_env: Variable | None = "OPENAI_API_KEY"
    base_url: Address | None = "https://api.openai.com"
    base_url_env: Variable | None = "OPENAI_BASE_URL"
    """Environment variable that overrides `base_url` if it is set."""
    dialect: Literal["responses", "chat"] | None = None
    """API of the server: `responses`, or `chat` for chat completions. Unset, it is `responses` for
    OpenAI's own address, and `chat` for others."""


class OpenRouter(ChatCompletionsProvider):
    """OpenRouter."""

    api_key_env: Variable | None = "OPENROUTER_API_KEY"
    base_url: Address | None = "https://openrouter.ai"
    app_name: str = "jp_nb"
    """Name of the application, sent in the header `X-Title`."""
    app_referrer: str | None = None
    """URL of the application, sent in the header `HTTP-Referer`."""
    dialect: Literal["chat", "responses"] = "chat"
    """API of the server: `chat` for chat completions, or `responses`."""


class Scripted(ProviderConfig):
    """Prepared replies from a file, without a network or a key. A user cannot set its `folders`."""

    FACTORY: ClassVar[str] = "scripted:create"

    folders: list[str] = Field(default_factory=list)


class Xai(ChatCompletionsProvider):
    """xAI."""

    MODELS: ClassVar[str] = "grok-"

    api_key_env: Variable | None = "XAI_API_KEY"
    base_url: Address | None = "https://api.x.ai"
    dialect: Literal["chat", "responses"] = "chat"
    """API of the server: `chat` for chat completions, or `responses`."""


class ProviderTable(ConfigTable):
    """Settings of each provider, by its name."""

    anthropic: Anthropic = table()
    cerebras: Cerebras = table()
    deepseek: DeepSeek = table()
    google: Google = table()
    groq: Groq = table()
    llamacpp: LlamaCpp = table()
    mistral: Mistral = table()
    ollama: Ollama = table()
    openai: OpenAi = table()
    openrouter: OpenRouter = table()
    xai: Xai = table()


PROVIDER_CLASSES: Final[Mapping[str, type[ProviderConfig]]] = {
    **{
        name: cast("type[ProviderConfig]", field.annotation)  # pydantic's type: TypeForm
        for name, field in ProviderTable.model_fields.items()
    },
    "scripted": Scripted,
    "test": ProviderConfig,  # a provider of JP: a valid name, but not available
}
"""Settings class of each provider that a model id can name, including unavailable providers.

Only the providers of `ProviderTable` have settings in `providers.llm`.
"""
PROVIDER_NAMES: Final = tuple(sorted(PROVIDER_CLASSES))
AVAILABLE_PROVIDERS: Final = tuple(
    sorted(name for name, one in PROVIDER_CLASSES.items() if one.FACTORY)
)
"""Names of the providers that can be created."""


_DECLARED_SERVERS: set[str] = set()
"""Names of the servers that a configuration in this process has declared.

A model id is read apart from the configuration, so it may name each of them. `Llm.require` checks
that the effective configuration has the server.
"""
_SERVER_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_RESERVED_NAMES: Final = frozenset({"aliases", "servers"})


def _check_server_name(name: str) -> str:
    if name in PROVIDER_CLASSES:
        raise ValueError(
            f"{name!r} is the name of a built-in provider, whose settings are "
            f"`providers.llm.{name}`. Give the server another name"
        )

    if name in _RESERVED_NAMES or not _SERVER_NAME.fullmatch(name):
        raise UnexpectedValueError(
            "at most 40 small letters, digits, `-`, and `_`, beginning with a letter",
            cause=f"{shorten_for_error(name)!r} cannot be the name of a server",
        )

    _DECLARED_SERVERS.add(name)
    return name


def declare_servers(servers: object) -> None:
    """Let model ids name the `servers`, the table of a configuration that is about to be read."""
    for name in servers if isinstance(servers, Mapping) else ():
        if isinstance(name, str):
            with suppress(ValueError):  # reported where the table is read
                _check_server_name(name)


MODEL_NAME_PATTERN = re.compile(r"[A-Za-z0-9_.:/~-]+")


def _check_provider(provider: str) -> str:
    if provider in PROVIDER_NAMES or provider in _DECLARED_SERVERS:
        return provider
    # Comparing a longer name takes long.

    near = difflib.get_close_matches(provider[:40], AVAILABLE_PROVIDERS, n=1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    known = ", ".join(AVAILABLE_PROVIDERS)
    cause = f"unknown provider {shorten_for_error(provider)!r}{meant}"
    raise UnexpectedValueError(f"one of {known}", cause=cause)


def _check_name(name: str) -> str:
    if MODEL_NAME_PATTERN.fullmatch(name):
        return name
    raise ValueError(
        f"model name {shorten_for_error(name)!r} may contain only letters, digits, and _ . : / ~ -"
    )


class ModelId(ConfigTable):
    """A model."""

    provider: Annotated[str, AfterValidator(_check_provider)]
    """Name of the provider, such as `anthropic`."""
    name: Annotated[str, AfterValidator(_check_name)]
    """Name of the model at the provider."""

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


def read_model_id(value: Any) -> Any:
    """Convert `provider/name` to a table. Return an alias or a table as it is.

    Raises:
        ValueError: `value` has another type, is empty, or has an invalid provider or name.
    """
    if isinstance(value, (dict, ModelId)):
        return value
    if not isinstance(value, str):
        raise UnexpectedValueError(
            "a model id `provider/name`, an alias, or a table of provider and name", value
        )

    provider, slash, name = (part.strip() for part in value.partition("/"))
    if not slash:
        if not provider:
            raise ValueError("expected a model id `provider/name` or an alias, found nothing")
        return provider
    return {"provider": _check_provider(provider), "name": _check_name(name)}


ModelIdOrAlias = Annotated[
    Annotated[ModelId, TABLE_FORM] | Annotated[str, PLAIN_FORM],
    TABLE_OR_PLAIN_FORM,
    before(read_model_id),
]


ReasoningEffort = Literal["none", "xlow", "low", "medium", "auto", "high", "xhigh", "max"]
REASONING_EFFORTS: Final[tuple[str, ...]] = get_args(ReasoningEffort)


def _read_effort(value: Any) -> Any:
    is_table = isinstance(value, dict) and value.keys() == {"absolute"}
    number = value["absolute"] if is_table else value
    tokens = read_number(number)

    if tokens is None and value not in REASONING_EFFORTS:
        raise UnexpectedValueError(
            f"one of {', '.join(REASONING_EFFORTS)}, or a number of tokens", value
        )
    return value if tokens is None else tokens


class ReasoningConfig(ConfigTable):
    """Effort of the model's reasoning."""

    effort: Annotated[ReasoningEffort | int, before(_read_effort)] = "medium"
    """The effort, or a number of tokens."""
    exclude: Flag = False
    """`true` to hide the reasoning."""


def _read_reasoning(value: Any) -> Any:
    # Here, `auto` is the mode of `ReasoningSetting`, not the effort of `ReasoningConfig`.
    if isinstance(value, ReasoningConfig) or value in ("off", "auto"):
        return value
    if isinstance(value, dict) and value.keys() != {"absolute"}:
        return value
    try:
        return {"effort": _read_effort(value)}
    except ValueError as exc:
        raise UnexpectedValueError(
            f"off, auto, one of {', '.join(e for e in REASONING_EFFORTS if e != 'auto')}, a number "
            "of tokens, or a table of effort and exclude",
            value,
        ) from exc


ReasoningSetting = Annotated[
    Annotated[Literal["off", "auto"], PLAIN_FORM] | Annotated[ReasoningConfig, TABLE_FORM],
    TABLE_OR_PLAIN_FORM,
]


class ParametersConfig(BaseModel):
    """Sampling parameters of the model. Other keys are sent if the API of the provider has them."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    __pydantic_extra__: dict[str, JsonValue]

    max_tokens: Positive | None = None
    """Maximum number of tokens of a response."""
    reasoning: Annotated[ReasoningSetting | None, before(_read_reasoning)] = None
    """Reasoning effort. A word or a number of tokens sets the effort."""
    temperature: Number | None = None
    """Randomness of the response."""
    top_p: Number | None = None
    """Nucleus sampling: consider the most likely tokens up to this total probability."""
    top_k: Count | None = None
    """Consider only this number of the most likely tokens."""
    stop_words: Annotated[list[str], APPEND_SET_MERGE] = Field(default_factory=list)
    """Texts that end the response."""


class Model(ConfigTable):
    """The model that answers, and its parameters."""

    id: ModelIdOrAlias = Field(default_factory=lambda: ModelId(**read_model_id(DEFAULT_MODEL)))
    """`PROVIDER/NAME`, an alias, or a table. Without it, a scripted demo answers."""
    parameters: ParametersConfig = table()


class ModelChoice(ConfigTable):
    """The model of a separate task."""

    id: ModelIdOrAlias | None = None
    """`PROVIDER/NAME`, an alias, or a table. Without it, the model of the conversation is used."""
    parameters: ParametersConfig = table()


def _check_idle_timeout(value: int) -> int:
    if 0 < value < 10:
        raise ValueError(f"expected 0 (off) or at least 10 seconds, found {value}")
    return value


IdleTimeout = Annotated[Count, AfterValidator(_check_idle_timeout)]


class Request(ConfigTable):
    """Retries and limits of requests to the model."""

    max_retries: Count = 5
    """Maximum number of retries of a failed request."""
    base_backoff_ms: Count = 1000
    """Wait before the first retry, in milliseconds. It doubles with each retry."""
    max_backoff_secs: Count = 60
    """Longest wait before a retry, in seconds."""
    stream_idle_timeout_secs: IdleTimeout = 60
    """Seconds without content from the server after which a request is sent again. At least 10, or
    0 for no limit."""
    max_response_bytes: Count = 1_048_576
    """Maximum size of one response, in bytes. 0 means no limit."""
    max_tool_calls: Count = 128
    """Maximum number of tool calls of one response that run. 0 means no limit."""
    max_total_tokens: Count = 0
    """Maximum number of tokens of a turn. 0 means no limit."""
    max_schema_retries: Count = 1
    """Maximum number of times that a structured answer goes back to the model in one turn, with the
    reasons why it does not fit its schema. 0 turns this off."""


BACKGROUND_RETRIES: Final = {"max_retries": 3, "base_backoff_ms": 1000, "max_backoff_secs": 30}
"""Default retries of background requests: inquiries and summaries."""


def make_background_request() -> Request:
    """Return the retries and limits of background requests."""
    return Request(**BACKGROUND_RETRIES)


class RequestOverrides(ConfigTable):
    """Overrides of `assistant.request` for a separate task. Unset settings are inherited."""

    max_retries: Count | None = None
    """Maximum number of retries of a failed request."""
    base_backoff_ms: Count | None = None
    """Wait before the first retry, in milliseconds."""
    max_backoff_secs: Count | None = None
    """Longest wait before a retry, in seconds."""
    stream_idle_timeout_secs: IdleTimeout | None = None
    """Seconds without content after which a request is sent again."""
    max_response_bytes: Count | None = None
    """Maximum size of one response, in bytes. 0 means no limit."""


def _check_alias(value: str) -> str:
    if not value.strip() or "/" in value:
        cause = f"{shorten_for_error(value)!r} is not an alias"
        raise UnexpectedValueError("a word without `/`", cause=cause)
    return value


_HEADER_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,79}")
_OWN_HEADERS: Final = frozenset(
    {
        *("authorization", "x-api-key", "x-goog-api-key", "api-key", "proxy-authorization"),
        *("cookie", "host", "content-type", "content-length", "content-encoding"),
        *("transfer-encoding", "connection", "accept", "accept-encoding"),
    }
)
"""Headers that `jp_nb` sets itself, or that hold keys."""


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if name.lower() in _OWN_HEADERS or not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{shorten_for_error(name)!r} is not a header that can be set here")
        if is_secret(name, value) or hide_credentials(value) != value:
            raise ValueError(
                f"the header {name!r} may hold a key, which cannot be in a configuration. Put the "
                "key into an environment variable, and set api_key_env to its name"
            )
        if not (value.isascii() and value.isprintable() and len(value) <= MAX_HEADER_CHARS):
            raise ValueError(
                f"the value of the header {name!r} is not one line of at most {MAX_HEADER_CHARS} "
                "ASCII characters"
            )
    return headers


MAX_HEADER_CHARS: Final = 1_000
"""Maximum length of the value of a configured header."""

ProfileName = Literal[
    "cerebras", "deepseek", "groq", "llamacpp", "lmstudio", "mistral", "ollama", "openai",
    "openrouter", "vllm", "xai",
]  # fmt: skip
"""Known servers with the Chat Completions API."""


class ServerProfile(ConfigTable):
    """Differences of a server from a known server with the Chat Completions API."""

    base: ProfileName = "openai"
    """The known server. Unset fields are as for it."""
    path: Annotated[str, AfterValidator(_check_path)] | None = None
    """Path of requests below `base_url`, such as `/v1/chat/completions`."""
    max_tokens: Literal["max_tokens", "max_completion_tokens"] | None = None
    """Member of a request with the maximum length of an answer."""
    stream_options: Flag | None = None
    """`false` if the server refuses `stream_options`, or reports tokens without it."""
    tool_choice: Literal["named", "words", "nothing"] | None = None
    """Accepted values of `tool_choice`: names of tools, only words, or the server ignores it."""
    any_tool: Literal["required", "any"] | None = None
    """Word that requires a call of any tool."""
    call_ids: Literal["free", "nine"] | None = None
    """`nine` if ids of tool calls must have nine letters or digits."""
    structured: Literal["strict", "schema", "json"] | None = None
    """Form of a structured answer: a strict schema, any schema, or only JSON."""
    reasoning_field: Literal["reasoning", "reasoning_content", "none"] | None = None
    """Member of a message with its reasoning. With `none`, reasoning is sent as text."""
    think_tags: Flag | None = None
    """`true` if an answer may begin with reasoning between `<think>` tags."""
    documents: Literal["user", "system"] | None = None
    """Message with the texts of attachments."""


def _read_dialect(value: Any) -> Any:
    names = {"openai": "chat", "anthropic": "messages", "google": "interactions"}
    return names.get(value, value) if isinstance(value, str) else value


class Server(ProviderConfig):
    """A server with a known API, under a name of its own: `-m NAME/MODEL`."""

    dialect: Annotated[
        Literal["chat", "responses", "messages", "interactions", "generate"],
        before(_read_dialect),
    ] = "chat"
    """API of the server: `chat` for chat completions, `responses` of OpenAI, `messages` of
    Anthropic, or `interactions` and `generate` of Google."""
    headers: Annotated[dict[str, str], AfterValidator(_check_headers)] = Field(default_factory=dict)
    """Further headers of each request, without keys."""
    profile: Annotated[
        Annotated[ServerProfile, TABLE_FORM] | Annotated[ProfileName, PLAIN_FORM],
        TABLE_OR_PLAIN_FORM,
    ] = "openai"
    """With `chat` and `responses`: a known server that this one is like, or a table of the
    differences."""
    images: Flag | None = None
    """`true` if the models accept images. Unset, it depends on the profile."""


class Llm(ProviderTable):
    """Providers by name, named servers, and aliases of models."""

    servers: dict[Annotated[str, AfterValidator(_check_server_name)], Server] = Field(
        default_factory=dict
    )
    """Servers with a known API, by a name that works like that of a provider."""

    aliases: dict[Annotated[str, AfterValidator(_check_alias)], ModelIdOrAlias] = Field(
        default_factory=dict
    )
    """Models by alias. An alias can name another alias."""

    def list_names(self) -> tuple[str, ...]:
        """Return the names of the available providers, and of the configured servers."""
        return (*AVAILABLE_PROVIDERS, *sorted(self.servers))

    def get_settings(self, name: str) -> ProviderConfig | None:
        """Return the settings of a provider or server; None if it has none, or does not exist."""
        if name in ProviderTable.model_fields:
            settings: ProviderConfig = getattr(self, name)
            return settings
        return self.servers.get(name)

    def require(self, name: str) -> None:
        """Check that there is a provider or server `name`.

        Raises:
            ConfigError: A server of this name is not in the configuration.
        """
        if name not in PROVIDER_CLASSES and name not in self.servers:
            known = f"; configured: {', '.join(sorted(self.servers))}" if self.servers else ""
            raise ConfigError(
                f"the server {name!r} is not in the configuration{known}. Set the address: "
                f"`%jp config {SERVERS_PATH}.{name}.base_url=URL`",
                path=f"{SERVERS_PATH}.{name}",
            )


CassetteMode = Literal["off", "record", "replay", "replay-or-record"]


class Cassette(ConfigTable):
    """The cassette: a file of recorded requests and responses."""

    path: str | None = None
    """Path of the file, relative to the notebook's folder. Unset, it is `NB.cassette.jsonl` next to
    `NB.ipynb`."""
    mode: Annotated[CassetteMode, before(read_on_off)] = "off"
    """`record` responses, `replay` them instead of a model, or `replay-or-record`: replay recorded
    responses and record the others."""
    tools: Literal["run", "recorded"] = "run"
    """In a replay, `run` the tools or use their `recorded` results."""


class Providers(ConfigTable):
    """Providers of models and tools, and the cassette that can replace them."""

    llm: Llm = table()
    mcp: dict[McpServerName, McpServer] = Field(default_factory=dict)
    """MCP servers, by name."""
    mcp_files: Annotated[list[str], APPEND_SET_MERGE] = Field(default_factory=list)
    """Files of other applications with MCP servers, such as `.mcp.json`, relative to the
    workspace. A server in `mcp` has priority over one of the same name in a file."""
    cassette: Cassette = table()


class Section(ShortTable):
    """A section of the system prompt. It can be written as a text, which is its content."""

    TEXT: ClassVar[str] = "content"
    FORMS: ClassVar[str] = "a text, or a table of content, tag, title, and position"

    content: str
    """The text."""
    tag: str | None = None
    """Name of an XML element that contains the text."""
    title: str | None = None
    """Title of the section."""
    position: Whole = 0
    """Sections are sorted by this number."""

    def render(self) -> str:
        """Return the section as text for the model."""
        content = self.content.strip()
        if self.tag is None:
            return f"# {self.title}\n\n{content}" if self.title else content

        if any(sign in content for sign in "<>&"):
            content = "<![CDATA[" + content.replace("]]>", "]]]]><![CDATA[>") + "]]>"

        title = ""
        if self.title:
            from xml.sax.saxutils import quoteattr

            title = f" title={quoteattr(self.title)}"
        return f"<{self.tag}{title}>\n{content}\n</{self.tag}>"


class Contrast(ConfigTable):
    """A good and a bad example."""

    good: str
    """The good example."""
    bad: str
    """The bad example."""
    reason: str | None = None
    """The reason for the difference."""


Example = Annotated[
    Annotated[str, PLAIN_FORM] | Annotated[Contrast, TABLE_FORM],
    TABLE_OR_PLAIN_FORM,
    one_of(str, dict, Contrast, expected="a text, or a table of good, bad, and reason"),
]


class Instruction(ConfigTable):
    """A list of instructions in the system prompt."""

    title: str | None = None
    """Title of the list."""
    description: str | None = None
    """Text before the list."""
    position: Whole = 0
    """Lists and sections are sorted by this number."""
    items: Annotated[list[str], APPEND_MERGE] = Field(default_factory=list)
    """The instructions."""
    examples: Annotated[list[Example], APPEND_MERGE] = Field(default_factory=list)
    """Examples: a text, or a good and a bad example."""

    def to_section(self) -> Section:
        """Return a section with the tag `instruction`."""
        parts = [self.description] if self.description else []

        parts.append("\n".join(f"- {item}" for item in self.items))
        if self.examples:
            parts.append("**Examples**")
        for example in self.examples:
            if isinstance(example, Contrast):
                reason = f"\nReason: {example.reason}" if example.reason else ""
                example = f"Good: {example.good}\nBad: {example.bad}{reason}"
            parts.append(example)

        return Section(
            content="\n\n".join(p for p in parts if p),
            tag="instruction",
            title=self.title,
            position=self.position,
        )


def make_default_instructions() -> list[Instruction]:
    """Return the instructions that apply until others are configured."""
    items = [
        "Be concise.",
        "Use simple sentences.",
        "Explain no more than was asked for.",
        "No flattery and no marketing tone.",
        "No vague claims: say what you know and how you know it.",
    ]
    return [Instruction(title="How to respond to the user", items=items)]


SECTIONS_MERGE = merge_by_keys("tag", "title")
INSTRUCTIONS_MERGE = merge_by_keys("title")


ToolChoiceSetting = Annotated[str, not_blank("auto, none, required, or the name of a tool")]


class Assistant(ConfigTable):
    """The assistant: its prompt, its model, and its requests."""

    name: str | None = None
    """Name of the assistant. No prompt contains it."""
    system_prompt: Annotated[str, TEXT_MERGE] = "You are a helpful assistant."
    """First text of the system prompt."""
    system_prompt_sections: Annotated[list[Section], SECTIONS_MERGE] = Field(default_factory=list)
    """Further sections of the system prompt."""
    instructions: Annotated[list[Instruction], INSTRUCTIONS_MERGE] = Field(
        default_factory=make_default_instructions
    )
    """Lists of instructions in the system prompt."""
    tool_choice: Annotated[ToolChoiceSetting, REPLACE_MERGE] = "auto"
    """Use of tools in the first request of a turn: `auto`, `none`, `required`, or the name of a
    tool."""
    model: Model = table()
    request: Request = table()

    def system_texts(self) -> tuple[str, ...]:
        """Return the system texts in the order in which they are sent."""
        sections = [*self.system_prompt_sections, *(i.to_section() for i in self.instructions)]
        sections.sort(key=lambda section: section.position)
        texts = [self.system_prompt, *(section.render() for section in sections)]
        return tuple(text for text in texts if text.strip())


class AssistantOverrides(ConfigTable):
    """Overrides of `assistant` for a separate task. Unset settings are inherited."""

    system_prompt: str | None = None
    """First text of the system prompt."""
    system_prompt_sections: Annotated[list[Section], SECTIONS_MERGE] = Field(default_factory=list)
    """Further sections of the system prompt."""
    tool_choice: ToolChoiceSetting | None = None
    """Use of tools."""
    model: ModelChoice | None = None
    request: RequestOverrides | None = None


class QuestionAssistant(AssistantOverrides):
    """Settings of the model that answers a question of a tool. Unset ones are inherited."""

    name: str | None = None
    """Name of the assistant. No prompt contains it."""
    system_prompt: Annotated[str | None, TEXT_MERGE] = None
    instructions: Annotated[list[Instruction], INSTRUCTIONS_MERGE] = Field(default_factory=list)
    """Lists of instructions in the system prompt."""
