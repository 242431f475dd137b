"""Complete one word as a path of a setting, an assignment, a model, a file, or another kind.

A path such as `conversation.tools[a.b].run` consists of *keys*. The schema of the configuration has
a *node* for each path. Each function gets the word up to the cursor, and the names of the session.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import ValidationError

from jp_nb.config.assignments import parse_setting_value
from jp_nb.config.schema import ROOT, SchemaNode, find_node
from jp_nb.config.setting_paths import parse_path
from jp_nb.config.tree.base import ShortTable
from jp_nb.config.tree.model_id import ModelId
from jp_nb.config.tree.model_settings import REASONING_EFFORTS
from jp_nb.config.tree.provider_settings import PROVIDER_NAMES
from jp_nb.config.tree.tool_settings import JSON_TYPES, STAR, TOOL_SOURCES
from jp_nb.errors import ConfigError
from jp_nb.notebook.completion_names import Names
from jp_nb.notebook.magic_options import Offer


@dataclass(frozen=True, slots=True)
class TabCompletions:
    """Completions of a word or a line, best first.

    Attributes:
        start: The position in the word or line from which the completions replace it.
        texts: The completions.
        notes: Texts to show beside completions, by the completion.
    """

    start: int
    texts: list[str]
    notes: Mapping[str, str] = field(default_factory=dict)


def match_prefix(text: str, names: Iterable[str], start: int = 0) -> TabCompletions:
    """Return the names that begin with `text`, from the character `start` of it."""
    return TabCompletions(start, [name for name in names if name.startswith(text[start:])])


def _combine(first: TabCompletions, second: TabCompletions) -> TabCompletions:
    """Return both completions if they replace the same text, else only those of one."""
    if first.start == second.start:
        return TabCompletions(first.start, [*first.texts, *second.texts])
    return first if first.texts else second


def _list_models(text: str, names: Names) -> list[str]:
    """Return aliases and providers; after a slash, full ids instead of aliases."""
    providers = [f"{name}/" for name in names.providers]
    provider, slash, _ = text.partition("/")
    if slash:
        return [*names.models(provider), *providers]
    return [*sorted(names.aliases), *providers]


def _complete_config_file(text: str, names: Names) -> TabCompletions:
    """Complete the name of a configuration file, or the path of one, as after `@` or `./`."""
    if not text.startswith(("@", ".", "/", "~")):
        return _complete_file(text, names.config_files, suffixes=("",))

    path = text.removeprefix("@")
    completions = _complete_file(path, names.entries, suffixes=(".toml", ".json"))
    return replace(completions, start=completions.start + len(text) - len(path))


def _complete_attachment(text: str, names: Names) -> TabCompletions:
    found = complete_path(text, names)
    variables = [name for name in names.variables if text and not name.startswith("_")]
    return _combine(found, match_prefix(text, sorted(variables)))


def complete_path(text: str, names: Names) -> TabCompletions:
    """Return the files and folders that complete the path `text`; folders end with `/`."""
    return _complete_file(text, names.entries, suffixes=("",))


def _complete_file(
    text: str, entries: Callable[[str], Sequence[str]], *, suffixes: tuple[str, ...]
) -> TabCompletions:
    """Complete a path with the `entries` of its folder that are folders or have a suffix."""
    start = text.rfind("/") + 1
    names = [name for name in entries(text[:start]) if name.endswith(("/", *suffixes))]
    if not text.startswith(".", start):
        names = [name for name in names if not name.startswith(".")]
    return match_prefix(text, sorted(names), start)


_PLAIN_KEY = re.compile(r"[^.\[\]=]+")
_TOOLS = "conversation.tools"


def _complete_path(text: str, names: Names) -> TabCompletions:
    """Complete the last key in a path of a setting, such as `conversation.tools.re` or `a[b`."""
    # The boundaries of keys. A key in brackets may contain dots and brackets, so the last boundary
    # after a path of the schema counts.
    boundaries = list(re.finditer(r"^|[.\[]", text))
    for boundary in reversed(boundaries):
        above = text[: boundary.start()]
        if boundary[0] == "[":
            above = above.removesuffix(".")

        node = find_node(above) if above else None
        if boundary.end() == 0:
            node = ROOT
        if node is not None:
            return _complete_key(text, node, above, boundary.start(), names)

    return TabCompletions(len(text), [])


def _complete_key(
    text: str, node: SchemaNode, above: str, start: int, names: Names
) -> TabCompletions:
    """Complete a key below `node`, after the dot or bracket in `text` at `start`.

    `above` is the path of `node`; "" for the root. Keys such as `a.b`, which may not follow a dot,
    are written in brackets. If there are some, all completions also replace the dot.
    """
    separator = text[start : start + 1] if above else ""
    if separator == "[" and node.kind == "table":  # its keys are written with dots
        return TabCompletions(len(text), [])

    typed = text[start + len(separator) :]
    is_quoted = separator == "[" and typed.startswith('"')
    typed = typed.removeprefix('"') if is_quoted else typed
    keys = [key for key in _list_keys(node, above, names) if key.startswith(typed)]

    plain_keys = [key for key in keys if separator != "[" and _PLAIN_KEY.fullmatch(key)]
    texts: list[str] = []
    for key in plain_keys:
        texts += _list_forms(key, key, node, above, names)

    bracket_keys = [key for key in keys if above and key not in plain_keys]
    if separator != "[" and not bracket_keys:
        return TabCompletions(start + len(separator), texts)

    texts = [f".{text}" for text in texts]
    for key in bracket_keys:
        is_read_back = "]" not in key and parse_path(f"x[{key}]")[1:] == (key,)
        needs_quotes = is_quoted or not is_read_back
        index = json.dumps(key, ensure_ascii=False) if needs_quotes else key
        texts += _list_forms(key, f"[{index}]", node, above, names)

    return TabCompletions(start, texts)


def _list_keys(node: SchemaNode, above: str, names: Names) -> list[str]:
    """Return the keys below `node`: of the schema, and of the effective configuration."""
    known = [*node.fields]
    if above == _TOOLS:
        known.append(STAR)
    if node.kind != "table" or node.child(STAR) is not None:
        known += names.keys(above)
    return [key for key in dict.fromkeys(known) if "=" not in key]


def _list_forms(key: str, shown: str, node: SchemaNode, above: str, names: Names) -> list[str]:
    """Return `shown` with a dot if another key must follow, and in both forms if one may follow.

    `shown` is the key as it is typed, such as `[a.b]`. A table with a *short form* may have a text
    in place of keys: `model = "fast"` in place of `model.id = "fast"`.
    """
    child = node.child(key)
    if child is None:
        return []
    if child.kind == "map":
        path = f"{above}{shown}" if shown.startswith("[") else f"{above}.{shown}".removeprefix(".")
        return [f"{shown}."] if path == _TOOLS or names.keys(path) else [shown]
    if child.table is None:
        return [shown]

    has_short_form = child.takes_any_text or child.choices or issubclass(child.table, ShortTable)
    return [shown, f"{shown}."] if has_short_form else [f"{shown}."]


_WORDS = ("true", "false", "on", "off", "always", "explicit", "short", "long", "full")
_KNOWN_WORDS = dict.fromkeys(
    (*_WORDS, *REASONING_EFFORTS, *PROVIDER_NAMES, *TOOL_SOURCES, *JSON_TYPES)
)
"""Words that validators of some settings accept, but that their annotations do not list."""
_ARBITRARY_WORD = "no_such_word"
"""A setting that accepts this word accepts any text."""


def _complete_assignment(text: str, names: Names) -> TabCompletions:
    """Complete the value in `path=…`, `path:=…`, or `path+=…`."""
    left, _, right = text.partition("=")
    path = left.rstrip(" :+").strip()
    node = find_node(path) if path else None
    is_json_object = text.lstrip().startswith("{")
    if node is None or is_json_object:
        return TabCompletions(len(text), [])

    start = len(left) + 1
    is_json_value = ":" in left[len(path) :]  # `path:=json`
    if is_json_value:
        words = [word for word in node.choices if word in ("true", "false")]
        if node.optional:
            words.append("null")
        return match_prefix(text, words, start)

    if node.kind == "list":  # the item after the last comma
        start += right.rfind(",") + 1
        start += len(text[start:]) - len(text[start:].lstrip())
        node = node.item

    return match_prefix(text, _list_values(path, node, text[start:], names), start)


def _list_values(path: str, node: SchemaNode, typed: str, names: Names) -> Sequence[str]:
    """Return the values to offer for the setting at `path`, or for an item of it."""
    if node.table is ModelId:
        return _list_models(typed, names)
    if parse_path(path)[-1] == "tool_choice":
        return ["auto", "none", "required", *names.tools]
    if node.kind in ("map", "list", "json") or _accepts(node, _ARBITRARY_WORD):
        return node.choices

    known = (word for word in _KNOWN_WORDS if _accepts(node, word))
    return list(dict.fromkeys([*node.choices, *known]))


def _accepts(node: SchemaNode, word: str) -> bool:
    """Return True if `word` is a valid value of the setting."""
    try:
        node.adapter.validate_python(parse_setting_value(node, word, ""))
    except (ValidationError, ConfigError):
        return False
    return True


def _complete_tool(text: str, names: Names) -> TabCompletions:
    """Complete the name of a tool, or of a toolset with the number of its tools."""
    sizes = names.toolsets
    notes = {name: f"{size} tools" for name, size in sizes.items()}
    notes |= {name: "1 tool" for name, size in sizes.items() if size == 1}
    return replace(match_prefix(text, [*names.tools, *sizes]), notes=notes)


OFFERED: Final[Mapping[Offer, Callable[[str, Names], TabCompletions]]] = {
    "path": _complete_path,
    "setting": lambda text, names: (
        _complete_assignment(text, names) if "=" in text else _complete_path(text, names)
    ),
    "change": lambda text, names: (
        _complete_assignment(text, names)
        if "=" in text
        else _combine(_complete_path(text, names), _complete_config_file(text, names))
    ),
    "model": lambda text, names: match_prefix(text, _list_models(text, names)),
    "provider": lambda text, names: match_prefix(text, names.providers),
    "server": lambda text, names: match_prefix(text, names.mcp_servers),
    "tool": lambda text, names: match_prefix(text, names.tools),
    "tool or toolset": _complete_tool,
    "conversation": lambda text, names: match_prefix(
        text, (name for name, is_damaged in names.conversations.items() if not is_damaged)
    ),
    "stored conversation": lambda text, names: match_prefix(text, names.conversations),
    "answer": lambda text, names: match_prefix(text, names.answers),
    "turn": lambda text, names: match_prefix(text, map(str, range(names.turn_count, 0, -1))),
    "folder": lambda text, names: _complete_file(text, names.entries, suffixes=()),
    "file": lambda text, names: _complete_file(text, names.entries, suffixes=("",)),
    "attachment": _complete_attachment,
    "schema": lambda text, names: match_prefix(text, sorted(names.schemas)),
    "rows": lambda text, names: match_prefix(text, sorted(names.rows)),
}
"""The function that completes each kind of text."""
