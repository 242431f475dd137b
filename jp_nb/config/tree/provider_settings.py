"""Settings of the built-in providers of models: address, key, and the differences of their APIs.

Each provider has a class with its defaults, and a field of `ProviderTable`. `PROVIDER_CLASSES` has
all of them by name, and also two providers without settings. To add a provider, follow
`docs/extending.md`. Servers that the user names are in `named_servers.py`.

Source: `docs/configuration.md`, `docs/decisions.md` D26.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from jp_nb.config.tree.base import ConfigTable, table
from jp_nb.config.tree.merge_rules import APPEND_SET_MERGE
from jp_nb.config.tree.value_checks import Flag


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


def _check_variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("expected the name of an environment variable, not a key")
    return value


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
    """Server that speaks chat completions. Its profile is in `chat_profiles.py`."""

    FACTORY: ClassVar[str] = "openai.openai_dialects:create"

    images: Flag | None = None
    """`true` if the models accept images. Unset, it depends on the provider."""


class Anthropic(ProviderConfig):
    """Anthropic's Messages API."""

    FACTORY: ClassVar[str] = "anthropic.anthropic_messages:create"
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

    FACTORY: ClassVar[str] = "google.google_dialects:create"
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

    FACTORY: ClassVar[str] = "scripts.scripted:create"

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
        name: cast("type[ProviderConfig]", field.annotation)
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
