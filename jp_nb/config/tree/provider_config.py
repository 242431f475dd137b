"""Where models and tool servers are reached.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from jp_nb.config.tree.model_config import ModelIdOrAlias
from jp_nb.config.tree.node import ConfigTable, Count, Flag, shortened, table, word
from jp_nb.config.tree.provider_table import ProviderTable, Variable
from jp_nb.config.tree.strategy import APPEND


def _alias(value: str) -> str:
    if not value.strip() or "/" in value:
        raise ValueError(f"{shortened(value)!r} is no alias: expected a word without `/`")
    return value


class Llm(ProviderTable):
    """Providers by name, and short names for models."""

    aliases: dict[Annotated[str, AfterValidator(_alias)], ModelIdOrAlias] = Field({})


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
    arguments: Annotated[list[str], APPEND] = Field([])
    variables: Annotated[list[Variable], APPEND] = Field([])
    checksum: Checksum | None = None
    optional: Flag = False
    startup_timeout_secs: Count = 60


class Providers(ConfigTable):
    """Model providers and tool servers."""

    llm: Llm = table()
    mcp: dict[str, McpServer] = Field({})
