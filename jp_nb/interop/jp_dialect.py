"""Convert conversations of `jp_nb` to the form that JP can load.

JP, a command-line assistant, refuses a whole conversation for one inquiry without an answer, or for
one unknown key in the settings of a tool. Keys that it ignores disappear when it saves. The
conversion removes or replaces all of these, and lists them.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from jp_nb.config.partial import Change, Partial, apply_change, merge_partials
from jp_nb.config.schema import format_path, look_up, parse_path
from jp_nb.errors import ConfigError, StorageError
from jp_nb.interop.jp_settings import (
    JP_SHAPE,
    UNSETTABLE_NOTE,
    SupportedSettings,
    find_difference,
    find_models,
    find_touched_keys,
)
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.compaction import find_compactions, is_revert
from jp_nb.record.entry_images import IMAGES_KEY
from jp_nb.record.events import (
    CONVERSATION_KINDS,
    KNOWN,
    Entry,
    InquiryRequest,
    InquiryResponse,
    Unknown,
    decode_event,
)

NO_MODEL_ERROR = (
    "JP needs a model that it supports, and this conversation names none. Choose one, for instance "
    "with `%jp config assistant.model.id=anthropic/NAME`, and export again"
)

RUNS_SHOWN_IN_LINE = 20
JP_QUESTIONS = ("boolean", "select", "text")
"""The kinds of questions that JP reads."""
TAKEN_BACK_NOTE = "an undone compaction, which JP would apply: omitted"

_MODEL_ID = ("assistant", "model", "id")
_STAR_RUN = ("conversation", "tools", "*", "run")


@dataclass(slots=True)
class _Omissions:
    """Collects omissions and conversions by path and reason, one line each."""

    _found: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add_base(self, keys: tuple[str, ...], why: str) -> None:
        self._found[(f"base_config.{format_path(keys)}", why)] = []

    def add_entry(self, index: int, path: str, why: str) -> None:
        self._found.setdefault((path, why), []).append(index)

    def format_lines(self) -> list[str]:
        lines: list[str] = []
        for (path, why), indexes in self._found.items():
            runs: list[list[int]] = []  # consecutive numbers: 0, 1, 2, 3, 7 become 0-3 and 7
            for index in indexes:
                if runs and index <= runs[-1][1] + 1:
                    runs[-1][1] = index
                else:
                    runs.append([index, index])

            if not runs:
                lines.append(f"{path}: {why}")

            for start in range(0, len(runs), RUNS_SHOWN_IN_LINE):
                shown = runs[start : start + RUNS_SHOWN_IN_LINE]
                listed = ", ".join(_format_run(first, last) for first, last in shown)
                place = f"events[{listed}].{path}" if path else f"events[{listed}]"
                lines.append(f"{place}: {why}")

        return lines


def _format_run(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def convert_to_jp_dialect(
    base_config: JsonObject, entries: Sequence[JsonObject]
) -> tuple[JsonObject, list[JsonObject], list[str]]:
    """Convert a conversation to the form that the current JP can load, before texts are encoded.

    Returns the base configuration, the entries, and a line for each omission or replacement.
    Entries that need no change stay the same objects.

    Raises:
        StorageError: The conversation names no model that JP supports, so JP could not load it.
    """
    report = _Omissions()
    config = _Config(base_config, report)
    unreadable = _find_unreadable_entries(entries)
    kept: list[JsonObject] = []
    models: list[JsonValue] = []

    for index, entry in enumerate(entries):
        if index in unreadable:
            report.add_entry(index, "", unreadable[index])
            continue

        kind = entry.get("type")
        converted: JsonObject | None = entry
        if kind == "config_delta":
            converted = config.change(entry, index)
            models.append(look_up(as_object(converted or {}).get("delta"), _MODEL_ID))
        elif kind == "image":
            converted = None
            report.add_entry(index, "", "JP has no images: omitted")
        elif isinstance(kind, str) and kind in KNOWN:
            converted = _remove_unsupported_fields(entry, index, report)

        if converted is not None:
            kept.append(converted)

    return config.finish_base(models), kept, report.format_lines()


def _find_unreadable_entries(entries: Sequence[JsonObject]) -> dict[int, str]:
    """Return the entries with which JP refuses a conversation, with reasons; inquiries in pairs."""
    found: dict[int, str] = {}
    waiting: dict[str, list[int]] = {}
    views: list[Entry] = []

    for index, entry in enumerate(entries):
        try:
            view = decode_event(entry, index)
            views.append(view)
        except StorageError as exc:
            found[index] = f"JP could not load a conversation with this entry: {exc}"
            views.append(Unknown())
            continue

        if entry.get("type") == "turn_start":
            waiting = {}
        elif isinstance(view, InquiryRequest):
            waiting.setdefault(view.id, []).append(index)
            if (kind := view.question.answer_type.type) not in JP_QUESTIONS:
                found[index] = f"JP does not support {kind} questions ({view.id})"
        elif isinstance(view, InquiryResponse):
            asked = waiting.get(view.id)
            request = asked.pop(0) if asked else None
            why = found.get(request) if request is not None else None
            why = why or _explain_unreadable_answer(view, entry)
            if why is not None:
                found |= {index: why} if request is None else {request: why, index: why}

    undone = [placed.position for placed in find_compactions(views) if placed.is_reverted]
    reverts = [index for index, view in enumerate(views) if is_revert(view)]
    return found | dict.fromkeys(undone + reverts, TAKEN_BACK_NOTE)


def _explain_unreadable_answer(view: InquiryResponse, entry: JsonObject) -> str | None:
    if view.outcome != "answered" or "answer" not in entry:
        outcome = view.outcome if view.outcome != "answered" else "closed"
        return f"JP reads only answered inquiries; this one was {outcome} ({view.id})"

    if isinstance(view.answer, dict | list):
        return (
            "JP reads one option or one text as an answer; this answer has several options, or a "
            f"custom text ({view.id})"
        )
    return None


def _remove_unsupported_fields(entry: JsonObject, index: int, report: _Omissions) -> JsonObject:
    """Return the entry without the fields that JP ignores and drops when it saves."""
    changed = dict(entry)
    unknown = ["event_id", "request_id", "claims"]
    unknown += ["outcome"] if entry.get("type") == "inquiry_response" else []
    unknown += ["metadata"] if entry.get("type") not in CONVERSATION_KINDS else []

    for key in unknown:
        if key in changed:
            del changed[key]
            report.add_entry(index, key, "JP has no such field")

    metadata = changed.get("metadata")
    if isinstance(metadata, dict) and IMAGES_KEY in metadata:
        changed["metadata"] = {key: item for key, item in metadata.items() if key != IMAGES_KEY}
        if not changed["metadata"]:
            del changed["metadata"]
        report.add_entry(index, f"metadata.{IMAGES_KEY}", "JP has no images: omitted")

    question = changed.get("question")
    if entry.get("type") == "inquiry_request" and isinstance(question, dict):
        for key in ("context", "exclusive", "header", "required", "persistence"):
            if key in question:
                report.add_entry(index, f"question.{key}", "JP has no such field")
                question = {k: v for k, v in question.items() if k != key}
        changed["question"] = _convert_answer_type(
            question, lambda path, why: report.add_entry(index, f"question.answer_type.{path}", why)
        )

    return entry if changed == entry else _remove_spelling(changed)


def _convert_answer_type(question: JsonObject, note: Callable[[str, str], None]) -> JsonObject:
    answer_type = question.get("answer_type")
    if not isinstance(answer_type, dict):
        return question

    plain = {key: item for key, item in answer_type.items() if key in ("type", "options")}
    for key in answer_type:
        if key not in plain:
            note(key, "JP has no such field")

    if isinstance(options := plain.get("options"), list):
        plain["options"] = [_convert_option(option, note) for option in options]

    return {**question, "answer_type": plain}


def _convert_option(option: JsonValue, note: Callable[[str, str], None]) -> JsonValue:
    """Return an option without a label: the label becomes the first line of the description."""
    if not isinstance(option, dict) or "value" not in option:
        return {"value": option}
    label = option.get("label")
    description = option.get("description")

    if label is None:
        return option

    note("options.label", "JP has no labels: moved to the description")
    texts = [text for text in (label, description) if isinstance(text, str)]
    rest = {key: item for key, item in option.items() if key not in ("label", "description")}
    return {**rest, "description": "\n".join(texts)}


def _remove_spelling(entry: JsonObject) -> JsonObject:
    return {key: item for key, item in entry.items() if key != "spelling"}


class _Config:
    """Follows the configuration through the entries, as `jp_nb` and as JP merge it."""

    def __init__(self, base: JsonObject, report: _Omissions) -> None:
        self._report = report
        self._ours: Partial = merge_partials({}, base)
        admitted = SupportedSettings(self._ours, report.add_base).select(JP_SHAPE, base, ())
        self._base = base if admitted == base else admitted
        self._jp: Partial = merge_partials({}, self._base)

    def change(self, entry: JsonObject, index: int) -> JsonObject | None:
        """Return the entry that makes the same change in JP; None if nothing remains of it."""

        def note(keys: tuple[str, ...], why: str) -> None:
            # A value that was not admitted has been reported already.
            if why != UNSETTABLE_NOTE or look_up(self._ours, keys) is None:
                self._report.add_entry(index, f"delta.{format_path(keys)}", why)

        if entry.get("op") not in (None, "reset"):
            self._report.add_entry(index, "op", f"JP does not support {entry['op']!r}")
            return None

        before = self._ours
        delta = as_object(entry.get("delta"))
        unsets = self._read_unsets(entry, index)

        if entry.get("op") == "reset":
            self._ours = {}
            touched: JsonObject = dict.fromkeys(self._jp)
            self._report.add_entry(
                index, "op", "JP has no reset: replaced by values where possible"
            )
        else:
            self._ours = apply_change(before, Change(delta, unsets))
            changed = delta
            whole = list[list[str]]()
            for path in unsets:
                keys = [str(key) for key in parse_path(path)]
                if not any(keys[: len(above)] == above for above in whole):
                    changed = _set_at(changed, keys, None)
                    whole.append(keys)
            touched = find_touched_keys(JP_SHAPE, changed)
            if unsets:
                self._report.add_entry(
                    index, "unsets", "JP cannot unset: replaced by values where possible"
                )

        stripped = _remove_unsupported_fields(entry, index, self._report)
        admission = SupportedSettings(self._ours, note)
        admitted = admission.select(JP_SHAPE, delta, ())
        simple = not unsets and entry.get("op") is None and admitted == delta

        if simple and not self._must_be_whole(delta, before):
            self._jp = merge_partials(self._jp, delta)
            plain = as_object(entry.get("spelling")).get("flat") is not True
            return stripped if plain else _remove_spelling(stripped)

        wanted = SupportedSettings(self._ours, lambda *_: None).select(JP_SHAPE, self._ours, ())
        found = find_difference(JP_SHAPE, self._jp, wanted, touched, (), note)

        if not found and (delta or unsets or entry.get("op") == "reset"):
            return None

        self._jp = merge_partials(self._jp, found)
        rest = {k: v for k, v in stripped.items() if k not in ("op", "unsets", "delta")}
        return _remove_spelling({**rest, "delta": found})

    def _read_unsets(self, entry: JsonObject, index: int) -> tuple[str, ...]:
        """Return the valid paths that the entry unsets; invalid ones are reported."""
        listed = entry.get("unsets")

        found: list[str] = []
        for path in listed if isinstance(listed, list) else ():
            try:
                parse_path(str(path))
            except ConfigError as exc:
                self._report.add_entry(index, "unsets", str(exc))
            else:
                found.append(str(path))

        return tuple(found)

    def _must_be_whole(self, delta: JsonObject, before: Partial) -> bool:
        """Return True if JP needs complete values: for a partial model id, or a tool new to JP."""
        for value in find_models(JP_SHAPE, delta):
            if isinstance(value, dict) and not {"provider", "name"} <= value.keys():
                return True

        tools = ("conversation", "tools")
        here = as_object(look_up(before, tools))
        known = as_object(look_up(self._jp, tools))
        return any(name in here and name not in known for name in as_object(look_up(delta, tools)))

    def finish_base(self, models: Sequence[JsonValue]) -> JsonObject:
        """Return the base configuration with the settings that JP requires."""
        base = self._base

        if not _is_model(look_up(base, _MODEL_ID)):
            known = [model for model in models if _is_model(model)]
            if not known:
                raise StorageError(NO_MODEL_ERROR, place=format_path(_MODEL_ID))

            base = _set_at(base, _MODEL_ID, known[-1])
            last = known[-1]
            name = f"{last['provider']}/{last['name']}" if isinstance(last, dict) else last
            why = f"JP needs a model here: set to {name}, the last supported one"
            self._report.add_base(_MODEL_ID, why)

        if look_up(base, _STAR_RUN) is None:
            base = _set_at(base, _STAR_RUN, "ask")
            self._report.add_base(_STAR_RUN, "JP needs a value here: set to ask")

        return base


def _is_model(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return all(isinstance(value.get(key), str) for key in ("provider", "name"))
    return isinstance(value, str) and bool(value)


def _set_at(value: JsonObject, keys: Sequence[str], item: JsonValue) -> JsonObject:
    key = keys[0]
    rest = keys[1:]
    if rest:
        item = _set_at(as_object(value.get(key)), rest, item)
    return {**value, key: item}
