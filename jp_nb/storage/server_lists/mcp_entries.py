"""Convert entries of MCP servers from files of other applications to settings of `providers.mcp`.

Nothing of another application grants a permission here: keys such as `autoApprove` are named and
ignored. A value of the wrong type is a problem of its entry only.

Source: `docs/mcp.md`, Import what you have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.config.assignments import read_partial
from jp_nb.config.partials.partial import build_partial, get_path
from jp_nb.config.secret_settings.references import list_references
from jp_nb.config.tree.server_settings import (
    MAX_SERVER_NAME_CHARS,
    MCP_PATH,
    is_server_name,
    read_transport,
)
from jp_nb.config.tree.value_errors import describe_found
from jp_nb.errors import ConfigError
from jp_nb.json_values import JsonObject, compact_json
from jp_nb.text import one_line

MAX_ENTRY_CHARS: Final = 20_000
"""The user has to read the whole entry before it is added."""
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


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server of another application's file, as settings of this program.

    Attributes:
        name: Name in `providers.mcp`.
        original_name: Name in the file.
        settings: Settings below `providers.mcp.NAME`; those that are valid if there is a `problem`.
        is_disabled: True if the other application does not use the server.
        notes: Sentences about changes and ignored keys.
        problem: Reason why the entry cannot be used, or "".
    """

    name: str
    original_name: str
    settings: JsonObject
    is_disabled: bool = False
    notes: tuple[str, ...] = ()
    problem: str = ""


def read_server_entry(
    original_name: str, entry: JsonValue, inputs: Mapping[str, str] | None = None
) -> ServerEntry:
    """Return the server of `entry`, an item of a file.

    Args:
        original_name: Its name in the file.
        entry: Its value in the file.
        inputs: Labels of the inputs that the file describes, by id.
    """
    name = make_server_name(original_name)
    if not isinstance(entry, dict):
        problem = f"expected a table, {describe_found(entry)}"
        return ServerEntry(name, original_name, {}, problem=problem)

    reader = _EntryReader(entry)
    problem = ""
    try:
        if len(compact_json(entry)) > MAX_ENTRY_CHARS:
            raise ValueError(f"the entry has more than {MAX_ENTRY_CHARS:,} characters")
        settings = reader.read()
        labels = _select_used_inputs(settings, inputs or {})
        if labels:
            settings["inputs"] = labels
        settings = _validate(name, settings)
    except (ConfigError, ValueError) as exc:
        settings = {}
        problem = one_line(str(exc), limit=500)

    notes = list(reader.notes)
    if name != original_name:
        notes.insert(0, f"the name becomes {name}")
    return ServerEntry(
        name=name,
        original_name=original_name,
        settings=settings,
        is_disabled=reader.is_disabled,
        notes=tuple(notes),
        problem=problem,
    )


def _select_used_inputs(settings: JsonObject, inputs: Mapping[str, str]) -> JsonObject:
    """Return the labels of the `inputs` that the settings refer to, as `${input:ID}`."""
    references = list_references(list(_iter_texts(settings)))
    used = {reference.name for reference in references if reference.kind == "input"}
    return {key: label for key, label in inputs.items() if key in used}


def make_server_name(original: str) -> str:
    """Return a valid name for a server: the `original`, or a similar name with a short digest."""
    if is_server_name(original):
        return original

    similar = re.sub(r"[^A-Za-z0-9_-]+", "-", original[:200]).strip("-")
    if is_server_name(similar) and not re.search(r"[^ -~]", original):
        return similar

    digest = hashlib.sha256(original.encode("utf-8", "replace")).hexdigest()[:6]
    beginning = similar[: MAX_SERVER_NAME_CHARS - len(digest) - 1].strip("-") or "server"
    return f"{beginning}-{digest}"


def _validate(name: str, settings: JsonObject) -> JsonObject:
    """Return the settings of a server, with short forms expanded.

    Raises:
        ValueError: Settings are invalid or do not fit together. The message has all problems.
    """
    if "command" in settings and "url" in settings:
        raise ValueError("it has a command and an address, so its kind is unclear")
    if "command" not in settings and "url" not in settings:
        raise ValueError("it has neither a command nor an address")

    path = (*MCP_PATH, name)
    try:
        checked = get_path(read_partial(build_partial(path, settings)), path)
    except ConfigError as exc:
        prefix = f"{'.'.join(path)}."
        messages = [
            f"{problem.path.removeprefix(prefix)}: {problem.message}" for problem in exc.problems
        ]
        raise ValueError("; ".join(messages)) from exc

    return checked if isinstance(checked, dict) else {}


def _iter_texts(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _iter_texts(item)
        case dict():
            for item in value.values():
                yield from _iter_texts(item)


class _EntryReader:
    """Reads the keys of one entry, which applications spell in many ways.

    A key is compared in small letters, without `_` and `-` (*short key*). A method reads the value
    of a kind of key into `_settings`, and names the key as it is written in errors.

    Attributes:
        notes, is_disabled: As in `ServerEntry`.
    """

    def __init__(self, entry: JsonObject) -> None:
        self._entry = entry
        self.notes: list[str] = []
        self.is_disabled = False
        self._settings: JsonObject = {}
        self._ignored: list[str] = []  # unknown keys, as they are written

    def read(self) -> JsonObject:
        """Return the settings. Raise `ValueError` for a value of the wrong type."""
        for key, value in self._entry.items():
            if value is not None:
                self._read_key(key, value)

        if self._ignored:
            names = ", ".join(one_line(key, limit=40) for key in sorted(self._ignored)[:10])
            self.notes.append(f"ignored: {names}")

        arguments = self._settings.get("arguments")
        if arguments == []:
            del self._settings["arguments"]

        return self._settings

    def _read_key(self, key: str, value: JsonValue) -> None:
        """Read one key of an entry, in the spelling of any application."""
        short_key = re.sub(r"[_-]", "", key).lower()

        is_command_list = short_key == "command" and isinstance(value, list)  # see `_READERS`
        if short_key in _TEXT_SETTINGS and not is_command_list:
            self._settings[_TEXT_SETTINGS[short_key]] = _read_text(key, value)
        elif short_key in ("env", "environment", "headers", "httpheaders"):
            table = "env" if short_key.startswith("env") else "headers"
            self._add_table(table, _read_table(key, value))
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
        names: list[JsonValue] = [*_read_texts(key, value)]
        self._settings["variables"] = names

    def _read_header_variables(self, key: str, value: JsonValue) -> None:
        named = _read_table(key, value)
        self._add_table("headers", {name: f"${{{text}}}" for name, text in named.items()})

    def _read_bearer_variable(self, key: str, value: JsonValue) -> None:
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
        before = self._settings.get(setting)
        known: JsonObject = before if isinstance(before, dict) else {}
        self._settings[setting] = {**known, **table}

    def _read_timeout(self, key: str, short_key: str, value: JsonValue) -> None:
        """Read a timeout in seconds or milliseconds as whole seconds, at least 1; 0 is no limit."""
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            self._ignored.append(key)
            return

        is_large = short_key == "timeout" and value >= _MIN_MILLISECONDS
        is_in_ms = short_key.endswith("ms") or is_large
        seconds = value / 1000 if is_in_ms else value

        is_startup = short_key.startswith("startup")
        setting = "startup_timeout_secs" if is_startup else "call_timeout_secs"
        self._settings[setting] = max(1, round(seconds)) if value else 0  # 0 is no limit

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
        elif short_key not in _MEANINGLESS and not short_key.startswith("sandbox"):
            self._ignored.append(key)


_READERS: Final[Mapping[str, Callable[[_EntryReader, str, JsonValue], None]]] = {
    "command": _EntryReader._read_command_list,
    "args": _EntryReader._read_arguments,
    "arguments": _EntryReader._read_arguments,
    "type": _EntryReader._read_type,
    "transport": _EntryReader._read_type,
    "transporttype": _EntryReader._read_type,
    "variables": _EntryReader._read_variables,
    "envvars": _EntryReader._read_variables,
    "envhttpheaders": _EntryReader._read_header_variables,
    "bearertokenenvvar": _EntryReader._read_bearer_variable,
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
