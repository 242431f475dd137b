"""Settings below `providers`: models by provider and alias, MCP servers, and the cassette.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from jp_nb.config.tree.base import ConfigTable, table
from jp_nb.config.tree.declared_servers import SERVERS_PATH, check_server_name
from jp_nb.config.tree.merge_rules import APPEND_SET_MERGE
from jp_nb.config.tree.model_id import ModelIdOrAlias
from jp_nb.config.tree.named_servers import Server
from jp_nb.config.tree.provider_settings import (
    AVAILABLE_PROVIDERS,
    PROVIDER_CLASSES,
    ProviderConfig,
    ProviderTable,
)
from jp_nb.config.tree.server_settings import McpServer, McpServerName
from jp_nb.config.tree.value_checks import before, read_on_off
from jp_nb.config.tree.value_errors import UnexpectedValueError, shorten_for_error
from jp_nb.errors import ConfigError


def _check_alias(value: str) -> str:
    if not value.strip() or "/" in value:
        cause = f"{shorten_for_error(value)!r} is not an alias"
        raise UnexpectedValueError("a word without `/`", cause=cause)
    return value


class Llm(ProviderTable):
    """Providers by name, named servers, and aliases of models."""

    # `ProviderTable` has a field for each built-in provider with settings, such as `anthropic`. A
    # model id can name a server like a provider.

    servers: dict[Annotated[str, AfterValidator(check_server_name)], Server] = Field(
        default_factory=dict
    )
    """Servers with a known API, by a name that works like that of a provider."""

    aliases: dict[Annotated[str, AfterValidator(_check_alias)], ModelIdOrAlias] = Field(
        default_factory=dict
    )
    """Models by alias. An alias can name another alias."""

    def list_names(self) -> tuple[str, ...]:
        """Return the names that can begin a model id: usable providers, and configured servers."""
        return (*AVAILABLE_PROVIDERS, *sorted(self.servers))

    def get_settings(self, name: str) -> ProviderConfig | None:
        """Return the settings of a provider or server; None if it has none, or does not exist."""
        if name in ProviderTable.model_fields:
            settings: ProviderConfig = getattr(self, name)
            return settings
        return self.servers.get(name)

    def require(self, name: str) -> None:
        """Check that `name`, the first part of a model id, is a provider or server of this table.

        A model id is read without a configuration, so it may name a server that only another
        configuration of this process has (`declared_servers.py`).

        Raises:
            ConfigError: No server of this name is in the configuration.
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
