"""`%jp models`: what a provider or a local server offers.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from jp_nb.config.model_aliases import resolve_model
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.errors import ConfigError, UsageError
from jp_nb.notebook.commands import Invocation, suggestion
from jp_nb.providers.registry import NAMES
from jp_nb.rendering.model_table import model_table
from jp_nb.rendering.question_table import with_note
from jp_nb.safe_text import one_line


def models(call: Invocation) -> None:
    """Show the models of a provider; without a name of the one in force."""
    config, session = call.session.config, call.session
    model, _ = session.turns.resolver.model(config)
    name, *words = call.options.words or [model.provider]
    if name not in NAMES:
        raise UsageError(_unknown(name, call.subcommand.usage))
    listed = session.turns.catalog.models(name, config, refresh=call.options.refresh)
    in_force = model.name if name == model.provider else ""
    shown = model_table(
        listed, name, in_force=in_force, aliases=_aliases(name, config), words=words
    )
    others = [] if call.options.words else list(_set_up(config, model.provider))
    if others:
        also = ", ".join(f"`%jp models {other}`" for other in others)
        shown = with_note(
            shown, f"Keys are set for other providers as well. List their models: {also}."
        )
    call.show(shown)


def _unknown(name: str, usage: str) -> str:
    hint = suggestion(name, NAMES, "models")
    return (
        f"{one_line(name, limit=60)!r} is not a provider. {hint}The providers are "
        f"{', '.join(NAMES)}. Search words follow the provider: `{usage}`"
    )


def _aliases(provider: str, config: AppConfig) -> dict[str, list[str]]:
    """Return the aliases that stand for models of `provider`, by the name of the model."""
    known = config.providers.llm.aliases
    found: dict[str, list[str]] = {}
    for alias, target in known.items():
        try:
            model = resolve_model(target, known)
        except ConfigError:
            continue  # whoever uses it is told
        if model.provider == provider:
            found.setdefault(model.name, []).append(alias)
    return found


def _set_up(config: AppConfig, in_force: str) -> Iterator[str]:
    """Yield the other providers whose key is set."""
    for name in NAMES:
        settings = getattr(config.providers.llm, name, None)
        variable = getattr(settings, "api_key_env", None)
        if name != in_force and variable and os.environ.get(variable, "").strip():
            yield name
