"""Read model of a conversation: `Turn`, its tool calls, questions, and changes.

Users get these values from `jp.last`, `jp.query` and `jp.conversation`, so their names are public.
`turn_reader.py` makes them from the record.

Source: `docs/guide.md`, `docs/decisions.md` D40, `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from pydantic import JsonValue

from jp_nb.images import Image, count_images
from jp_nb.json_values import copy_nested_json
from jp_nb.record.entries.events import RawEntry
from jp_nb.record.entries.outcomes import ANSWER_MARKS, OPEN, QuestionOutcome
from jp_nb.record.entries.proposed_by import ProposedBy
from jp_nb.record.entries.token_usage import Usage
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.stream import ConversationStream

if TYPE_CHECKING:  # the schema loads slowly
    from jp_nb.config.tree.app import AppConfig


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call and its result.

    Attributes:
        id: The model's id of the call.
        arguments: The arguments of the call, including edits by the user.
        content: The result that the model read; None as long as there is no result.
        is_error: True if `content` is an error message; None as long as there is no result.
        edited_by: `person` if the user edited the arguments before the call.
        channel: Source of the edit: `form`, `stdin`, or `terminal`; None if unknown.
        requested_arguments: The model's arguments, if the user edited them.
        images: The images that the model saw with `content`.
        skipped: True if the user skipped or stopped the call.
        rule: The rule that decided about the call, with its conditions (`when`) and its origin
            (`from`: `configuration`, `session`, or `notebook`); None without one.
        structured: The applied edits of a call of `edit_cells`; None for other tools.
    """

    id: str
    name: str
    arguments: Mapping[str, JsonValue]
    content: str | None = None
    is_error: bool | None = None
    edited_by: Literal["person"] | None = None
    channel: str | None = None
    requested_arguments: Mapping[str, JsonValue] | None = None
    images: tuple[Image, ...] = ()
    skipped: bool = False
    rule: Mapping[str, JsonValue] | None = None
    structured: JsonValue = field(default=None, compare=False)

    def __repr__(self) -> str:
        names = ["id", "name", "arguments", "content", "is_error"]
        if self.edited_by is not None:
            names += ["edited_by", "channel", "requested_arguments"]
        names += [name for name in ("images", "skipped", "rule") if getattr(self, name)]
        return f"ToolCall({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One question of a tool, and its answer.

    Attributes:
        id: `<tool call>.<question>.<attempt>`.
        ended: The outcome, whose parts are also attributes of the question.
        answer: The answer, if `outcome` is `answered`.
        answer_type: Kind of the question, with its options, as a JSON object.
    """

    id: str
    question: str
    ended: QuestionOutcome = OPEN
    answer: JsonValue = None
    answer_type: Mapping[str, JsonValue] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        names = ("id", "question", "outcome", "answer", "reason", "channel")
        return f"Inquiry({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def outcome(self) -> str | None:
        """`answered`, `redacted` (a secret), or `cancelled`; None while the question is open."""
        return self.ended.stored

    @property
    def end(self) -> str | None:
        """`end` of the outcome, such as `declined`; None while the question is open."""
        return None if self.ended == OPEN else self.ended.end

    @property
    def reason(self) -> str | None:
        """Why there is no answer, if `outcome` is `cancelled`."""
        return self.ended.reason

    @property
    def channel(self) -> str | None:
        """Source of the answer, such as `form` or `model`; None if unknown."""
        return self.ended.channel

    @property
    def marks(self) -> tuple[str, ...]:
        """Remarks on the answer: `auto`, `timed_out`, and `empty`, as they apply."""
        return tuple(mark for mark in ANSWER_MARKS if mark in self.ended.marks)

    @property
    def by(self) -> str | None:
        """Name of the user, if several users share the notebook. It is not verified."""
        return self.ended.by


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One configuration change.

    Attributes:
        delta: The new values, as a part of the configuration.
        unsets: The paths of settings and list items that are unset.
        begins_again: True if the change discards all earlier settings.
        proposed_by: The tool calls that proposed the change; empty if the user made it.
        uncovers: The paths of `unsets` at which only the value of the conversation was removed,
            so that the value of the configuration files applies again.
    """

    delta: Mapping[str, JsonValue]
    unsets: tuple[str, ...] = ()
    begins_again: bool = False
    proposed_by: tuple[ProposedBy, ...] = ()
    uncovers: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class TurnText:
    """Text of the assistant or, with `by_person`, of the user.

    `by` is the name of that user, if several users share the notebook. It is not verified. `typed`
    are the words of the user, if values of the notebook were put into `content`; None otherwise.
    """

    content: str
    by_person: bool = False
    by: str | None = field(default=None, repr=False)
    typed: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class StructuredData:
    """A structured answer."""

    data: JsonValue


@dataclass(frozen=True, slots=True)
class RejectedAnswer:
    """The message that told the model why the structured answer before it does not fit."""

    content: str


@dataclass(frozen=True, slots=True)
class NoteToModel:
    """A message of the program to the model, such as a change of its edited cells."""

    content: str


TurnPart = (
    TurnText | StructuredData | RejectedAnswer | NoteToModel | ToolCall | Inquiry | ConfigChange
)
"""A part of a turn. The first text of the user is the request."""
TurnPartT = TypeVar(
    "TurnPartT",
    TurnText,
    StructuredData,
    RejectedAnswer,
    NoteToModel,
    ToolCall,
    Inquiry,
    ConfigChange,
)
UNTYPED: Final = object()
"""The value of a structured answer whose schema is not a type, or not known any more."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: the request, the answer, and everything between them. Read-only.

    In a notebook the last turn is `_jp` and `jp.last`.

    Attributes:
        number: Position of the turn in the conversation, counted from 0, as in the record. The user
            sees turns counted from 1: `%jp log` shows `number + 1`.
        parts: Texts, structured answers, tool calls, questions, and changes, in their order.
        usage: Tokens of all requests of the turn: `input_tokens`, `output_tokens`,
            `reasoning_tokens`, `cache_read_tokens`, and `cache_write_tokens`. A count is None if
            the provider did not report it.
        status: `completed`, `interrupted`, `stopped` (the user stopped the turn in a form of a
            tool), or `failed`; "" for a turn of another kernel whose record does not contain the
            status.
        left_out: True if the turn has no answer. Later requests omit such a turn.
        taken_back: Number of configuration changes that were reverted because the turn has no
            answer.
        uncalled: The required tool that the model did not call, or `any tool`; None otherwise.
        images: The images that the model saw with the request.
        value: The structured answer as a value of the type of its schema, or `UNTYPED`.
    """

    number: int
    parts: tuple[TurnPart, ...] = ()
    usage: Usage = field(default_factory=Usage)
    status: str = "completed"
    left_out: bool = False
    taken_back: int = 0
    uncalled: str | None = None
    images: tuple[Image, ...] = ()
    value: Any = field(default=UNTYPED, repr=False, compare=False)

    @property
    def request(self) -> str:
        """Text of the request."""
        return "\n\n".join(part.content for part in self._select_parts(TurnText) if part.by_person)

    @property
    def text(self) -> str:
        """Full text of the model's answer."""
        texts = [part.content for part in self._select_parts(TurnText) if not part.by_person]
        return "\n\n".join(texts)

    @property
    def data(self) -> Any:
        """The structured answer; None if there is none.

        If the schema was a type, such as a pydantic model, the answer is a value of this type.
        Otherwise it is the same as `json`, as in turns that were read from the record.
        """
        return self.json if self.value is UNTYPED else self.value

    @property
    def json(self) -> JsonValue:
        """The structured answer as JSON, as the model returned it; None if there is none."""
        answers = self._select_parts(StructuredData)
        return answers[-1].data if answers else None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order.

        Each has `name`, `arguments`, `content`, `is_error`, `images`, and `id`.
        """
        return self._select_parts(ToolCall)

    @property
    def inquiries(self) -> tuple[Inquiry, ...]:
        """The questions, in order. Each has `question`, `answer`, `outcome`, and `channel`."""
        return self._select_parts(Inquiry)

    @property
    def config_changes(self) -> tuple[ConfigChange, ...]:
        """The configuration changes. Each has `delta` and `unsets`."""
        return self._select_parts(ConfigChange)

    def _select_parts(self, kind: type[TurnPartT]) -> tuple[TurnPartT, ...]:
        return tuple(part for part in self.parts if isinstance(part, kind))

    def __repr__(self) -> str:
        sizes = {
            "tool call": len(self.tool_calls),
            "question": len(self.inquiries),
            "config change": len(self.config_changes),
        }
        counts = [_format_count(size, word) for word, size in sizes.items() if size]
        images_of_calls = chain.from_iterable(call.images for call in self.tool_calls)
        counts += count_images([*self.images, *images_of_calls])

        answer = self.text
        if not answer.strip() and self.json is not None:
            answer = json.dumps(self.json, ensure_ascii=False)

        text = " ".join(answer.split())
        shown = f"{text[:67]}…" if len(text) > 68 else text

        unusual = [self.status] if self.status not in ("completed", "") else []

        facts = ", ".join([repr(shown), *counts, *unusual])
        return f"<turn {to_shown_turn(self.number)}: {facts}>"


def _format_count(size: int, word: str) -> str:
    return f"{size} {word}" if size == 1 else f"{size} {word}s"


@dataclass(frozen=True, slots=True)
class Conversation:
    """A snapshot of one conversation in the record. Read-only.

    Attributes:
        id: Id of the conversation, such as `jp-c17738399468`.
        title: Title of the conversation; None if it has none.
        turns: The turns, oldest first.
        events: Copies of the stored entries as JSON objects, oldest first.
        config: The effective configuration.
    """

    id: str
    title: str | None
    turns: tuple[Turn, ...]
    events: tuple[RawEntry, ...] = field(repr=False)
    config: AppConfig = field(repr=False)

    @classmethod
    def of(
        cls, stream: ConversationStream, turns: Iterable[Turn], config: AppConfig
    ) -> Conversation:
        """Return a snapshot of a stored conversation."""
        return cls(
            stream.id, stream.title, tuple(turns), tuple(copy_nested_json(stream.raw)), config
        )
