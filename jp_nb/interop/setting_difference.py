"""Find the delta that turns the settings that JP has into those that it should have.

JP is a command-line assistant, which has most of the settings of `jp_nb` (`jp_settings.py`).

A *delta* has new values by key, which JP merges into its settings. The shape of a setting
(`jp_settings.py`) tells how, and so which value the delta needs:

    shape           how JP merges a value            value in the delta
    PLAIN, TEXT,    it replaces the earlier one      the new value
      MODEL
    PLAIN list      it is appended                   the further items; items cannot be removed
    LIST            it is appended, or replaces      the further items, or the new list with the
                      the earlier one                  strategy `replace`
    MAP             it is merged, or replaces        the new map with the strategy `replace`
    FREE            objects are merged, others       the members that differ; members cannot be
                      replace the earlier one          removed

A delta cannot unset a value. Instead, it has JP's default, or an empty list or map, if there is
one.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.interop.jp_settings import (
    FREE_SHAPE,
    JP_DEFAULTS,
    JP_SHAPE,
    LIST_SHAPE,
    MAP_SHAPE,
    SettingTable,
    find_shape_below,
    unwrap_strategy,
)
from jp_nb.interop.omissions import NoteSetting
from jp_nb.json_values import JsonObject, as_object

UNSETTABLE_NOTE = "JP cannot unset this: the earlier value remains"
_APPENDS_NOTE = "JP can only append to this list: removed and moved items stay as they were"

_Keys = tuple[str, ...]
"""The keys of a setting, from the top of the configuration."""


def find_difference(
    old_settings: Mapping[str, JsonValue],
    new_settings: Mapping[str, JsonValue],
    *,
    touched: Mapping[str, JsonValue],
    note: NoteSetting,
) -> JsonObject:
    """Return the delta that gives JP the new settings instead of the old ones.

    Args:
        old_settings: The settings that JP has.
        new_settings: The settings that it should have.
        touched: The keys to which the delta is limited, nested (`jp_settings.find_touched_keys`).
        note: Receives the changes that JP cannot make.
    """
    return _DeltaMaker(note).compare_tables(JP_SHAPE, old_settings, new_settings, touched, ())


class _DeltaMaker:
    """Makes the values of one delta.

    Each method returns the value that changes an old setting to a new one in JP; None if there is
    none, or if nothing changes. `keys` are those of the setting. A new member of a free object may
    itself be null.
    """

    def __init__(self, note: NoteSetting) -> None:
        self._note = note

    def compare_tables(
        self,
        shape: SettingTable,
        old_table: Mapping[str, JsonValue],
        new_table: Mapping[str, JsonValue],
        touched: Mapping[str, JsonValue],
        keys: _Keys,
    ) -> JsonObject:
        """Return the delta of a table, which is empty if nothing changes."""
        delta: JsonObject = {}

        for key in touched:
            shape_below = find_shape_below(shape, key)
            old = old_table.get(key)
            new = new_table.get(key)
            keys_below = (*keys, key)
            value: JsonValue = None

            if isinstance(shape_below, dict):
                if isinstance(old, dict) or isinstance(new, dict):
                    value = self._make_table(shape_below, old, new, touched[key], keys_below)
            elif shape_below is not None and unwrap_strategy(old) != unwrap_strategy(new):
                value = self._make_value(shape_below, old, new, keys_below)

            if value is not None:
                delta[key] = value

        return delta

    def _make_table(
        self,
        shape: SettingTable,
        old: JsonValue,
        new: JsonValue,
        touched: JsonValue,
        keys: _Keys,
    ) -> JsonValue:
        """Return the delta of a table, of which the old or the new value may be missing."""
        old_table = as_object(old)
        new_table = as_object(new)

        touched_below: Mapping[str, JsonValue]
        if isinstance(touched, dict):
            touched_below = touched
        else:  # None: all keys of the table are touched
            touched_below = dict.fromkeys([*old_table, *new_table])

        return self.compare_tables(shape, old_table, new_table, touched_below, keys) or None

    def _make_value(self, shape: str, old: JsonValue, new: JsonValue, keys: _Keys) -> JsonValue:
        if new is None:
            return self._make_unset_value(shape, keys)
        if shape == FREE_SHAPE:
            return self._make_free_value(old, new, keys)

        old_value = unwrap_strategy(old)
        new_value = unwrap_strategy(new)

        if isinstance(new_value, list):
            old_items = old_value if isinstance(old_value, list) else []
            return self._make_list(shape, old_items, new_value, keys)
        if shape == MAP_SHAPE:
            return {"value": new_value, "strategy": "replace"}
        return new_value

    def _make_list(
        self, shape: str, old_items: list[JsonValue], new_items: list[JsonValue], keys: _Keys
    ) -> JsonValue:
        only_appends = new_items[: len(old_items)] == old_items
        if only_appends:
            return new_items[len(old_items) :]
        if shape == LIST_SHAPE:
            return {"value": new_items, "strategy": "replace"}

        self._note(keys, _APPENDS_NOTE)
        return [item for item in new_items if item not in old_items] or None

    def _make_free_value(self, old: JsonValue, new: JsonValue, keys: _Keys) -> JsonValue:
        if not isinstance(old, dict) or not isinstance(new, dict):
            return new

        for key in sorted(old.keys() - new.keys()):
            self._note((*keys, key), UNSETTABLE_NOTE)

        members: JsonObject = {}
        for key, new_member in new.items():
            old_member = old.get(key)
            if new_member == old_member:
                continue

            value = self._make_free_value(old_member, new_member, (*keys, key))
            # An object that only lost members has no value: a null would replace all of it in JP.
            if value is not None or new_member is None:
                members[key] = value

        return members or None

    def _make_unset_value(self, shape: str, keys: _Keys) -> JsonValue:
        if keys in JP_DEFAULTS:
            return JP_DEFAULTS[keys]
        if shape in (LIST_SHAPE, MAP_SHAPE):
            empty: JsonValue = [] if shape == LIST_SHAPE else {}
            return {"value": empty, "strategy": "replace"}

        self._note(keys, UNSETTABLE_NOTE)
        return None
