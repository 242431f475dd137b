"""Settings of providers, aliases of models, and the cassette.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from jp_nb.config.tree.model_config import ModelIdOrAlias
from jp_nb.config.tree.node import ConfigTable, before, shortened, table, word
from jp_nb.config.tree.provider_table import ProviderTable


def _alias(value: str) -> str:
    if not value.strip() or "/" in value:
        raise ValueError(f"{shortened(value)!r} is not an alias, expected a word without `/`")
    return value


class Llm(ProviderTable):
    """Providers by name, and aliases of models.

    Attributes:
        aliases: Models by alias. An alias can name another alias.
    """

    aliases: dict[Annotated[str, AfterValidator(_alias)], ModelIdOrAlias] = Field({})


CassetteMode = Literal["off", "record", "replay", "replay-or-record"]
ReplayedTools = Literal["run", "recorded"]


def _off(value: Any) -> Any:
    """TOML writers put a boolean where `off` is meant."""
    return "off" if value is False else value


class Cassette(ConfigTable):
    """The cassette: a file of recorded requests and responses.

    Attributes:
        path: Path of the file, relative to the notebook's folder. Unset, it is `NB.cassette.jsonl`
            next to `NB.ipynb`.
        mode: `record` responses, `replay` them instead of a model, or `replay-or-record`: replay
            recorded responses and record the others.
        tools: In a replay, `run` the tools or use their `recorded` results.
    """

    path: str | None = None
    mode: Annotated[CassetteMode, word(CassetteMode), before(_off)] = "off"
    tools: Annotated[ReplayedTools, word(ReplayedTools)] = "run"


class Providers(ConfigTable):
    """Providers of models, and the cassette that can replace them."""

    llm: Llm = table()
    cassette: Cassette = table()
