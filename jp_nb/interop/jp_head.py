"""Convert conversations of `jp_nb` to the form that JP can load.

JP, a command-line assistant, refuses a whole conversation for one inquiry without an answer, or for
one unknown key in the settings of a tool. Keys that it ignores disappear when it saves. The
conversion removes or replaces all of these, and lists them.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeGuard, Union

from pydantic import JsonValue

from jp_nb.config.partial import Change, Partial, apply_change, merge_partials
from jp_nb.config.schema import format_path, look_up, parse_path
from jp_nb.errors import ConfigError, StorageError
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

JP_PROVIDERS = frozenset(
    {
        *("anthropic", "cerebras", "deepseek", "google", "llamacpp"),
        *("ollama", "openai", "openrouter", "xai", "test"),
    }
)
"""The providers whose models JP can name."""

PLAIN_SHAPE: Final = "plain"  # a value, or a list that appends: no strategy may be written
TEXT_SHAPE: Final = "text"  # a text, with or without a strategy
LIST_SHAPE: Final = "list"  # a list, with or without a strategy
MAP_SHAPE: Final = "map"  # a map, with or without a strategy
FREE_SHAPE: Final = "free"  # any JSON
MODEL_SHAPE: Final = "model"  # a model id or an alias

Shape = Union[str, "Table"]
Table = dict[str, Shape]


def _plain(*keys: str) -> Table:
    return dict.fromkeys(keys, PLAIN_SHAPE)


_MODEL: Table = {"id": MODEL_SHAPE, "parameters": FREE_SHAPE}
_REQUEST = _plain(
    *("max_retries", "base_backoff_ms", "max_backoff_secs", "stream_idle_timeout_secs"),
    *("max_response_bytes", "cache"),
)
_ASSISTANT: Table = {
    **_plain("name", "tool_choice"),
    "system_prompt": TEXT_SHAPE,
    "system_prompt_sections": LIST_SHAPE,
    "instructions": LIST_SHAPE,
    "model": _MODEL,
    "request": _REQUEST,
}
_PARAMETER: Table = {
    **_plain("type", "required", "summary", "description", "examples", "enum"),
    "default": FREE_SHAPE,
}
_PARAMETER["items"] = _PARAMETER
_PARAMETER["properties"] = {"*": _PARAMETER}
_TOOL_STYLE: Table = {
    **_plain("hidden", "inline_results", "results_file_link", "parameters"),
    "error": _plain("inline_results", "results_file_link"),
}
ALL_TOOLS_SHAPE: Table = {
    **_plain("enable", "run", "format", "result", "cancellation_response"),
    "style": _TOOL_STYLE,
}
TOOL_SHAPE: Table = {
    **ALL_TOOLS_SHAPE,
    **_plain("source", "command", "summary", "description", "examples"),
    "parameters": {"*": _PARAMETER},
    "questions": {"*": {"target": FREE_SHAPE, "answer": FREE_SHAPE}},
    "options": FREE_SHAPE,
    "access": {"fs": LIST_SHAPE},
}
_PROGRESS = _plain("show", "delay_secs", "interval_ms")
JP_SHAPE: Table = {
    **_plain("inherit", "config_load_paths", "extends"),
    "template": {"values": FREE_SHAPE},
    "user": _plain("name"),
    "assistant": _ASSISTANT,
    "conversation": {
        "title": {"generate": {"auto": PLAIN_SHAPE, "model": _MODEL}, "from_heading": PLAIN_SHAPE},
        "tools": {"*": TOOL_SHAPE},
        "compaction": {"rules": LIST_SHAPE},
        "attachments": LIST_SHAPE,
        "labels": MAP_SHAPE,
        "inquiry": {
            "assistant": {
                **_plain("system_prompt", "system_prompt_sections", "tool_choice"),
                "model": _MODEL,
                "request": _REQUEST,
            }
        },
        **_plain("start_local", "default_id"),
    },
    "style": {
        "code": _plain("color", "line_numbers", "file_link", "copy_link"),
        "inline_code": _plain("background"),
        "markdown": _plain(
            *("wrap_width", "table_max_column_width", "table_continuation_edge", "theme"),
            "hr_style",
        ),
        "mcp_startup": _PROGRESS,
        "reasoning": {
            **_plain("display", "background", "extend_across_tool_calls"),
            "summary_model": _MODEL,
        },
        "streaming": {"progress": _PROGRESS},
        "lock_wait": {**_PROGRESS, "timeout_secs": PLAIN_SHAPE},
        "tool_call": {"show": PLAIN_SHAPE, "progress": _PROGRESS, "preparing": _PROGRESS},
        "typewriter": _plain("text_delay", "code_delay", "max_latency"),
    },
    "interrupt": {
        "escalation_cooldown_secs": PLAIN_SHAPE,
        "streaming": _plain("action", "compose_in_editor"),
        "tool_call": _plain("action", "compose_in_editor"),
    },
    "editor": {**_plain("cmd", "envs"), "inline": _plain("edit_mode")},
    "providers": {
        "llm": {
            "aliases": {"*": MODEL_SHAPE},
            "anthropic": _plain("api_key_env", "base_url", "chain_on_max_tokens", "beta_headers"),
            "cerebras": _plain("api_key_env", "base_url"),
            "deepseek": _plain("api_key_env", "base_url"),
            "google": _plain("api_key_env", "base_url"),
            "llamacpp": _plain("base_url"),
            "ollama": _plain("base_url"),
            "openai": _plain("api_key_env", "base_url", "base_url_env"),
            "openrouter": _plain("api_key_env", "app_name", "app_referrer", "base_url"),
        },
        "mcp": {
            "*": _plain(
                *("type", "command", "arguments", "variables", "optional"),
                *("startup_timeout_secs", "checksum"),
            )
        },
    },
    "plugins": {
        **_plain("auto_install", "shutdown_timeout_secs"),
        "command": {"*": {**_plain("install", "run", "checksum"), "options": FREE_SHAPE}},
    },
}
"""The settings that JP knows, with the shape of each value."""

JP_DEFAULTS: dict[tuple[str, ...], JsonValue] = {
    ("assistant", "system_prompt"): "You are a helpful assistant.",
    ("assistant", "tool_choice"): "auto",
    ("assistant", "request", "max_retries"): 5,
    ("assistant", "request", "base_backoff_ms"): 1000,
    ("assistant", "request", "max_backoff_secs"): 60,
    ("assistant", "request", "stream_idle_timeout_secs"): 60,
    ("assistant", "request", "max_response_bytes"): 1_048_576,
    ("assistant", "request", "cache"): True,
    ("conversation", "title", "generate", "auto"): True,
    ("conversation", "title", "from_heading"): True,
}
"""JP's defaults. JP cannot unset a setting, so an unset one is written as its default."""


NO_MODEL_ERROR = (
    "JP needs a model that it supports, and this conversation names none. Choose one, for instance "
    "with `%jp config assistant.model.id=anthropic/NAME`, and export again"
)

RUNS_SHOWN_IN_LINE = 20
JP_QUESTIONS = ("boolean", "select", "text")
"""The kinds of questions that JP reads."""
TAKEN_BACK_NOTE = "an undone compaction, which JP would apply: omitted"
UNSETTABLE_NOTE = "JP cannot unset this: the earlier value remains"

_MODEL_ID = ("assistant", "model", "id")
_STAR_RUN = ("conversation", "tools", "*", "run")
_STRATEGY = frozenset({"value", "strategy", "separator", "dedup", "discard_when_merged"})


@dataclass(slots=True)
class _Omissions:
    """Collects omissions and conversions by path and reason, one line each."""

    _found: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def base(self, keys: tuple[str, ...], why: str) -> None:
        self._found[(f"base_config.{format_path(keys)}", why)] = []

    def entry(self, index: int, path: str, why: str) -> None:
        self._found.setdefault((path, why), []).append(index)

    def lines(self) -> list[str]:
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


def convert_for_head(
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
    unreadable = _unreadable(entries)
    kept: list[JsonObject] = []
    models: list[JsonValue] = []

    for index, entry in enumerate(entries):
        if index in unreadable:
            report.entry(index, "", unreadable[index])
            continue

        kind = entry.get("type")
        converted: JsonObject | None = entry
        if kind == "config_delta":
            converted = config.change(entry, index)
            models.append(look_up(as_object(converted or {}).get("delta"), _MODEL_ID))
        elif kind == "image":
            converted = None
            report.entry(index, "", "JP has no images: omitted")
        elif isinstance(kind, str) and kind in KNOWN:
            converted = _without_unsupported_fields(entry, index, report)

        if converted is not None:
            kept.append(converted)

    return config.finished_base(models), kept, report.lines()


def _unreadable(entries: Sequence[JsonObject]) -> dict[int, str]:
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
            why = why or _unreadable_answer(view, entry)
            if why is not None:
                found |= {index: why} if request is None else {request: why, index: why}

    undone = [placed.position for placed in find_compactions(views) if placed.is_reverted]
    reverts = [index for index, view in enumerate(views) if is_revert(view)]
    return found | dict.fromkeys(undone + reverts, TAKEN_BACK_NOTE)


def _unreadable_answer(view: InquiryResponse, entry: JsonObject) -> str | None:
    if view.outcome != "answered" or "answer" not in entry:
        outcome = view.outcome if view.outcome != "answered" else "closed"
        return f"JP reads only answered inquiries; this one was {outcome} ({view.id})"

    if isinstance(view.answer, dict | list):
        return (
            "JP reads one option or one text as an answer; this answer has several options, or a "
            f"custom text ({view.id})"
        )
    return None


def _without_unsupported_fields(entry: JsonObject, index: int, report: _Omissions) -> JsonObject:
    """Return the entry without the fields that JP ignores and drops when it saves."""
    changed = dict(entry)
    unknown = ["event_id", "request_id", "claims"]
    unknown += ["outcome"] if entry.get("type") == "inquiry_response" else []
    unknown += ["metadata"] if entry.get("type") not in CONVERSATION_KINDS else []

    for key in unknown:
        if key in changed:
            del changed[key]
            report.entry(index, key, "JP has no such field")

    metadata = changed.get("metadata")
    if isinstance(metadata, dict) and IMAGES_KEY in metadata:
        changed["metadata"] = {key: item for key, item in metadata.items() if key != IMAGES_KEY}
        if not changed["metadata"]:
            del changed["metadata"]
        report.entry(index, f"metadata.{IMAGES_KEY}", "JP has no images: omitted")

    question = changed.get("question")
    if entry.get("type") == "inquiry_request" and isinstance(question, dict):
        for key in ("context", "exclusive", "header", "required", "persistence"):
            if key in question:
                report.entry(index, f"question.{key}", "JP has no such field")
                question = {k: v for k, v in question.items() if k != key}
        changed["question"] = _with_supported_answer_type(
            question, lambda path, why: report.entry(index, f"question.answer_type.{path}", why)
        )

    return entry if changed == entry else _without_spelling(changed)


def _with_supported_answer_type(
    question: JsonObject, note: Callable[[str, str], None]
) -> JsonObject:
    answer_type = question.get("answer_type")
    if not isinstance(answer_type, dict):
        return question

    plain = {key: item for key, item in answer_type.items() if key in ("type", "options")}
    for key in answer_type:
        if key not in plain:
            note(key, "JP has no such field")

    if isinstance(options := plain.get("options"), list):
        plain["options"] = [_without_label(option, note) for option in options]

    return {**question, "answer_type": plain}


def _without_label(option: JsonValue, note: Callable[[str, str], None]) -> JsonValue:
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


def _without_spelling(entry: JsonObject) -> JsonObject:
    return {key: item for key, item in entry.items() if key != "spelling"}


class _Config:
    """Follows the configuration through the entries, as `jp_nb` and as JP merge it."""

    def __init__(self, base: JsonObject, report: _Omissions) -> None:
        self._report = report
        self._ours: Partial = merge_partials({}, base)
        admitted = _Admission(self._ours, report.base).table(JP_SHAPE, base, ())
        self._base = base if admitted == base else admitted
        self._jp: Partial = merge_partials({}, self._base)

    def change(self, entry: JsonObject, index: int) -> JsonObject | None:
        """Return the entry that makes the same change in JP; None if nothing remains of it."""

        def note(keys: tuple[str, ...], why: str) -> None:
            # A value that was not admitted has been reported already.
            if why != UNSETTABLE_NOTE or look_up(self._ours, keys) is None:
                self._report.entry(index, f"delta.{format_path(keys)}", why)

        if entry.get("op") not in (None, "reset"):
            self._report.entry(index, "op", f"JP does not support {entry['op']!r}")
            return None

        before = self._ours
        delta = as_object(entry.get("delta"))
        unsets = self._unsets(entry, index)

        if entry.get("op") == "reset":
            self._ours = {}
            touched: JsonObject = dict.fromkeys(self._jp)
            self._report.entry(index, "op", "JP has no reset: replaced by values where possible")
        else:
            self._ours = apply_change(before, Change(delta, unsets))
            changed = delta
            whole = list[list[str]]()
            for path in unsets:
                keys = [str(key) for key in parse_path(path)]
                if not any(keys[: len(above)] == above for above in whole):
                    changed = _set_at(changed, keys, None)
                    whole.append(keys)
            touched = _touched_keys(JP_SHAPE, changed)
            if unsets:
                self._report.entry(
                    index, "unsets", "JP cannot unset: replaced by values where possible"
                )

        stripped = _without_unsupported_fields(entry, index, self._report)
        admission = _Admission(self._ours, note)
        admitted = admission.table(JP_SHAPE, delta, ())
        simple = not unsets and entry.get("op") is None and admitted == delta

        if simple and not self._must_be_whole(delta, before):
            self._jp = merge_partials(self._jp, delta)
            plain = as_object(entry.get("spelling")).get("flat") is not True
            return stripped if plain else _without_spelling(stripped)

        wanted = _Admission(self._ours, lambda *_: None).table(JP_SHAPE, self._ours, ())
        found = _difference(JP_SHAPE, self._jp, wanted, touched, (), note)

        if not found and (delta or unsets or entry.get("op") == "reset"):
            return None

        self._jp = merge_partials(self._jp, found)
        rest = {k: v for k, v in stripped.items() if k not in ("op", "unsets", "delta")}
        return _without_spelling({**rest, "delta": found})

    def _unsets(self, entry: JsonObject, index: int) -> tuple[str, ...]:
        """Return the valid paths that the entry unsets; invalid ones are reported."""
        listed = entry.get("unsets")

        found: list[str] = []
        for path in listed if isinstance(listed, list) else ():
            try:
                parse_path(str(path))
            except ConfigError as exc:
                self._report.entry(index, "unsets", str(exc))
            else:
                found.append(str(path))

        return tuple(found)

    def _must_be_whole(self, delta: JsonObject, before: Partial) -> bool:
        """Return True if JP needs complete values: for a partial model id, or a tool new to JP."""
        for value in _models(JP_SHAPE, delta):
            if isinstance(value, dict) and not {"provider", "name"} <= value.keys():
                return True

        tools = ("conversation", "tools")
        here = as_object(look_up(before, tools))
        known = as_object(look_up(self._jp, tools))
        return any(name in here and name not in known for name in as_object(look_up(delta, tools)))

    def finished_base(self, models: Sequence[JsonValue]) -> JsonObject:
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
            self._report.base(_MODEL_ID, why)

        if look_up(base, _STAR_RUN) is None:
            base = _set_at(base, _STAR_RUN, "ask")
            self._report.base(_STAR_RUN, "JP needs a value here: set to ask")

        return base


Note = Callable[[tuple[str, ...], str], None]
"""Called with the keys of a setting and the reason for its omission or conversion."""


class _Admission:
    """Removes settings that JP does not know from a partial of `config`."""

    def __init__(self, config: Partial, note: Note) -> None:
        self._config = config
        self._note = note
        self._aliases = as_object(look_up(config, ("providers", "llm", "aliases")))

    def table(self, shape: Table, value: JsonObject, above: tuple[str, ...]) -> JsonObject:
        result: JsonObject = {}

        for key, item in value.items():
            keys = (*above, key)
            below = shape.get(key) or shape.get("*")
            if below is None:
                self._note(keys, "JP has no such setting")
            elif (admitted := self._value(below, item, keys)) is not None:
                result[key] = admitted
            elif item is None:
                result[key] = None
        return result

    def _subtable(self, shape: Table, value: JsonObject, keys: tuple[str, ...]) -> JsonValue:
        # None if nothing of it is admitted.
        if not value:
            return self.table(shape, value, keys)
        return self.table(shape, value, keys) or None

    def _value(self, shape: Shape, value: JsonValue, keys: tuple[str, ...]) -> JsonValue:
        if value is None:
            return None
        if isinstance(shape, dict):
            if not isinstance(value, dict):
                self._note(keys, "JP expects a table here")
                return None
            if keys[:2] == ("conversation", "tools") and len(keys) == 3:
                return self._tool(value, keys)
            return self._subtable(shape, value, keys)

        match shape:
            case "model":
                return self._model(value, keys)
            case "plain" if _is_wrapper(value):
                self._note(keys, "JP has no merge strategy here: only the value is written")
                return value["value"]
            case "list" if keys[-1] == "system_prompt_sections":
                return _sections(value)
            case "free" if keys[-2:] == ("model", "parameters") and isinstance(value, dict):
                return _parameters(value)
        return value

    def _tool(self, value: JsonObject, keys: tuple[str, ...]) -> JsonValue:
        if keys[-1] == "*":
            return self._subtable(ALL_TOOLS_SHAPE, value, keys)

        source = look_up(self._config, (*keys, "source"))
        why = "JP has no tools in Python"
        if not isinstance(source, str):
            why = "JP needs the `source` of a tool"
        elif source.partition(".")[0] in ("builtin", "local", "mcp"):
            return self._subtable(TOOL_SHAPE, value, keys)

        self._note(keys, why)
        return None

    def _model(self, value: JsonValue, keys: tuple[str, ...]) -> JsonValue:
        whole = look_up(self._config, keys)
        model = value if whole is None else whole
        provider = self._provider(model, ())
        if provider is None or provider in JP_PROVIDERS:
            return value

        self._note(keys, f"JP has no provider {provider!r}")
        return None

    def _provider(self, value: JsonValue, seen: tuple[str, ...]) -> str | None:
        """Return the provider of a model, with aliases resolved; None if there is none."""
        if isinstance(value, dict):
            found = value.get("provider")
            return found if isinstance(found, str) else None
        if not isinstance(value, str) or value in seen:
            return None

        provider, slash, _ = value.partition("/")
        if slash:
            return provider.strip()

        return self._provider(self._aliases.get(value), (*seen, value))


def _sections(value: JsonValue) -> JsonValue:
    """Return sections of the system prompt as tables, because JP reads no plain texts."""
    if _is_wrapper(value):
        return {**value, "value": _sections(value["value"])}
    if not isinstance(value, list):
        return value
    sections: list[JsonValue] = []
    for item in value:
        if isinstance(item, str):
            sections.append({"content": item})
        else:
            sections.append(item)
    return sections


def _parameters(value: JsonObject) -> JsonObject:
    """Return parameters of a model, with an effort as a table, because JP reads no plain value."""
    reasoning = value.get("reasoning")
    if reasoning in (None, "off", "auto"):
        return value
    table: JsonObject = reasoning if isinstance(reasoning, dict) else {"effort": reasoning}

    effort = table.get("effort")
    if isinstance(effort, int) and not isinstance(effort, bool):
        table = {**table, "effort": {"absolute": effort}}

    return value if table == reasoning else {**value, "reasoning": table}


def _difference(
    shape: Table,
    had: Mapping[str, JsonValue],
    wanted: Mapping[str, JsonValue],
    touched: Mapping[str, JsonValue],
    above: tuple[str, ...],
    note: Note,
) -> JsonObject:
    """Return the delta that changes `had` to `wanted` in JP, limited to the keys in `touched`."""
    result: JsonObject = {}

    for key in touched:
        below = shape.get(key) or shape.get("*")
        if below is None:
            continue

        old = had.get(key)
        new = wanted.get(key)
        keys = (*above, key)
        step: JsonValue

        if isinstance(below, dict):
            if not isinstance(old, dict) and not isinstance(new, dict):
                continue
            here = as_object(old)
            there = as_object(new)
            inside = touched[key]
            inside = inside if isinstance(inside, dict) else dict.fromkeys([*here, *there])
            step = _difference(below, here, there, inside, keys, note) or None
        elif _unwrapped(old) == _unwrapped(new):
            continue
        elif new is None:
            step = _unset_value(below, old, keys, note)
        else:
            step = _step(below, old, new, keys, note)

        if step is not None:
            result[key] = step

    return result


def _step(
    shape: str, old: JsonValue, new: JsonValue, keys: tuple[str, ...], note: Note
) -> JsonValue:
    before = _unwrapped(old)
    after = _unwrapped(new)

    if shape == FREE_SHAPE:
        return _free_step(old, new, keys, note)
    if not isinstance(after, list):
        return {"value": after, "strategy": "replace"} if shape == MAP_SHAPE else after

    start = before if isinstance(before, list) else []
    if after[: len(start)] == start:
        return after[len(start) :]
    if shape == LIST_SHAPE:
        return {"value": after, "strategy": "replace"}

    note(keys, "JP can only append to this list: removed and moved items stay as they were")
    return [item for item in after if item not in start] or None


def _free_step(old: JsonValue, new: JsonValue, keys: tuple[str, ...], note: Note) -> JsonValue:
    """Return the step for free JSON: JP merges objects and replaces other values."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new

    for key in sorted(old.keys() - new.keys()):
        note((*keys, key), UNSETTABLE_NOTE)

    steps = {
        k: _free_step(old.get(k), v, (*keys, k), note) for k, v in new.items() if v != old.get(k)
    }
    return steps or None


def _unset_value(shape: str, old: JsonValue, keys: tuple[str, ...], note: Note) -> JsonValue:
    """Return the value that has the effect of unsetting in JP; None if there is none."""
    if keys in JP_DEFAULTS:
        return JP_DEFAULTS[keys]
    if shape in (LIST_SHAPE, MAP_SHAPE):
        empty: JsonValue = [] if shape == LIST_SHAPE else {}
        return {"value": empty, "strategy": "replace"}

    note(keys, UNSETTABLE_NOTE)
    return None


def _touched_keys(shape: Table, delta: Mapping[str, JsonValue]) -> JsonObject:
    """Return the keys that `delta` sets, nested; None marks a tool or a value that counts whole."""
    found: JsonObject = {}

    for key, value in delta.items():
        below = shape.get(key) or shape.get("*")
        inner = isinstance(below, dict) and below is not TOOL_SHAPE and isinstance(value, dict)
        found[key] = _touched_keys(below, value) if inner else None  # type: ignore[arg-type]

    return found


def _models(shape: Table, value: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    for key, item in value.items():
        below = shape.get(key) or shape.get("*")
        if below == MODEL_SHAPE:
            yield item
        elif isinstance(below, dict) and isinstance(item, dict):
            yield from _models(below, item)


def _is_model(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return all(isinstance(value.get(key), str) for key in ("provider", "name"))
    return isinstance(value, str) and bool(value)


def _is_wrapper(value: JsonValue) -> TypeGuard[JsonObject]:
    return isinstance(value, dict) and "value" in value and value.keys() <= _STRATEGY


def _unwrapped(value: JsonValue) -> JsonValue:
    return value["value"] if _is_wrapper(value) else value


def _set_at(value: JsonObject, keys: Sequence[str], item: JsonValue) -> JsonObject:
    key = keys[0]
    rest = keys[1:]
    if rest:
        item = _set_at(as_object(value.get(key)), rest, item)
    return {**value, key: item}
