"""Resolve model references: `provider/name`, or an alias of it.

A text without `/` is an alias. An alias may name another alias, a text `provider/name`, or a table
of the two. Any other reference, and a cycle of aliases, is a `ConfigError`. Only
`resolve_references` keeps such references and returns them, so that its callers can list them all.

`read_model_id` converts a text `provider/name` to a table. It returns an alias or a table as it is.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.partials.partial import get_path
from jp_nb.config.partials.partial_models import map_models
from jp_nb.config.schema import ROOT
from jp_nb.config.setting_paths import PathKeys, format_path
from jp_nb.config.tree.model_id import MODEL_NAME_PATTERN, ModelId, read_model_id
from jp_nb.config.tree.provider_settings import PROVIDER_CLASSES
from jp_nb.config.tree.value_errors import shorten_for_error
from jp_nb.errors import ConfigError

MODEL_PATH = "assistant.model.id"
ALIASES_PATH = "providers.llm.aliases"
_ALIAS_KEYS = tuple(ALIASES_PATH.split("."))

_MAX_NAME_CHARS: Final = 60
"""Maximum length of an unknown name that is compared with known names."""
_FAMILY: Final = re.compile(
    "|".join(
        f"(?P<{name}>{provider.MODELS})"
        for name, provider in PROVIDER_CLASSES.items()
        if provider.MODELS
    )
)
"""Beginnings of model names. The name of the group is the provider that serves the models."""

Aliases = Mapping[str, Any]
"""Model ids, names of other aliases, or tables of provider and name, by alias."""


def get_aliases(partial: Mapping[str, Any]) -> Aliases:
    """Return the aliases in `partial`."""
    found = get_path(partial, ALIASES_PATH)
    return found if isinstance(found, dict) else {}


def resolve_model(reference: ModelId | str, aliases: Aliases, *, path: str = MODEL_PATH) -> ModelId:
    """Return the model of `reference`, an alias or `provider/name`."""
    check_aliases(aliases)
    return _resolve(reference, aliases, path)


def _resolve(reference: ModelId | str, aliases: Aliases, path: str) -> ModelId:
    """Return the model of `reference`. The aliases form no cycle.

    `path` is the setting that an error names: that of the reference, or of the last alias.
    """
    while isinstance(reference, str) and (reference := reference.strip()) in aliases:
        path = format_path([*_ALIAS_KEYS, reference])
        reference = aliases[reference]

    if isinstance(reference, str) and "/" not in reference:
        known = ", ".join(sorted(aliases)) or "none is defined"
        near = _find_similar(reference, aliases)
        hint = f": did you mean {near!r}?" if near else ""
        raise ConfigError(
            f"{shorten_for_error(reference)!r} is neither an alias (known: {known}) nor "
            f"`provider/name`{hint}",
            path=path,
        )

    if isinstance(reference, ModelId):
        return reference

    try:
        table = read_model_id(reference)
        if table.keys() != {"provider", "name"}:
            raise ValueError("expected a model id: a table of provider and name")
        # Once more as a text, because the table of an alias may have invalid parts.
        return ModelId(**read_model_id(f"{table['provider']}/{table['name']}"))
    except ValueError as exc:
        raise ConfigError(str(exc), path=path) from exc


def _find_similar(reference: str, aliases: Aliases) -> str | None:
    """Return an alias with a similar name, or the name of a known model with its provider."""
    if near := difflib.get_close_matches(reference[:_MAX_NAME_CHARS], aliases, n=1):
        return near[0]

    family = _FAMILY.match(reference.lower())
    is_name = len(reference) <= _MAX_NAME_CHARS and MODEL_NAME_PATTERN.fullmatch(reference)
    if family is None or not is_name:
        return None
    return f"{family.lastgroup}/{reference}"


def check_aliases(aliases: Aliases) -> None:
    """Check the aliases, also those that no setting uses.

    Raises:
        ConfigError: Aliases form a cycle.
    """
    checked: set[str] = set()

    for alias in aliases:
        chain: list[str] = []
        target: Any = alias
        while isinstance(target, str) and target in aliases and target not in checked:
            if target in chain:
                cycle = [*chain[chain.index(target) :], target]
                raise ConfigError(
                    f"these aliases form a cycle: {' -> '.join(cycle)}", path=ALIASES_PATH
                )
            chain.append(target)
            target = aliases[target]

        checked.update(chain)


def parse_model_reference(text: str) -> ModelId | str:
    """Return a model id, or the name of an alias.

    Raises:
        ConfigError: The text has a `/` and is not a valid model id.
    """
    try:
        model = read_model_id(text)
    except ValueError as exc:
        raise ConfigError(str(exc), path=MODEL_PATH) from exc
    return model if isinstance(model, str) else ModelId(**model)


def resolve_references(
    partial: Mapping[str, JsonValue], aliases: Aliases
) -> tuple[dict[str, JsonValue], list[tuple[str, str]]]:
    """Return `partial` with models in place of known aliases, and path and name of unknown ones.

    A stored change then keeps its model if an alias changes later. If aliases form a cycle, all
    names are unknown.
    """
    unresolved: list[tuple[str, str]] = []
    try:
        check_aliases(aliases)
        have_cycle = False
    except ConfigError:
        have_cycle = True

    def replace_model(keys: PathKeys, reference: Any) -> Any:
        is_alias_itself = keys[: len(_ALIAS_KEYS)] == _ALIAS_KEYS
        if not isinstance(reference, str) or is_alias_itself:
            return reference

        path = format_path(keys)
        try:
            if not have_cycle and reference.strip():  # a blank text is no reference
                return dict(_resolve(reference, aliases, path))
        except ConfigError:
            pass  # the name is kept

        unresolved.append((path, reference))
        return reference

    return map_models(ROOT, dict(partial), replace_model), unresolved
