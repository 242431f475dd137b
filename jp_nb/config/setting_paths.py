"""Paths of settings, such as `assistant.model.id`: parse and format them, and look values up.

    path     = key *( "." key / "[" element "]" )
    element  = JSON text / text without "]"

Brackets after a list contain an item of the list, as JSON or by its name. Brackets after a map
contain a key, so that keys with dots can be written. A text that is not a path is a `ConfigError`.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.tree.value_errors import shorten_for_error
from jp_nb.errors import ConfigError
from jp_nb.json_limits import MAX_CONFIG_LEVELS, is_deeper
from jp_nb.json_writing import sorted_json

PathKeys = tuple[str, ...]
"""A parsed path: see `parse_path`."""

_PLAIN_KEY = re.compile(r"[^.\[\]]+")
_BRACKETED = re.compile(r"\[([^\]]*)\]")
_DECODER = json.JSONDecoder()

MAX_SETTING_PATH_CHARS: Final = 100_000
"""Maximum characters of a path. A path can contain an item of a list as JSON."""


class Element(str):
    """A key in brackets. The text names an item or key; `json` is the value in brackets."""

    __slots__ = ("json",)
    json: JsonValue

    def __new__(cls, value: JsonValue) -> Element:
        """Create the key from a JSON value."""
        text = value if isinstance(value, str) else sorted_json(value)
        element = super().__new__(cls, text)
        element.json = value
        return element


def is_index(key: str) -> bool:
    """Return True if `key` is an index into a list."""
    return key.isascii() and key.isdigit() and len(key) < 10


@lru_cache(maxsize=4096)
def parse_path(path: str) -> tuple[str, ...]:
    """Return the keys of `path`; those in brackets are of type `Element`."""
    keys: list[str] = []
    position = 0

    while position < len(path) <= MAX_SETTING_PATH_CHARS and len(keys) <= MAX_CONFIG_LEVELS:
        if path[position] == "[":
            element, position = _read_bracket(path, position)
            keys.append(element)
        else:
            plain_key = _PLAIN_KEY.match(path, position)
            if plain_key is None:
                break
            keys.append(plain_key[0])
            position = plain_key.end()

        if position == len(path):
            return tuple(keys)
        if path[position] == ".":
            position += 1
        elif path[position] != "[":
            break

    raise ConfigError(
        f"{shorten_for_error(path)!r} is not a path, expected at most {MAX_CONFIG_LEVELS} "
        "keys separated by dots",
        kind="malformed",
    )


def try_parse_path(path: object) -> PathKeys | None:
    """Return the keys of `path`, or None if it is not a path."""
    try:
        return parse_path(str(path))
    except ConfigError:
        return None


def _read_bracket(path: str, start: int) -> tuple[Element, int]:
    """Return the element in the bracket at `start`, and the end of the bracket.

    It is JSON, or else the name of an item without quotation marks.
    """
    try:
        value, end = _DECODER.raw_decode(path, start + 1)
        if path[end : end + 1] == "]" and not is_deeper(value, MAX_CONFIG_LEVELS):
            return Element(value), end + 1
    except (ValueError, RecursionError):
        pass  # not JSON: the name of an item

    found = _BRACKETED.match(path, start)
    if found is None or not found[1]:
        raise ConfigError(
            f"{shorten_for_error(path)!r}: a bracket is empty or not closed", kind="malformed"
        )

    return Element(found[1]), found.end()


def find_path_end(text: str) -> int:
    """Return the position of the first `=` outside of brackets in `text`, or -1.

    `text` is an assignment such as `conversation.attachments["a=b"]=…`.
    """
    position = 0

    while position < len(text) and text[position] != "=":
        if text[position] != "[":
            position += 1
            continue

        try:
            _, position = _read_bracket(text, position)
        except ConfigError:
            return text.find("=", position)  # `parse_path` reports the error
    return position if position < len(text) else -1


def format_path(keys: Sequence[str]) -> str:
    """Return the path for `keys`; the inverse of `parse_path`."""
    text = ""

    for key in keys:
        if isinstance(key, Element):
            text += f"[{sorted_json(key.json)}]"
        elif _PLAIN_KEY.fullmatch(key):
            text += f".{key}" if text else key
        else:
            text += f"[{sorted_json(key)}]"

    return text


def look_up(value: Any, keys: Sequence[str]) -> Any:
    """Return the value at `keys` in nested objects and lists, or None.

    An item of a list is found by its number, not by its name.
    """
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(str(key))
        elif isinstance(value, list) and is_index(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
