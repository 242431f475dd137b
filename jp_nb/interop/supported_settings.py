"""Remove the settings that JP does not know from a configuration, and convert values for JP.

JP is a command-line assistant, which has most of the settings of `jp_nb` (`jp_settings.py`).

The *shape* of a setting tells what its value may be in JP: a table of shapes by key, or one of the
words in `jp_settings.py`. `has_strategy` is True for a value with the strategy of its merge:
`{"value": …, "strategy": "replace"}`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial
from jp_nb.config.setting_paths import look_up
from jp_nb.interop.jp_settings import (
    ALL_TOOLS_SHAPE,
    FREE_SHAPE,
    JP_PROVIDERS,
    LIST_SHAPE,
    MODEL_SHAPE,
    PLAIN_SHAPE,
    TOOL_SHAPE,
    SettingTable,
    Shape,
    find_shape_below,
    has_strategy,
)
from jp_nb.interop.omissions import NoteSetting
from jp_nb.json_values import JsonObject, as_object


class SupportedSettings:
    """Selects the settings that JP knows from a part of the configuration `config`, or from all.

    `note` receives each setting that is omitted or converted, with the reason.
    """

    def __init__(self, config: Partial, note: NoteSetting) -> None:
        self._config = config
        self._note = note
        self._aliases = as_object(look_up(config, ("providers", "llm", "aliases")))

    def select(self, shape: SettingTable, value: JsonObject, above: tuple[str, ...]) -> JsonObject:
        """Return the settings of the table `value` that `shape` has, each as JP supports it.

        `above` are the keys of the table in the configuration.
        """
        result: JsonObject = {}

        for key, item in value.items():
            keys = (*above, key)
            shape_below = find_shape_below(shape, key)
            if shape_below is None:
                self._note(keys, "JP has no such setting")
                continue

            converted = self._convert_value(shape_below, item, keys)
            is_supported = converted is not None or item is None
            if is_supported:
                result[key] = converted
        return result

    def _select_nested(
        self, shape: SettingTable, value: JsonObject, keys: tuple[str, ...]
    ) -> JsonValue:
        """Return the supported settings of a table; None if there are none, but some others."""
        selected = self.select(shape, value, keys)
        if value and not selected:
            return None
        return selected

    def _convert_value(self, shape: Shape, value: JsonValue, keys: tuple[str, ...]) -> JsonValue:
        """Return the value for JP; None if JP does not support it."""
        if value is None:
            return None

        if isinstance(shape, dict):
            if not isinstance(value, dict):
                self._note(keys, "JP expects a table here")
                return None

            if shape is TOOL_SHAPE:
                return self._convert_tool(value, keys)
            return self._select_nested(shape, value, keys)

        if shape == MODEL_SHAPE:
            return self._convert_model(value, keys)
        if shape == PLAIN_SHAPE and has_strategy(value):
            self._note(keys, "JP has no merge strategy here: only the value is written")
            return value["value"]

        # Two settings whose values JP reads only in a longer form.
        if shape == LIST_SHAPE and keys[-1] == "system_prompt_sections":
            return _convert_sections(value)
        is_of_model = shape == FREE_SHAPE and keys[-2:] == ("model", "parameters")
        if is_of_model and isinstance(value, dict):
            return _convert_parameters(value)
        return value

    def _convert_tool(self, value: JsonObject, keys: tuple[str, ...]) -> JsonValue:
        """Return the settings of a tool, or of all tools; None if JP does not support the tool."""
        if keys[-1] == "*":  # the settings of all tools
            return self._select_nested(ALL_TOOLS_SHAPE, value, keys)

        source = look_up(self._config, (*keys, "source"))
        if not isinstance(source, str):
            self._note(keys, "JP needs the `source` of a tool")
            return None

        if source.partition(".")[0] not in ("builtin", "local", "mcp"):
            self._note(keys, "JP has no tools in Python")
            return None

        return self._select_nested(TOOL_SHAPE, value, keys)

    def _convert_model(self, value: JsonValue, keys: tuple[str, ...]) -> JsonValue:
        """Return the id of a model; None if JP does not have its provider.

        A change may set only the name of a model: its provider is in the whole configuration.
        """
        configured = look_up(self._config, keys)
        model = value if configured is None else configured

        provider = self._find_provider(model, ())
        if provider is None or provider in JP_PROVIDERS:
            return value

        self._note(keys, f"JP has no provider {provider!r}")
        return None

    def _find_provider(self, value: JsonValue, seen: tuple[str, ...]) -> str | None:
        """Return the provider of a model; None if there is none.

        `seen` are the aliases that were resolved, so that a circle of aliases ends.
        """
        if isinstance(value, dict):
            provider = value.get("provider")
            return provider if isinstance(provider, str) else None
        if not isinstance(value, str) or value in seen:
            return None

        name, slash, _ = value.partition("/")
        if slash:
            return name.strip()

        return self._find_provider(self._aliases.get(value), (*seen, value))


def _convert_sections(value: JsonValue) -> JsonValue:
    """Return sections of the system prompt as tables, because JP reads no plain texts."""
    if has_strategy(value):
        return {**value, "value": _convert_sections(value["value"])}
    if not isinstance(value, list):
        return value
    sections: list[JsonValue] = []
    for item in value:
        if isinstance(item, str):
            sections.append({"content": item})
        else:
            sections.append(item)
    return sections


def _convert_parameters(value: JsonObject) -> JsonObject:
    """Return parameters of a model, with an effort as a table, because JP reads no plain value."""
    reasoning = value.get("reasoning")
    if reasoning in (None, "off", "auto"):
        return value
    table: JsonObject = reasoning if isinstance(reasoning, dict) else {"effort": reasoning}

    effort = table.get("effort")
    if isinstance(effort, int) and not isinstance(effort, bool):
        table = {**table, "effort": {"absolute": effort}}

    return value if table == reasoning else {**value, "reasoning": table}
