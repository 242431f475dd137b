"""Endpoints: from a provider's settings to an address and the variable of a key.

Source: `docs/providers.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit

from jp_nb.config.secret_names import NOT_SHOWN, names_secret
from jp_nb.config.tree.node import found
from jp_nb.errors import ConfigError


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
