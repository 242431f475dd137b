"""Complete the path of a setting, such as `conversation.tools.re`.

A path such as `conversation.tools[a.b].run` consists of *keys*. The schema of the configuration has
a *node* for each path, which knows the keys below it. A *table* has fixed keys, and a *map* has
keys that the user chooses; the key `*` of the tools stands for all.

A completion replaces the text from a position (`TabCompletions.start`). Without completions, that
is the end of the text. `Names` has the names in the session, such as the keys of its configuration.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import json
import re

from jp_nb.config.schema import ROOT, SchemaNode, find_node
from jp_nb.config.setting_paths import parse_path
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.notebook.completion.completion_names import Names
from jp_nb.notebook.completion.tab_completions import TabCompletions

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

    `above` is the path of `node`; "" for the root, whose keys have no dot before them.
    """
    if above and text[start] == "[":
        return _complete_in_brackets(text, node, above, start, names)
    return _complete_after_dot(text, node, above, start, names)


def _complete_in_brackets(
    text: str, node: SchemaNode, above: str, start: int, names: Names
) -> TabCompletions:
    """Complete a key that the user chooses, or the index of an item, after a bracket."""
    if node.kind == "table":  # its keys are fixed
        return TabCompletions(len(text), [])

    typed = text[start + 1 :]
    is_quoted = typed.startswith('"')
    typed = typed.removeprefix('"')

    texts: list[str] = []
    for key in _list_keys(node, above, names):
        if key.startswith(typed):
            texts += _list_bracket_forms(key, node, above, names, is_quoted=is_quoted)

    return TabCompletions(start, texts)


def _complete_after_dot(
    text: str, node: SchemaNode, above: str, start: int, names: Names
) -> TabCompletions:
    """Complete a key after a dot, or the first key of a path.

    Keys such as `a.b`, which may not follow a dot, are written in brackets. If there are some, all
    completions also replace the dot.
    """
    typed = text[start + 1 :] if above else text[start:]
    keys = [key for key in _list_keys(node, above, names) if key.startswith(typed)]

    plain_keys = [key for key in keys if _PLAIN_KEY.fullmatch(key)]
    plain_texts: list[str] = []
    for key in plain_keys:
        plain_texts += _list_forms(key, key, node, above, names)

    other_keys = [key for key in keys if above and key not in plain_keys]
    if not other_keys:
        return TabCompletions(len(text) - len(typed), plain_texts)

    texts = [f".{plain_text}" for plain_text in plain_texts]
    for key in other_keys:
        texts += _list_bracket_forms(key, node, above, names)

    return TabCompletions(start, texts)


def _list_bracket_forms(
    key: str, node: SchemaNode, above: str, names: Names, *, is_quoted: bool = False
) -> list[str]:
    """Return the forms of `key` in brackets, with quotes if it needs them or `is_quoted`."""
    # Brackets without quotes do for most keys. A key such as `"a"` would lose its own quotes.
    is_read_back = "]" not in key and parse_path(f"x[{key}]")[1:] == (key,)
    needs_quotes = is_quoted or not is_read_back
    index = json.dumps(key, ensure_ascii=False) if needs_quotes else key
    return _list_forms(key, f"[{index}]", node, above, names)


def _list_keys(node: SchemaNode, above: str, names: Names) -> list[str]:
    """Return the keys below `node`: of the schema, and of the effective configuration."""
    known = [*node.fields]
    if above == _TOOLS:
        known.append(STAR)

    # The user has chosen these keys. Some tables take such keys beside their fixed ones.
    if node.kind != "table" or node.has_free_keys:
        known += names.list_keys(above)

    # A `=` ends the path in an assignment.
    return [key for key in dict.fromkeys(known) if "=" not in key]


def _list_forms(key: str, shown: str, node: SchemaNode, above: str, names: Names) -> list[str]:
    """Return `shown` with a dot if another key must follow, and in both forms if one may follow.

    `shown` is the key as it is typed, such as `[a.b]`. A table with a *short form* may have a plain
    value in place of keys: `model = "fast"` in place of `model.id = "fast"`.
    """
    child = node.child(key)
    if child is None:  # a part of a value that the schema takes as a whole
        return []

    if child.kind == "map":
        path = f"{above}{shown}" if shown.startswith("[") else f"{above}.{shown}".removeprefix(".")
        # The dot is offered only if completions follow. For the tools, there is always `*`.
        has_keys = path == _TOOLS or names.list_keys(path)
        return [f"{shown}."] if has_keys else [shown]

    if child.table is None:  # a plain value, which has no keys
        return [shown]

    return [shown, f"{shown}."] if child.has_short_form else [f"{shown}."]
