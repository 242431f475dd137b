"""Replace the models that a partial configuration names, in all settings.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jp_nb.config.partials.partial import is_wrapper
from jp_nb.config.schema import SchemaNode
from jp_nb.config.setting_paths import PathKeys
from jp_nb.config.tree.model_id import ModelId


def map_models(
    node: SchemaNode | None,
    value: Any,
    replace_model: Callable[[PathKeys, Any], Any],
    keys: PathKeys = (),
) -> Any:
    """Return `value` with the result of `replace_model` in place of each model.

    Args:
        node: The type of `value` in the schema: `ROOT` for a whole configuration. Free JSON and
            unknown settings, which have no type, are not searched.
        value: Settings, or a part of them.
        replace_model: Called with the keys of a model, and its id as it is written.
        keys: The keys of `value` in the configuration.
    """
    if value is None or node is None or node.kind == "json":
        return value
    if node.table is ModelId:
        return replace_model(keys, value)

    if is_wrapper(value, node):  # a list, text, or map with its merge strategy
        return {**value, "value": map_models(node, value["value"], replace_model, keys)}

    if isinstance(value, list) and node.kind == "list":
        return [
            map_models(node.item, item, replace_model, (*keys, str(index)))
            for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value

    return {
        key: map_models(node.child(key), item, replace_model, (*keys, key))
        for key, item in value.items()
    }
