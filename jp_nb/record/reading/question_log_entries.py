"""Log entries of questions: JSON objects with a question of a record and its end.

The question log of a workspace stores them. The history of a record is read in the same form
(`question_history.py`). Readers number the answered questions; an entry has no number itself.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from jp_nb.json_values import JsonObject
from jp_nb.record.entries.events import BY, Entry, TurnStart
from jp_nb.record.entries.inquiry_events import InquiryRequest, InquiryResponse
from jp_nb.record.entries.outcomes import ANSWER_MARKS, read_question_outcome
from jp_nb.record.entries.timestamps import (
    format_rfc3339,
    parse_rfc3339,
    parse_timestamp,
)
from jp_nb.record.reading.recorded_answers import format_recorded_answer
from jp_nb.record.stream import ConversationStream

LOGGED_MODES: Final = {"select": "choice", "text": "freetext"}
"""Names of kinds of questions in the log. Other kinds keep their names."""
ENTRY_VERSION: Final = 1


def make_log_entry(request: InquiryRequest, response: InquiryResponse) -> JsonObject | None:
    """Return the log entry of a recorded question and its end.

    Return None for secrets, and for questions that the user did not see. A question that the user
    saw and did not answer has an `outcome` and no `answer`.
    """
    question = request.question
    answer = response.answer
    outcome = read_question_outcome(response)
    moment = parse_timestamp(response.timestamp)

    if outcome.is_answered:
        is_logged = answer is not None  # a secret is not recorded
    else:
        # Older records do not store the end: the user may not have seen the question.
        is_logged = outcome.was_seen and response.metadata.get("end") == outcome.end

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


def iter_ended_questions(stream: ConversationStream, start: int = 0) -> Iterator[JsonObject]:
    """Yield the log entries of the questions that ended in `stream` from entry `start` on."""
    # A question may have begun before, in the turn of that entry.
    turn_start = _find_turn_start(stream.entries, start)
    waiting: dict[str, InquiryRequest] = {}  # ids may repeat in a later turn

    for index, entry in enumerate(stream.entries[turn_start:], turn_start):
        match entry:
            case TurnStart():
                waiting.clear()
            case InquiryRequest():
                waiting[entry.id] = entry
            case InquiryResponse():
                request = waiting.pop(entry.id, None)
                if request is None or index < start:
                    continue
                logged = make_log_entry(request, entry)
                if logged is not None:
                    yield logged


def _find_turn_start(entries: Sequence[Entry], index: int) -> int:
    """Return the index of the last `turn_start` up to `index`, or 0."""
    while index and (index == len(entries) or not isinstance(entries[index], TurnStart)):
        index -= 1
    return index


def is_answered(entry: JsonObject) -> bool:
    """Return True if the log entry has an answer, and so a number."""
    return entry.get("outcome", "answered") == "answered"


def read_entry_time(entry: JsonObject) -> datetime | None:
    """Return the time of a log entry; None if it is invalid."""
    stored = entry.get("timestamp", entry.get("datetime"))  # older logs have `datetime`
    return parse_rfc3339(stored)
