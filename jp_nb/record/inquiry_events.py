"""Questions that were asked while a tool ran, and how they were closed. Audit data.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Self, get_args

from pydantic import JsonValue, StrictBool, field_validator, model_validator

from jp_nb.record.entry import Entry, Part, RawEntry


class InquirySource(Part):
    """The asker of an inquiry. Tagged by a key that is itself called `source`."""

    source: Literal["tool", "assistant", "user", "other"]
    name: str | None = None

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.name is None and self.source in ("tool", "other"):
            raise ValueError(f"a source of kind {self.source!r} needs a `name`")
        return self

    @classmethod
    def tool(cls, name: str) -> Self:
        """Return the source of an inquiry that a tool makes."""
        return cls(source="tool", name=name)


class InquiryOption(Part):
    """One choice of a select question; older records hold the bare value."""

    value: JsonValue
    label: str | None = None
    description: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping) and "value" in value else {"value": value}


RECORDED_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "boolean": (),
    "select": ("options",),
    "text": (),
    "secret": (),
    "number": (),
    "integer": (),
    "form": ("fields",),
}
"""The kinds of questions a record may hold, and the fields that each needs."""


class InquiryAnswerType(Part):
    """The kind of a recorded question, one of `RECORDED_KINDS`, with its fields."""

    type: str
    options: tuple[InquiryOption, ...] | None = None

    @field_validator("type")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in RECORDED_KINDS:
            known = ", ".join(f"`{name}`" for name in RECORDED_KINDS)
            raise ValueError(f"{kind!r:.80} is not a kind of question: known are {known}")
        return kind

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for key in RECORDED_KINDS[self.type]:
            if getattr(self, key, None) is None:
                raise ValueError(f"a {self.type} question needs `{key}`")
        return self


InquiryAnswerReusePolicy = Literal["none", "turn"]


class InquiryQuestion(Part):
    """The stored form of a tool's question; a type of its own on purpose (RFD 083)."""

    text: str
    answer_type: InquiryAnswerType
    default: JsonValue = None
    context: str | None = None
    exclusive: StrictBool = False
    header: str | None = None
    required: StrictBool = True
    persistence: InquiryAnswerReusePolicy = "turn"


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
OUTCOMES = ("answered", "cancelled", "redacted")
AnswerMark = Literal["auto", "timed_out", "empty"]
"""A key of a response's metadata that is true of an answer: nobody chose it, it was given as the
time ran out, it is blank and confirmed to be."""


BY: Final = "by"
"""The key of what a person did: who it was, where several share the notebook; as a page claims."""


def who_in(fields: Mapping[str, JsonValue]) -> str | None:
    """Return who did what `fields`, such as a response's metadata, are about; None if unsaid."""
    name = fields.get(BY)
    return name if isinstance(name, str) and name.strip() else None


def marks_in(fields: Mapping[str, JsonValue]) -> tuple[AnswerMark, ...]:
    """Return the marks that `fields`, such as a response's metadata, say of an answer."""
    marks: tuple[AnswerMark, ...] = get_args(AnswerMark)
    return tuple(mark for mark in marks if fields.get(mark) is True)


class InquiryResponse(Entry):
    """The end of an inquiry. Never sent to a provider. `reason` may be one we do not know."""

    type: Literal["inquiry_response"] = "inquiry_response"
    outcome: Literal["answered", "cancelled", "redacted"]
    id: str
    answer: JsonValue = None
    reason: str | None = None

    def to_raw(self) -> RawEntry:
        """Return the stored object: `answer` or `reason`, whichever the outcome has."""
        raw = super().to_raw()
        if self.outcome != "answered":
            raw.pop("answer")
        if self.outcome != "cancelled":
            raw.pop("reason")
        return raw


InquiryEntry = InquiryRequest | InquiryResponse
"""What a question leaves in the record."""


def read_response(raw: RawEntry) -> RawEntry:
    """Return a stored response of any form, as `InquiryResponse` has it.

    Without `outcome` but with `answer` it is answered; a cancelled one without `reason` was
    cancelled by the user; an outcome that we do not know reads as cancelled for that reason: the
    inquiry is closed, and nothing else is known of it.
    """
    outcome = raw.get("outcome")
    if outcome is None and "outcome" not in raw and "answer" in raw:
        return {**raw, "outcome": "answered"}
    if outcome == "cancelled" and raw.get("reason") is None:
        return {**raw, "reason": "user"}
    if outcome == "redacted" and ("answer" in raw or "reason" in raw):
        return {key: item for key, item in raw.items() if key not in ("answer", "reason")}
    if isinstance(outcome, str) and outcome not in OUTCOMES:
        return {**raw, "outcome": "cancelled", "reason": outcome}
    return raw
