"""Outcomes and answers of questions: in the record, in words, and as a history.

The history has the answers of one record, or of the question log of a workspace. Both have the
entries of `make_entry`, which are numbered from 1.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, NamedTuple, get_args

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_values import JsonObject, as_object, is_deeper, sorted_json
from jp_nb.record.clock import format_timestamp, parse_timestamp
from jp_nb.record.events import BY, InquiryRequest, InquiryResponse, TurnStart, read_recorded_by
from jp_nb.record.stream import ConversationStream
from jp_nb.text import format_user_name

QuestionEnd = Literal[
    "answered",
    "declined",
    "cancelled",
    "timed_out",
    "interrupted",
    "unavailable",
    "denied",
    "invalid",
    "failed",
    "open",
]
AnswerMark = Literal["auto", "timed_out", "empty", "refused"]
ANSWER_MARKS: Final[tuple[AnswerMark, ...]] = get_args(AnswerMark)
REASONS: Final[Mapping[QuestionEnd, str]] = {
    "declined": "user",
    "cancelled": "user",
    "timed_out": "user",
    "interrupted": "user",
    "unavailable": "no_prompt_backend",
    "denied": "assistant_routing_denied",
    "invalid": "invalid_static_answer",
    "failed": "backend_error",
}
"""Stored reason of each end without an answer."""
SEEN_ENDS: Final = frozenset(end for end, reason in REASONS.items() if reason == "user")
"""Ends of a question that the user saw and did not answer."""
_NOT_STORED: Final = frozenset[QuestionEnd](["denied", "invalid", "failed"])
"""Ends that only the reason stores."""
_BY_NAME: Final[Mapping[str, QuestionEnd]] = {
    **{reason: end for end, reason in REASONS.items() if reason != "user"},
    **{end: end for end in REASONS},
}
"""Ends by their names, and by reasons that belong to one end."""


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """Outcome of a question.

    Attributes:
        end: `answered`, or why there is no answer: `declined` (left open), `unavailable` (no user
            was available), `denied` (only a user may answer), `invalid` (the prepared answer does
            not fit), `failed` (no model could answer), `open` (there is no outcome yet), and so on.
            No tool receives one of the last four.
        channel: Source of the outcome. For the user, it is `form`, `stdin`, or `terminal`.
            Otherwise it is `configured`, `answers` (an answers file), `remembered`, or `model`.
            None for an automatic answer, or if it is unknown.
        marks: `auto` if the user did not choose the answer, `timed_out` if it was given when the
            time limit passed, and `empty` if it is blank on purpose. A declined question is
            `refused` if the user pressed Decline, and was not only left open.
        by: Name of the user, if several users share the notebook. It is not verified.
        is_secret: True if the answer is a secret, which is not recorded.
        unexpected: Stored reason that is not one of `REASONS`, or another stored end of an
            answered question.
    """

    end: QuestionEnd
    channel: str | None = None
    marks: frozenset[AnswerMark] = frozenset()
    by: str | None = None
    is_secret: bool = False
    unexpected: str | None = None

    @property
    def is_answered(self) -> bool:
        """True if there is an answer."""
        return self.end == "answered"

    @property
    def was_seen(self) -> bool:
        """True if the user saw the question, and did not answer it."""
        return self.end in SEEN_ENDS

    @property
    def reason(self) -> str | None:
        """Stored reason, if there is no answer."""
        if self.is_answered:
            return None
        return self.unexpected or REASONS.get(self.end)

    @property
    def stored(self) -> Literal["answered", "redacted", "cancelled"] | None:
        """Field `outcome` in the record; None while the question is open."""
        if self.end == "open":
            return None
        if self.is_secret:
            return "redacted"
        return "answered" if self.is_answered else "cancelled"


ANSWERED: Final = QuestionOutcome("answered")
OPEN: Final = QuestionOutcome("open")


def make_response(
    inquiry_id: str, outcome: QuestionOutcome, answer: JsonValue = None
) -> InquiryResponse:
    """Return the entry that closes an inquiry. `answer` contains no secret."""
    end = None if outcome.end in _NOT_STORED else outcome.end
    stored: dict[str, JsonValue] = {"end": end, "channel": outcome.channel, BY: outcome.by}
    metadata = {key: value for key, value in stored.items() if value is not None}
    metadata |= dict.fromkeys(sorted(outcome.marks), True)

    kind = outcome.stored
    assert kind is not None  # an open question has no response
    stored_answer = answer if kind == "answered" else None
    return InquiryResponse(
        id=inquiry_id,
        outcome=kind,
        answer=stored_answer,
        reason=outcome.reason,
        metadata=metadata,
    )


def read_question_outcome(response: InquiryResponse) -> QuestionOutcome:
    """Return the outcome that `response` stores. Any record can be read."""
    stored = response.metadata.get("end")
    reason = response.reason

    end: QuestionEnd = "answered"
    unexpected = stored if isinstance(stored, str) and stored != "answered" else None

    if response.outcome == "cancelled":
        end = _BY_NAME.get(str(stored)) or _BY_NAME.get(str(reason), "cancelled")
        unexpected = None if reason in REASONS.values() else reason

    is_secret = response.outcome == "redacted"
    outcome = read_details(end, response.metadata)

    return replace(outcome, is_secret=is_secret, unexpected=unexpected)


def read_details(end: QuestionEnd, fields: Mapping[str, JsonValue]) -> QuestionOutcome:
    """Return the outcome with the channel, marks, and user in `fields`.

    `fields` is the metadata of a response, or an entry of the question log.
    """
    channel = fields.get("channel")
    if not isinstance(channel, str):
        channel = None
    return QuestionOutcome(
        end,
        channel,
        frozenset(mark for mark in ANSWER_MARKS if fields.get(mark) is True),
        read_recorded_by(fields),
    )


NOT_IN_TIME: Final = "the user did not answer in time"


class EndWords(NamedTuple):
    """Words for an end without an answer."""

    user: str
    status: str = "cancelled"  # for the model, in the result of `ask`
    cause: str = "the user did not answer it"  # the same
    response: str = "Tool input cancelled by user."  # to a call that ends without the answer


END_WORDS: Final[Mapping[QuestionEnd, EndWords]] = {
    "declined": EndWords(
        "not answered",
        "not answered",
        "the user left it open on purpose",
        "Tool input declined by user.",
    ),
    "cancelled": EndWords("cancelled"),
    "timed_out": EndWords(
        "timed out", "timed out", NOT_IN_TIME, "The tool's question was not answered in time."
    ),
    "interrupted": EndWords(
        "interrupted",
        "not answered",
        "an interrupt closed the form",
        "The tool's question was not answered: an interrupt closed it.",
    ),
    "unavailable": EndWords("no user was available", "not answered", "no user was available"),
    "denied": EndWords("only a user may answer"),
    "invalid": EndWords("the prepared answer does not fit"),
    "failed": EndWords("no model could answer"),
    "open": EndWords("open"),
}
REFUSED: Final = "declined"
"""The end of a question that is `refused`, for the user."""


def end_in_words(end: QuestionEnd, marks: Collection[AnswerMark]) -> str:
    """Return an end without an answer, for the user."""
    return REFUSED if "refused" in marks else END_WORDS[end].user


class ChannelWords(NamedTuple):
    """Words for the source of an answer."""

    origin: str = ""  # for the user, after the answer; "" if the user just gave it
    source: str | None = None  # for the model, before the answer in the result of `ask`
    person: str = "the user"  # for both, in the history of questions


CHANNEL_WORDS: Final[Mapping[str, ChannelWords]] = {
    "form": ChannelWords(),
    "stdin": ChannelWords(),
    "terminal": ChannelWords(),
    "remembered": ChannelWords(
        "remembered", "answered by the user earlier in this turn", "the user (remembered)"
    ),
    "recorded": ChannelWords("recorded", person="recorded"),
    "configured": ChannelWords(
        "configured", "configured by the user in advance", "the configuration"
    ),
    "answers": ChannelWords(
        "answers file", "answered by the user in advance", "the user, in an answers file"
    ),
    "model": ChannelWords("model", "answered by another model, not by the user", "a model"),
}


NONE_OF_THESE: Final = "none of these"
EMPTY: Final = "(empty)"
DONE_ANSWER: Final = "done"
"""The answer to a question with a URL, for the user."""
CONFIRMED_ANSWER: Final = "confirmed"
"""The answer to a form without fields, for the user."""
MAX_ANSWER_LEVELS: Final = 8
"""Maximum nesting of forms and answers. Deeper values are shown as JSON."""


def format_recorded_answer(answer_type: JsonValue, answer: JsonValue) -> str:
    """Return `answer` as text. `answer_type` is the recorded kind of the question.

    >>> sizes = {"type": "select", "options": [{"value": 1, "label": "small"}, {"value": 2}]}
    >>> format_recorded_answer(sizes, [2, 1])
    '2, small'
    >>> format_recorded_answer(sizes, {"selected": 1, "custom": "or less"})
    'small, "or less"'
    >>> format_recorded_answer({"type": "boolean"}, True), format_recorded_answer(sizes, [])
    ('Yes', 'none of these')
    """
    levels = 0 if is_deeper(answer, MAX_ANSWER_LEVELS) else MAX_ANSWER_LEVELS
    return _Formatter(answer_type).format(answer, levels)


class _Formatter:
    def __init__(self, answer_type: JsonValue) -> None:
        kind = as_object(answer_type)
        self._labels: dict[str, str] = {}
        for option in _objects(kind.get("options")):
            label = option.get("label")
            if isinstance(label, str) and label.strip() and "value" in option:
                # As JSON: `true` and 1 are different values.
                self._labels[sorted_json(option["value"])] = label

        self._fields = {str(field.get("id")): field for field in _objects(kind.get("fields"))}
        self._is_form = kind.get("type") == "form" or isinstance(kind.get("fields"), list)
        self._yes = DONE_ANSWER if kind.get("type") == "url" else "Yes"
        self._no_answer = CONFIRMED_ANSWER if self._is_form and kind.get("fields") == [] else EMPTY

    def format(self, answer: JsonValue, levels: int) -> str:
        key = sorted_json(answer)

        if levels == 0 or key in self._labels:
            return self._labels[key] if levels else key

        match answer:
            case bool():
                return self._yes if answer else "No"
            case str():
                return answer if answer.strip() else EMPTY
            case None:
                return EMPTY
            case list():
                return ", ".join(self.format(each, levels - 1) for each in answer) or NONE_OF_THESE
            case {"selected": picked, **rest} if not self._is_form and set(rest) <= {"custom"}:
                texts = [self.format(picked, levels - 1)] if picked not in (None, []) else []
                texts += [f'"{custom}"' for custom in rest.values() if isinstance(custom, str)]
                return ", ".join(texts) or NONE_OF_THESE
            case dict():
                texts = [self._format_field(*each, levels - 1) for each in answer.items()]
                return "; ".join(texts) or self._no_answer
        return key

    def _format_field(self, name: str, answer: JsonValue, levels: int) -> str:
        field = self._fields.get(name, {})
        text = field.get("text")
        title = text if isinstance(text, str) and text.strip() else name
        return f"{title}: {_Formatter(field.get('answer_type')).format(answer, levels)}"


def _objects(value: JsonValue) -> list[JsonObject]:
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, dict)]


LOGGED_MODES: Final = {"select": "choice", "text": "freetext"}
"""Names of kinds of questions in the log. Other kinds keep their names."""
ENTRY_VERSION: Final = 1
_WITH_OFFSET: Final = re.compile(
    r"\d{4}-\d\d-\d\d[ Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)


def format_rfc3339(moment: datetime) -> str:
    """Return a time such as `2026-03-18T13:19:06.841464Z`."""
    return f"{format_timestamp(moment).replace(' ', 'T')}Z"


def parse_rfc3339(text: JsonValue) -> datetime | None:
    """Return the time of `text`, or None if it is invalid or has no offset from UTC."""
    if not isinstance(text, str) or not _WITH_OFFSET.fullmatch(text):
        return None
    return parse_timestamp(text)


def make_entry(request: InquiryRequest, response: InquiryResponse) -> JsonObject | None:
    """Return the log entry of a recorded question and its end, without a number.

    Return None for secrets, and for questions that the user did not see. A question that the user
    saw and did not answer has an `outcome` and no `answer`.
    """
    question = request.question
    answer = response.answer
    outcome = read_question_outcome(response)
    moment = parse_timestamp(response.timestamp)
    is_logged = outcome.was_seen and response.metadata.get("end") == outcome.end

    if outcome.is_answered:
        is_logged = answer is not None

    if moment is None or not is_logged or not question.text.strip():
        return None

    entry: JsonObject = {"v": ENTRY_VERSION, "timestamp": format_rfc3339(moment)}
    entry["question"] = question.text

    if outcome.is_answered:
        entry["answer"] = answer
        words = format_recorded_answer(question.answer_type.to_raw(), answer)
        if words != answer:
            entry["label"] = words

    mode = question.answer_type.type
    asker = request.source.name or request.source.source
    entry |= {"mode": LOGGED_MODES.get(mode, mode), "outcome": outcome.end, "source": asker}
    sources = {"channel": outcome.channel, BY: outcome.by}
    entry |= {key: value for key, value in sources.items() if value is not None}

    if isinstance(answer, str) and not answer.strip():
        entry["empty"] = True

    return entry | {mark: True for mark in ANSWER_MARKS if mark in outcome.marks}


def list_ended_questions(stream: ConversationStream, start: int = 0) -> Iterator[JsonObject]:
    """Yield the log entries of the questions that ended in `stream` from entry `start` on."""
    entries = stream.entries
    begin = start

    while begin and (begin == len(entries) or not isinstance(entries[begin], TurnStart)):
        begin -= 1
    waiting: dict[str, InquiryRequest] = {}  # ids may repeat in a later turn

    for index, entry in enumerate(entries[begin:], begin):
        match entry:
            case TurnStart():
                waiting.clear()
            case InquiryRequest():
                waiting[entry.id] = entry
            case InquiryResponse():
                request = waiting.pop(entry.id, None)
                if request is None or index < start:
                    continue
                found = make_entry(request, entry)
                if found is not None:
                    yield found


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """A question and its answer. Unknown texts are "".

    Attributes:
        id: Permanent number, counted from 1.
        words: The answer as text.
        mode: `choice`, `freetext`, or another kind of question.
        asker: Name of the tool, `assistant`, or another asker.
        notebook: Path of the notebook, relative to the workspace.
        is_trusted: True if it is in the user's own record, is signed by the user's key, or has the
            user's consent.
    """

    id: int
    moment: datetime
    question: str
    answer: JsonValue
    words: str
    mode: str = ""
    asker: str = ""
    outcome: QuestionOutcome = ANSWERED
    notebook: str = ""
    is_trusted: bool = True

    @property
    def answered_by(self) -> str:
        """Short text about the source of the answer; "" if unknown."""
        outcome = self.outcome
        channel = outcome.channel or ""

        if "auto" in outcome.marks:
            reason = " (timed out)" if "timed_out" in outcome.marks else ""
            return f"an automatic choice{reason}"

        words = CHANNEL_WORDS.get(channel)
        known = channel if words is None else words.person
        return known if outcome.by is None else f"{known} ({format_user_name(outcome.by)})"

    def to_json(self) -> JsonObject:
        """Return the JSON object for the model."""
        stored: JsonObject = {"id": self.id, "timestamp": format_rfc3339(self.moment)}
        stored |= {"question": self.question, "answer": self.answer}
        if self.words != self.answer:
            stored["label"] = self.words
        more = {"mode": self.mode, "answered_by": self.answered_by, "notebook": self.notebook}
        return stored | {key: text for key, text in more.items() if text}


def is_answered(entry: JsonObject) -> bool:
    """Return True if the log entry has an answer, and so a number."""
    return entry.get("outcome", "answered") == "answered"


def read_entry_time(entry: JsonObject) -> datetime | None:
    """Return the time of a log entry; None if it is invalid."""
    return parse_rfc3339(entry.get("timestamp", entry.get("datetime")))


def read_logged_answer(entry: JsonObject, number: int, *, is_trusted: bool) -> LoggedAnswer:
    """Return the answer in a valid log entry with the number `number`."""
    moment = read_entry_time(entry)
    answer = entry.get("answer")
    label = entry.get("label")
    assert moment is not None

    texts = {key: value for key, value in entry.items() if isinstance(value, str)}
    has_label = isinstance(label, str) and label.strip()
    words = str(label) if has_label else format_recorded_answer(None, answer)
    return LoggedAnswer(
        id=number,
        moment=moment,
        question=str(entry["question"]),
        answer=answer,
        words=words,
        mode=texts.get("mode", ""),
        asker=texts.get("source", ""),
        outcome=read_details("answered", entry),
        notebook=texts.get("notebook", ""),
        is_trusted=is_trusted,
    )


def list_recorded_answers(stream: ConversationStream) -> tuple[LoggedAnswer, ...]:
    """Return the answered questions of a record, in the order of the answers.

    Numbers are permanent, because a record only grows.
    """
    answered = filter(is_answered, list_ended_questions(stream))
    numbered = enumerate(answered, 1)
    return tuple(read_logged_answer(entry, number, is_trusted=True) for number, entry in numbered)


DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 200
"""Maximum number of listed answers."""
NO_HISTORY: Final = "No question has been answered yet: there is no history."
UNTRUSTED_HISTORY: Final = (
    "This notebook is not trusted, so its questions and answers are not read. Only the user can "
    "change that, with `%jp trust`."
)


@dataclass(frozen=True, slots=True)
class QuestionHistory:
    """The answers so far, oldest first. A notebook that is not `trusted` has none.

    Attributes:
        source: `record` for the answers of this conversation, `log` for those of the workspace.
        left_out: Number of untrusted answers, which no model receives.
        damaged: Number of damaged entries.
    """

    answers: tuple[LoggedAnswer, ...] = ()
    trusted: bool = True
    source: Literal["record", "log"] = "record"
    left_out: int = 0
    damaged: int = 0

    def latest(self, limit: int = DEFAULT_LIMIT) -> tuple[LoggedAnswer, ...]:
        """Return the newest `limit` answers, oldest first. Raises the error of `validate_limit`."""
        return self.answers[-validate_limit(limit) :]

    def get(self, number: int) -> tuple[LoggedAnswer, ...]:
        """Return the answers with the id `number`: several if logs were merged by hand."""
        return tuple(answer for answer in self.answers if answer.id == number)

    def containing(self, text: str) -> tuple[LoggedAnswer, ...]:
        """Return the answers whose question or answer contains `text`, ignoring case.

        Raises:
            UsageError: `text` is blank.
        """
        wanted = text.strip().casefold()

        if not wanted:
            raise UsageError("give a text to search for: it cannot be blank")

        found = []
        for each in self.answers:
            whole = each.answer if isinstance(each.answer, str) else ""
            # The separator prevents matches across two parts.
            if wanted in "\0".join((each.question, each.words, whole)).casefold():
                found.append(each)

        return tuple(found)

    def format_unknown_id(self, number: int) -> str:
        """Return the message that no answer has the id `number`."""
        if not self.answers:
            return NO_HISTORY
        highest = max(answer.id for answer in self.answers)
        return f"There is no answer with the id {number}: the highest id is {highest}."

    def format_no_match(self, text: str) -> str:
        """Return the message that no question and no answer contains `text`."""
        return f"No question and no answer contains {text!r}." if self.answers else NO_HISTORY


def validate_limit(limit: JsonValue) -> int:
    """Return `limit`, a number of answers.

    Raises:
        UsageError: It is not a number from 1 to `MAX_LIMIT`.
    """
    if type(limit) is not int or not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"the limit must be a whole number from 1 to {MAX_LIMIT}")
    return limit
