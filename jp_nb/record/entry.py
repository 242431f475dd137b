"""The base class of all entries of a record.

Source: `docs/record.md`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from jp_nb.json_values import copied

RawEntry = dict[str, JsonValue]
LINKS = ("event_id", "request_id")
"""The keys that the stream alone writes."""


class Entry(BaseModel):
    """The fields that all known kinds share. Frozen: a conversation only grows."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that are left out of the stored object while they have their default."""

    type: str
    timestamp: str = ""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    def to_raw(self) -> RawEntry:
        """Return the JSON object to store, without ids: plain text, key order as JP writes it."""
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
        for name, value in (self.model_extra or {}).items():  # what a later release added
            if name not in LINKS:
                raw[name] = _plain(value)
        if self.metadata:
            raw["metadata"] = _plain(self.metadata)
        return raw

    def stamped(self, timestamp: str) -> Self:
        """Return the same entry with `timestamp`."""
        return self.model_copy(update={"timestamp": timestamp})


class Part(BaseModel):
    """An object inside an entry."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    def to_raw(self) -> dict[str, JsonValue]:
        """Return the stored object: what has its default is left out."""
        raw: dict[str, JsonValue] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if field.is_required() or value != field.default:
                raw[name] = _plain(value)
        return raw | {name: _plain(value) for name, value in (self.model_extra or {}).items()}


def _plain(value: Any) -> Any:
    """Return the JSON of a field, sharing nothing with it."""
    if isinstance(value, Part):
        return value.to_raw()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return copied(value) if isinstance(value, dict | list) else value


class Unknown(Entry):
    """An entry of a kind that this release does not know. Kept, and invisible otherwise."""

    type: str = ""


class Damaged(Unknown):
    """An entry of a known kind that does not decode. Kept as it is: `reason` says what is wrong."""

    reason: str = ""
