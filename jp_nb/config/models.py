"""From what a user calls a model to the model.

Source: `spec/config.md` section 3.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from jp_nb.config.app_config import ModelId
from jp_nb.errors import ConfigError

PATH = "assistant.model.id"


def resolve(
    reference: ModelId | str, aliases: Mapping[str, ModelId | str], *, path: str = PATH
) -> ModelId:
    """The model that `reference` names, through as many aliases as it takes.

    Raises:
        ConfigError: If it is neither an alias nor `provider/name`, or the aliases go in circles.
    """
    chain: list[str] = []
    while isinstance(reference, str):
        if reference in chain:
            raise ConfigError(
                f"these aliases go in circles: {' -> '.join([*chain, reference])}",
                path="providers.llm.aliases",
            )
        chain.append(reference)
        target = aliases.get(reference)
        if target is None:
            known = ", ".join(sorted(aliases)) or "none is defined"
            raise ConfigError(
                f"{reference!r} is neither an alias (known: {known}) nor `provider/name`",
                path=path,
            )
        reference = target
    return reference


def parse(text: str) -> ModelId | str:
    """A full id or an alias, as written.

    Raises:
        ConfigError: If it has a `/` and is no valid id; unknown providers list the valid ones.
    """
    provider, slash, name = text.strip().partition("/")
    if not slash:
        return text.strip()
    try:
        return ModelId(provider=provider.strip(), name=name.strip())
    except ValidationError as exc:
        reason = exc.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(reason, path=PATH) from exc
