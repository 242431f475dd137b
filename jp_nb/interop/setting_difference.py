"""Find the change that gives JP other settings than it has.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.interop.jp_settings import (
    FREE_SHAPE,
    JP_DEFAULTS,
    LIST_SHAPE,
    MAP_SHAPE,
    Note,
    SettingTable,
    find_shape_below,
    unwrap_strategy,
)
from jp_nb.json_values import JsonObject, as_object

UNSETTABLE_NOTE = "JP cannot unset this: the earlier value remains"


def find_difference(
    shape: SettingTable,
    old_settings: Mapping[str, JsonValue],
    new_settings: Mapping[str, JsonValue],
    touched: Mapping[str, JsonValue],
    above: tuple[str, ...],
    note: Note,
) -> JsonObject:
    """Return the delta that gives JP the new settings instead of the old ones.

    Args:
        shape: The settings that JP knows here.
        old_settings: The settings that JP has.
        new_settings: The settings that it should have.
        touched: The keys to which the delta is limited, nested (`find_touched_keys`).
        above: The keys of the table that these settings are in.
        note: Receives what JP cannot do.
    """
    delta: JsonObject = {}

    for key in touched:
        shape_below = find_shape_below(shape, key)
        old = old_settings.get(key)
        new = new_settings.get(key)
        keys = (*above, key)
        step: JsonValue = None

        if isinstance(shape_below, dict):
            if isinstance(old, dict) or isinstance(new, dict):
                step = _make_table_step(shape_below, old, new, touched[key], keys, note)
        elif shape_below is not None and unwrap_strategy(old) != unwrap_strategy(new):
            step = _make_step(shape_below, old, new, keys, note)

        if step is not None:
            delta[key] = step

    return delta


def _make_table_step(
    shape: SettingTable,
    old: JsonValue,
    new: JsonValue,
    touched: JsonValue,
    keys: tuple[str, ...],
    note: Note,
) -> JsonValue:
    old_table = as_object(old)
    new_table = as_object(new)

    touched_below: Mapping[str, JsonValue]
    if isinstance(touched, dict):
        touched_below = touched
    else:  # the table counts whole
        touched_below = dict.fromkeys([*old_table, *new_table])

    return find_difference(shape, old_table, new_table, touched_below, keys, note) or None


def _make_step(
    shape: str, old: JsonValue, new: JsonValue, keys: tuple[str, ...], note: Note
) -> JsonValue:
    """Return the value in a delta that changes `old` to `new`; None if JP cannot change it."""
    if new is None:
        return _make_unset_value(shape, keys, note)
    if shape == FREE_SHAPE:
        return _make_free_step(old, new, keys, note)

    old_value = unwrap_strategy(old)
    new_value = unwrap_strategy(new)

    if isinstance(new_value, list):
        old_items = old_value if isinstance(old_value, list) else []
        return _make_list_step(shape, old_items, new_value, keys, note)
    if shape == MAP_SHAPE:
        return {"value": new_value, "strategy": "replace"}
    return new_value


def _make_list_step(
    shape: str,
    old_items: list[JsonValue],
    new_items: list[JsonValue],
    keys: tuple[str, ...],
    note: Note,
) -> JsonValue:
    # JP appends a list to the list that it has.
    if new_items[: len(old_items)] == old_items:
        return new_items[len(old_items) :]
    if shape == LIST_SHAPE:
        return {"value": new_items, "strategy": "replace"}

    note(keys, "JP can only append to this list: removed and moved items stay as they were")
    return [item for item in new_items if item not in old_items] or None


def _make_free_step(old: JsonValue, new: JsonValue, keys: tuple[str, ...], note: Note) -> JsonValue:
    """Return the step for free JSON: JP merges objects and replaces other values."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new

    for key in sorted(old.keys() - new.keys()):
        note((*keys, key), UNSETTABLE_NOTE)

    steps: JsonObject = {}
    for key, value in new.items():
        if value != old.get(key):
            steps[key] = _make_free_step(old.get(key), value, (*keys, key), note)
    return steps or None


def _make_unset_value(shape: str, keys: tuple[str, ...], note: Note) -> JsonValue:
    """Return the value that has the effect of unsetting in JP; None if there is none."""
    if keys in JP_DEFAULTS:
        return JP_DEFAULTS[keys]
    if shape in (LIST_SHAPE, MAP_SHAPE):
        empty: JsonValue = [] if shape == LIST_SHAPE else {}
        return {"value": empty, "strategy": "replace"}

    note(keys, UNSETTABLE_NOTE)
    return None
