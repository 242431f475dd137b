"""`JpConfiguration`: convert the configuration of a conversation to settings that JP supports.

JP is a command-line assistant, which has most of the settings of `jp_nb` (`jp_settings.py`).

JP refuses unknown keys in the settings of a tool, needs a model that it knows, and has no operation
to unset a setting. So a change is exported as the difference between the settings that JP has and
those that it should have after the change.

`SupportedSettings(config, …).select` returns the part of some settings that JP has, and reports the
rest. It looks up in the whole `config` what they refer to, such as aliases of models.
`find_difference` returns the settings with which JP gets the wanted ones. If JP cannot unset a
setting, its value remains in JP, and `find_difference` reports this with `UNSETTABLE_NOTE`. The
*spelling* of an entry is the notation of its text in JP's file, which no longer fits a changed
entry.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_change import Change, apply_change
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.setting_paths import format_path, look_up, parse_path
from jp_nb.errors import ConfigError, StorageError
from jp_nb.interop.jp_entry_fields import remove_spelling, remove_unsupported_fields
from jp_nb.interop.jp_settings import JP_SHAPE, find_models, find_touched_keys
from jp_nb.interop.omissions import NoteSetting, Omissions
from jp_nb.interop.setting_difference import UNSETTABLE_NOTE, find_difference
from jp_nb.interop.supported_settings import SupportedSettings
from jp_nb.json_values import JsonObject, as_object

NO_MODEL_ERROR = (
    "JP needs a model that it supports, and this conversation names none. Choose one, for instance "
    "with `%jp config assistant.model.id=anthropic/NAME`, and export again"
)
MODEL_ID_PATH = ("assistant", "model", "id")
_STAR_RUN_PATH = ("conversation", "tools", "*", "run")


class JpConfiguration:
    """Follows the configuration through the entries, as `jp_nb` and as JP merge it.

    Call `convert_delta` for each `config_delta` in order, then `finish_base`. After each call,
    `_ours` has the settings as `jp_nb` has merged them so far, and `_jp` those that JP will have
    merged from the converted deltas.
    """

    def __init__(self, base: JsonObject, report: Omissions) -> None:
        self._report = report
        self._ours: Partial = merge_partials({}, base)

        supported = SupportedSettings(self._ours, report.add_base).select(JP_SHAPE, base, ())
        self._base = base if supported == base else supported  # the same object if it is equal
        self._jp: Partial = merge_partials({}, self._base)

    def convert_delta(self, entry: JsonObject, index: int) -> JsonObject | None:
        """Return the `config_delta` that changes the same in JP; None if nothing remains of it.

        JP has no reset and no unset. It gets the values that these uncover, as far as it knows the
        settings. A delta that JP understands as it is stays the same object.
        """
        if entry.get("op") not in (None, "reset"):
            self._report.add_entry(index, "op", f"JP does not support {entry['op']!r}")
            return None

        ours_before = self._ours
        delta = as_object(entry.get("delta"))
        unsets = self._read_unsets(entry, index)
        touched = self._apply(entry, index, delta, unsets)

        def report(keys: tuple[str, ...], why: str) -> None:
            # A value that we still have is not unset: JP lacks it because it does not support the
            # new one, which has been reported already.
            is_still_set = look_up(self._ours, keys) is not None
            if why != UNSETTABLE_NOTE or not is_still_set:
                self._report.add_entry(index, f"delta.{format_path(keys)}", why)

        stripped = remove_unsupported_fields(entry, index, self._report)
        supported = SupportedSettings(self._ours, report).select(JP_SHAPE, delta, ())
        is_plain = not unsets and entry.get("op") is None and supported == delta

        # A delta that JP understands as it is. Any other one is replaced by the difference between
        # JP's settings and ours.
        if is_plain and not self._must_be_whole(delta, ours_before):
            self._jp = merge_partials(self._jp, delta)
            # Old versions of JP had the settings of a delta directly in the entry (`flat`). Current
            # ones do not read that, so JP's notation of this entry is dropped.
            is_flat = as_object(entry.get("spelling")).get("flat") is True
            return remove_spelling(stripped) if is_flat else stripped

        difference = self._take_difference(touched, report)
        # A change that had no content stays, for its metadata, such as the end of a turn.
        had_content = bool(delta or unsets or entry.get("op") == "reset")
        if had_content and not difference:
            return None

        kept = {key: item for key, item in stripped.items() if key not in ("op", "unsets", "delta")}
        return remove_spelling({**kept, "delta": difference})

    def _take_difference(self, touched: JsonObject, report: NoteSetting) -> JsonObject:
        """Return the delta between JP's settings and ours at the keys `touched`; apply it to JP's.

        What JP does not support of ours was reported when it was set.
        """
        wanted = SupportedSettings(self._ours, lambda *_: None).select(JP_SHAPE, self._ours, ())
        difference = find_difference(self._jp, wanted, touched=touched, note=report)
        self._jp = merge_partials(self._jp, difference)
        return difference

    def _apply(
        self, entry: JsonObject, index: int, delta: JsonObject, unsets: Sequence[str]
    ) -> JsonObject:
        """Apply `entry` to our settings. Return the keys of JP's settings that it may change.

        They are keys in an object, as `find_touched_keys` returns them.
        """
        if entry.get("op") == "reset":
            self._ours = {}
            self._report.add_entry(
                index, "op", "JP has no reset: replaced by values where possible"
            )
            return dict.fromkeys(self._jp)

        self._ours = apply_change(self._ours, Change(delta, tuple(unsets)))
        if not unsets:
            return find_touched_keys(JP_SHAPE, delta)

        self._report.add_entry(
            index, "unsets", "JP cannot unset: replaced by values where possible"
        )
        # An unset may change its path, as a value does: None stands for it. Paths below an unset
        # one are unset with it.
        touching = delta
        unset_keys: list[list[str]] = []
        for path in unsets:
            keys = [str(key) for key in parse_path(path)]
            is_below_unset = any(keys[: len(above)] == above for above in unset_keys)
            if not is_below_unset:
                touching = set_at(touching, keys, None)
                unset_keys.append(keys)
        return find_touched_keys(JP_SHAPE, touching)

    def _read_unsets(self, entry: JsonObject, index: int) -> tuple[str, ...]:
        """Return the valid paths that the entry unsets; invalid ones are reported."""
        listed = entry.get("unsets")
        if not isinstance(listed, list):
            return ()

        paths: list[str] = []
        for path in listed:
            try:
                parse_path(str(path))
            except ConfigError as exc:
                self._report.add_entry(index, "unsets", str(exc))
            else:
                paths.append(str(path))

        return tuple(paths)

    def _must_be_whole(self, delta: JsonObject, ours_before: Partial) -> bool:
        """Return True if JP needs more than `delta` has: for a partial model id, or a new tool.

        A tool is new to JP if we had it before, and JP did not support it, for example because its
        source was missing.
        """
        for value in find_models(JP_SHAPE, delta):
            if isinstance(value, dict) and not {"provider", "name"} <= value.keys():
                return True

        tools = ("conversation", "tools")
        ours = as_object(look_up(ours_before, tools))
        known_to_jp = as_object(look_up(self._jp, tools))
        changed = as_object(look_up(delta, tools))
        return any(name in ours and name not in known_to_jp for name in changed)

    def finish_base(self, models: Sequence[JsonValue]) -> JsonObject:
        """Return the base configuration with the settings that JP requires.

        `models` are those that changes set. The last one that JP supports is its model if the base
        configuration has none.
        """
        base = self._base

        if not _is_model(look_up(base, MODEL_ID_PATH)):
            supported = [model for model in models if _is_model(model)]
            if not supported:
                raise StorageError(NO_MODEL_ERROR, place=format_path(MODEL_ID_PATH))

            last = supported[-1]
            base = set_at(base, MODEL_ID_PATH, last)
            name = f"{last['provider']}/{last['name']}" if isinstance(last, dict) else last
            why = f"JP needs a model here: set to {name}, the last supported one"
            self._report.add_base(MODEL_ID_PATH, why)

        if look_up(base, _STAR_RUN_PATH) is None:
            base = set_at(base, _STAR_RUN_PATH, "ask")
            self._report.add_base(_STAR_RUN_PATH, "JP needs a value here: set to ask")

        return base


def _is_model(value: JsonValue) -> bool:
    """Return True for a whole id of a model, or an alias of a model."""
    if isinstance(value, dict):
        return all(isinstance(value.get(key), str) for key in ("provider", "name"))
    return isinstance(value, str) and bool(value)


def set_at(value: JsonObject, keys: Sequence[str], item: JsonValue) -> JsonObject:
    """Return a copy of `value` with `item` at `keys`."""
    key = keys[0]
    rest = keys[1:]
    if rest:
        item = set_at(as_object(value.get(key)), rest, item)
    return {**value, key: item}
