"""Read the keys of an MCP server's entry, which applications spell in many ways.

A key is compared in small letters, without `_` and `-` (*short key*): `envFile`, `env_file`, and
`env-file` are one key. A key is of one of these kinds:

- It is a setting of `providers.mcp.NAME` in another spelling. Most are read as they are; some need
  a conversion, such as a command line in a list, or a timeout in milliseconds.
- It grants or limits something in the other application. It has no effect here, and a note says so,
  because the user may rely on it.
- It only describes the server. It is ignored silently.
- It is unknown. A note names it.

Source: `docs/mcp.md`, Import what you have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.config.tree.server_settings import read_transport
from jp_nb.config.tree.value_errors import describe_found
from jp_nb.json_values import JsonObject
from jp_nb.text import one_line

_GRANTING: Final = frozenset(
    {
        "autoapprove",
        "autoapprovedtools",
        "alwaysallow",
        "alwaysapprove",
        "allowedtools",
        "trust",
        "trusted",
        "permissions",
        "approvalmode",
        "defaulttoolsapprovalmode",
    }
)
"""Keys with which other applications skip their questions, in small letters."""
_RESTRICTING: Final = frozenset(
    {
        "disabledtools",
        "excludetools",
        "includetools",
        "enabledtools",
        "tools",
        "toolfilter",
        "tooloverrides",
        "sandbox",
        "sandboxenabled",
    }
)
"""Keys with which other applications limit a server."""
_MEANINGLESS: Final = frozenset(
    {
        "name",
        "title",
        "description",
        "id",
        "gallery",
        "dev",
        "oauth",
        "icon",
        "iconurl",
        "version",
        "metadata",
        "note",
        "comment",
        "presets",
        "displayname",
        "scopes",
    }
)
"""Keys without a meaning for a connection, which are ignored silently."""
_TRANSPORTS: Final[Mapping[str, str]] = {"local": "stdio", "remote": "http"}
"""Our transports, by the words of other applications."""
_MIN_MILLISECONDS: Final = 1000
"""A larger number without a unit is taken for milliseconds, because no call takes so many seconds.
"""
_TEXT_SETTINGS: Final[Mapping[str, str]] = {
    "command": "command",
    "cwd": "cwd",
    "workingdirectory": "cwd",
    "envfile": "env_file",
    "url": "url",
    "serverurl": "url",
    "httpurl": "url",
}
"""Settings with a text, by the key in small letters without `_` and `-`."""
_TIMEOUTS: Final = ("timeout", "tooltimeoutsec", "startuptimeoutsec", "startuptimeoutms")
"""Keys of durations, in small letters without `_` and `-`."""


class ServerEntryReader:
    """Reads one entry into settings, and notes what has no effect.

    Each method reads the value of one kind of key into `_settings`. Errors name the key as it is
    written in the file.

    Attributes:
        notes: Sentences about ignored keys, for the user.
        is_disabled: True if the other application does not use the server.
    """

    def __init__(self, entry: JsonObject) -> None:
        self._entry = entry
        self.notes: list[str] = []
        self.is_disabled = False
        self._settings: JsonObject = {}
        self._ignored: list[str] = []  # unknown keys, as they are written

    def read(self) -> JsonObject:
        """Return the settings below `providers.mcp.NAME`, which are not validated yet.

        Raises:
            ValueError: A value has the wrong type. The notes so far are kept.
        """
        for key, value in self._entry.items():
            if value is not None:
                self._read_key(key, value)

        if self._ignored:
            names = ", ".join(one_line(key, limit=40) for key in sorted(self._ignored)[:10])
            self.notes.append(f"ignored: {names}")

        if self._settings.get("arguments") == []:  # as without the key
            del self._settings["arguments"]

        return self._settings

    def _read_key(self, key: str, value: JsonValue) -> None:
        """Read one key of an entry, in the spelling of any application."""
        short_key = re.sub(r"[_-]", "", key).lower()

        # A list is a program with its arguments, which a reader of `_READERS` divides.
        is_command_list = short_key == "command" and isinstance(value, list)
        if short_key in _TEXT_SETTINGS and not is_command_list:
            self._settings[_TEXT_SETTINGS[short_key]] = _read_text(key, value)
        elif short_key in ("env", "environment", "headers", "httpheaders"):
            setting = "env" if short_key.startswith("env") else "headers"
            self._add_table(setting, _read_table(key, value))
        elif short_key in _TIMEOUTS:
            self._read_timeout(key, short_key, value)
        elif short_key == "disabled":
            self.is_disabled = value is True
        elif short_key == "enabled":
            self.is_disabled = value is False
        elif (read := _READERS.get(short_key)) is not None:
            read(self, key, value)
        else:
            self._note_other(key, short_key)

    def _read_type(self, key: str, value: JsonValue) -> None:
        text = _read_text(key, value)
        self._settings["type"] = read_transport(_TRANSPORTS.get(text, text))

    def _read_arguments(self, key: str, value: JsonValue) -> None:
        # The key `command` may have had arguments, or an application may use two keys for them.
        before = self._settings.get("arguments")
        words: list[JsonValue] = [*_read_texts(key, value)]
        if isinstance(before, list):
            words = [*before, *words]
        self._settings["arguments"] = words

    def _read_variables(self, key: str, value: JsonValue) -> None:
        """Read the names of the kernel's environment variables that the server gets."""
        names: list[JsonValue] = [*_read_texts(key, value)]
        self._settings["variables"] = names

    def _read_header_variables(self, key: str, value: JsonValue) -> None:
        """Read variables by header as headers with references to them, such as `${TOKEN}`."""
        variables = _read_table(key, value)
        self._add_table("headers", {name: f"${{{text}}}" for name, text in variables.items()})

    def _read_bearer_variable(self, key: str, value: JsonValue) -> None:
        """Read the variable with the token of the header `Authorization`."""
        self._add_table("headers", {"Authorization": f"Bearer ${{{_read_text(key, value)}}}"})

    def _read_command_list(self, key: str, value: JsonValue) -> None:
        """Read a command with its arguments, which precede those of the key `args`."""
        words = _read_texts(key, value)
        if not words:
            raise ValueError("command: expected a program, found an empty list")

        self._settings["command"] = words[0]

        arguments: list[JsonValue] = [*words[1:]]
        before = self._settings.get("arguments")
        if isinstance(before, list):
            arguments += before
        self._settings["arguments"] = arguments

    def _add_table(self, setting: str, table: Mapping[str, str]) -> None:
        """Add items to a table of the settings, because several keys may contribute to it."""
        before = self._settings.get(setting)
        known: JsonObject = before if isinstance(before, dict) else {}
        self._settings[setting] = {**known, **table}

    def _read_timeout(self, key: str, short_key: str, value: JsonValue) -> None:
        """Read a timeout in seconds or milliseconds as whole seconds; 0 is no limit.

        A wrong value is noted as ignored: the server can be used without it.
        """
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._ignored.append(key)
            return
        # TOML has `inf` and `nan`, as in `tool_timeout_sec = inf`.
        if not 0 <= value < math.inf:
            self._ignored.append(key)
            return

        is_large = short_key == "timeout" and value >= _MIN_MILLISECONDS
        is_in_ms = short_key.endswith("ms") or is_large
        seconds = value / 1000 if is_in_ms else value

        is_startup = short_key.startswith("startup")
        setting = "startup_timeout_secs" if is_startup else "call_timeout_secs"
        # A short time is at least a second, because 0 would mean that there is no limit.
        self._settings[setting] = max(1, round(seconds)) if value else 0

    def _note_other(self, key: str, short_key: str) -> None:
        """Note a key that is no setting here, with the reason if it has a meaning elsewhere."""
        shown = one_line(key, limit=40)
        if short_key in _GRANTING:
            self.notes.append(f"ignored: {shown} (it grants nothing here)")
        elif short_key in _RESTRICTING:
            self.notes.append(
                f"ignored: {shown} (its limits do not apply here: switch tools off yourself)"
            )
        elif short_key == "headershelper":
            self.notes.append(f"ignored: {shown} (a program that prints headers is not run)")
        elif short_key in _MEANINGLESS or short_key.startswith("sandbox"):
            pass  # details of a sandbox, such as its folders: `sandbox` itself has a note
        else:
            self._ignored.append(key)


_READERS: Final[Mapping[str, Callable[[ServerEntryReader, str, JsonValue], None]]] = {
    "command": ServerEntryReader._read_command_list,
    "args": ServerEntryReader._read_arguments,
    "arguments": ServerEntryReader._read_arguments,
    "type": ServerEntryReader._read_type,
    "transport": ServerEntryReader._read_type,
    "transporttype": ServerEntryReader._read_type,
    "variables": ServerEntryReader._read_variables,
    "envvars": ServerEntryReader._read_variables,
    "envhttpheaders": ServerEntryReader._read_header_variables,
    "bearertokenenvvar": ServerEntryReader._read_bearer_variable,
}
"""Readers by the key, in small letters without `_` and `-`."""


def _read_text(key: str, value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{one_line(key, limit=40)}: expected a text, {describe_found(value, key)}")


def _read_texts(key: str, value: JsonValue) -> list[str]:
    if not isinstance(value, list):
        shown = one_line(key, limit=40)
        raise ValueError(f"{shown}: expected a list of texts, {describe_found(value, key)}")
    return [_read_scalar(key, item) for item in value]


def _read_table(key: str, value: JsonValue) -> dict[str, str]:
    """Return texts by name, from a table or a list of `{name, value}`."""
    if isinstance(value, list):
        found: dict[str, str] = {}
        for item in value:
            if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                raise ValueError(f"{key}: expected items with a name and a value")
            found[str(item["name"])] = _read_scalar(key, item.get("value"))
        return found

    if not isinstance(value, dict):
        raise ValueError(f"{key}: expected a table of texts, {describe_found(value, key)}")
    given = {name: item for name, item in value.items() if item is not None}
    return {name: _read_scalar(key, item) for name, item in given.items()}


def _read_scalar(key: str, value: JsonValue) -> str:
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)

    shown = one_line(key, limit=40)
    raise ValueError(f"{shown}: expected a text, {describe_found(value, key)}")
