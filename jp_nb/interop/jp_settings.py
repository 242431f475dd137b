"""The settings that JP knows, and configurations and changes that are limited to them.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeGuard, Union

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial
from jp_nb.config.setting_paths import look_up
from jp_nb.json_values import JsonObject, as_object

JP_PROVIDERS = frozenset(
    {
        *("anthropic", "cerebras", "deepseek", "google", "llamacpp"),
        *("ollama", "openai", "openrouter", "xai", "test"),
    }
)
"""The providers whose models JP can name."""

PLAIN_SHAPE: Final = "plain"  # a value, or a list that appends: no strategy may be written
TEXT_SHAPE: Final = "text"  # a text, with or without a strategy
LIST_SHAPE: Final = "list"  # a list, with or without a strategy
MAP_SHAPE: Final = "map"  # a map, with or without a strategy
FREE_SHAPE: Final = "free"  # any JSON
MODEL_SHAPE: Final = "model"  # a model id or an alias

Shape = Union[str, "SettingTable"]
SettingTable = dict[str, Shape]


def _plain(*keys: str) -> SettingTable:
    return dict.fromkeys(keys, PLAIN_SHAPE)


_MODEL: SettingTable = {"id": MODEL_SHAPE, "parameters": FREE_SHAPE}
_REQUEST = _plain(
    *("max_retries", "base_backoff_ms", "max_backoff_secs", "stream_idle_timeout_secs"),
    *("max_response_bytes", "cache"),
)
_ASSISTANT: SettingTable = {
    **_plain("name", "tool_choice"),
    "system_prompt": TEXT_SHAPE,
    "system_prompt_sections": LIST_SHAPE,
    "instructions": LIST_SHAPE,
    "model": _MODEL,
    "request": _REQUEST,
}
_PARAMETER: SettingTable = {
    **_plain("type", "required", "summary", "description", "examples", "enum"),
    "default": FREE_SHAPE,
}
_PARAMETER["items"] = _PARAMETER
_PARAMETER["properties"] = {"*": _PARAMETER}
_TOOL_STYLE: SettingTable = {
    **_plain("hidden", "inline_results", "results_file_link", "parameters"),
    "error": _plain("inline_results", "results_file_link"),
}
ALL_TOOLS_SHAPE: SettingTable = {
    **_plain("enable", "run", "format", "result", "cancellation_response"),
    "style": _TOOL_STYLE,
}
TOOL_SHAPE: SettingTable = {
    **ALL_TOOLS_SHAPE,
    **_plain("source", "command", "summary", "description", "examples"),
    "parameters": {"*": _PARAMETER},
    "questions": {"*": {"target": FREE_SHAPE, "answer": FREE_SHAPE}},
    "options": FREE_SHAPE,
    "access": {"fs": LIST_SHAPE},
}
_PROGRESS = _plain("show", "delay_secs", "interval_ms")
JP_SHAPE: SettingTable = {
    **_plain("inherit", "config_load_paths", "extends"),
    "template": {"values": FREE_SHAPE},
    "user": _plain("name"),
    "assistant": _ASSISTANT,
    "conversation": {
        "title": {"generate": {"auto": PLAIN_SHAPE, "model": _MODEL}, "from_heading": PLAIN_SHAPE},
        "tools": {"*": TOOL_SHAPE},
        "compaction": {"rules": LIST_SHAPE},
        "attachments": LIST_SHAPE,
        "labels": MAP_SHAPE,
        "inquiry": {
            "assistant": {
                **_plain("system_prompt", "system_prompt_sections", "tool_choice"),
                "model": _MODEL,
                "request": _REQUEST,
            }
        },
        **_plain("start_local", "default_id"),
    },
    "style": {
        "code": _plain("color", "line_numbers", "file_link", "copy_link"),
        "inline_code": _plain("background"),
        "markdown": _plain(
            *("wrap_width", "table_max_column_width", "table_continuation_edge", "theme"),
            "hr_style",
        ),
        "mcp_startup": _PROGRESS,
        "reasoning": {
            **_plain("display", "background", "extend_across_tool_calls"),
            "summary_model": _MODEL,
        },
        "streaming": {"progress": _PROGRESS},
        "lock_wait": {**_PROGRESS, "timeout_secs": PLAIN_SHAPE},
        "tool_call": {"show": PLAIN_SHAPE, "progress": _PROGRESS, "preparing": _PROGRESS},
        "typewriter": _plain("text_delay", "code_delay", "max_latency"),
    },
    "interrupt": {
        "escalation_cooldown_secs": PLAIN_SHAPE,
        "streaming": _plain("action", "compose_in_editor"),
        "tool_call": _plain("action", "compose_in_editor"),
    },
    "editor": {**_plain("cmd", "envs"), "inline": _plain("edit_mode")},
    "providers": {
        "llm": {
            "aliases": {"*": MODEL_SHAPE},
            "anthropic": _plain("api_key_env", "base_url", "chain_on_max_tokens", "beta_headers"),
            "cerebras": _plain("api_key_env", "base_url"),
            "deepseek": _plain("api_key_env", "base_url"),
            "google": _plain("api_key_env", "base_url"),
            "llamacpp": _plain("base_url"),
            "ollama": _plain("base_url"),
            "openai": _plain("api_key_env", "base_url", "base_url_env"),
            "openrouter": _plain("api_key_env", "app_name", "app_referrer", "base_url"),
        },
        "mcp": {
            "*": _plain(
                *("type", "command", "arguments", "variables", "optional"),
                *("startup_timeout_secs", "checksum"),
            )
        },
    },
    "plugins": {
        **_plain("auto_install", "shutdown_timeout_secs"),
        "command": {"*": {**_plain("install", "run", "checksum"), "options": FREE_SHAPE}},
    },
}
"""The settings that JP knows, with the shape of each value."""

JP_DEFAULTS: dict[tuple[str, ...], JsonValue] = {
    ("assistant", "system_prompt"): "You are a helpful assistant.",
    ("assistant", "tool_choice"): "auto",
    ("assistant", "request", "max_retries"): 5,
    ("assistant", "request", "base_backoff_ms"): 1000,
    ("assistant", "request", "max_backoff_secs"): 60,
    ("assistant", "request", "stream_idle_timeout_secs"): 60,
    ("assistant", "request", "max_response_bytes"): 1_048_576,
    ("assistant", "request", "cache"): True,
    ("conversation", "title", "generate", "auto"): True,
    ("conversation", "title", "from_heading"): True,
}
"""JP's defaults. JP cannot unset a setting, so an unset one is written as its default."""
UNSETTABLE_NOTE = "JP cannot unset this: the earlier value remains"
_STRATEGY = frozenset({"value", "strategy", "separator", "dedup", "discard_when_merged"})


Note = Callable[[tuple[str, ...], str], None]
"""Called with the keys of a setting and the reason for its omission or conversion."""


class SupportedSettings:
    """Removes settings that JP does not know from a partial of `config`."""

    def __init__(self, config: Partial, note: Note) -> None:
        self._config = config
        self._note = note
        self._aliases = as_object(look_up(config, ("providers", "llm", "aliases")))

    def select(self, shape: SettingTable, value: JsonObject, above: tuple[str, ...]) -> JsonObject:
        """Return the settings in `value` that `shape` has; `above` are the keys of `value`."""
        result: JsonObject = {}

        for key, item in value.items():
            keys = (*above, key)
            below = shape.get(key) or shape.get("*")
            if below is None:
                self._note(keys, "JP has no such setting")
            elif (admitted := self._convert_value(below, item, keys)) is not None:
                result[key] = admitted
            elif item is None:
                result[key] = None
        return result

    def _select_nested(
        self, shape: SettingTable, value: JsonObject, keys: tuple[str, ...]
    ) -> JsonValue:
        # None if nothing of it is admitted.
        if not value:
            return self.select(shape, value, keys)
        return self.select(shape, value, keys) or None

    def _convert_value(self, shape: Shape, value: JsonValue, keys: tuple[str, ...]) -> JsonValue:
        if value is None:
            return None
        if isinstance(shape, dict):
            if not isinstance(value, dict):
                self._note(keys, "JP expects a table here")
                return None
            if keys[:2] == ("conversation", "tools") and len(keys) == 3:
                return self._convert_tool(value, keys)
            return self._select_nested(shape, value, keys)

        match shape:
            case "model":
                return self._convert_model(value, keys)
            case "plain" if _is_wrapper(value):
                self._note(keys, "JP has no merge strategy here: only the value is written")
                return value["value"]
            case "list" if keys[-1] == "system_prompt_sections":
                return _convert_sections(value)
            case "free" if keys[-2:] == ("model", "parameters") and isinstance(value, dict):
                return _convert_parameters(value)
        return value

    def _convert_tool(self, value: JsonObject, keys: tuple[str, ...]) -> JsonValue:
        if keys[-1] == "*":
            return self._select_nested(ALL_TOOLS_SHAPE, value, keys)

        source = look_up(self._config, (*keys, "source"))
        why = "JP has no tools in Python"
        if not isinstance(source, str):
            why = "JP needs the `source` of a tool"
        elif source.partition(".")[0] in ("builtin", "local", "mcp"):
            return self._select_nested(TOOL_SHAPE, value, keys)

        self._note(keys, why)
        return None

    def _convert_model(self, value: JsonValue, keys: tuple[str, ...]) -> JsonValue:
        whole = look_up(self._config, keys)
        model = value if whole is None else whole
        provider = self._find_provider(model, ())
        if provider is None or provider in JP_PROVIDERS:
            return value

        self._note(keys, f"JP has no provider {provider!r}")
        return None

    def _find_provider(self, value: JsonValue, seen: tuple[str, ...]) -> str | None:
        """Return the provider of a model, with aliases resolved; None if there is none."""
        if isinstance(value, dict):
            found = value.get("provider")
            return found if isinstance(found, str) else None
        if not isinstance(value, str) or value in seen:
            return None

        provider, slash, _ = value.partition("/")
        if slash:
            return provider.strip()

        return self._find_provider(self._aliases.get(value), (*seen, value))


def _convert_sections(value: JsonValue) -> JsonValue:
    """Return sections of the system prompt as tables, because JP reads no plain texts."""
    if _is_wrapper(value):
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


def find_difference(
    shape: SettingTable,
    had: Mapping[str, JsonValue],
    wanted: Mapping[str, JsonValue],
    touched: Mapping[str, JsonValue],
    above: tuple[str, ...],
    note: Note,
) -> JsonObject:
    """Return the delta that changes `had` to `wanted` in JP, limited to the keys in `touched`."""
    result: JsonObject = {}

    for key in touched:
        below = shape.get(key) or shape.get("*")
        if below is None:
            continue

        old = had.get(key)
        new = wanted.get(key)
        keys = (*above, key)
        step: JsonValue

        if isinstance(below, dict):
            if not isinstance(old, dict) and not isinstance(new, dict):
                continue
            here = as_object(old)
            there = as_object(new)
            inside = touched[key]
            inside = inside if isinstance(inside, dict) else dict.fromkeys([*here, *there])
            step = find_difference(below, here, there, inside, keys, note) or None
        elif _unwrap(old) == _unwrap(new):
            continue
        elif new is None:
            step = _make_unset_value(below, old, keys, note)
        else:
            step = _make_step(below, old, new, keys, note)

        if step is not None:
            result[key] = step

    return result


def _make_step(
    shape: str, old: JsonValue, new: JsonValue, keys: tuple[str, ...], note: Note
) -> JsonValue:
    before = _unwrap(old)
    after = _unwrap(new)

    if shape == FREE_SHAPE:
        return _make_free_step(old, new, keys, note)
    if not isinstance(after, list):
        return {"value": after, "strategy": "replace"} if shape == MAP_SHAPE else after

    start = before if isinstance(before, list) else []
    if after[: len(start)] == start:
        return after[len(start) :]
    if shape == LIST_SHAPE:
        return {"value": after, "strategy": "replace"}

    note(keys, "JP can only append to this list: removed and moved items stay as they were")
    return [item for item in after if item not in start] or None


def _make_free_step(old: JsonValue, new: JsonValue, keys: tuple[str, ...], note: Note) -> JsonValue:
    """Return the step for free JSON: JP merges objects and replaces other values."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new

    for key in sorted(old.keys() - new.keys()):
        note((*keys, key), UNSETTABLE_NOTE)

    steps = {
        k: _make_free_step(old.get(k), v, (*keys, k), note)
        for k, v in new.items()
        if v != old.get(k)
    }
    return steps or None


def _make_unset_value(shape: str, old: JsonValue, keys: tuple[str, ...], note: Note) -> JsonValue:
    """Return the value that has the effect of unsetting in JP; None if there is none."""
    if keys in JP_DEFAULTS:
        return JP_DEFAULTS[keys]
    if shape in (LIST_SHAPE, MAP_SHAPE):
        empty: JsonValue = [] if shape == LIST_SHAPE else {}
        return {"value": empty, "strategy": "replace"}

    note(keys, UNSETTABLE_NOTE)
    return None


def find_touched_keys(shape: SettingTable, delta: Mapping[str, JsonValue]) -> JsonObject:
    """Return the keys that `delta` sets, nested; None marks a tool or a value that counts whole."""
    found: JsonObject = {}

    for key, value in delta.items():
        below = shape.get(key) or shape.get("*")
        inner = isinstance(below, dict) and below is not TOOL_SHAPE and isinstance(value, dict)
        found[key] = find_touched_keys(below, value) if inner else None  # type: ignore[arg-type]

    return found


def find_models(shape: SettingTable, value: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    """Yield each model that `value` sets."""
    for key, item in value.items():
        below = shape.get(key) or shape.get("*")
        if below == MODEL_SHAPE:
            yield item
        elif isinstance(below, dict) and isinstance(item, dict):
            yield from find_models(below, item)


def _is_wrapper(value: JsonValue) -> TypeGuard[JsonObject]:
    return isinstance(value, dict) and "value" in value and value.keys() <= _STRATEGY


def _unwrap(value: JsonValue) -> JsonValue:
    return value["value"] if _is_wrapper(value) else value
