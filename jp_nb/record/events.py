"""Every kind of entry that a conversation's record holds.

An entry is stored as a JSON object and that object stays the truth: the classes here are views
of it, so that fields and kinds we do not know survive a load and a save untouched.

Source: `spec/conversation-stream.md` section 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from jp_nb.errors import StorageError

RawEntry = dict[str, JsonValue]


class Entry(BaseModel):
    """What all known kinds share. Frozen: a conversation only grows."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True, defer_build=True)

    optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that are left out of the stored object while they have their default."""

    type: str
    timestamp: str = ""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    def to_raw(self) -> RawEntry:
        """The JSON object to store: plain text, key order as JP writes it."""
        raw: RawEntry = {"timestamp": self.timestamp, "type": self.type}
        fields = type(self).model_fields
        for name in fields:
            if name in ("timestamp", "type", "metadata"):
                continue
            value = getattr(self, name)
            if name in self.optional and value == fields[name].get_default(
                call_default_factory=True
            ):
                continue
            raw[fields[name].alias or name] = _plain(value)
        if self.model_extra:
            raw.update(self.model_extra)
        if self.metadata:
            raw["metadata"] = self.metadata
        return raw

    def stamped(self, timestamp: str) -> Self:
        """The same entry with `timestamp`."""
        return self.model_copy(update={"timestamp": timestamp})


def _plain(value: Any) -> JsonValue:
    if isinstance(value, InquiryQuestion):
        return value.to_raw()
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    return value  # type: ignore[no-any-return]  # fields hold JSON values otherwise


class TurnStart(Entry):
    """A turn begins: everything up to the next one belongs to it."""

    type: Literal["turn_start"] = "turn_start"


class ChatRequest(Entry):
    """What the user asked."""

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
        if not self.model_fields_set & {"message", "reasoning", "data"}:
            raise ValueError("needs one of `message`, `reasoning`, `data`")
        return self

    @property
    def kind(self) -> Literal["message", "reasoning", "structured"]:
        """Which of the three it is; keys are looked at in this order."""
        if self.message is not None:
            return "message"
        return "reasoning" if self.reasoning is not None else "structured"

    def to_raw(self) -> RawEntry:
        """The stored object, with the one key that is set."""
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
    is_error: bool


class InquirySource(BaseModel):
    """Who asks. Tagged by a key that is itself called `source`."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    source: Literal["tool", "assistant", "user", "other"]
    name: str | None = None

    @classmethod
    def tool(cls, name: str) -> Self:
        """A tool asks."""
        return cls(source="tool", name=name)


class InquiryOption(BaseModel):
    """One choice of a select question; older records hold the bare value."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)
    value: JsonValue
    description: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping) and "value" in value else {"value": value}


class InquiryAnswerType(BaseModel):
    """`boolean`, `select` (with `options`), `text` or `secret`."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)
    type: Literal["boolean", "select", "text", "secret"]
    options: tuple[InquiryOption, ...] | None = None


InquiryAnswerReusePolicy = Literal["none", "turn"]


class InquiryQuestion(BaseModel):
    """The stored form of a tool's question; a type of its own on purpose (RFD 083)."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)
    text: str
    answer_type: InquiryAnswerType
    default: JsonValue = None
    context: str | None = None
    exclusive: bool = False
    persistence: InquiryAnswerReusePolicy = "turn"

    def to_raw(self) -> dict[str, JsonValue]:
        """The stored object: what has its default is left out."""
        raw = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        raw["answer_type"] = self.answer_type.model_dump(mode="json", exclude_none=True)
        return raw


class InquiryRequest(Entry):
    """A question was raised while a tool ran. Never sent to a provider."""

    type: Literal["inquiry_request"] = "inquiry_request"
    id: str
    source: InquirySource
    question: InquiryQuestion


CancelReason = Literal[
    "user",
    "backend_error",
    "no_prompt_backend",
    "assistant_routing_denied",
    "invalid_static_answer",
]


class InquiryResponse(Entry):
    """How an inquiry was closed. Never sent to a provider.

    A record without `outcome` but with `answer` reads as answered; a cancelled one without
    `reason` reads as cancelled by the user. Reasons we do not know are kept as they are, and an
    outcome that we do not know reads as cancelled for that reason.
    """

    type: Literal["inquiry_response"] = "inquiry_response"
    outcome: Literal["answered", "cancelled", "redacted"]
    id: str
    answer: JsonValue = None
    reason: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _older_forms(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            if "outcome" not in value and "answer" in value:
                return {**value, "outcome": "answered"}
            outcome = value.get("outcome")
            if outcome == "cancelled" and "reason" not in value:
                return {**value, "reason": "user"}
            if isinstance(outcome, str) and outcome not in ("answered", "cancelled", "redacted"):
                return {**value, "outcome": "cancelled", "reason": outcome}
        return value

    def to_raw(self) -> RawEntry:
        """The stored object: `answer` or `reason`, whichever the outcome has."""
        raw = super().to_raw()
        if self.outcome != "answered":
            raw.pop("answer")
        if self.outcome != "cancelled":
            raw.pop("reason")
        return raw


class ConfigDelta(Entry):
    """The configuration changed from here on: `unsets` first, then `delta` is merged.

    `op` is None to apply, `"reset"` to start again from the program's defaults. A claim that is
    null (or an empty list) says that no source owns the path.
    """

    optional = frozenset({"op", "unsets", "claims"})
    type: Literal["config_delta"] = "config_delta"
    op: Literal["reset"] | None = None
    delta: dict[str, JsonValue] = Field(default_factory=dict)
    unsets: tuple[str, ...] = ()
    claims: dict[str, JsonValue] = Field(default_factory=dict)

    def to_raw(self) -> RawEntry:
        """The stored object, `type` first as JP writes it."""
        raw = super().to_raw()
        if self.op == "reset":
            for name in ("delta", "unsets", "claims"):
                raw.pop(name, None)
        else:
            raw.pop("op", None)
        if self.unsets:
            raw["unsets"] = list(self.unsets)
        if self.claims:
            raw["claims"] = dict(sorted(self.claims.items()))
        return {"type": raw.pop("type"), "timestamp": raw.pop("timestamp"), **raw}


class Compaction(Entry):
    """Tells the provider view to summarise or strip turns; history stays."""

    optional = frozenset({"summary", "reasoning", "tool_calls"})
    type: Literal["compaction"] = "compaction"
    from_turn: int = Field(ge=0)
    to_turn: int = Field(ge=0)
    summary: dict[str, JsonValue] | None = None
    reasoning: Literal["strip"] | None = None
    tool_calls: dict[str, JsonValue] | None = None

    def to_raw(self) -> RawEntry:
        """The stored object, `type` first as JP writes it."""
        raw = super().to_raw()
        return {"type": raw.pop("type"), "timestamp": raw.pop("timestamp"), **raw}


class Unknown(Entry):
    """An entry of a kind that this release does not know. Kept, and invisible otherwise."""

    type: str = ""


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
}
CONVERSATION_KINDS = frozenset(KNOWN) - {"config_delta", "compaction"}


def decode(raw: JsonValue, index: int) -> Entry:
    """The typed view of the stored object `raw`, entry number `index` (for messages).

    Raises:
        StorageError: If it is not an object, or is of a known kind and malformed; the message
            names the place, such as `events[3].id`. An unknown kind is not an error.
    """
    place = f"events[{index}]"
    if not isinstance(raw, dict):
        raise StorageError(f"expected an object, found {type(raw).__name__}", place=place)
    kind = raw.get("type")
    model = KNOWN.get(kind) if isinstance(kind, str) else None
    if model is None or (model is ConfigDelta and raw.get("op") not in (None, "reset")):
        return Unknown()
    if not isinstance(raw.get("timestamp"), str) and model is not ConfigDelta:
        raise StorageError("expected a timestamp", place=f"{place}.timestamp")
    try:
        return model.model_validate(raw)
    except ValidationError as exc:
        first = exc.errors()[0]
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
        raise StorageError(first["msg"], place=place + path) from exc
