"""Complete the path of a setting, or an assignment to one: `conversation.tools.re`, `a.b=va`.

A path such as `conversation.tools[a.b].run` consists of *keys*. The schema of the configuration has
a *node* for each path, which knows the keys below it, and the values of a setting. A *table* has
fixed keys, and a *map* has keys that the user chooses; the key `*` of the tools stands for all.

A completion replaces the text from a position (`TabCompletions.start`). Without completions, that
is the end of the text. `Names` has the names in the session, such as the keys of its configuration.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

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
from jp_nb.notebook.completion.completion_names import Names
from jp_nb.notebook.completion.tab_completions import TabCompletions, match_prefix

_PLAIN_KEY = re.compile(r"[^.\[\]=]+")
_TOOLS = "conversation.tools"


def complete_setting_path(text: str, names: Names) -> TabCompletions:
    """Complete the last key in a path of a setting, such as `conversation.tools.re` or `a[b`."""
    # The boundaries of keys. In `conversation.tools[a.b`, the last dot is inside of a key. So each
    # boundary is tried, the last one first, until a path of the schema is before it.
    boundaries = list(re.finditer(r"^|[.\[]", text))
    for boundary in reversed(boundaries):
        above = text[: boundary.start()]
        if boundary[0] == "[":
            above = above.removesuffix(".")  # `a.[b` is the same path as `a[b`

        node = find_node(above) if above else None
        is_beginning = boundary[0] == ""
        if is_beginning:
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
    # Only keys that the user chooses, and indexes of lists, are written in brackets. A table has
    # the fixed keys of the schema.
    if separator == "[" and node.kind == "table":
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
        # Brackets without quotes do for most keys. A key such as `"a"` would lose its own quotes.
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

    # A table that has a node for any key, such as `*`, also has keys that the user chooses.
    if node.kind != "table" or node.child(STAR) is not None:
        known += names.list_keys(above)

    # A `=` ends the path in an assignment.
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
        # The dot is offered only if completions follow. For the tools, there is always `*`.
        has_keys = path == _TOOLS or names.list_keys(path)
        return [f"{shown}."] if has_keys else [shown]

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


def complete_assignment(text: str, names: Names) -> TabCompletions:
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
        return offer_models(typed, names)
    if parse_path(path)[-1] == "tool_choice":
        return ["auto", "none", "required", *names.tools]

    # `choices` are the words that the annotation lists. The others are found by trying.
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


def offer_models(text: str, names: Names) -> list[str]:
    """Return aliases and providers; after a slash, full ids instead of aliases."""
    providers = [f"{name}/" for name in names.providers]
    provider, slash, _ = text.partition("/")
    if slash:
        return [*names.list_models(provider), *providers]
    return [*sorted(names.aliases), *providers]
