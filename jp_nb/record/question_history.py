"""The questions that were answered so far: listed, looked up, searched. Pure.

They are those of a record, or those of a log that several notebooks share; either way each has a
number, from 1, that never changes.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.record.inquiry_events import read_response
from jp_nb.record.question_entry import PastAnswer, entry_of, is_answered, past_answer

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 200
"""Of the answers that are listed at once."""
NO_HISTORY: Final = "No question has been answered yet: there is no history."
UNTRUSTED: Final = (
    "This notebook is not trusted, so its questions and answers are not read. Only the user can "
    "change that, with `%jp trust`."
)


@dataclass(frozen=True, slots=True)
class QuestionHistory:
    """What was answered so far.

    Attributes:
        answers: Oldest first; empty if the notebook is not `trusted`.
        trusted: True if the notebook is the user's own.
        kept_in: `record` if only this conversation is known; `log` for all of the workspace.
        left_out: How many the user neither signed nor agreed to: no model is given them.
        damaged: How many entries could not be read.
    """

    answers: tuple[PastAnswer, ...] = ()
    trusted: bool = True
    kept_in: Literal["record", "log"] = "record"
    left_out: int = 0
    damaged: int = 0

    def latest(self, limit: int = DEFAULT_LIMIT) -> tuple[PastAnswer, ...]:
        """Return the newest `limit` answers, oldest first.

        Raises:
            UsageError: If `limit` is not a number from 1 to `MAX_LIMIT`.
        """
        return self.answers[-checked_limit(limit) :]

    def get(self, number: int) -> tuple[PastAnswer, ...]:
        """Return the answer with the id `number`; none if there is none.

        Several, if logs were merged by hand.
        """
        return tuple(answer for answer in self.answers if answer.id == number)

    def containing(self, text: str) -> tuple[PastAnswer, ...]:
        """Return those whose question or answer contains `text`, whatever its case.

        Raises:
            UsageError: If `text` is blank.
        """
        wanted = text.strip().casefold()
        if not wanted:
            raise UsageError("give a text to search for: it cannot be blank")
        return tuple(each for each in self.answers if wanted in _searched(each))

    def nothing_at(self, number: int) -> str:
        """Say that there is no answer with the id `number`."""
        if not self.answers:
            return NO_HISTORY
        highest = max(answer.id for answer in self.answers)
        return f"There is no answer with the id {number}: the highest id is {highest}."

    def nothing_like(self, text: str) -> str:
        """Say that no question and no answer contains `text`."""
        return f"No question and no answer contains {text!r}." if self.answers else NO_HISTORY


def _searched(answer: PastAnswer) -> str:
    """Return all in `answer` that is searched; the parts cannot run into each other."""
    whole = "" if not isinstance(answer.answer, str) else answer.answer
    return "\0".join((answer.question, answer.words, whole)).casefold()


def checked_limit(limit: JsonValue) -> int:
    """Return `limit`, if so many answers may be listed.

    Raises:
        UsageError: If not.
    """
    if type(limit) is not int or not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"the limit must be a whole number from 1 to {MAX_LIMIT}")
    return limit


# --- of a record -------------------------------------------------------------------------------

Pair = tuple[Mapping[str, JsonValue], Mapping[str, JsonValue]]
"""A question as a record has it, and its end."""


def ended_inquiries(raw: Sequence[Mapping[str, JsonValue]], start: int = 0) -> Iterator[Pair]:
    """Yield each question that ended in the entries of `raw` from `start` on, in that order.

    An id may come again in a later turn: a question and its end stand in one.
    """
    begin = start
    while begin > 0 and (begin == len(raw) or raw[begin].get("type") != "turn_start"):
        begin -= 1
    waiting: dict[JsonValue, Mapping[str, JsonValue]] = {}
    for index in range(begin, len(raw)):
        entry, name = raw[index], raw[index].get("id")
        match entry.get("type"):
            case "turn_start":
                waiting.clear()
            case "inquiry_request" if isinstance(name, str):
                waiting[name] = entry
            case "inquiry_response" if isinstance(name, str) and name in waiting:
                request = waiting.pop(name)
                if index >= start:
                    yield request, read_response(dict(entry))


def answers_of(raw: Sequence[Mapping[str, JsonValue]]) -> tuple[PastAnswer, ...]:
    """Return the questions of a record that were answered, in the order of their answers.

    Entries are only ever added behind, so that the number of an answer stays.
    """
    entries = (entry_of(*pair) for pair in ended_inquiries(raw))
    answered = [entry for entry in entries if entry is not None and is_answered(entry)]
    return tuple(
        past_answer(entry, number, vouched=True) for number, entry in enumerate(answered, 1)
    )
