"""The kinds of entries of a record, as typed views of the stored JSON objects.

An entry is stored as a JSON object, such as `{"type": "chat_request", "content": "Hello", …}`. The
views keep unknown fields, so these survive loading and saving. A view does not know the id of its
entry, or the entry that it answers: the stream does. `event_decoding.py` makes views of stored
objects. Questions have views of their own (`inquiry_events.py`). `entry_kinds.py` lists all kinds.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictInt,
    model_validator,
)

from jp_nb.json_values import copy_json

RawEntry = dict[str, JsonValue]
LINKS = ("event_id", "request_id")
"""Keys that only the stream writes."""


class Entry(BaseModel):
    """The common fields of all known kinds. Entries are frozen.

    Attributes:
        type: The kind, as it is stored.
        timestamp: Time of the entry; "" if it was not appended yet.
        metadata: Facts about the entry that other readers of the record need not know.

    A field without a default is required. Most others are stored even with their default, because
    JP stores them; those in `optional` are not.
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that are not stored if they have their default."""
    is_type_first: ClassVar[bool] = False
    """True for kinds that JP stores with `type` before `timestamp`."""

    type: str
    timestamp: str = ""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    def to_raw(self) -> RawEntry:
        """Return the JSON object to store, without the keys in `LINKS` and in JP's key order."""
        raw: RawEntry = {"timestamp": self.timestamp, "type": self.type}
        if self.is_type_first:
            raw = {"type": self.type, "timestamp": self.timestamp}

        for name, key, default in _list_stored_fields(type(self)):
            if (value := getattr(self, name)) != default:
                raw[key] = _make_plain(value)

        for name, value in (self.model_extra or {}).items():  # fields of later releases
            if name not in LINKS:
                raw[name] = _make_plain(value)

        if self.metadata:
            raw["metadata"] = _make_plain(self.metadata)
        return raw

    def stamped(self, timestamp: str) -> Self:
        """Return a copy with `timestamp`."""
        return self.model_copy(update={"timestamp": timestamp})

    def with_metadata(self, **fields: JsonValue) -> Self:
        """Return a copy with more metadata."""
        return self.model_copy(update={"metadata": {**self.metadata, **fields}})


_ALWAYS_STORED: Final = object()
"""A default that no field has."""


@cache
def _list_stored_fields(kind: type[Entry]) -> list[tuple[str, str, Any]]:
    """Return the name, the key, and the omitted value of the fields of `kind`, but the common ones.

    A field that has its omitted value is not stored.
    """
    stored_fields = []

    for name, field in kind.model_fields.items():
        if name not in Entry.model_fields:
            default = field.get_default(call_default_factory=True)
            is_optional = name in kind.optional
            omitted = default if is_optional else _ALWAYS_STORED
            stored_fields.append((name, field.alias or name, omitted))

    return stored_fields


EntryT = TypeVar("EntryT", bound=Entry)


class Part(BaseModel):
    """An object in an entry, without the common fields. No field with its default is stored."""

    model_config = Entry.model_config

    def to_raw(self) -> dict[str, JsonValue]:
        """Return the JSON object to store."""
        raw: dict[str, JsonValue] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if field.is_required() or value != field.default:
                raw[name] = _make_plain(value)
        return raw | {name: _make_plain(value) for name, value in (self.model_extra or {}).items()}


def _make_plain(value: Any) -> Any:
    if isinstance(value, str):  # most fields
        return value
    if isinstance(value, Part):
        return value.to_raw()
    if isinstance(value, tuple):
        return [_make_plain(item) for item in value]
    return copy_json(value) if isinstance(value, dict | list) else value


class Unknown(Entry):
    """An entry of an unknown kind. It is kept, and otherwise ignored."""

    type: str = ""


class Damaged(Unknown):
    """A malformed entry of a known kind. It is kept unchanged. `reason` is the error."""

    reason: str = ""


BY: Final = "by"
"""Key of the name of the user who made a request or gave an answer, if several share the notebook.

It is the name in JupyterLab, and is not verified. `ChatRequest.author` is the name in the settings.
"""


def read_recorded_by(fields: Mapping[str, JsonValue]) -> str | None:
    """Return the user's name in `fields`, such as the metadata of an answer, or None."""
    name = fields.get(BY)
    return name if isinstance(name, str) and name.strip() else None


class TurnStart(Entry):
    """Start of a turn, which ends before the next `turn_start`."""

    type: Literal["turn_start"] = "turn_start"


class ChatRequest(Entry):
    """A message of the user."""

    optional = frozenset({"response_schema", "author"})
    type: Literal["chat_request"] = "chat_request"
    content: str
    response_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    author: str | None = None


class ChatResponse(Entry):
    """A piece of model output: one of `message`, `reasoning`, and `data`; see `kind`."""

    type: Literal["chat_response"] = "chat_response"
    message: str | None = None
    reasoning: str | None = None
    data: JsonValue = None

    @model_validator(mode="after")
    def _check_one_field(self) -> Self:
        for name in ("message", "reasoning"):
            if name in self.model_fields_set:
                if getattr(self, name) is None:
                    raise ValueError(f"expected a string at `{name}`")
                return self

        if "data" not in self.model_fields_set:
            raise ValueError("needs one of `message`, `reasoning`, `data`")
        return self

    @property
    def kind(self) -> Literal["message", "reasoning", "structured"]:
        """Kind of the output. If several fields are set, the first in this order counts."""
        if self.message is not None:
            return "message"
        return "reasoning" if self.reasoning is not None else "structured"

    def to_raw(self) -> RawEntry:
        """Return the JSON object to store, without the fields that are not set."""
        raw = super().to_raw()
        for name in ("message", "reasoning", "data"):
            if name not in self.model_fields_set:
                raw.pop(name, None)
        return raw


def is_reasoning(entry: Entry) -> bool:
    """Return True if `entry` is reasoning of the model."""
    return isinstance(entry, ChatResponse) and entry.kind == "reasoning"


class ToolCallRequest(Entry):
    """A tool call of the model. `id` is the provider's, and may occur again in a later cycle."""

    type: Literal["tool_call_request"] = "tool_call_request"
    id: str
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class ToolCallResponse(Entry):
    """The result of the call with the same `id` in the same turn."""

    type: Literal["tool_call_response"] = "tool_call_response"
    id: str
    content: str
    is_error: StrictBool


TYPED: Final = "typed"
"""Key of the metadata of a request: the words of the user, before values were put into them."""


def read_typed(metadata: Mapping[str, JsonValue]) -> str | None:
    """Return the words of the user in the `metadata` of a request; None if they are its content."""
    words = metadata.get(TYPED)
    return words if isinstance(words, str) and words.strip() else None


def read_words(request: ChatRequest) -> str:
    """Return the words of the user in `request`, for titles and tables."""
    return read_typed(request.metadata) or request.content


USAGE_KEY = "usage"
"""Key of the used tokens in the metadata of an entry."""
UNCOVERS = "uncovers"
"""Key in the metadata of a configuration change: see `ConfigDelta.uncovers`."""


class ConfigDelta(Entry):
    """A configuration change: `unsets` are applied, then `delta` is merged.

    `op` is None, or `"reset"` to return to the defaults of the program. `claims` names the source
    of the value at each path, such as a file (`claims.py`). An unset path stays unset, whatever
    lower layers set. The paths in `metadata.uncovers` have the values of lower layers again.

    A change without settings also carries facts for which JP has no kind, in its metadata: used
    tokens (`is_usage_mark`), or the mark of a turn without an answer (`unanswered_turns.py`).
    """

    optional = frozenset({"op", "unsets", "claims"})
    is_type_first = True
    type: Literal["config_delta"] = "config_delta"
    op: Literal["reset"] | None = None
    delta: dict[str, JsonValue] = Field(default_factory=dict)
    unsets: tuple[str, ...] = ()
    claims: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def uncovers(self) -> tuple[str, ...]:
        """The paths of `unsets` that have the values of lower layers again, in order."""
        listed = self.metadata.get(UNCOVERS)
        if not isinstance(listed, list):
            return ()

        named = {path for path in listed if isinstance(path, str)}
        return tuple(path for path in self.unsets if path in named)

    def to_raw(self) -> RawEntry:
        """Return the JSON object to store. A reset has no settings."""
        raw = super().to_raw()
        if self.op == "reset":
            for name in ("delta", "unsets", "claims"):
                raw.pop(name, None)
        if "claims" in raw:
            raw["claims"] = dict(sorted(self.claims.items()))
        return raw


def is_usage_mark(entry: Entry) -> bool:
    """Return True if `entry` only carries the tokens of a response that has no entry itself."""
    return (
        isinstance(entry, ConfigDelta)
        and USAGE_KEY in entry.metadata
        and not (entry.delta or entry.unsets or entry.claims or entry.op)
    )


class Summary(Part):
    """The text that replaces the turns of a compaction."""

    summary: str


class ToolCallPolicy(Part):
    """Treatment of tool calls in a compaction.

    `strip` empties the request, the response, or both. `omit` removes the pairs.
    """

    policy: Literal["strip", "omit"]
    request: StrictBool | None = None
    response: StrictBool | None = None

    @model_validator(mode="after")
    def _check_halves(self) -> Self:
        if self.policy == "strip" and (self.request is None or self.response is None):
            raise ValueError("`strip` needs `request` and `response`")
        return self


class Compaction(Entry):
    """An instruction to summarize or strip turns for the model. The record keeps them."""

    optional = frozenset({"summary", "reasoning", "tool_calls"})
    is_type_first = True
    type: Literal["compaction"] = "compaction"
    from_turn: StrictInt = Field(ge=0)
    to_turn: StrictInt = Field(ge=0)
    summary: Summary | None = None
    reasoning: Literal["strip"] | None = None
    tool_calls: ToolCallPolicy | None = None


class ImageEntry(Entry):
    """An image of later entries. It belongs to no turn, and each image is stored once."""

    optional = frozenset({"name"})
    type: Literal["image"] = "image"
    digest: str
    media_type: str
    name: str = ""
    data: str = Field(repr=False)
