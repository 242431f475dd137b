"""Read the layers of the configuration from files and environment variables, and merge them.

From low to high: defaults (in the schema), registrations of tools, the user's file, workspace
files, environment variables, the conversation, options of the running cell. This module reads no
files. Invalid settings are a `ConfigError` with all problems and their source.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from jp_nb.config.assignments import assign_setting
from jp_nb.config.directives import ENVIRONMENT_PREFIX
from jp_nb.config.known_settings import remove_ignored
from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_change import apply_change
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.schema import require_node
from jp_nb.config.setting_paths import parse_path
from jp_nb.config.tree.app import Extend
from jp_nb.config.tree.ignored_settings import is_ignored
from jp_nb.config.validation import validate_layer
from jp_nb.errors import ConfigError
from jp_nb.json_reading import MAX_CONFIG_LEVELS, read_json

REGISTRATIONS_LAYER = "registrations"
USER_FILE_LAYER = "user file"
WORKSPACE_FILE_LAYER = "workspace file"
CONFIG_FILE_LAYER = "config file"
MCP_FILE_LAYER = "MCP file"
ENVIRONMENT_LAYER = "environment"


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A partial configuration and its source. An unchanged source keeps its layer."""

    name: str
    """The kind of source, such as `workspace file`."""
    partial: Partial
    file: str | None = None


def parse_layer(text: str, name: str, file: str) -> Layer:
    """Return the layer of a file with content `text`: JSON for the suffix `.json`, else TOML."""
    text = text.removeprefix("\ufeff")  # some editors begin a file with a byte order mark
    format_ = "JSON" if file.endswith(".json") else "TOML"
    try:
        is_json = format_ == "JSON"
        partial = read_json(text, max_levels=MAX_CONFIG_LEVELS) if is_json else tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        reason = "nested too deep" if isinstance(exc, RecursionError) else str(exc)
        raise ConfigError(
            f"not {format_}: {reason}", kind="malformed", layer=name, file=file
        ) from exc

    if not isinstance(partial, dict):
        raise ConfigError("expected an object", kind="malformed", layer=name, file=file)

    return Layer(name, validate_layer(remove_ignored(partial), layer=name, file=file), file)


def list_includes(layer: Layer) -> list[Extend]:
    """Return the entries of `extends` in `layer`."""
    return [Extend.model_validate(x) for x in get_path(layer.partial, "extends") or []]


def select_inherited(groups: Sequence[Sequence[Layer]]) -> list[Layer]:
    """Return the layers of `groups`, each a file with its included files, weakest first.

    A group with `inherit = false` disables all weaker groups.
    """
    kept: list[Layer] = []

    for group in groups:
        values = [layer.partial.get("inherit") for layer in group]
        stated = [value for value in values if value is not None]
        if stated and stated[-1] is False:
            kept = []

        kept += group
    return kept


def read_environment(environ: Mapping[str, str]) -> Layer:
    r"""Return the layer of the variables `JP_CFG_…`, such as `JP_CFG_ASSISTANT__MODEL__ID`.

    `__` separates the keys of a path; keys of maps are in lower case. A value is parsed by the type
    of its setting. The prefix `:` marks a value as JSON, and `+` adds the value to the setting.
    Both can be combined. `\:` and `\+` begin a text that starts with `:` or `+`.
    """
    partial: Partial = {}
    errors: list[ConfigError] = []

    for variable in sorted(environ):
        if variable.startswith(ENVIRONMENT_PREFIX):
            try:
                partial = _apply_variable(partial, variable, environ[variable])
            except ConfigError as exc:
                exc.file = variable
                errors.append(exc)

    if len(errors) == 1:
        raise errors[0]

    if errors:
        problems: list[str] = []
        for error in errors:
            problems += [f"{error.file}: {problem}" for problem in error.problems]

        raise ConfigError("\n".join(problems), kind=errors[0].kind, layer=ENVIRONMENT_LAYER)

    return Layer(ENVIRONMENT_LAYER, partial)


def format_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables that set `settings`: texts by path, such as `prompt.answers`.

    Values such as `123` and `:x` remain texts.
    """
    variables: dict[str, str] = {}
    for path, text in settings.items():
        name = ENVIRONMENT_PREFIX + path.upper().replace(".", "__")
        is_marked = text[:1] in (":", "+")
        variables[name] = f"\\{text}" if is_marked else text

    return variables


def _apply_variable(partial: Partial, variable: str, text: str) -> Partial:
    """Return `partial` with the setting of an environment `variable` with the value `text`."""
    path = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")

    # The prefixes `:` and `+`, each at most once.
    operators = ""
    while text[:1] in (":", "+") and text[0] not in operators:
        operators = operators + text[0]
        text = text[1:]

    if text[:2] in ("\\:", "\\+"):
        text = text[1:]

    try:
        if is_ignored(parse_path(path)):
            return partial  # JP reads the same variables
        require_node(path)
        as_json = ":" in operators
        extend = "+" in operators
        change = assign_setting(
            path, text, partial, as_json=as_json, extend=extend, layer=ENVIRONMENT_LAYER
        )
    except ConfigError as exc:
        exc.layer = ENVIRONMENT_LAYER
        raise
    return apply_change(partial, change)


def merge_layers(layers: Iterable[Layer]) -> Partial:
    """Merge `layers`, the lowest first. The result is shared: do not modify it."""
    return merge_and_strip(tuple(layers))[0]


@lru_cache(maxsize=16)
def merge_and_strip(layers: tuple[Layer, ...]) -> tuple[Partial, Partial]:
    """Return the merged `layers`, and the same without merge strategies."""
    result: Partial = {}
    for layer in layers:
        result = merge_partials(result, layer.partial)
    return result, strip_strategies(result)
