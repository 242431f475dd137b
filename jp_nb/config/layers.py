"""The layers of the configuration: where they come from, and which wins. Pure: the edges read.

Low to high: program defaults (in the tree itself), registrations of tools, the user's file,
workspace files, environment, the conversation, flags of the running cell.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jp_nb.config.assignments import FILE_ONLY as FILE_ONLY
from jp_nb.config.assignments import assign
from jp_nb.config.directives import ENVIRONMENT_PREFIX
from jp_nb.config.partial import Partial, apply, get_path, merge
from jp_nb.config.schema import parse_path, require_node
from jp_nb.config.tree.app import is_ignored
from jp_nb.config.validation import remove_ignored, validate_layer
from jp_nb.errors import ConfigError
from jp_nb.json_values import MAX_CONFIG_LEVELS, read_json

REGISTRATIONS = "registrations"
USER_FILE = "user file"
WORKSPACE_FILE = "workspace file"
CONFIG_FILE = "config file"
ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Layer:
    """A partial configuration and where it comes from.

    Attributes:
        name: The kind of source, such as `workspace file`.
        partial: What it sets.
        file: The file, if it is one.
    """

    name: str
    partial: Partial
    file: str | None = None


# --- files -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Include:
    """One entry of a file's `extends`: a path or a pattern, relative to that file."""

    path: str
    strategy: Literal["before", "after"] = "before"


def parse_layer(text: str, name: str, file: str) -> Layer:
    """The layer that `text`, the content of `file`, holds: JSON if its name says so, else TOML.

    Raises:
        ConfigError: If it cannot be read, or with everything that is wrong in it.
    """
    text = text.removeprefix("\ufeff")  # some editors begin a file with a byte order mark
    form = "JSON" if file.endswith(".json") else "TOML"
    try:
        partial = (
            read_json(text, max_levels=MAX_CONFIG_LEVELS) if form == "JSON" else tomllib.loads(text)
        )
    except (ValueError, RecursionError) as exc:
        why = "nested too deep" if isinstance(exc, RecursionError) else str(exc)
        raise ConfigError(f"not {form}: {why}", kind="malformed", layer=name, file=file) from exc
    if not isinstance(partial, dict):
        raise ConfigError("expected an object", kind="malformed", layer=name, file=file)
    return Layer(name, validate_layer(remove_ignored(partial), layer=name, file=file), file)


def list_includes(layer: Layer) -> list[Include]:
    """Return the files that the file of `layer` includes."""
    found = get_path(layer.partial, "extends")
    return [
        Include(entry) if isinstance(entry, str) else Include(**entry)
        for entry in (found if isinstance(found, list) else ())
    ]


def select_inherited(groups: Sequence[Sequence[Layer]]) -> list[Layer]:
    """The files that count, of `groups` from the weakest to the nearest.

    A group is a file with what it includes; one with `inherit = false` cuts off all weaker ones.
    """
    kept: list[Layer] = []
    for group in groups:
        if get_path(merge_layers(group), "inherit") is False:
            kept = []
        kept += group
    return kept


# --- environment -----------------------------------------------------------------------------


def read_environment(environ: Mapping[str, str]) -> Layer:
    r"""The layer of `JP_CFG_ASSISTANT__MODEL__ID=…` and its like: `__` between segments.

    A value that begins with `:` is JSON, with `+` it is added, with both (in either order) both;
    `\:` and `\+` begin a text with such a character. Every other value is read as its target's
    type. Map keys are lower case.

    Raises:
        ConfigError: With everything that is wrong in the variables.
    """
    partial: Partial = {}
    wrong: list[ConfigError] = []
    for variable in sorted(environ):
        if variable.startswith(ENVIRONMENT_PREFIX):
            try:
                partial = _with_variable(partial, variable, environ[variable])
            except ConfigError as exc:
                exc.file = variable
                wrong.append(exc)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        first = wrong[0]
        raise ConfigError(
            "\n".join(f"{exc.file}: {problem}" for exc in wrong for problem in exc.problems),
            path="",
            kind=first.kind,
            layer=ENVIRONMENT,
        )
    return Layer(ENVIRONMENT, partial)


def format_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that set `settings`, texts by path such as `prompt.answers`.

    A text counts as it is: `123` and `:x` too.
    """
    return {
        ENVIRONMENT_PREFIX + path.upper().replace(".", "__"): f"\\{text}"
        if text[:1] in (":", "+")
        else text
        for path, text in settings.items()
    }


def _with_variable(partial: Partial, variable: str, text: str) -> Partial:
    path = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
    operators = ""
    while text[:1] in (":", "+") and text[0] not in operators:
        operators, text = operators + text[0], text[1:]
    if text[:2] in ("\\:", "\\+"):
        text = text[1:]
    try:
        if is_ignored(parse_path(path)):
            return partial  # JP reads the same variables
        require_node(path)
        change = assign(
            path,
            text,
            partial,
            as_json=":" in operators,
            extend="+" in operators,
            layer=ENVIRONMENT,
        )
    except ConfigError as exc:
        exc.layer = ENVIRONMENT
        raise
    return apply(partial, change)


# --- over one another ------------------------------------------------------------------------


def merge_layers(layers: Iterable[Layer]) -> Partial:
    """All `layers` over one another, the lowest first."""
    result: Partial = {}
    for layer in layers:
        result = merge(result, layer.partial)
    return result


def format_value(value: object) -> str:
    """A value as `%jp config` shows it: compact JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)
