"""Hide keys in the settings of MCP servers, and find those that a file contains as text.

A file of another application often contains keys. They work, but no output shows them. A value that
is only a reference, such as `Bearer ${TOKEN}`, is no secret and is shown.

Source: `docs/mcp.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from pydantic import JsonValue

from jp_nb.config.secret_settings.references import Reference, split_references
from jp_nb.config.secrets.api_keys import find_api_keys, hide_credentials
from jp_nb.config.secrets.replacements import NOT_SHOWN
from jp_nb.config.secrets.secret_hiding import hide_secrets
from jp_nb.config.secrets.secret_names import is_secret, is_secret_name

_SCHEMES: Final = ("", "bearer", "basic", "token", "apikey", "key")
"""Words before a key in a header."""
_QUERY: Final = re.compile(r"(?P<before>[?&#])(?P<name>[^=&#]{1,200})=(?P<value>[^&#]+)")
"""A parameter of an address: `?token=KEY`."""
_OPTION: Final = re.compile(r"-{1,2}(?P<name>[A-Za-z][A-Za-z0-9_-]{0,99})(?:=(?P<value>.+))?", re.S)
"""An option, perhaps with its value: `--token`, `--token=KEY`."""
_ASSIGNED: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_-]{0,99})=(?P<value>.+)", re.S)
"""A variable with its value: `TOKEN=KEY`."""
_HEADER: Final = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]{0,99}):\s+(?P<value>\S.*)", re.S)
"""A header with its value: `Authorization: KEY`."""
_NAMED: Final = ("env", "headers")
"""Tables whose keys are names of values."""
SHOWN_SETTINGS: Final = ("type", "variables", "inputs", "checksum", "cwd", "env_file")
"""Settings that hold no secret, whatever their names are."""


def is_only_references(text: str) -> bool:
    """Return True if `text` has references and no other text, except a word such as `Bearer`."""
    try:
        parts = list(split_references(text))
    except ValueError:
        return False
    references = [part for part in parts if isinstance(part, Reference)]
    literals = [part for part in parts if isinstance(part, str)]
    literals += [part.default for part in references if part.default]  # may be a key too
    words = " ".join(literals).lower().split()
    return bool(references) and all(word in _SCHEMES for word in words)


def hide_named_value(name: str, value: str) -> str:
    """Return the `value` of the variable or header `name` as it is shown."""
    if is_only_references(value):
        return value
    if is_secret(name, value) or find_api_keys(value):
        return NOT_SHOWN
    return hide_url(hide_secrets(value))


def hide_url(url: str) -> str:
    """Return `url` without a password and without values of secret names in its query."""

    def hide(found: re.Match[str]) -> str:
        name = unquote(found["name"])
        shown = found["value"]
        if is_secret(name, shown):
            shown = hide_named_value(name, shown)
        return f"{found['before']}{found['name']}={shown}"

    return _QUERY.sub(hide, hide_credentials(url))


def hide_arguments(arguments: Sequence[str]) -> list[str]:
    """Return `arguments` without the keys in forms such as `--token KEY` and `TOKEN=KEY`."""
    shown: list[str] = []
    name_before = ""

    for argument in arguments:
        shown.append(_hide_argument(argument, name_before))
        option = _OPTION.fullmatch(argument)
        name_before = option["name"] if option and option["value"] is None else ""
    return shown


def _hide_argument(argument: str, name_before: str) -> str:
    """Return one argument as it is shown. `name_before` is the option before it: `--token KEY`."""
    # First: a key may end in `=`, and would look like `NAME=VALUE`.
    if name_before and is_secret_name(name_before) and not argument.startswith("-"):
        return hide_named_value(name_before, argument)

    for form in (_OPTION, _ASSIGNED, _HEADER):
        found = form.fullmatch(argument)
        if found and found["value"] is not None:
            before = argument[: found.start("value")]
            return before + hide_named_value(found["name"], found["value"])

    return hide_url(hide_secrets(argument))


def hide_server_settings(value: JsonValue, keys: Sequence[str] = ()) -> JsonValue:
    """Return `value`, which is at `keys` below the settings of a server, as it is shown.

    Without `keys`, it is the whole table of the server.
    """
    setting = str(keys[0]) if keys else ""
    if setting in SHOWN_SETTINGS:
        return value

    match value:
        # The list with its merge strategy: `{value, strategy}`. The tables have none.
        case dict() if "value" in value and setting == "arguments":
            return {**value, "value": hide_server_settings(value["value"], keys)}
        case dict():
            return {key: hide_server_settings(item, (*keys, key)) for key, item in value.items()}
        case list():
            texts: list[JsonValue] = [*hide_arguments(list(map(str, value)))]
            return texts
        case str() if setting in _NAMED and len(keys) > 1:
            return hide_named_value(str(keys[-1]), value)
        case str() if setting == "url":
            return hide_url(value)
        case str():
            return _hide_argument(value, "")
    return value


def find_literal_secrets(settings: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the path below a server of each text that contains a key instead of a reference.

    These are paths such as `url` and `env.TOKEN`. For all arguments it is `arguments`.
    """
    for keys, text in _iter_texts(settings):
        if hide_server_settings(text, keys) != text:
            yield ".".join(keys)

    arguments = settings.get("arguments")
    if isinstance(arguments, list):
        texts = [str(item) for item in arguments]
        if hide_arguments(texts) != texts:
            yield "arguments"


def _iter_texts(settings: Mapping[str, JsonValue]) -> Iterator[tuple[tuple[str, ...], str]]:
    for setting, value in settings.items():
        if isinstance(value, str):
            yield (setting,), value
        elif isinstance(value, dict):
            named: Iterable[tuple[str, JsonValue]] = value.items()
            yield from (((setting, key), item) for key, item in named if isinstance(item, str))
