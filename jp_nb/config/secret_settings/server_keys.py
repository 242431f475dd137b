"""Replace keys in the settings of an MCP server by references to environment variables.

The header `Authorization: Bearer abc` of the server `books` becomes
`Bearer ${BOOKS_AUTHORIZATION}`. The user then sets this variable to the key.

Source: `docs/mcp.md`, Import what you have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.config.secret_settings.server_secrets import find_literal_secrets, hide_arguments

_OPTION = re.compile(
    r"-{0,2}(?P<name>[A-Za-z][A-Za-z0-9_-]{0,99})(?P<separator>=|:[ \t]*).+", re.DOTALL
)
"""An argument with name and value: `--token=KEY`, `TOKEN=KEY`, or `Authorization: KEY`."""
_SCHEME = re.compile(r"(?P<kept>(?:bearer|basic|token)\s+)\S.*", re.IGNORECASE | re.DOTALL)
"""A key after a word that is not secret: `Bearer KEY`."""


@dataclass(frozen=True, slots=True)
class WithoutKeys:
    """Settings without keys, and the variables that must have them.

    Attributes:
        variables: The name of each variable, by the path of the setting that held the key.
    """

    settings: dict[str, JsonValue]
    variables: dict[str, str]


def find_ambiguous_variables(servers: Iterable[Mapping[str, JsonValue]]) -> set[str]:
    """Return the names in `env` under which two of the `servers` have different keys."""
    keys: dict[str, JsonValue] = {}
    ambiguous: set[str] = set()
    for settings in servers:
        env = settings.get("env")
        if not isinstance(env, dict):
            continue

        for path in find_literal_secrets({"env": env}):
            name = path.removeprefix("env.")
            if keys.setdefault(name, env[name]) != env[name]:
                ambiguous.add(name)

    return ambiguous


def replace_keys(
    server: str, settings: Mapping[str, JsonValue], ambiguous: Collection[str] = ()
) -> WithoutKeys:
    """Return `settings` of the server with a reference in the place of each key.

    `ambiguous` are names in `env` under which other servers have other keys.
    """
    replaced: dict[str, JsonValue] = dict(settings)
    variables: dict[str, str] = {}
    for path in find_literal_secrets(settings):  # such as `url`, `env.TOKEN`, and `arguments`
        setting, _, name = path.partition(".")
        value = settings[setting]

        if isinstance(value, list):
            words = _replace_arguments(server, list(map(str, value)), variables)
            replaced[setting] = [*words]

        elif isinstance(value, dict):
            # A variable of the program usually takes its value from the one of the same name.
            is_same_name = setting == "env" and name not in ambiguous
            variable = name if is_same_name else make_variable(server, name)
            table = replaced[setting]  # other keys of it may be replaced already
            assert isinstance(table, dict)
            replaced[setting] = {**table, name: _refer(str(value[name]), variable)}
            variables[path] = variable

        else:
            variables[path] = make_variable(server, setting)
            replaced[setting] = f"${{{variables[path]}}}"

    return WithoutKeys(replaced, variables)


def make_variable(*words: str) -> str:
    """Return the name of an environment variable for `words`, such as `BOOKS_API_KEY`."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", "_".join(words)).strip("_").upper()
    return f"MCP_{name}" if name[:1].isdigit() or not name else name


def _replace_arguments(
    server: str, arguments: Sequence[str], variables: dict[str, str]
) -> list[str]:
    """Return `arguments` with references in place of keys; add the names to `variables`.

    A variable is named for the option: `--token=KEY`, or `--token KEY`.
    """
    words: list[str] = []
    for number, (text, shown) in enumerate(zip(arguments, hide_arguments(arguments), strict=True)):
        has_key = text != shown  # only a key is hidden
        if not has_key:
            words.append(text)
            continue

        option = _OPTION.fullmatch(text)
        before = arguments[number - 1] if number else ""

        if option is not None and "://" not in text:  # an address has a colon as well
            variable = make_variable(server, option["name"])
            begin = option.end("separator")
            words.append(text[:begin] + _refer(text[begin:], variable))
        elif before.startswith("-"):
            variable = make_variable(server, before)
            words.append(_refer(text, variable))
        else:
            variable = make_variable(server, "argument", str(number + 1))
            words.append(_refer(text, variable))

        variables[f"arguments.{number}"] = variable

    return words


def _refer(text: str, variable: str) -> str:
    """Return the reference to `variable` that replaces the key in `text`."""
    scheme = _SCHEME.fullmatch(text)
    kept = scheme["kept"] if scheme else ""
    return f"{kept}${{{variable}}}"
