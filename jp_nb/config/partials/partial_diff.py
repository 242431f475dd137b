"""Find the smallest change between two partial configurations, as the record stores it.

A partial configuration has only the settings that are set, without the defaults. A merge of the
change adds to lists, so a list that became longer needs only its new items. A value that no merge
can produce is *wrapped* with the strategy `replace`: `{value, strategy}`. A *node* is the type of a
setting in the schema.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial, unwrap
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.partial_merge import combine_values, expand_shorthand
from jp_nb.config.schema import JSON, ROOT, SchemaNode
from jp_nb.config.setting_paths import PathKeys, format_path


def diff_partials(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> Change:
    """Return the smallest change with `apply_change(before, change) == after`.

    Neither may contain merge strategies: remove them with `strip_strategies`.
    """
    unsets: list[str] = []
    delta = _find_delta(ROOT, before, after, (), unsets)
    return Change(delta, tuple(unsets))


def _find_delta(
    node: SchemaNode,
    before: Mapping[str, JsonValue],
    after: Mapping[str, JsonValue],
    above: PathKeys,
    unsets: list[str],
) -> Partial:
    """Return the values of `after` that differ, and add the paths that it lacks to `unsets`.

    Both are tables of `node` at the keys `above`.
    """
    for key, old in before.items():
        if old is not None and after.get(key) is None:
            unsets.append(format_path((*above, key)))

    delta: Partial = {}
    for key, new in after.items():
        old = before.get(key)
        child = node.child(key) or JSON
        if new is None or new is old:
            continue
        # A table and its short form, such as a model id as a text, are the same value.
        if expand_shorthand(child, new) == expand_shorthand(child, old):
            continue

        # Half of a model id, which is a table or a text, would be hard to read.
        is_whole = child.table is not None and child.takes_any_text and child.required_fields
        if isinstance(new, dict) and isinstance(old, dict) and not is_whole:
            if inner := _find_delta(child, old, new, (*above, key), unsets):
                delta[key] = inner
        else:
            delta[key] = _find_shortest_form(child, old, new)

    return delta


def _find_shortest_form(node: SchemaNode, old: JsonValue, new: JsonValue) -> JsonValue:
    """Return the first form of `new` that gives `new` if it is merged into `old`.

    The forms are tried in this order: of a list that only became longer, its new items; `new`
    itself; `new` with the strategy `replace`; of a list, the same with repeated items.
    """
    forms: list[JsonValue] = [new, {"value": new, "strategy": "replace"}]

    if isinstance(new, list):
        forms.append({"value": new, "strategy": "replace", "dedup": False})
        if isinstance(old, list) and new[: len(old)] == old:
            forms.insert(0, new[len(old) :])  # only the appended items

    for form in forms:
        means_not_set = form == []
        if not means_not_set and unwrap(combine_values(node, old, form), node) == new:
            return form
    return new
