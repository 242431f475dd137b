"""Names of the servers that a configuration in this process has declared.

A model id such as `work/llama` is read apart from the configuration, and its provider may be a
server that the user has named (`named_servers.py`). So the names of all servers are kept here, from
the reading of a configuration on. `Llm.require` checks that the effective one has the server.

Source: `docs/configuration.md`, `docs/providers.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from jp_nb.config.tree.provider_settings import PROVIDER_CLASSES
from jp_nb.config.tree.value_errors import UnexpectedValueError, shorten_for_error

SERVERS_PATH: Final = "providers.llm.servers"
"""Path of the table of servers, by name."""

_DECLARED_SERVERS: set[str] = set()
_SERVER_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_RESERVED_NAMES: Final = frozenset({"aliases", "servers"})
"""The fields of `providers.llm` that are no providers."""


def check_server_name(name: str) -> str:
    """Return `name`, and note that it may name a server from now on.

    Raises:
        ValueError: It is invalid, or the name of a built-in provider.
    """
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
                check_server_name(name)


def is_declared_server(name: str) -> bool:
    """Return True if a configuration of this process has declared the server `name`."""
    return name in _DECLARED_SERVERS
