"""Conditions of rules as text: for a configuration file, and for the user.

A condition limits an argument of a tool call, such as `path = "inside:."` (`argument_rules.py`).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import JsonValue

from jp_nb.config.argument_rules import HINT_PREFIX, Conditions
from jp_nb.json_writing import compact_json

OWN_CLAIM: Final = "(the server's own claim)"
_BARE_KEY: Final = re.compile("[A-Za-z0-9_-]+")


def format_conditions(when: Conditions) -> str:
    """Return the conditions as the inline table of a configuration file, in one line.

    >>> format_conditions({"path": "inside:.", "depth": {"max": 3}, "hint.read_only": True})
    '{ path = "inside:.", depth = { max = 3 }, "hint.read_only" = true }'
    """
    return _format_toml(dict(when))


def describe_conditions(when: Conditions) -> str:
    r"""Return the conditions as text for the user, for example in the prompt about a call.

    >>> describe_conditions({"method": "GET", "hint.read_only": True})
    'method = "GET", hint.read_only = true (the server\'s own claim)'
    """
    if not when:
        return "every call"
    return ", ".join(_describe_condition(*entry) for entry in when.items())


def _describe_condition(name: str, condition: JsonValue) -> str:
    shown = f"{name} = {_format_toml(condition)}"
    return f"{shown} {OWN_CLAIM}" if name.startswith(HINT_PREFIX) else shown


def _format_toml(value: JsonValue) -> str:
    match value:
        case dict() if value:
            rows = (f"{_format_key(key)} = {_format_toml(x)}" for key, x in value.items())
            return f"{{ {', '.join(rows)} }}"
        case list():
            return f"[{', '.join(map(_format_toml, value))}]"
        case _:
            return compact_json(value)


def _format_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else compact_json(key)
