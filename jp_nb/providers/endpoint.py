"""Address, key, headers and parameters of a provider's settings.

Source: `docs/providers.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from pydantic import JsonValue

from jp_nb.config.secrets import NOT_SHOWN, names_secret
from jp_nb.config.tree.base import found
from jp_nb.errors import ConfigError, ProviderError


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address, and the name of a key's variable; never a key.

    Attributes:
        provider: Its name in the configuration, for messages.
        base_url: Address without `path`; one that already ends in the start of `path` also works.
        path: Such as `/v1/messages`.
        base_url_env: Variable whose value, if set, replaces `base_url`.
        key_env: Variable that holds the key; None if the server needs none.
        key_header: How the key is sent.
        key_required: Whether `base_url` answers nobody without a key.
        key_named: Whether somebody named `key_env`, so that no server is asked without a key.
        headers: Sent with every request; nothing secret.
    """

    provider: str
    base_url: str
    path: str
    base_url_env: str | None = None
    key_env: str | None = None
    key_header: Literal["authorization", "x-api-key"] = "authorization"
    key_required: bool = False
    key_named: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def override(self) -> str:
        """The base address that the environment names; "" if it names none.

        Raises:
            ConfigError: If it holds a user or a password; the message does not show it.
        """
        found = os.environ.get(self.base_url_env, "") if self.base_url_env else ""
        if "@" in re.split(r"[/?#]", found.rpartition("://")[2])[0]:
            raise ConfigError(
                f"the address in {self.base_url_env} cannot contain a user name or "
                "password. Put the key into an environment variable and set "
                "api_key_env to its name",
                path=f"{self.setting}.base_url_env",
            )
        return found

    @property
    def key_is_set(self) -> bool:
        """Return True if the variable of the key holds something."""
        return bool(self.key_env and os.environ.get(self.key_env, "").strip())

    @property
    def url(self) -> str:
        """The address to post to."""
        return join_url(self.override or self.base_url, self.path)

    @property
    def setting(self) -> str:
        """Configuration path of this provider's settings."""
        return f"providers.llm.{self.provider}"


def join_url(base: str, path: str) -> str:
    """Join `path` to `base`, which may already end in the first segments of `path`."""
    base = base.rstrip("/")
    segments = path.strip("/").split("/")
    for count in range(len(segments), 0, -1):
        if base.endswith("/" + "/".join(segments[:count])):
            segments = segments[count:]
            break
    return "/".join([base, *segments])


def public_url(url: str) -> str:
    """Return `url` without a password, and without what its query calls by the name of a secret."""
    before, mark, query = url.partition("?")
    parts = (part.partition("=") for part in query.split("&"))
    shown = "&".join(
        f"{name}={NOT_SHOWN}" if value and names_secret(unquote(name)) else name + equals + value
        for name, equals, value in parts
    )
    scheme, slashes, rest = before.partition("://")
    host, slash, path = rest.partition("/")
    user, at, host = host.rpartition("@")
    return f"{scheme}{slashes}{NOT_SHOWN + at if user else at}{host}{slash}{path}{mark}{shown}"


class ProviderSettings:
    """A provider's settings, checked as they are read.

    Args:
        provider: Its name.
        given: What is configured; None where the default counts.
        defaults: What counts otherwise.
    """

    def __init__(
        self, provider: str, given: Mapping[str, object], defaults: Mapping[str, object]
    ) -> None:
        self.provider = provider
        self._defaults = defaults
        chosen = {key: value for key, value in given.items() if value is not None}
        self._values = {**defaults, **chosen}

    def text(self, key: str) -> str | None:
        """Return a text; None if it is empty or not set.

        Raises:
            ConfigError: If it is something else.
        """
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a text", value)
        return value or None

    def texts(self, key: str) -> list[str]:
        """Return a list of texts.

        Raises:
            ConfigError: If it is something else.
        """
        value = self._values.get(key, ())
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self._wrong(key, "a list of texts", value)
        return [str(item) for item in value]

    def number(self, key: str) -> float | None:
        """Return a number, such as `2` or `0.5`; None if it is not set.

        Raises:
            ConfigError: If it is something else.
        """
        value = self._values.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise self._wrong(key, "a number", value)
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return whether it is on; what is not set is as `default` says.

        Raises:
            ConfigError: If it is something else.
        """
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def endpoint(
        self,
        path: str,
        *,
        headers: Mapping[str, str],
        key_header: Literal["authorization", "x-api-key"] = "authorization",
    ) -> Endpoint:
        """Return where requests go, with `path` behind the configured address.

        Raises:
            ConfigError: If that is not an address.
        """
        address, key = self._address(), self.text("api_key_env")
        default_key = self._defaults.get("api_key_env")
        return Endpoint(
            self.provider,
            address,
            path,
            base_url_env=self.text("base_url_env"),
            key_env=key,
            key_header=key_header,
            # Of another server than the default one nobody knows whether it wants a key (D61).
            key_required=address == self._defaults.get("base_url"),
            key_named=key not in (None, default_key),
            headers=headers,
        )

    def _address(self) -> str:
        url = self.text("base_url") or ""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise self._wrong("base_url", "an http or https address", url)
        return url

    def _wrong(self, key: str, expected: str, value: object) -> ConfigError:
        path = f"providers.llm.{self.provider}.{key}"
        return ConfigError(f"expected {expected}, {found(value, path)}", path=path)


_LOGGER: Final = logging.getLogger(__name__)

Level = Literal["none", "xlow", "low", "medium", "auto", "high", "xhigh", "max"]
SHARES: Final[dict[Level, float]] = {
    "none": 0.0,
    "xlow": 0.1,
    "low": 0.2,
    "medium": 0.5,
    "auto": 0.5,
    "high": 0.8,
    "xhigh": 0.9,
    "max": 1.0,
}
"""Of the tokens of an answer, how much an effort may spend on reasoning."""


@dataclass(frozen=True, slots=True)
class ReasoningEffort:
    """A wish for reasoning: a level, or a number of tokens.

    `exclude` asks not to get the reasoning's text.
    """

    effort: Level | int
    exclude: bool = False

    @property
    def off(self) -> bool:
        """Return True if reasoning is unwanted."""
        return self.effort in ("none", 0)

    def tokens(self, max_tokens: int) -> int:
        """Tokens to reason with, of an answer of `max_tokens`."""
        if isinstance(self.effort, int):
            return self.effort
        return int(max_tokens * SHARES[self.effort])

    def level(self, max_tokens: int) -> Level:
        """The level that comes nearest, of an answer of `max_tokens`."""
        if not isinstance(self.effort, int):
            return self.effort
        share = self.effort / max_tokens
        levels: tuple[Level, ...] = ("max", "xhigh", "high", "medium")
        floors = (0.9, 0.8, 0.5, 0.2)
        if self.effort == 0:
            return "none"
        return next((lv for lv, floor in zip(levels, floors, strict=True) if share > floor), "low")


def parse_reasoning(value: JsonValue) -> ReasoningEffort | None:
    """Return what `assistant.model.parameters.reasoning` asks for; None if the provider decides.

    Accepts `"off"`, `"auto"`, a level, a number of tokens, and
    `{"effort": level | number | {"absolute": number}, "exclude": bool}`.

    Raises:
        ProviderError: If it is none of these.
    """
    exclude = False
    effort = value
    if isinstance(value, dict):
        exclude = value.get("exclude") is True
        effort = value.get("effort", "medium")
        if isinstance(effort, dict):
            effort = effort.get("absolute")
    match effort:
        case None if not isinstance(value, dict):
            return None
        case "off" | False:
            return ReasoningEffort("none", exclude)
        case True:
            return ReasoningEffort("auto", exclude)
        case int() if effort >= 0:
            return ReasoningEffort(effort, exclude)
        case "none" | "xlow" | "low" | "medium" | "auto" | "high" | "xhigh" | "max":
            return ReasoningEffort(effort, exclude)
    raise ProviderError(
        f"assistant.model.parameters.reasoning: expected off, auto, one of {', '.join(SHARES)}, "
        f"or a number of tokens; found {value!r}"
    )


class Warnings:
    """Says once per conversation what is not sent as it was configured."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._said: set[tuple[str, str]] = set()

    def ignored(self, setting: str, reason: str, *, conversation_id: str) -> None:
        """Log that the parameter `setting` is not sent."""
        place = f"assistant.model.parameters.{setting}"
        self.not_sent(place, reason, conversation_id=conversation_id)

    def not_sent(self, place: str, reason: str, *, conversation_id: str) -> None:
        """Log that what is at `place` of the configuration is not sent."""
        if (conversation_id, place) not in self._said:
            self._said.add((conversation_id, place))
            self._say(place, reason)

    def _say(self, place: str, reason: str) -> None:
        _LOGGER.warning("%s: %s is not sent: %s", self._provider, place, reason)


class LeftOut(Warnings):
    """Lists the same instead of saying it.

    Attributes:
        lines: What is not sent, each with the reason.
    """

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self.lines: list[str] = []

    def _say(self, place: str, reason: str) -> None:
        self.lines.append(f"{place}: {reason}")
