"""The command or the address of a server, with all variables resolved.

`launch_resolution.py` makes a launch from the settings of a server, when it starts. A launch knows
the secrets in it, and hides them in messages.

Source: `docs/mcp.md`, Configure servers.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from jp_nb.config.redactor import Redactor
from jp_nb.config.secrets.replacements import NOT_SHOWN
from jp_nb.config.secrets.secret_hiding import hide_secrets
from jp_nb.config.secrets.secret_names import is_secret
from jp_nb.json_values import JsonObject


@dataclass(frozen=True, slots=True)
class StdioLaunch:
    """The command of a server on this computer, with resolved variables.

    Attributes:
        command: The program.
        arguments: Its arguments.
        environment: Variables in addition to those that each server inherits from the kernel
            (`INHERITED_VARIABLES`, `server_process.py`).
        folder: Working directory; None for that of the kernel.
        secrets: Values that are hidden in messages, such as those of `${VAR}`. Variables that look
            like secrets always are.
    """

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def __repr__(self) -> str:
        names = ", ".join(sorted(self.environment))
        return f"StdioLaunch({self.masked!r}, environment=[{names}], folder={self.folder})"

    @property
    def masked(self) -> str:
        """The command line without secrets, for messages."""
        # `hide_secrets` finds words that look like secrets, `hide` those that this launch knows.
        return self.hide(hide_secrets(shlex.join([self.command, *self.arguments])))

    def hide(self, text: str) -> str:
        """Return `text` without the secrets of this launch."""
        values = [value for name, value in self.environment.items() if is_secret(name, value)]
        return Redactor(NOT_SHOWN, *self.secrets, *values).hide(text)


class CredentialStore(Protocol):
    """Private storage of the credentials for one server, by issuer."""

    def load(self) -> JsonObject | None:
        """Return the credentials of the issuer that was used last, or None."""
        ...

    def save(self, issuer: str, credentials: JsonObject) -> None:
        """Store the credentials of `issuer`, and use them from now on."""
        ...

    def forget(self) -> bool:
        """Remove all credentials. Return False if there were none."""
        ...

    def list_secrets(self) -> Sequence[str]:
        """Return the stored tokens, to hide them in messages."""
        ...


@dataclass(frozen=True, slots=True)
class HttpLaunch:
    """The address of a server on the network, with resolved variables.

    Attributes:
        url: The address of the server.
        headers: The headers of each request.
        insecure: True if plain HTTP to another computer is allowed.
        secrets: Values that are hidden in messages. Values of headers and tokens always are.
        credentials: Tokens of a sign-in to this address; None if there can be none.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    insecure: bool = False
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    credentials: CredentialStore | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        names = ", ".join(sorted(self.headers))
        return f"HttpLaunch({self.masked!r}, headers=[{names}], insecure={self.insecure})"

    @property
    def has_authorization(self) -> bool:
        """True if a configured header replaces a sign-in."""
        return any(name.lower() == "authorization" for name in self.headers)

    @property
    def masked(self) -> str:
        """The address without secrets, for messages."""
        return self.hide(hide_secrets(self.url))

    def hide(self, text: str) -> str:
        """Return `text` without the secrets of this launch."""
        headers = list(self.headers.values())
        parts: list[str] = []  # also `KEY` of `Bearer KEY`, which a message may have alone
        for value in headers:
            parts += value.split()
        tokens = [] if self.credentials is None else self.credentials.list_secrets()
        return Redactor(NOT_SHOWN, *self.secrets, *headers, *parts, *tokens).hide(text)


Launch = StdioLaunch | HttpLaunch
