"""Every kind of entry that a conversation's record holds.

An entry is stored as a JSON object and that object stays the truth: the classes here are views
of it, so that fields and kinds we do not know survive a load and a save untouched. A view knows
neither the entry's id nor what it answers: that is the stream's.

Source: `docs/record.md`.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Literal, Self

from pydantic import (
    Field,
    JsonValue,
    StrictBool,
    StrictInt,
    ValidationError,
    model_validator,
)

from jp_nb.errors import StorageError
from jp_nb.record.entry import LINKS, Damaged, Entry, Part, RawEntry, Unknown
from jp_nb.record.inquiry_events import (
    CancelReason,
    InquiryAnswerReusePolicy,
    InquiryAnswerType,
    InquiryEntry,
    InquiryOption,
    InquiryQuestion,
    InquiryRequest,
    InquiryResponse,
    InquirySource,
    read_response,
)

__all__ = [
    "BESIDE_CONFIG",
    "CONVERSATION_KINDS",
    "KNOWN",
    "LINKABLE",
    "USAGE",
    "CancelReason",
    "ChatRequest",
    "ChatResponse",
    "Compaction",
    "ConfigDelta",
    "Damaged",
    "Entry",
    "ImageEntry",
    "InquiryAnswerReusePolicy",
    "InquiryAnswerType",
    "InquiryEntry",
    "InquiryOption",
    "InquiryQuestion",
    "InquiryRequest",
    "InquiryResponse",
    "InquirySource",
    "RawEntry",
    "Summary",
    "ToolCallPolicy",
    "ToolCallRequest",
    "ToolCallResponse",
    "TurnStart",
    "Unknown",
    "claim_of",
    "decode",
    "is_usage_mark",
]


class TurnStart(Entry):
    """A turn begins: everything up to the next one belongs to it."""

    type: Literal["turn_start"] = "turn_start"


class ChatRequest(Entry):
    """A message of the user."""

    optional = frozenset({"response_schema", "author"})
    type: Literal["chat_request"] = "chat_request"
    content: str
    response_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    author: str | None = None


class ChatResponse(Entry):
    """One piece of model output: exactly one of `message`, `reasoning`, `data`."""

    type: Literal["chat_response"] = "chat_response"
    message: str | None = None
    reasoning: str | None = None
    data: JsonValue = None

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        given = self.model_fields_set
        for name in ("message", "reasoning"):
            if name in given:
                if getattr(self, name) is None:
                    raise ValueError(f"expected a string at `{name}`")
                return self
        if "data" not in given:
            raise ValueError("needs one of `message`, `reasoning`, `data`")
        return self

    @property
    def kind(self) -> Literal["message", "reasoning", "structured"]:
        """Its kind, one of the three; keys are looked at in this order."""
        if self.message is not None:
            return "message"
        return "reasoning" if self.reasoning is not None else "structured"

    def to_raw(self) -> RawEntry:
        """Return the stored object, with the one key that is set."""
        raw = super().to_raw()
        for name in ("message", "reasoning", "data"):
            if name not in self.model_fields_set:
                raw.pop(name, None)
        return raw


class ToolCallRequest(Entry):
    """The model calls a tool. `id` is the provider's and may come again in a later cycle."""

    type: Literal["tool_call_request"] = "tool_call_request"
    id: str
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class ToolCallResponse(Entry):
    """The answer to the request with the same `id` in the same turn."""

    type: Literal["tool_call_response"] = "tool_call_response"
    id: str
    content: str
    is_error: StrictBool


USAGE = "usage"
"""The key in the metadata of an entry, for the tokens that were used."""
UNCOVERS = "uncovers"
"""The key in the metadata of a delta."""


class ConfigDelta(Entry):
    """The configuration changed from here on: `unsets` first, then `delta` is merged.

    `op` is None to apply, `"reset"` to start again from the program's defaults. What a claim
    says is read by `claim_of`. What is unset stays so, whatever lower layers say, but for the
    paths that are also in the metadata, under `uncovers`: there they show again.
    """

    optional = frozenset({"op", "unsets", "claims"})
    type: Literal["config_delta"] = "config_delta"
    op: Literal["reset"] | None = None
    delta: dict[str, JsonValue] = Field(default_factory=dict)
    unsets: tuple[str, ...] = ()
    claims: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def uncovers(self) -> tuple[str, ...]:
        """The members of `unsets` at which the lower layers show again, in order."""
        listed = self.metadata.get(UNCOVERS)
        named = (
            {path for path in listed if isinstance(path, str)} if isinstance(listed, list) else ()
        )
        return tuple(path for path in self.unsets if path in named)

    def to_raw(self) -> RawEntry:
        """Return the stored object, `type` first as JP writes it."""
        raw = super().to_raw()
        if self.op == "reset":
            for name in ("delta", "unsets", "claims"):
                raw.pop(name, None)
        else:
            raw.pop("op", None)
            if self.claims:
                raw["claims"] = dict(sorted(self.claims.items()))
        return {"type": raw.pop("type"), "timestamp": raw.pop("timestamp"), **raw}


def is_usage_mark(entry: Entry) -> bool:
    """True of a change that changes nothing and only says what tokens were used."""
    return (
        isinstance(entry, ConfigDelta)
        and USAGE in entry.metadata
        and not (entry.delta or entry.unsets or entry.op)
    )


def claim_of(value: JsonValue) -> tuple[str, ...] | None:
    """Return the owners that a claim names, each `HASH:LABEL`; None if it says that there is none.

    An un-claim is null or an empty list, one owner may stand without a list. What names no owner
    in any of these ways leaves the path to nobody too: then no revert touches it.
    """
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, list):
        return None
    return tuple(owner for owner in named if isinstance(owner, str) and owner) or None


class Summary(Part):
    """The text that stands for the turns of a compaction."""

    summary: str


class ToolCallPolicy(Part):
    """How a compaction treats tool calls: it blanks one half or both, or leaves the pairs out."""

    policy: Literal["strip", "omit"]
    request: StrictBool | None = None
    response: StrictBool | None = None

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        if self.policy == "strip" and (self.request is None or self.response is None):
            raise ValueError("`strip` needs `request` and `response`")
        return self


class Compaction(Entry):
    """Tells the provider view to summarise or strip turns; history stays."""

    optional = frozenset({"summary", "reasoning", "tool_calls"})
    type: Literal["compaction"] = "compaction"
    from_turn: StrictInt = Field(ge=0)
    to_turn: StrictInt = Field(ge=0)
    summary: Summary | None = None
    reasoning: Literal["strip"] | None = None
    tool_calls: ToolCallPolicy | None = None

    def to_raw(self) -> RawEntry:
        """Return the stored object, `type` first as JP writes it."""
        raw = super().to_raw()
        return {"type": raw.pop("type"), "timestamp": raw.pop("timestamp"), **raw}


class ImageEntry(Entry):
    """A picture that entries after it show. It belongs to no turn: each is kept once."""

    optional = frozenset({"name"})
    type: Literal["image"] = "image"
    digest: str
    media_type: str
    name: str = ""
    data: str = Field(repr=False)


KNOWN: dict[str, type[Entry]] = {
    "turn_start": TurnStart,
    "chat_request": ChatRequest,
    "chat_response": ChatResponse,
    "tool_call_request": ToolCallRequest,
    "tool_call_response": ToolCallResponse,
    "inquiry_request": InquiryRequest,
    "inquiry_response": InquiryResponse,
    "config_delta": ConfigDelta,
    "compaction": Compaction,
    "image": ImageEntry,
}
CONVERSATION_KINDS = frozenset(KNOWN) - {"config_delta", "compaction", "image"}
LINKABLE = CONVERSATION_KINDS - {"turn_start", "chat_request"}
"""Kinds that may name the request they answer."""

BESIDE_CONFIG = frozenset(
    {
        *("type", "op", "timestamp", "unsets", "claims", "metadata", *LINKS),
        *("verbatim", "spelling"),  # what an import adds
    }
)
"""Keys of a `config_delta` that are no configuration where that stands on the entry itself."""


@cache
def _unknown() -> Unknown:
    """Return the one view of all entries that have none: making it builds pydantic's machinery."""
    return Unknown()


def decode(raw: JsonValue, index: int) -> Entry:
    """Return the typed view of the stored object `raw`, entry number `index` (for messages).

    Raises:
        StorageError: If it is not an object, or is of a known kind and malformed; the message
            names the place, such as `events[3].id`. An unknown kind is not an error.
    """
    place = f"events[{index}]"
    if not isinstance(raw, dict):
        raise StorageError(f"expected an object, found {type(raw).__name__}", place=place)
    kind = raw.get("type")
    model = KNOWN.get(kind) if isinstance(kind, str) else None
    # An operation that we do not know is not a change that we could apply.
    if model is None or (model is ConfigDelta and raw.get("op") not in (None, "reset")):
        return _unknown()
    if model is not ConfigDelta and not isinstance(raw.get("timestamp"), str):
        raise StorageError("expected a timestamp", place=f"{place}.timestamp")
    try:
        return model.model_validate(_payload(raw, model))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"][:4])
        message = first["msg"].removeprefix("Value error, ")
        raise StorageError(message, place=place + path) from exc
    except RecursionError as exc:
        raise StorageError("it is nested too deeply", place=place) from exc


def _payload(raw: RawEntry, model: type[Entry]) -> RawEntry:
    """Return `raw` for the view: without ids, which are the stream's, and in the newest form."""
    if model is ConfigDelta or model is Compaction:
        return _global_payload(raw, model)
    if "event_id" in raw or "request_id" in raw:
        raw = {key: value for key, value in raw.items() if key not in LINKS}
    if model is ToolCallResponse and isinstance(content := raw.get("content"), list | dict):
        raw = {**raw, "content": _text_of(content)}
    return read_response(raw) if model is InquiryResponse else raw


def _global_payload(raw: RawEntry, model: type[Entry]) -> RawEntry:
    payload = {key: value for key, value in raw.items() if key not in LINKS}
    if not isinstance(payload.get("metadata"), dict):
        payload.pop("metadata", None)  # means nothing on these kinds
    if model is ConfigDelta:
        if not isinstance(payload.get("timestamp"), str):
            payload.pop("timestamp", None)
        if "delta" not in payload and payload.get("op") is None:
            # In the first weeks of the format the configuration stood on the entry itself.
            config = {key: payload.pop(key) for key in raw if key not in BESIDE_CONFIG}
            payload["delta"] = config
    return payload


def _text_of(content: list[JsonValue] | dict[str, JsonValue]) -> str:
    """Return the text in content that is not a string: a list of parts, or a reference."""
    parts = content if isinstance(content, list) else [content]
    return "\n".join(_part_text(part) for part in parts)


def _part_text(part: JsonValue) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else json.dumps(part, ensure_ascii=False)
