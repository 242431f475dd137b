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
from dataclasses import dataclass

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
        path = text[: boundary.start()]
        if boundary[0] == "[":
            path = path.removesuffix(".")  # `a.[b` is the same path as `a[b`

        node = find_node(path) if path else None
        is_beginning = boundary[0] == ""
        if is_beginning:
            node = ROOT

        if node is not None:
            level = _Level(node, path, names)
            if path and boundary[0] == "[":
                return _complete_in_brackets(text, boundary.start(), level)
            return _complete_after_dot(text, boundary.start(), level)

    return TabCompletions(len(text), [])


@dataclass(frozen=True, slots=True)
class _Level:
    """The keys below `node`, which has this `path`; "" for the root of the configuration."""

    node: SchemaNode
    path: str
    names: Names

    def list_keys(self, prefix: str) -> list[str]:
        """Return the keys with this prefix: of the schema, and of the effective configuration."""
        known = [*self.node.fields]
        if self.path == _TOOLS:
            known.append(STAR)

        # The user has chosen these keys. Some tables take such keys beside their fixed ones.
        if self.node.kind != "table" or self.node.has_free_keys:
            known += self.names.list_keys(self.path)

        # A `=` ends the path in an assignment.
        unique = dict.fromkeys(known)
        return [key for key in unique if key.startswith(prefix) and "=" not in key]

    def list_bracket_forms(self, key: str, *, is_quoted: bool = False) -> list[str]:
        """Return the forms of `key` in brackets, with quotes if it needs them or `is_quoted`."""
        # Brackets without quotes do for most keys. A key such as `"a"` would lose its own quotes.
        is_read_back = "]" not in key and parse_path(f"x[{key}]")[1:] == (key,)
        needs_quotes = is_quoted or not is_read_back
        index = json.dumps(key, ensure_ascii=False) if needs_quotes else key
        return self.list_forms(key, f"[{index}]")

    def list_forms(self, key: str, typed: str) -> list[str]:
        """Return `typed` with a dot if another key must follow, and in both forms if one may.

        `typed` is the key as it is typed, such as `[a.b]`. A table with a *short form* may have a
        plain value in place of keys: `model = "fast"` in place of `model.id = "fast"`.
        """
        child = self.node.child(key)
        if child is None:  # a part of a value that the schema takes as a whole
            return []

        if child.kind == "map":
            # The dot is offered only if completions follow. For the tools, there is always `*`.
            path = self._join_path(typed)
            has_keys = path == _TOOLS or self.names.list_keys(path)
            return [f"{typed}."] if has_keys else [typed]

        if child.table is None:  # a plain value, which has no keys
            return [typed]

        return [typed, f"{typed}."] if child.has_short_form else [f"{typed}."]

    def _join_path(self, typed: str) -> str:
        if not self.path or typed.startswith("["):
            return f"{self.path}{typed}"
        return f"{self.path}.{typed}"


def _complete_in_brackets(text: str, start: int, level: _Level) -> TabCompletions:
    """Complete a key that the user chooses, or the index of an item, after the bracket at `start`.

    The completions also replace the bracket.
    """
    if level.node.kind == "table":  # its keys are fixed
        return TabCompletions(len(text), [])

    typed = text[start + 1 :]
    is_quoted = typed.startswith('"')

    texts: list[str] = []
    for key in level.list_keys(typed.removeprefix('"')):
        texts += level.list_bracket_forms(key, is_quoted=is_quoted)

    return TabCompletions(start, texts)


def _complete_after_dot(text: str, start: int, level: _Level) -> TabCompletions:
    """Complete a key after the dot at `start`, or the first key of a path, which has no dot.

    Keys such as `a.b`, which may not follow a dot, are written in brackets. If there are some, all
    completions also replace the dot.
    """
    is_first_key = not level.path
    typed = text[start:] if is_first_key else text[start + 1 :]
    keys = level.list_keys(typed)

    plain_keys = [key for key in keys if _PLAIN_KEY.fullmatch(key)]
    plain_texts: list[str] = []
    for key in plain_keys:
        plain_texts += level.list_forms(key, key)

    other_keys = [key for key in keys if key not in plain_keys]
    if is_first_key or not other_keys:
        return TabCompletions(len(text) - len(typed), plain_texts)

    texts = [f".{plain_text}" for plain_text in plain_texts]
    for key in other_keys:
        texts += level.list_bracket_forms(key)

    return TabCompletions(start, texts)
