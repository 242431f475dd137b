"""The providers of models, and short names of models.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from jp_nb.config.tree.model_config import ModelIdOrAlias
from jp_nb.config.tree.node import ConfigTable, shortened, table
from jp_nb.config.tree.provider_table import ProviderTable


def _alias(value: str) -> str:
    if not value.strip() or "/" in value:
        raise ValueError(f"{shortened(value)!r} is not an alias, expected a word without `/`")
    return value


class Llm(ProviderTable):
    """Providers by name, and short names for models."""

    aliases: dict[Annotated[str, AfterValidator(_alias)], ModelIdOrAlias] = Field({})


class Providers(ConfigTable):
    """Model providers."""

    llm: Llm = table()
