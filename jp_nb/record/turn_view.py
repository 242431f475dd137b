"""A finished turn, as code reads it.

Source: `design/interface.md` section 2, `design/architecture.md` D40.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue

from jp_nb.record.edited_calls import edited
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Entry,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.proposals import ProposedBy, proposed_by
from jp_nb.record.turn_marks import continues, uncalled_in
from jp_nb.record.unanswered import NoAnswer, is_unanswered, no_answer


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """Tokens of a turn, all requests together. None: no provider reported them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call and its result. `content` and `is_error` are None while there is none.

    Attributes:
        arguments: What it ran with.
        edited_by: `person` if somebody changed the arguments before it ran; None if nobody did.
        channel: Where: `form`, `stdin` or `terminal`, if known.
        requested_arguments: What the model called it with, if they were changed.
    """

    id: str
    name: str
    arguments: Mapping[str, JsonValue]
    content: str | None = None
    is_error: bool | None = None
    edited_by: Literal["person"] | None = None
    channel: str | None = None
    requested_arguments: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One question and how it was settled.

    Attributes:
        id: `<tool call>.<question>.<attempt>`.
        question: Its text.
        outcome: `answered`, `redacted`, `cancelled`; None while it is open.
        answer: The answer, if `answered`.
        reason: Why there is none, if `cancelled`.
        channel: `form`, `stdin`, `terminal`, `configured`, `remembered` or `model`, if known.
    """

    id: str
    question: str
    outcome: str | None = None
    answer: JsonValue = None
    reason: str | None = None
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of the configuration: values set, and paths unset.

    `begins_again`: everything before it counts no more. `proposed_by`: the tool calls that it
    came of, in call order; none if a person made it. `taken_back`: those of `unsets` at which
    only what the conversation had said is taken back.
    """

    delta: Mapping[str, JsonValue]
    unsets: tuple[str, ...] = ()
    begins_again: bool = False
    proposed_by: tuple[ProposedBy, ...] = ()
    taken_back: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn came to.

    Attributes:
        number: 0-based, as `%jp log` shows it.
        request: What was asked.
        text: The assistant's text, all of it.
        data: The structured answer, if one was asked for.
        tool_calls: Tool calls in call order.
        inquiries: Questions in the order they were asked.
        config_changes: Changes of the configuration.
        usage: Tokens.
        status: `completed`, `interrupted` or `failed`; "" if another kernel ran it and the record
            does not tell.
        left_out: Whether it got no answer, and models are not sent it.
        taken_back: How many of its configuration changes do not count for that reason.
        uncalled: The tool that had to be called and was not, or `any tool`; None if all is well.
    """

    number: int
    request: str
    text: str = ""
    data: JsonValue = None
    tool_calls: tuple[ToolCall, ...] = ()
    inquiries: tuple[Inquiry, ...] = ()
    config_changes: tuple[ConfigChange, ...] = ()
    usage: TurnUsage = field(default_factory=TurnUsage)
    status: str = "completed"
    left_out: bool = False
    taken_back: int = 0
    uncalled: str | None = None

    def __repr__(self) -> str:
        counts = [
            f"{len(items)} {word}{'' if len(items) == 1 else 's'}"
            for items, word in (
                (self.tool_calls, "tool call"),
                (self.inquiries, "question"),
                (self.config_changes, "config change"),
            )
            if items
        ]
        said = self.text
        if not said.strip() and self.data is not None:
            said = json.dumps(self.data, ensure_ascii=False)
        text = " ".join(said.split())
        shown = f"{text[:67]}…" if len(text) > 68 else text
        unusual = [self.status] if self.status not in ("completed", "") else []
        facts = ", ".join([repr(shown), *counts, *unusual])
        return f"<turn {self.number}: {facts}>"


def read_turn(
    number: int,
    entries: Sequence[Entry],
    *,
    usage: TurnUsage | None = None,
    status: str = "completed",
) -> Turn:
    """The turn that `entries` record."""
    calls: list[ToolCall] = []
    inquiries: list[Inquiry] = []
    open_calls: dict[str, list[int]] = {}
    open_inquiries: dict[str, list[int]] = {}
    requests, changes = list[str](), list[ConfigChange]()
    data: JsonValue = None
    for entry in entries:
        match entry:
            case ChatRequest(content=content):
                requests.append(content)
            case ChatResponse(kind="structured"):
                data = copy.deepcopy(entry.data)
            case ToolCallRequest(id=key, name=name, arguments=arguments):
                open_calls.setdefault(key, []).append(len(calls))
                calls.append(ToolCall(key, name, copy.deepcopy(arguments)))
            case ToolCallResponse(id=key) if open_calls.get(key):
                at = open_calls[key].pop(0)
                calls[at] = _finished(calls[at], entry)
            case InquiryRequest(id=key):
                open_inquiries.setdefault(key, []).append(len(inquiries))
                inquiries.append(Inquiry(key, entry.question.text))
            case InquiryResponse(id=key) if open_inquiries.get(key):
                at = open_inquiries[key].pop(0)
                inquiries[at] = _settled(inquiries[at], entry)
            case ConfigDelta(delta=delta, unsets=unsets, op=op) if no_answer(entry) is None:
                changes.append(
                    ConfigChange(
                        copy.deepcopy(delta),
                        unsets,
                        op == "reset",
                        proposed_by(entry),
                        entry.uncovers,
                    )
                )
    left_out = is_unanswered(entries)
    mark = _mark(entries) if left_out else None
    return Turn(
        number=number,
        request="\n\n".join(requests),
        text=_text(entries),
        data=data,
        tool_calls=tuple(calls),
        inquiries=tuple(inquiries),
        config_changes=tuple(changes),
        usage=usage or TurnUsage(),
        status=status if mark is None else mark.ended,
        left_out=left_out,
        taken_back=0 if mark is None else min(mark.takes_back, len(changes)),
        uncalled=None if left_out else uncalled_in(entries),
    )


def _finished(call: ToolCall, entry: ToolCallResponse) -> ToolCall:
    call = replace(call, content=entry.content, is_error=entry.is_error)
    changed = edited(entry.metadata)
    if changed is None:
        return call
    return replace(
        call,
        arguments=copy.deepcopy(changed.arguments),
        edited_by="person",
        channel=changed.channel,
        requested_arguments=call.arguments,
    )


def _text(entries: Sequence[Entry]) -> str:
    """The texts of the model one below the other; what goes on with one, in the same line."""
    texts: list[list[str]] = []
    for entry in entries:
        if isinstance(entry, ChatResponse) and entry.kind == "message":
            if not (texts and continues(entry)):
                texts.append([])
            texts[-1].append(entry.message or "")
    return "\n\n".join("".join(parts) for parts in texts)


def _mark(entries: Sequence[Entry]) -> NoAnswer | None:
    return next((found for entry in entries if (found := no_answer(entry)) is not None), None)


def _settled(inquiry: Inquiry, entry: InquiryResponse) -> Inquiry:
    channel = entry.metadata.get("channel")
    return Inquiry(
        id=inquiry.id,
        question=inquiry.question,
        outcome=entry.outcome,
        answer=copy.deepcopy(entry.answer),
        reason=entry.reason,
        channel=channel if isinstance(channel, str) else None,
    )
