"""Where models and tool servers are reached.

Source: `docs/configuration.md`, `docs/decisions.md` D26.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from jp_nb.config.tree.model_config import ModelIdOrAlias
from jp_nb.config.tree.node import ConfigTable, Count, Flag, shortened, word
from jp_nb.config.tree.strategy import APPEND, APPEND_SET

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _no_credentials(value: str) -> str:
    try:
        parts = urlsplit(value)
    except ValueError:
        raise ValueError("expected an address such as https://host") from None
    if "@" in parts.netloc:
        raise ValueError(
            "an address holds no user and no password: put a key into an environment variable "
            "and name that in api_key_env"
        )
    if "?" in value or "#" in value:
        raise ValueError(
            "an address ends before `?` and `#`: put a key into an environment variable and name "
            "that in api_key_env"
        )
    return value


def _a_variable(value: str) -> str:
    if not VARIABLE.fullmatch(value):
        raise ValueError("expected the name of an environment variable, not a key")
    return value


Address = Annotated[str, AfterValidator(_no_credentials)]
Variable = Annotated[str, AfterValidator(_a_variable)]


# --- models ----------------------------------------------------------------------------------


class ProviderConfig(ConfigTable):
    """Where a provider is reached and which environment variable holds its key."""

    api_key_env: Variable | None = None
    base_url: Address | None = None


class Anthropic(ProviderConfig):
    """Anthropic's Messages API."""

    api_key_env: Variable | None = "ANTHROPIC_API_KEY"
    base_url: Address | None = "https://api.anthropic.com"
    chain_on_max_tokens: Flag = True
    beta_headers: Annotated[list[str], APPEND_SET] = Field(default_factory=list)


Dialect = Literal["responses", "chat"]


class OpenAi(ProviderConfig):
    """OpenAI, or any server that speaks its protocol.

    Without a `dialect`, the address decides.
    """

    api_key_env: Variable | None = "OPENAI_API_KEY"
    base_url: Address | None = "https://api.openai.com"
    base_url_env: Variable | None = "OPENAI_BASE_URL"
    dialect: Annotated[Dialect | None, word(Dialect)] = None


class OpenRouter(ProviderConfig):
    """OpenRouter."""

    api_key_env: Variable | None = "OPENROUTER_API_KEY"
    base_url: Address | None = "https://openrouter.ai"
    app_name: str = "jp_nb"
    app_referrer: str | None = None


def _alias(value: str) -> str:
    if not value.strip() or "/" in value:
        raise ValueError(f"{shortened(value)!r} is no alias: expected a word without `/`")
    return value


class Llm(ConfigTable):
    """Providers by name, and short names for models."""

    aliases: dict[Annotated[str, AfterValidator(_alias)], ModelIdOrAlias] = Field(
        default_factory=dict
    )
    anthropic: Anthropic = Field(default_factory=Anthropic)
    cerebras: ProviderConfig = Field(
        default_factory=partial(
            ProviderConfig, api_key_env="CEREBRAS_API_KEY", base_url="https://api.cerebras.ai"
        )
    )
    deepseek: ProviderConfig = Field(
        default_factory=partial(
            ProviderConfig, api_key_env="DEEPSEEK_API_KEY", base_url="https://api.deepseek.com"
        )
    )
    google: ProviderConfig = Field(
        default_factory=partial(
            ProviderConfig,
            api_key_env="GEMINI_API_KEY",
            base_url="https://generativelanguage.googleapis.com/v1beta",
        )
    )
    llamacpp: ProviderConfig = Field(
        default_factory=partial(ProviderConfig, base_url="http://127.0.0.1:8080")
    )
    ollama: ProviderConfig = Field(
        default_factory=partial(ProviderConfig, base_url="http://localhost:11434")
    )
    openai: OpenAi = Field(default_factory=OpenAi)
    openrouter: OpenRouter = Field(default_factory=OpenRouter)
    xai: ProviderConfig = Field(
        default_factory=partial(
            ProviderConfig, api_key_env="XAI_API_KEY", base_url="https://api.x.ai"
        )
    )


# --- tool servers ----------------------------------------------------------------------------

_HEX = re.compile(r"[0-9A-Fa-f]+")
Algorithm = Literal["sha256", "sha1"]


def _hex(value: str) -> str:
    if not _HEX.fullmatch(value):
        raise ValueError("expected the checksum as hexadecimal digits")
    return value


class Checksum(ConfigTable):
    """What a server's program must hash to."""

    algorithm: Annotated[Algorithm, word(Algorithm)]
    value: Annotated[str, AfterValidator(_hex)]


Transport = Literal["stdio"]


class McpServer(ConfigTable):
    """A server of tools, and how it is started.

    `variables` names the environment variables that it is given. `startup_timeout_secs` 0 waits
    for good.
    """

    type: Annotated[Transport, word(Transport)] = "stdio"
    command: str
    arguments: Annotated[list[str], APPEND] = Field(default_factory=list)
    variables: Annotated[list[Variable], APPEND] = Field(default_factory=list)
    checksum: Checksum | None = None
    optional: Flag = False
    startup_timeout_secs: Count = 60


class Providers(ConfigTable):
    """Model providers and tool servers."""

    llm: Llm = Field(default_factory=Llm)
    mcp: dict[str, McpServer] = Field(default_factory=dict)
