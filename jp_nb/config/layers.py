"""Where configuration comes from, and what wins. Pure: the edges read files and environment.

Low to high: program defaults (in the tree itself), registrations of tools, the user's file,
workspace files, environment, the conversation, flags of the running cell.

Source: `design/interface.md` section 5, `spec/config.md` section 6.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from jp_nb.config.app_config import AppConfig
from jp_nb.config.assign import require
from jp_nb.config.defaults import ENVIRONMENT_PREFIX
from jp_nb.config.partial import Partial, at, is_wrapper, merge, validate
from jp_nb.config.paths import FREE_MAP, child
from jp_nb.errors import ConfigError


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
    ignored: dict[str, JsonValue] = {}

    def admit(node: Any, part: Partial, above: tuple[str, ...]) -> Partial:
        kept: Partial = {}
        for key, value in part.items():
            keys, below = (*above, key), child(node, key)
            if isinstance(value, dict) and value and not is_wrapper(value, below):
                if admitted := admit(below, value, keys):
                    kept[key] = admitted
            elif _has_authority(keys) or _widens(keys, value):
                ignored[".".join(keys)] = value
            else:
                kept[key] = value
        return kept

    return admit(AppConfig, partial, ()), ignored


def _has_authority(keys: tuple[str, ...]) -> bool:
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


def _widens(keys: tuple[str, ...], value: JsonValue) -> bool:
    """Whether `value` switches on, or hides, what the user's own files may have ruled out."""
    match keys:
        case ["conversation", "tools", _, "enable", *_]:
            return value in (True, "true", "on", "always")
        case ["conversation", "tools", _, "style", "hidden"]:
            return value is True
        case _:
            return False


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
    for keys, value in _values(AppConfig, dict(partial)):
        part: Partial = {keys[-1]: value}
        for key in reversed(keys[:-1]):
            part = {key: part}
        trial = merge(kept, part)
        try:
            validate(trial)
        except ConfigError:
            unknown.append(".".join(keys))
        else:
            kept = trial
    return kept, unknown


def _values(
    node: Any, partial: Partial, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """Leaves by their keys, with values that are replaced as a whole kept whole."""
    for key, value in partial.items():
        keys, below = (*above, key), child(node, key)
        whole = below is None or below is FREE_MAP or is_wrapper(value, below)
        if isinstance(value, dict) and not whole and not _is_model_id(value):
            yield from _values(below, value, keys)
        else:
            yield keys, value


def _is_model_id(value: JsonValue) -> bool:
    return isinstance(value, dict) and set(value) == {"provider", "name"}


def to_text(value: object) -> str:
    """A value as `%jp config` shows it: compact JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)
