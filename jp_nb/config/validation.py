"""Validate a layer of the configuration, or all of it with its defaults.

A `ConfigError` has all problems, each with its path. `layer_reading.py` checks the single settings.
This module adds the rules about several settings, such as a tool choice that names a tool which is
off.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from pydantic import JsonValue, ValidationError

from jp_nb.config.access_rule_checks import find_rule_problems, iter_rules
from jp_nb.config.layer_reading import read_layer
from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.storable_settings import remove_unstorable
from jp_nb.config.tree.access_settings import Access
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.declared_servers import SERVERS_PATH, declare_servers
from jp_nb.config.tree.tool_settings import DEFAULTABLE, STAR, ToolConfig
from jp_nb.config.validation_problems import list_problems
from jp_nb.errors import ConfigError, ConfigProblem

NAMELESS_CHOICES = ("auto", "none", "required")
"""Values of `assistant.tool_choice` that name no tool."""


def validate_layer(
    partial: Mapping[str, JsonValue], *, layer: str, file: str | None = None
) -> Partial:
    """Return the settings of one layer in stored form: as JSON, with short forms expanded.

    Raises:
        ConfigError: The layer has problems, which are in `problems` of the error.
    """
    storable, problems = remove_unstorable(partial)
    settings, invalid = read_layer(storable)
    problems += [problem for _, problem in invalid]

    if not problems:
        for tool, rules in iter_rules(settings):
            found = find_rule_problems(tool, rules)
            problems += [ConfigProblem(path, "value", message) for path, message in found]

    if problems:
        raise _create_error(problems, layer, file)
    return settings


def validate_config(
    partial: Mapping[str, JsonValue], *, layer: str | None = None, file: str | None = None
) -> AppConfig:
    """Return the whole configuration: `partial` and the defaults.

    Raises:
        ConfigError: A setting is not valid, or two settings conflict.
    """
    return validate_plain_config(strip_strategies(partial), layer=layer, file=file)


def validate_plain_config(
    settings: Partial, *, layer: str | None = None, file: str | None = None
) -> AppConfig:
    """Validate as `validate_config` does, for settings without merge strategies.

    Equal settings give the same object: most conversations have the settings of the one before.
    """
    # First, because the names of these servers are valid in model ids.
    declare_servers(get_path(settings, SERVERS_PATH))

    try:
        config = _validate_text(json.dumps(settings))  # with infinite numbers, to refuse them
    except ValidationError as exc:
        raise _create_error(list_problems(exc), layer, file) from exc

    conflicts = [ConfigProblem(path, "value", text) for path, text in _find_conflicts(config)]
    if conflicts:
        raise _create_error(conflicts, layer, file)
    return config


@lru_cache(maxsize=4)  # by JSON text: a dict cannot be a key, and `True == 1`
def _validate_text(settings: str) -> AppConfig:
    return AppConfig.model_validate(json.loads(settings))


def _find_conflicts(config: AppConfig) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of each setting that contradicts another one."""
    tools = config.conversation.tools

    star = tools.get(STAR)
    if star is not None:
        yield from _find_star_conflicts(star)

    for name, tool in tools.items():
        if name != STAR and tool.access is not None:
            yield from _find_access_conflicts(name, tool.access, tool.kind)

    choice = config.assistant.tool_choice
    is_tool = choice in tools and choice not in (*NAMELESS_CHOICES, STAR)
    if is_tool:
        is_on, toggle_rule = config.conversation.get_tool_state(choice)  # and if `-t` may change it
        if not is_on and toggle_rule == "never":
            yield (
                "assistant.tool_choice",
                f"assistant.tool_choice names {choice!r}, which conversation.tools.{choice}.enable "
                "turns off permanently: choose another tool, or allow it to be turned on",
            )


def _find_star_conflicts(star: ToolConfig) -> Iterator[tuple[str, str]]:
    """Yield the settings of the tool `*` that have no meaning as defaults of all tools."""
    known = ", ".join(sorted(DEFAULTABLE))
    for key in sorted(star.model_fields_set - DEFAULTABLE):
        if getattr(star, key) not in (None, {}, []):
            text = f"'{STAR}' holds defaults and has no {key}, expected one of: {known}"
            yield f"conversation.tools.{STAR}.{key}", text


def _find_access_conflicts(name: str, access: Access, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of `access` that cannot limit a tool of this kind."""
    path = f"conversation.tools.{name}"
    text = f"is only supported on local tools, but '{name}' is a {kind} tool"

    if kind in ("builtin", "mcp"):
        yield f"{path}.access", f"{path}: `access` {text}"
    elif kind == "python":
        for field in ("fs", "net", "env"):
            if getattr(access, field):
                why = "code in the kernel cannot be restricted"
                yield f"{path}.access.{field}", f"{path}: `access.{field}` {text}: {why}"

    if access.config:
        yield from find_rule_problems(name, access.config)


def _create_error(
    problems: Sequence[ConfigProblem], layer: str | None, file: str | None
) -> ConfigError:
    """Return the error that has all `problems`, with the message of the first one."""
    first = problems[0]
    error = ConfigError(first.message, path=first.path, kind=first.kind, layer=layer, file=file)
    error.problems = tuple(problems)
    return error
