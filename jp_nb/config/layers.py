"""Where configuration comes from, and what wins. Pure: the edges read files and environment.

Low to high: program defaults (in the tree itself), registrations of tools, the user's file,
workspace files, environment, the conversation, flags of the running cell.

Source: `design/interface.md` section 5, `spec/config.md` section 6.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.config.assign import require
from jp_nb.config.partial import Partial, at, build, leaves, merge, validate
from jp_nb.config.paths import FREE_MAP, node_of
from jp_nb.errors import ConfigError

ENVIRONMENT_PREFIX = "JP_CFG_"


@dataclass(frozen=True, slots=True)
class Layer:
    """A partial configuration and the name of its source, for messages."""

    name: str
    partial: Partial


def from_toml(text: str, name: str) -> Layer:
    """The layer that the TOML `text` of the file `name` holds.

    Raises:
        ConfigError: If it is no TOML, or holds an unknown key or a wrong value.
    """
    try:
        partial = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"not TOML: {exc}", kind="malformed", layer=name) from exc
    validate(merge({}, partial), layer=name)
    return Layer(name, partial)


def from_environment(environ: Mapping[str, str]) -> Layer:
    """The layer of `JP_CFG_ASSISTANT__MODEL__ID=…` and its like: `__` between segments.

    A value that starts with `:` is JSON; every other is read as its target's type. Map keys are
    lower case.

    Raises:
        ConfigError: If a variable names no known path or holds a wrong value.
    """
    from jp_nb.config.assign import assign

    partial: Partial = {}
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        path = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
        text = environ[variable]
        layer = f"environment variable {variable}"
        try:
            require(path)
            as_json = text.startswith(":")
            given = assign(path, text[as_json:], partial, as_json=as_json, layer=layer)
        except ConfigError as exc:
            if exc.layer is None:
                exc.layer = layer
            raise
        partial = merge(partial, given)
    return Layer("environment", partial)


def fold(layers: Iterable[Layer]) -> Partial:
    """All `layers` over one another, the lowest first."""
    result: Partial = {}
    for layer in layers:
        result = merge(result, layer.partial)
    return result


def set_by(layers: Iterable[Layer], path: str) -> list[tuple[str, JsonValue]]:
    """Which layers say something at `path`, the deciding one last."""
    return [(x.name, value) for x in layers if (value := at(x.partial, path)) is not None]


def without_foreign_authority(partial: Partial) -> tuple[Partial, dict[str, JsonValue]]:
    """`partial` without what a stranger's record may not decide, and what was left out, by path.

    Ignored are leaves that could run code, reach a host, name a key or widen access.

    Source: `design/document.md` section 5.
    """
    kept: Partial = {}
    ignored: dict[str, JsonValue] = {}
    for path, value in leaves(partial):
        if _has_authority(path.split(".")):
            ignored[path] = value
        else:
            kept = merge(kept, build(path, value))
    return kept, ignored


def _has_authority(keys: list[str]) -> bool:
    match keys:
        case ["providers" | "extends" | "config_load_paths" | "interpolation", *_]:
            return True
        case ["conversation", "attachments" | "labels", *_]:
            return True
        case ["conversation", "tools", _, "source" | "command" | "run" | "result" | "access", *_]:
            return True
        case ["conversation", "tools", _, "questions", _, "answer", *_]:
            return True
        case ["conversation", "tools", _, "style", "parameters", *_]:
            return True
        case _:
            return any("command" in key or key == "cmd" for key in keys)


def known(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[str]]:
    """The part of a stored `partial` that this release understands, and the paths it does not.

    A value of the wrong type counts as not understood, alone: the rest stays in force.
    """
    try:
        validate(merge({}, partial))
    except ConfigError:
        pass
    else:
        return dict(partial), []
    kept: Partial = {}
    unknown: list[str] = []
    for path, value in _values(dict(partial)):
        trial = merge(kept, build(path, value))
        try:
            validate(trial)
        except ConfigError:
            unknown.append(path)
        else:
            kept = trial
    return kept, unknown


def _values(partial: Partial, prefix: str = "") -> Iterable[tuple[str, JsonValue]]:
    """Leaves, with values that are replaced as a whole kept whole."""
    for key, value in partial.items():
        path = f"{prefix}.{key}" if prefix else key
        node = node_of(path)
        whole = node is None or node is FREE_MAP or not isinstance(value, dict) or "value" in value
        if whole or _is_model_id(value):
            yield path, value
        elif isinstance(value, dict):
            yield from _values(value, path)


def _is_model_id(value: JsonValue) -> bool:
    return isinstance(value, dict) and set(value) == {"provider", "name"}


def to_text(value: object) -> str:
    """A value as `%jp config` shows it: compact JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)
