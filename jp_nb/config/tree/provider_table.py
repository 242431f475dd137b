"""The providers: where each is reached, what makes it, and what it cannot do yet.

A new provider is one class here, with its field in `ProviderTable` if it can be configured, and a
module in `jp_nb/providers`.

Source: `docs/configuration.md`, `docs/extending.md`, `docs/decisions.md` D26.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from jp_nb.config.tree.node import ConfigTable, Flag, table, word
from jp_nb.config.tree.strategy import APPEND_SET

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _no_credentials(value: str) -> str:
    try:
        parts = urlsplit(value)
    except ValueError:
        raise ValueError("expected an address such as https://host") from None
    if "@" in parts.netloc:
        raise ValueError(
            "an address cannot contain a user name or password. Put the key into an "
            "environment variable and set api_key_env to its name"
        )
    if "?" in value or "#" in value:
        raise ValueError(
            "an address cannot contain `?` or `#`. Put a key into an environment "
            "variable and set api_key_env to its name"
        )
    return value


def _a_variable(value: str) -> str:
    if not VARIABLE.fullmatch(value):
        raise ValueError("expected the name of an environment variable, not a key")
    return value


Address = Annotated[str, AfterValidator(_no_credentials)]
Variable = Annotated[str, AfterValidator(_a_variable)]


class ProviderConfig(ConfigTable):
    """Address of a provider, and the environment variable that contains its key.

    Attributes:
        api_key_env: Environment variable that contains the API key.
        base_url: Address of the server.
    """

    MADE_BY: ClassVar[str] = ""
    """`module:function` that makes the provider; the module is in `jp_nb.providers`, and the
    function takes `endpoint.ProviderSettings`. Empty as long as the provider is not built."""

    api_key_env: Variable | None = None
    base_url: Address | None = None


class SpeaksChat(ProviderConfig):
    """Server that speaks chat completions. Its profile is in `providers/chat_profiles.py`.

    Attributes:
        images: `true` if the models accept images. Unset, it depends on the provider.
    """

    MADE_BY: ClassVar[str] = "openai_chat:create"

    images: Flag | None = None


class Anthropic(ProviderConfig):
    """Anthropic's Messages API.

    Attributes:
        chain_on_max_tokens: Continue an answer that reaches the model's limit.
        beta_headers: Values of the header `anthropic-beta`.
    """

    MADE_BY: ClassVar[str] = "anthropic:create"

    api_key_env: Variable | None = "ANTHROPIC_API_KEY"
    base_url: Address | None = "https://api.anthropic.com"
    chain_on_max_tokens: Flag = True
    beta_headers: Annotated[list[str], APPEND_SET] = Field([])


class Cerebras(SpeaksChat):
    """Cerebras."""

    api_key_env: Variable | None = "CEREBRAS_API_KEY"
    base_url: Address | None = "https://api.cerebras.ai"


class DeepSeek(SpeaksChat):
    """DeepSeek."""

    api_key_env: Variable | None = "DEEPSEEK_API_KEY"
    base_url: Address | None = "https://api.deepseek.com"


class Google(ProviderConfig):
    """Google Gemini. Not available yet."""

    api_key_env: Variable | None = "GEMINI_API_KEY"
    base_url: Address | None = "https://generativelanguage.googleapis.com/v1beta"


class LlamaCpp(SpeaksChat):
    """A llama.cpp server."""

    base_url: Address | None = "http://127.0.0.1:8080"


class Ollama(SpeaksChat):
    """An Ollama server."""

    base_url: Address | None = "http://localhost:11434"


Dialect = Literal["responses", "chat"]
DIALECTS_NOT_BUILT: Final = ("responses",)


class OpenAi(SpeaksChat):
    """OpenAI, or a compatible server.

    Attributes:
        base_url_env: Environment variable that overrides `base_url` if it is set.
        dialect: API of the server: `chat` for chat completions, which is also used if it is unset.
            `responses` is not available yet.
    """

    api_key_env: Variable | None = "OPENAI_API_KEY"
    base_url: Address | None = "https://api.openai.com"
    base_url_env: Variable | None = "OPENAI_BASE_URL"
    dialect: Annotated[Dialect | None, word(Dialect)] = None


class OpenRouter(SpeaksChat):
    """OpenRouter.

    Attributes:
        app_name: Name of the application, sent in the header `X-Title`.
        app_referrer: URL of the application, sent in the header `HTTP-Referer`.
    """

    api_key_env: Variable | None = "OPENROUTER_API_KEY"
    base_url: Address | None = "https://openrouter.ai"
    app_name: str = "jp_nb"
    app_referrer: str | None = None


class Scripted(ProviderConfig):
    """Prepared replies from a file, without a network or a key. It has no settings."""

    MADE_BY: ClassVar[str] = "scripted:create"


class Xai(ProviderConfig):
    """xAI. Not available yet."""

    api_key_env: Variable | None = "XAI_API_KEY"
    base_url: Address | None = "https://api.x.ai"


class ProviderTable(ConfigTable):
    """Settings of each provider, by its name."""

    anthropic: Anthropic = table()
    cerebras: Cerebras = table()
    deepseek: DeepSeek = table()
    google: Google = table()
    llamacpp: LlamaCpp = table()
    ollama: Ollama = table()
    openai: OpenAi = table()
    openrouter: OpenRouter = table()
    xai: Xai = table()


PROVIDERS: Final[Mapping[str, type[ProviderConfig]]] = {
    **{
        name: cast("type[ProviderConfig]", field.annotation)  # pydantic says: any type form
        for name, field in ProviderTable.model_fields.items()
    },
    "scripted": Scripted,
    "test": ProviderConfig,  # JP's own; here `scripted` does what it is for
}
"""Every provider that a configuration may name."""
PROVIDER_NAMES: Final = tuple(sorted(PROVIDERS))
AVAILABLE: Final = tuple(sorted(name for name, one in PROVIDERS.items() if one.MADE_BY))
"""Names of the providers that are built."""
