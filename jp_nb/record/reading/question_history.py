"""The history of questions: their log entries, and the answers in them.

The history has the answers of one record, or of the question log of a workspace. Both have the
entries of `make_entry`, which are numbered from 1.

Source: `docs/record.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.clock import format_timestamp, parse_timestamp
from jp_nb.record.entries.events import BY, InquiryRequest, InquiryResponse, TurnStart
from jp_nb.record.entries.outcomes import (
    ANSWER_MARKS,
    ANSWERED,
    CHANNEL_WORDS,
    QuestionOutcome,
    read_details,
    read_question_outcome,
)
from jp_nb.record.reading.recorded_answers import format_recorded_answer
from jp_nb.record.stream import ConversationStream
from jp_nb.text import format_user_name

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
