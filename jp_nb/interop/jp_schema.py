"""The configuration that JP reads today: names of settings, and what may stand there.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from typing import Final, Union

from pydantic import JsonValue

PROVIDERS = frozenset(
    {
        *("anthropic", "cerebras", "deepseek", "google", "llamacpp"),
        *("ollama", "openai", "openrouter", "xai", "test"),
    }
)
"""The providers whose models JP can name."""

PLAIN: Final = "plain"  # a value, or a list that appends: no strategy may be written
TEXT: Final = "text"  # a text, with or without a strategy
LIST: Final = "list"  # a list, with or without a strategy
MAP: Final = "map"  # a map, with or without a strategy
FREE: Final = "free"  # any JSON
MODEL: Final = "model"  # a model id or an alias

Shape = Union[str, "Table"]
Table = dict[str, Shape]


def _plain(*keys: str) -> Table:
    return dict.fromkeys(keys, PLAIN)


_MODEL: Table = {"id": MODEL, "parameters": FREE}
_REQUEST = _plain(
    *("max_retries", "base_backoff_ms", "max_backoff_secs", "stream_idle_timeout_secs"),
    *("max_response_bytes", "cache"),
)
_ASSISTANT: Table = {
    **_plain("name", "tool_choice"),
    "system_prompt": TEXT,
    "system_prompt_sections": LIST,
    "instructions": LIST,
    "model": _MODEL,
    "request": _REQUEST,
}
_PARAMETER: Table = {
    **_plain("type", "required", "summary", "description", "examples", "enum"),
    "default": FREE,
}
_PARAMETER["items"] = _PARAMETER
_PARAMETER["properties"] = {"*": _PARAMETER}
_TOOL_STYLE: Table = {
    **_plain("hidden", "inline_results", "results_file_link", "parameters"),
    "error": _plain("inline_results", "results_file_link"),
}
ALL_TOOLS: Table = {
    **_plain("enable", "run", "format", "result", "cancellation_response"),
    "style": _TOOL_STYLE,
}
TOOL: Table = {
    **ALL_TOOLS,
    **_plain("source", "command", "summary", "description", "examples"),
    "parameters": {"*": _PARAMETER},
    "questions": {"*": {"target": FREE, "answer": FREE}},
    "options": FREE,
    "access": {"fs": LIST},
}
_PROGRESS = _plain("show", "delay_secs", "interval_ms")
JP: Table = {
    **_plain("inherit", "config_load_paths", "extends"),
    "template": {"values": FREE},
    "user": _plain("name"),
    "assistant": _ASSISTANT,
    "conversation": {
        "title": {"generate": {"auto": PLAIN, "model": _MODEL}, "from_heading": PLAIN},
        "tools": {"*": TOOL},
        "compaction": {"rules": LIST},
        "attachments": LIST,
        "labels": MAP,
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
        "lock_wait": {**_PROGRESS, "timeout_secs": PLAIN},
        "tool_call": {"show": PLAIN, "progress": _PROGRESS, "preparing": _PROGRESS},
        "typewriter": _plain("text_delay", "code_delay", "max_latency"),
    },
    "interrupt": {
        "escalation_cooldown_secs": PLAIN,
        "streaming": _plain("action", "compose_in_editor"),
        "tool_call": _plain("action", "compose_in_editor"),
    },
    "editor": {**_plain("cmd", "envs"), "inline": _plain("edit_mode")},
    "providers": {
        "llm": {
            "aliases": {"*": MODEL},
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
        "command": {"*": {**_plain("install", "run", "checksum"), "options": FREE}},
    },
}
"""JP's configuration: what a place may hold."""

DEFAULTS: dict[tuple[str, ...], JsonValue] = {
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
"""Values whose default says the same as unsetting them, which JP cannot."""
