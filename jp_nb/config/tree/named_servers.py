"""Settings of servers that the user names: `providers.llm.servers.NAME`, used as `-m NAME/MODEL`.

A server speaks a known API (`dialect`), perhaps with differences from a known server (`profile`).
The names of servers are in `declared_servers.py`.

Source: `docs/configuration.md`, `docs/providers.md`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from jp_nb.config.secrets.api_keys import hide_credentials
from jp_nb.config.secrets.secret_names import is_secret
from jp_nb.config.tree.base import PLAIN_FORM, TABLE_FORM, TABLE_OR_PLAIN_FORM, ConfigTable
from jp_nb.config.tree.provider_settings import ProviderConfig
from jp_nb.config.tree.value_checks import Flag, before
from jp_nb.config.tree.value_errors import UnexpectedValueError, shorten_for_error

MAX_HEADER_CHARS: Final = 1_000
"""Maximum length of the value of a configured header."""

ProfileName = Literal[
    "cerebras", "deepseek", "groq", "llamacpp", "lmstudio", "mistral", "ollama", "openai",
    "openrouter", "vllm", "xai",
]  # fmt: skip
"""Known servers with the Chat Completions API."""


def _check_path(value: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", value) or "/.." in value:
        raise UnexpectedValueError("a path such as /v1/chat/completions", value)
    return value


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
    """Return the dialect for a provider's name, which stands for its usual API."""
    names = {"openai": "chat", "anthropic": "messages", "google": "interactions"}
    return names.get(value, value) if isinstance(value, str) else value


_HEADER_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,79}")
_OWN_HEADERS: Final = frozenset(
    {
        "authorization",
        "x-api-key",
        "x-goog-api-key",
        "api-key",
        "proxy-authorization",
        "cookie",
        "host",
        "content-type",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "accept",
        "accept-encoding",
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


class Server(ProviderConfig):
    """A server with a known API, under a name that the user chose: `-m NAME/MODEL`."""

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
