"""Convert entries of MCP servers from files of other applications to settings of `providers.mcp`.

`server_entry_reader.py` reads the keys of an entry, in the spelling of any application. Here the
result is checked as settings, and gets a name that is valid in `providers.mcp`. Nothing of another
application grants a permission: keys such as `autoApprove` are named and ignored. A value of the
wrong type is a problem of its entry only.

An *input* is a value for which an application asks the user, with a label. An entry refers to it as
`${input:ID}`.

Source: `docs/mcp.md`, Import what you have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.config.assignments import read_partial
from jp_nb.config.partials.partial import build_partial, get_path
from jp_nb.config.secret_settings.references import list_references
from jp_nb.config.tree.server_settings import MAX_SERVER_NAME_CHARS, MCP_PATH, is_server_name
from jp_nb.config.tree.value_errors import describe_found
from jp_nb.errors import ConfigError
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import compact_json
from jp_nb.storage.server_lists.server_entry_reader import ServerEntryReader
from jp_nb.text import one_line

MAX_ENTRY_CHARS: Final = 20_000
"""The user has to read the whole entry before it is added."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server of another application's file, as settings of this program.

    Attributes:
        name: Name in `providers.mcp`.
        original_name: Name in the file.
        settings: Settings below `providers.mcp.NAME`; empty if there is a `problem`.
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

    reader = ServerEntryReader(entry)
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
    """Return the labels of the `inputs` that the settings refer to."""
    references = list_references(list(_iter_texts(settings)))
    used = {reference.name for reference in references if reference.kind == "input"}
    return {key: label for key, label in inputs.items() if key in used}


def make_server_name(original: str) -> str:
    """Return a valid name for a server: the `original`, or a similar one.

    It has a short digest of the original if letters were lost, as those of other scripts: several
    names could otherwise become the same.
    """
    if is_server_name(original):
        return original

    similar = re.sub(r"[^A-Za-z0-9_-]+", "-", original[:200]).strip("-")
    has_only_ascii = not re.search(r"[^ -~]", original)
    if is_server_name(similar) and has_only_ascii:
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
