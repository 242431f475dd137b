"""Warnings about models from the model list of their provider.

The provider has announced the end of the current model or of one that has an alias, or the current
model writes shorter answers than the configuration asks for.

Source: `docs/guide.md`, `docs/decisions.md` D107.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.config.aliases import resolve_model
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import ConfigError


def list_model_warnings(
    current: ModelInfo, listed: ModelList, provider: str, config: AppConfig
) -> list[str]:
    """Return the warnings about `current`, the entry of the current model in the list `listed`.

    The other models of `provider` that have an alias may end too.
    """
    warnings = [_format_deprecation(current), _format_output_limit(current, config)]
    warnings += _iter_alias_warnings(listed, provider, config)
    return [warning for warning in warnings if warning]


def _format_deprecation(model: ModelInfo) -> str:
    """Return a warning if the provider announced the end of `model`, otherwise ""."""
    if not model.state:
        return ""

    if model.state == "retired":
        state = f"has ended: {model.ends}" if model.ends else "has ended"
    else:
        state = f"ends on {model.ends}" if model.ends else "is deprecated"
    return f"⚠ {model.id} {state}, according to its provider. Show other models: `%jp models`"


def _iter_alias_warnings(listed: ModelList, provider: str, config: AppConfig) -> Iterator[str]:
    """Yield a warning for each alias of a model of `provider` whose end was announced."""
    aliases = config.providers.llm.aliases
    current = config.assistant.model.id
    for alias in aliases:
        with suppress(ConfigError):  # reported when the alias is used
            model = resolve_model(alias, aliases)
            is_current = model == resolve_model(current, aliases)  # it has its own warning
            if is_current or model.provider != provider:
                continue

            info = listed.find(model.name)
            if info is not None and info.state:
                yield f"Alias `{alias}`: {_format_deprecation(info)}"


def _format_output_limit(model: ModelInfo, config: AppConfig) -> str:
    """Return a warning if the configured length of an answer exceeds that of `model`, else ""."""
    limit = model.max_output
    tokens = config.assistant.model.parameters.max_tokens
    if limit is None or tokens is None or tokens <= limit:
        return ""
    path = "assistant.model.parameters.max_tokens"
    return (
        f"⚠ {path} = {tokens}, but {model.id} writes at most {limit} tokens in an answer. "
        f"Reduce it: `%jp config {path}={limit}`"
    )
