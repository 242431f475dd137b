"""Recorded questions and their ends: `inquiry_request` and `inquiry_response`.

An *inquiry* is a question that a tool, a model, or code of the user has put while a turn ran. The
two entries are a pair with one `id`. Providers never receive them.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from pydantic import JsonValue, StrictBool, field_validator, model_validator

from jp_nb.record.entries.events import Entry, Part, RawEntry


class InquirySource(Part):
    """The asker of an inquiry. Its kind is in a field that is also called `source`."""

    source: Literal["tool", "assistant", "user", "other"]
    name: str | None = None

    @model_validator(mode="after")
    def _check_name(self) -> Self:
        if self.name is None and self.source in ("tool", "other"):
            raise ValueError(f"a source of kind {self.source!r} needs a `name`")
        return self

    @classmethod
    def tool(cls, name: str) -> Self:
        """Return the source of a tool's inquiry."""
        return cls(source="tool", name=name)


class InquiryOption(Part):
    """An option of a select question. Older records have only the value."""

    value: JsonValue
    label: str | None = None
    description: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _wrap_bare_value(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping) and "value" in value else {"value": value}


RECORDED_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "boolean": (),
    "select": ("options",),
    "text": (),
    "secret": (),
    "number": (),
    "integer": (),
    "form": ("fields",),
    "url": ("url",),
}
"""The kinds of recorded questions, with the fields that each requires."""


class InquiryAnswerType(Part):
    """The kind of a recorded question, with its fields."""

    type: str
    options: tuple[InquiryOption, ...] | None = None

    @field_validator("type")
    @classmethod
    def _check_type(cls, kind: str) -> str:
        if kind not in RECORDED_KINDS:
            known = ", ".join(f"`{name}`" for name in RECORDED_KINDS)
            raise ValueError(f"{kind!r:.80} is not a kind of question: known are {known}")
        return kind

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        for key in RECORDED_KINDS[self.type]:
            if getattr(self, key, None) is None:  # `Part` keeps keys that are no fields
                raise ValueError(f"a {self.type} question needs `{key}`")
        return self


InquiryAnswerReusePolicy = Literal["none", "turn"]


class InquiryQuestion(Part):
    """A recorded question. It is separate from `toolkit.question.Question` on purpose (RFD 083)."""

    text: str
    answer_type: InquiryAnswerType
    default: JsonValue = None
    context: str | None = None
    exclusive: StrictBool = False
    header: str | None = None
    required: StrictBool = True
    persistence: InquiryAnswerReusePolicy = "turn"


class InquiryRequest(Entry):
    """A question, usually of a tool. Providers never receive it."""

    type: Literal["inquiry_request"] = "inquiry_request"
    id: str
    source: InquirySource
    question: InquiryQuestion


OUTCOMES = ("answered", "cancelled", "redacted")
"""The outcomes that this release knows."""


class InquiryResponse(Entry):
    """The end of an inquiry. Providers never receive it.

    An unknown outcome is read as `cancelled`, and is then the `reason` (`event_decoding.py`).
    """

    type: Literal["inquiry_response"] = "inquiry_response"
    outcome: Literal["answered", "cancelled", "redacted"]
    id: str
    answer: JsonValue = None
    reason: str | None = None

    def to_raw(self) -> RawEntry:
        """Return the JSON object to store, with `answer` or `reason` as the outcome requires."""
        raw = super().to_raw()
        if self.outcome != "answered":
            raw.pop("answer")
        if self.outcome != "cancelled":
            raw.pop("reason")
        return raw


InquiryEntry = InquiryRequest | InquiryResponse
