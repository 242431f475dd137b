"""Decode stored entries of every version of the record into the typed views of `events.py`.

Older records are normalized first: a delta with its settings on the entry itself, a tool result
with a list of parts, an inquiry without `outcome`. An entry of an unknown kind becomes `Unknown`.

`KNOWN` has the class of each kind, and `NON_CONFIG_KEYS` the keys of a configuration change that
are no settings (`entry_kinds.py`). `LINKS` has the keys of ids by which entries refer to each other
(`event_id`, `request_id`), which no view has (`events.py`).

Source: `docs/record.md`.
"""

from __future__ import annotations

import json
from functools import cache

from pydantic import (
    JsonValue,
    ValidationError,
)

from jp_nb.errors import StorageError
from jp_nb.record.entries.entry_kinds import KNOWN, NON_CONFIG_KEYS
from jp_nb.record.entries.events import (
    LINKS,
    ChatResponse,
    Compaction,
    ConfigDelta,
    Entry,
    RawEntry,
    ToolCallRequest,
    ToolCallResponse,
    Unknown,
)
from jp_nb.record.entries.inquiry_events import OUTCOMES, InquiryResponse
from jp_nb.record.entries.shapes import restore_shape


@cache
def _get_unknown() -> Unknown:  # one shared view: making one builds pydantic's validator
    return Unknown()


def decode_event(raw: JsonValue, index: int) -> Entry:
    """Return the typed view of the stored object `raw`, entry `index`.

    Raises:
        StorageError: The value is not an object, or a known kind is malformed. The message has the
            path, such as `events[3].id`. An unknown kind is not an error.
    """
    place = f"events[{index}]"

    if not isinstance(raw, dict):
        raise StorageError(f"expected an object, found {type(raw).__name__}", place=place)

    kind = raw.get("type")
    model = KNOWN.get(kind) if isinstance(kind, str) else None

    # Another release may know an operation that cannot be applied here.
    is_unknown_change = model is ConfigDelta and raw.get("op") not in (None, "reset")
    if model is None or is_unknown_change:
        return _get_unknown()

    if model is not ConfigDelta and not isinstance(raw.get("timestamp"), str):
        raise StorageError("expected a timestamp", place=f"{place}.timestamp")

    # The view has no ids, and the form of the current version.
    payload = {key: value for key, value in raw.items() if key not in LINKS}

    if model is ToolCallResponse and isinstance(content := raw.get("content"), list | dict):
        payload["content"] = _join_texts(content)
    elif model is InquiryResponse:
        payload = _normalize_response(payload)
    elif model is ConfigDelta or model is Compaction:
        _normalize_outside_of_turns(payload, model)
    elif model is ChatResponse or model is ToolCallRequest:
        # These have JSON of the model. A page or Jupyter may have sorted its keys, and written
        # `1.0` as `1`.
        payload = restore_shape(payload)

    try:
        return model.model_validate(payload)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        path = "".join(map(_format_step, first["loc"][:4]))  # deeper steps are within values
        message = first["msg"].removeprefix("Value error, ")
        raise StorageError(message, place=place + path) from exc
    except RecursionError as exc:
        raise StorageError("it is nested too deeply", place=place) from exc


def _format_step(step: int | str) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def _normalize_outside_of_turns(payload: RawEntry, model: type[Entry]) -> None:
    """Change the `payload` of a configuration change or a compaction to the current form."""
    if not isinstance(payload.get("metadata"), dict):
        payload.pop("metadata", None)  # has no meaning for these kinds

    if model is ConfigDelta:
        if not isinstance(payload.get("timestamp"), str):
            payload.pop("timestamp", None)
        if "delta" not in payload and payload.get("op") is None:
            # The first version of the format had the settings on the entry itself.
            keys = [key for key in payload if key not in NON_CONFIG_KEYS]
            payload["delta"] = {key: payload.pop(key) for key in keys}


def _join_texts(content: list[JsonValue] | dict[str, JsonValue]) -> str:
    """Return the text of an older tool result: a list of parts, or one part."""
    parts = content if isinstance(content, list) else [content]
    return "\n".join(map(_read_text, parts))


def _read_text(part: JsonValue) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else json.dumps(part, ensure_ascii=False)


def _normalize_response(raw: RawEntry) -> RawEntry:
    """Return a stored response of any version in the form of `InquiryResponse`.

    Without `outcome` but with `answer`, it is answered. If it is cancelled without `reason`, the
    user cancelled it. If it is redacted, `answer` and `reason` are removed. An unknown outcome
    becomes the reason of a cancelled response: the inquiry is closed, and nothing else is known.
    """
    outcome = raw.get("outcome")

    if "outcome" not in raw and "answer" in raw:
        return {**raw, "outcome": "answered"}
    if outcome == "cancelled" and raw.get("reason") is None:
        return {**raw, "reason": "user"}
    if outcome == "redacted" and ("answer" in raw or "reason" in raw):
        return {key: item for key, item in raw.items() if key not in ("answer", "reason")}
    if isinstance(outcome, str) and outcome not in OUTCOMES:
        return {**raw, "outcome": "cancelled", "reason": outcome}

    return raw
