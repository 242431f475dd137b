"""Match the arguments of a tool call with the conditions of a rule.

A condition belongs to one argument, by its name:

| condition | the argument is |
|---|---|
| `"GET"`, `3`, `true`, `{equals = VALUE}` | this value: `1`, `1.0`, `"1"`, and `true` differ |
| `{one_of = [VALUE, …]}` | one of these values |
| `"glob:https://example.org/*"`, `{glob = "…"}` | a text that fits; `*` stands for any text |
| `"inside:data"`, `{inside = "data"}` | a path in this folder, or the folder |
| `{min = 1, max = 10}` | a number in this range |
| `{any = true}` | anything, or missing |

The name `hint.read_only` is no argument, but the hint of a server about its own tool. A call
matches if it meets every condition. A missing argument meets no other condition. Arguments without
a condition may have any value, unless the rule is about `only_these`.

The model chooses the arguments, so each test takes time in proportion to their length, and a doubt
is no match. A path has to be in the folder for every way in which a tool could read it: with and
without links, and from each folder in which the tool may run.

Source: `docs/configuration.md`, `docs/security.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.config.path_conditions import is_inside_folder
from jp_nb.config.tree.value_errors import describe_found
from jp_nb.json_writing import sorted_json
from jp_nb.storable_json import is_finite

Conditions = Mapping[str, JsonValue]
"""Conditions as they are configured, by the name of the argument."""

MAX_CONDITIONS: Final = 50
"""Maximum number of conditions of a rule."""
MAX_CONDITION_CHARS: Final = 10_000
"""Maximum length of the conditions of a rule, as JSON."""

INSIDE_PREFIX: Final = "inside:"
GLOB_PREFIX: Final = "glob:"
HINT_PREFIX: Final = "hint."
HINT_NAMES: Final = ("read_only",)
"""Hints of servers about their tools that can be conditions, as `hint.NAME`."""

_FORMS: Final = (
    'an exact text, number, or boolean, "inside:FOLDER", "glob:PATTERN", or a table with '
    "`equals`, `one_of`, `inside`, `glob`, `min` and `max`, or `any = true`"
)
_KINDS: Final[Mapping[str, str]] = {
    "equals": "a value of JSON",
    "one_of": "a list",
    "inside": "a folder",
    "glob": "a pattern",
    "any": "true",
}
"""Kinds of conditions with one value, and the values."""


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """The parts of a call that rules can decide by.

    Attributes:
        arguments: The arguments with which the tool will run.
        root: The root of the workspace, to which the folders of conditions are relative.
        folders: Further folders in which the tool may run.
        hints: Claims of the tool's server about the tool, such as `read_only`.
    """

    arguments: Mapping[str, JsonValue]
    root: Path
    folders: tuple[Path, ...] = ()
    hints: Mapping[str, bool] = field(default_factory=dict)


def check_conditions(when: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return `when`, with hints as `hint.NAME`.

    Raises:
        ValueError: A condition is in no known form.
    """
    checked = dict(_flatten_hints(when))
    if len(checked) > MAX_CONDITIONS or len(sorted_json(checked)) > MAX_CONDITION_CHARS:
        raise ValueError(
            f"a rule has at most {MAX_CONDITIONS} conditions and {MAX_CONDITION_CHARS} characters"
        )

    for name, condition in checked.items():
        hint = _read_hint_name(name)
        if hint is None:
            _check_condition(name, condition)
        elif hint not in HINT_NAMES or not isinstance(condition, bool):
            raise ValueError(f"{name}: expected `hint.read_only` with true or false")

    return checked


def _flatten_hints(when: Conditions) -> Iterable[tuple[str, JsonValue]]:
    """Yield the conditions. TOML reads `hint.read_only = true` as a table."""
    for name, condition in when.items():
        if name == "hint" and isinstance(condition, dict) and condition.keys() <= set(HINT_NAMES):
            yield from ((f"{HINT_PREFIX}{hint}", value) for hint, value in condition.items())
        else:
            yield name, condition


def _read_hint_name(name: str) -> str | None:
    """Return `read_only` for the condition `hint.read_only`; None for an argument."""
    return name.removeprefix(HINT_PREFIX) if name.startswith(HINT_PREFIX) else None


def _expand(condition: JsonValue) -> Mapping[str, JsonValue]:
    """Return the table of a condition; an empty one if it is no condition."""
    match condition:
        case str() if condition.startswith(INSIDE_PREFIX):
            return {"inside": condition.removeprefix(INSIDE_PREFIX)}
        case str() if condition.startswith(GLOB_PREFIX):
            return {"glob": condition.removeprefix(GLOB_PREFIX)}
        case str() | bool() | int() | float():
            return {"equals": condition}
        case dict():
            return condition
        case _:
            return {}


def _check_condition(name: str, condition: JsonValue) -> None:
    """Check the condition of the argument `name`: it has one kind, or is a range."""
    expanded = _expand(condition)
    is_range = bool(expanded) and expanded.keys() <= {"min", "max"}
    is_single = len(expanded) == 1 and expanded.keys() <= set(_KINDS)
    if not is_range and not is_single:
        raise ValueError(f"{name}: expected {_FORMS}, {describe_found(condition)}")

    for kind, value in expanded.items():
        expected = _KINDS.get(kind, "a number")
        if not _is_value(kind, value):
            found = describe_found(value)
            raise ValueError(f"{name}: expected {expected} for `{kind}`, {found}")


def _is_value(kind: str, value: JsonValue) -> bool:
    """Return True if a condition of this kind can have this value."""
    match kind:
        case "equals":
            return is_finite(value)
        case "one_of":
            return isinstance(value, list)
        case "any":
            return value is True
        case "min" | "max":
            return _is_number(value)
        case _:  # `inside` and `glob`
            return isinstance(value, str) and bool(value.strip())


def _is_number(value: JsonValue) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def matches_conditions(when: Conditions, call: JudgedCall, *, only_these: bool = False) -> bool:
    """Return True if `call` meets every condition. `when` is a result of `check_conditions`.

    If the rule is about `only_these` arguments, a call with another one does not match.
    """
    if only_these and not call.arguments.keys() <= when.keys():
        return False
    return all(_meets(name, condition, call) for name, condition in when.items())


def _meets(name: str, condition: JsonValue, call: JudgedCall) -> bool:
    """Return True if the argument or hint `name` of the call meets its condition."""
    hint = _read_hint_name(name)
    if hint is not None:
        return call.hints.get(hint) is condition

    expanded = _expand(condition)
    if "any" in expanded:
        return True
    return name in call.arguments and _fits(call.arguments[name], expanded, call)


def _fits(value: JsonValue, condition: Mapping[str, JsonValue], call: JudgedCall) -> bool:
    """Return True if the value of an argument fits an expanded condition."""
    match condition:
        case {"equals": expected}:
            return _is_same(value, expected)
        case {"one_of": list(choices)}:
            return any(_is_same(value, expected) for expected in choices)
        case {"inside": str(folder)}:
            return is_inside_folder(value, folder, call.root, call.folders)
        case {"glob": str(pattern)}:
            return _matches_glob(value, pattern)
        case _:  # `min`, `max`, or both
            return _is_in_range(value, condition)


def _is_same(value: JsonValue, expected: JsonValue) -> bool:
    """Return True for equal values of equal types.

    The text of JSON also tells `1`, `1.0`, and `true` inside of lists and objects, where `==` of
    Python does not.
    """
    if type(value) is not type(expected) or not is_finite(value):
        return False

    try:
        return sorted_json(value) == sorted_json(expected)
    except ValueError:  # an integer with too many digits
        return False


def _is_in_range(value: JsonValue, limits: Mapping[str, JsonValue]) -> bool:
    """Return True if `value` is a number within `limits`, which `check_conditions` has checked."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_number(value):
        return False

    low = limits.get("min")
    high = limits.get("max")
    is_above = low is None or (isinstance(low, int | float) and value >= low)
    is_below = high is None or (isinstance(high, int | float) and value <= high)
    return is_above and is_below


def _matches_glob(value: JsonValue, pattern: str) -> bool:
    """Return True if `value` is a text that fits `pattern`, in which `*` is any text.

    The text begins with the first part of the pattern and ends with its last part. Each part
    between is searched once, from the end of the previous one, so nothing is tried again.
    """
    if not isinstance(value, str):
        return False

    first, *parts = pattern.split("*")
    if not parts:
        return value == pattern

    *middle, last = parts
    end = len(value) - len(last)
    if end < len(first) or not value.startswith(first) or not value.endswith(last):
        return False

    position = len(first)
    for part in middle:
        found = value.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)

    return True


def make_exact_conditions(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return conditions that only calls with these `arguments` meet, if they have no further ones.

    >>> make_exact_conditions({"path": "a.txt", "tags": ["x"], "note": "inside:."})
    {'path': 'a.txt', 'tags': {'equals': ['x']}, 'note': {'equals': 'inside:.'}}
    """
    return {name: make_exact_condition(value) for name, value in arguments.items()}


def make_exact_condition(value: JsonValue) -> JsonValue:
    """Return the condition that only this value meets.

    A text that looks like `inside:…` or `glob:…` needs the long form, and so do lists, objects, and
    null.
    """
    is_text = isinstance(value, str) and not value.startswith((INSIDE_PREFIX, GLOB_PREFIX))
    if is_text or isinstance(value, bool | int | float):
        return value
    return {"equals": value}
