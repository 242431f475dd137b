"""Paths into the configuration: how they are written.

    path     = key *( "." key / "[" element "]" )
    element  = JSON text / text without "]"

A bracket behind a list names an item of it, by its JSON or by what identifies it; behind a map it
names a key, so that keys with dots have a path too.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.tree.node import shortened
from jp_nb.errors import ConfigError
from jp_nb.json_values import MAX_CONFIG_LEVELS, is_deeper, sorted_json

Keys = tuple[str, ...]
"""A path, read: see `parse_path`."""

_PLAIN_KEY = re.compile(r"[^.\[\]]+")
_BRACKETED = re.compile(r"\[([^\]]*)\]")
_DECODER = json.JSONDecoder()

MAX_LENGTH: Final = 100_000
"""Characters of a path: an item of a list may be named by all that it says."""


class Element(str):
    """The last part of a path, in brackets: its text names an item, its `json` is the item."""

    __slots__ = ("json",)
    json: JsonValue

    def __new__(cls, value: JsonValue) -> Element:
        """An item of a list, or a key."""
        text = value if isinstance(value, str) else sorted_json(value)
        made = super().__new__(cls, text)
        made.json = value
        return made


def is_index(key: str) -> bool:
    """True if `key` is the number of an item of a list."""
    return key.isascii() and key.isdigit() and len(key) < 10


@lru_cache(maxsize=4096)
def parse_path(path: str) -> tuple[str, ...]:
    """The keys of `path`; what stood in brackets is an `Element`.

    Raises:
        ConfigError: If it is not a path.
    """
    keys: list[str] = []
    place = 0
    while place < len(path) <= MAX_LENGTH and len(keys) <= MAX_CONFIG_LEVELS:
        if path[place] == "[":
            element, place = _element(path, place)
            keys.append(element)
        else:
            found = _PLAIN_KEY.match(path, place)
            if found is None:
                break
            keys.append(found[0])
            place = found.end()
        if place == len(path):
            return tuple(keys)
        if path[place] == ".":
            place += 1
        elif path[place] != "[":
            break
    raise ConfigError(
        f"{shortened(path)!r} is not a path, expected at most {MAX_CONFIG_LEVELS} "
        "keys separated by dots",
        kind="malformed",
    )


def _element(path: str, start: int) -> tuple[Element, int]:
    try:
        value, end = _DECODER.raw_decode(path, start + 1)
        if path[end : end + 1] == "]" and not is_deeper(value, MAX_CONFIG_LEVELS):
            return Element(value), end + 1
    except (ValueError, RecursionError):
        pass  # the other form: a bare identity
    found = _BRACKETED.match(path, start)
    if found is None or not found[1]:
        raise ConfigError(
            f"{shortened(path)!r}: a bracket is empty or not closed", kind="malformed"
        )
    return Element(found[1]), found.end()


def end_of_path(text: str) -> int:
    """Return the place of the first `=` of `text` outside of brackets; -1 without one."""
    place = 0
    while place < len(text) and text[place] != "=":
        if text[place] != "[":
            place += 1
            continue
        try:
            _, place = _element(text, place)
        except ConfigError:
            return text.find("=", place)  # said by who reads the path
    return place if place < len(text) else -1


def format_path(keys: Sequence[str]) -> str:
    """The path that `parse_path` reads as `keys`."""
    text = ""
    for key in keys:
        if isinstance(key, Element):
            text += f"[{sorted_json(key.json)}]"
        elif _PLAIN_KEY.fullmatch(key):
            text += f".{key}" if text else key
        else:
            text += f"[{sorted_json(key)}]"
    return text


def lookup(value: Any, keys: Sequence[str]) -> Any:
    """Return what lies below `keys` in nested objects and lists; None if nothing does."""
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(str(key))
        elif isinstance(value, list) and is_index(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
