"""Subcommand `%jp models`: list the models of a provider.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import os

from jp_nb.config.aliases import resolve_model
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.providers_table import Llm
from jp_nb.errors import ConfigError, UsageError
from jp_nb.notebook.commands import Invocation, suggest_name
from jp_nb.rendering.report import add_note
from jp_nb.rendering.reports.model_table import render_model_table
from jp_nb.text import one_line


def list_models(call: Invocation) -> None:
    """Run `%jp models`: list the models of a provider, by default of the current one."""
    session = call.session
    config = session.config
    model = session.turns.resolver.open_model(config).model
    name, *words = call.options.words or [model.provider]

    llm = config.providers.llm
    names = llm.list_names()
    if name not in names:
        hint = suggest_name(name, names, "models")
        raise UsageError(
            f"{one_line(name, limit=60)!r} is not a provider. {hint}The providers are "
            f"{', '.join(names)}. Search words follow the provider: "
            f"`{call.subcommand.usage}`"
        )

    # The list is kept for a while; `refresh` gets it from the provider again.
    listed = session.turns.catalog.list_models(name, config, refresh=call.options.refresh)
    current = model.name if name == model.provider else ""
    table = render_model_table(
        listed, name, current=current, aliases=_group_aliases_by_model(name, config), words=words
    )
    # Without words, the user may not know that other providers can be listed.
    others_with_key: list[str] = []
    if not call.options.words:
        others_with_key = [
            other for other in names if other != model.provider and _has_key(llm, other)
        ]
    if others_with_key:
        commands = ", ".join(f"`%jp models {other}`" for other in others_with_key)
        also = f"List their models: {commands}."
        table = add_note(table, f"Keys are set for other providers as well. {also}")

    call.show(table)


def _has_key(llm: Llm, provider: str) -> bool:
    settings = llm.get_settings(provider)
    variable = None if settings is None else settings.api_key_env
    return bool(variable and os.environ.get(variable, "").strip())


def _group_aliases_by_model(provider: str, config: AppConfig) -> dict[str, list[str]]:
    """Return the aliases of each model of `provider`, by the model's name."""
    all_aliases = config.providers.llm.aliases
    aliases_by_model: dict[str, list[str]] = {}

    for alias, target in all_aliases.items():
        try:
            model = resolve_model(target, all_aliases)
        except ConfigError:
            continue  # reported when the alias is used

        if model.provider == provider:
            aliases_by_model.setdefault(model.name, []).append(alias)

    return aliases_by_model
