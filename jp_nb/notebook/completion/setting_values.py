"""Complete the value of a setting in an assignment, such as `interrupt.tool_call.action=s`.

The node of a setting in the schema of the configuration lists most of the words that it accepts
(`SchemaNode.choices`). The others are found by trying all words that some setting accepts.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from jp_nb.config.assignments import parse_setting_value
from jp_nb.config.schema import SchemaNode, find_node
from jp_nb.config.setting_paths import parse_path
from jp_nb.config.tree.model_id import ModelId
from jp_nb.config.tree.model_settings import REASONING_EFFORTS
from jp_nb.config.tree.provider_settings import PROVIDER_NAMES
from jp_nb.config.tree.tool_settings import JSON_TYPES, TOOL_SOURCES
from jp_nb.errors import ConfigError
from jp_nb.notebook.completion.completion_names import Names
from jp_nb.notebook.completion.tab_completions import TabCompletions, match_prefix

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
    is_json_object = text.lstrip().startswith("{")  # `-c` also takes several settings as JSON
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
