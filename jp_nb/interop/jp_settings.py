"""The settings that JP knows: their paths, the shapes of their values, and JP's defaults.

JP is the command-line assistant whose conversations this package reads and writes (`interop`).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeGuard, Union

from pydantic import JsonValue

from jp_nb.json_values import JsonObject

JP_PROVIDERS = frozenset(
    {
        "anthropic",
        "cerebras",
        "deepseek",
        "google",
        "llamacpp",
        "ollama",
        "openai",
        "openrouter",
        "xai",
        "test",
    }
)
"""The providers whose models JP can name."""

# The shape of a value tells what it may be, and whether it may have a *strategy*, with which JP
# merges it into the earlier value: `{"value": […], "strategy": "replace"}`.
PLAIN_SHAPE: Final = "plain"
"""A value without a strategy: it replaces the earlier one, but a list is appended to it."""
TEXT_SHAPE: Final = "text"
"""A text, with or without a strategy."""
LIST_SHAPE: Final = "list"
"""A list, with or without a strategy. Without one, it is appended to the earlier list."""
MAP_SHAPE: Final = "map"
"""A map, with or without a strategy. Without one, it is merged into the earlier map."""
FREE_SHAPE: Final = "free"
"""Any JSON. Objects are merged, other values replaced."""
MODEL_SHAPE: Final = "model"
"""The id of a model, or an alias of a model."""

Shape = Union[str, "SettingTable"]
SettingTable = dict[str, Shape]
"""The shapes of the settings in a table, by key. The key `*` stands for all other keys, such as the
names of tools."""


def _plain(*keys: str) -> SettingTable:
    """Return a table of settings whose values are plain."""
    return dict.fromkeys(keys, PLAIN_SHAPE)


_MODEL: SettingTable = {"id": MODEL_SHAPE, "parameters": FREE_SHAPE}
_REQUEST = _plain(
    "max_retries",
    "base_backoff_ms",
    "max_backoff_secs",
    "stream_idle_timeout_secs",
    "max_response_bytes",
    "cache",
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
"""The settings at the key `*` of the configuration, which are for all tools. `JP_SHAPE` has only
the settings of one tool, so `supported_settings.py` selects these itself."""
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
            "wrap_width",
            "table_max_column_width",
            "table_continuation_edge",
            "theme",
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
                "type",
                "command",
                "arguments",
                "variables",
                "optional",
                "startup_timeout_secs",
                "checksum",
            )
        },
    },
    "plugins": {
        **_plain("auto_install", "shutdown_timeout_secs"),
        "command": {"*": {**_plain("install", "run", "checksum"), "options": FREE_SHAPE}},
    },
}
"""All settings that JP knows, with the shape of each value."""

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
_STRATEGY_KEYS = frozenset({"value", "strategy", "separator", "dedup", "discard_when_merged"})


def find_shape_below(shape: SettingTable, key: str) -> Shape | None:
    """Return the shape of the value at `key`; None if JP has no such setting."""
    return shape.get(key) or shape.get("*")


def find_touched_keys(shape: SettingTable, delta: Mapping[str, JsonValue]) -> JsonObject:
    """Return the keys that `delta` sets, nested. None stands for all keys of the value below.

    For example, `{"assistant": {"name": "A"}}` touches `{"assistant": {"name": None}}`. All keys of
    a tool are touched with it: JP may not have the tool yet, and then needs its whole settings.
    """
    touched: JsonObject = {}

    for key, value in delta.items():
        below = find_shape_below(shape, key)
        is_tool = below is TOOL_SHAPE
        if isinstance(below, dict) and isinstance(value, dict) and not is_tool:
            touched[key] = find_touched_keys(below, value)
        else:
            touched[key] = None

    return touched


def find_models(shape: SettingTable, value: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    """Yield each model that `value` sets."""
    for key, item in value.items():
        below = find_shape_below(shape, key)
        if below == MODEL_SHAPE:
            yield item
        elif isinstance(below, dict) and isinstance(item, dict):
            yield from find_models(below, item)


def has_strategy(value: JsonValue) -> TypeGuard[JsonObject]:
    """Return True for a value with its merge strategy: `{"value": …, "strategy": "replace"}`."""
    return isinstance(value, dict) and "value" in value and value.keys() <= _STRATEGY_KEYS


def unwrap_strategy(value: JsonValue) -> JsonValue:
    """Return a value without its merge strategy."""
    return value["value"] if has_strategy(value) else value
