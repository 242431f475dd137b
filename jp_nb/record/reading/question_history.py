"""The history of questions: the answers of one record, or of the question log of a workspace.

Both have the entries of `question_log_entries.py`. The answers are numbered from 1.

Source: `docs/record.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.outcomes import ANSWERED, QuestionOutcome, read_outcome_fields
from jp_nb.record.entries.timestamps import format_rfc3339
from jp_nb.record.reading.outcome_words import describe_source
from jp_nb.record.reading.question_log_entries import (
    is_answered,
    iter_ended_questions,
    read_entry_time,
)
from jp_nb.record.reading.recorded_answers import format_recorded_answer
from jp_nb.record.stream import ConversationStream

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 200
"""Maximum number of listed answers."""
NO_HISTORY: Final = "No question has been answered yet: there is no history."
UNTRUSTED_HISTORY: Final = (
    "This notebook is not trusted, so its questions and answers are not read. Only the user can "
    "change that, with `%jp trust`."
)


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
        return describe_source(self.outcome)

    def to_json(self) -> JsonObject:
        """Return the JSON object for the model."""
        stored: JsonObject = {
            "id": self.id,
            "timestamp": format_rfc3339(self.moment),
            "question": self.question,
            "answer": self.answer,
        }
        if self.words != self.answer:
            stored["label"] = self.words

        more = {"mode": self.mode, "answered_by": self.answered_by, "notebook": self.notebook}
        return stored | {key: text for key, text in more.items() if text}


def read_logged_answer(entry: JsonObject, number: int, *, is_trusted: bool) -> LoggedAnswer:
    """Return the answer in a valid log entry with the number `number`."""
    moment = read_entry_time(entry)
    assert moment is not None  # the entry is valid

    answer = entry.get("answer")
    label = entry.get("label")  # of the chosen option
    if isinstance(label, str) and label.strip():
        words = label
    else:
        words = format_recorded_answer(answer_type=None, answer=answer)

    texts = {key: value for key, value in entry.items() if isinstance(value, str)}
    return LoggedAnswer(
        id=number,
        moment=moment,
        question=str(entry["question"]),
        answer=answer,
        words=words,
        mode=texts.get("mode", ""),
        asker=texts.get("source", ""),
        outcome=read_outcome_fields("answered", entry),
        notebook=texts.get("notebook", ""),
        is_trusted=is_trusted,
    )


def list_recorded_answers(stream: ConversationStream) -> tuple[LoggedAnswer, ...]:
    """Return the answered questions of a record, in the order of the answers.

    Numbers are permanent, because a record only grows.
    """
    answered = filter(is_answered, iter_ended_questions(stream))
    numbered = enumerate(answered, 1)
    return tuple(read_logged_answer(entry, number, is_trusted=True) for number, entry in numbered)


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

        matches = []
        for logged in self.answers:
            # An answer has its label as `words`. Its own text is also searched.
            typed = logged.answer if isinstance(logged.answer, str) else ""
            # The separator prevents matches across two parts.
            searched = "\0".join((logged.question, logged.words, typed))
            if wanted in searched.casefold():
                matches.append(logged)

        return tuple(matches)

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
