"""Entries of the question log, and queries.

An entry is a JSON object in one line. It has a permanent number, counted from 1. Entries of older
logs have three fields, and their position is their number. Entries are from one record, or from a
log that several notebooks share.

An imported table has the columns datetime, question and answer, separated by semicolons and quoted
as in RFC 4180. Its first line may have their names.

Source: `docs/record.md`, RFC 4180.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from pydantic import JsonValue, SecretBytes

from jp_nb.errors import StorageError, UsageError
from jp_nb.json_values import (
    as_object,
    canonical_json,
    is_deeper,
    make_storable,
    read_json,
    sorted_json,
)
from jp_nb.record.clock import format_timestamp, parse_timestamp
from jp_nb.record.events import BY, normalize_response
from jp_nb.record.outcomes import (
    ANSWERED,
    CHANNEL_WORDS,
    MARKS,
    SEEN_ENDS,
    QuestionEnd,
    QuestionOutcome,
    read_details,
)
from jp_nb.text import format_user_name

NONE_OF_THESE: Final = "none of these"
EMPTY: Final = "(empty)"
MAX_LEVELS: Final = 8
"""Maximum nesting of forms and answers. Deeper values are shown as JSON."""
_OWN_WORDS: Final = {"selected", "custom"}
"""Keys of an answer with selected options and an own text."""


def format_answer(answer_type: JsonValue, answer: JsonValue) -> str:
    """Return `answer` as text. `answer_type` is the recorded kind of the question.

    >>> sizes = {"type": "select", "options": [{"value": 1, "label": "small"}, {"value": 2}]}
    >>> format_answer(sizes, [2, 1]), format_answer(sizes, {"selected": 1, "custom": "or less"})
    ('2, small', 'small, "or less"')
    >>> format_answer({"type": "boolean"}, True), format_answer(sizes, [])
    ('Yes', 'none of these')
    """
    if is_deeper(answer, MAX_LEVELS):
        return sorted_json(answer)
    return _format(_Kind.of(answer_type), answer, MAX_LEVELS)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The kind of a question: the labels of its options, or the fields of a form."""

    labels: Mapping[str, str]
    fields: Mapping[str, Mapping[str, JsonValue]]
    is_form: bool

    @classmethod
    def of(cls, answer_type: JsonValue) -> _Kind:
        kind = as_object(answer_type)
        options, fields = kind.get("options"), kind.get("fields")
        listed = fields if isinstance(fields, list) else []
        return cls(
            dict(_read_labels(options if isinstance(options, list) else [])),
            {str(each.get("id")): each for each in listed if isinstance(each, dict)},
            kind.get("type") == "form" or isinstance(fields, list),
        )


def _read_labels(options: list[JsonValue]) -> Iterator[tuple[str, str]]:
    # Keyed by JSON: `true` and 1 are different values.
    for option in options:
        if isinstance(option, dict) and "value" in option:
            label = option.get("label")
            if isinstance(label, str) and label.strip():
                yield sorted_json(option["value"]), label


def _format(kind: _Kind, answer: JsonValue, levels: int) -> str:
    if levels == 0:
        return sorted_json(answer)
    if label := kind.labels.get(sorted_json(answer)):
        return label
    match answer:
        case bool():
            return "Yes" if answer else "No"
        case str():
            return answer if answer.strip() else EMPTY
        case None:
            return EMPTY
        case list():
            return ", ".join(_format(kind, each, levels - 1) for each in answer) or NONE_OF_THESE
        case dict() if not kind.is_form and "selected" in answer and set(answer) <= _OWN_WORDS:
            return ", ".join(_format_with_custom(kind, answer, levels))
        case dict():
            return "; ".join(_format_fields(kind, answer, levels)) or EMPTY
        case _:
            return sorted_json(answer)


def _format_with_custom(kind: _Kind, answer: Mapping[str, JsonValue], levels: int) -> Iterator[str]:
    picked, custom = answer["selected"], answer.get("custom")
    if picked not in (None, []):
        yield _format(kind, picked, levels - 1)
    if isinstance(custom, str):
        yield f'"{custom}"'
    elif picked in (None, []):
        yield NONE_OF_THESE


def _format_fields(kind: _Kind, answer: Mapping[str, JsonValue], levels: int) -> Iterator[str]:
    for key, value in answer.items():
        field = kind.fields.get(key, {})
        text = field.get("text")
        title = text if isinstance(text, str) and text.strip() else key
        yield f"{title}: {_format(_Kind.of(field.get('answer_type')), value, levels - 1)}"


VERSION: Final = 1
MAX_ID: Final = 2**53 - 1
"""Largest integer that every JSON reader represents exactly. A larger id is damage."""
MODES: Final = {"select": "choice", "text": "freetext"}
"""Names of kinds of questions in the log. Other kinds keep their names."""
_SCHEME: Final = 2
_PURPOSE: Final = f"jp_nb question {_SCHEME}"
_WITH_OFFSET: Final = re.compile(
    r"\d{4}-\d\d-\d\d[ Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_LINE_BREAKS: Final = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}
"""Line ends for some readers, which JSON does not escape."""


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """A question and its answer.

    Attributes:
        id: Permanent number, counted from 1.
        moment: Time of the answer.
        question: Text of the question.
        answer: The answer.
        words: The answer as text.
        mode: `choice`, `freetext`, or another kind of question; "" if unknown.
        asker: Name of the tool, `assistant`, or another asker; "" if unknown.
        outcome: Source of the answer, marks, and the name of the user.
        notebook: Path of the notebook, relative to the workspace; "" if unknown.
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
    def timestamp(self) -> str:
        """Time of the answer in RFC 3339, in UTC."""
        return format_rfc3339(self.moment)

    @property
    def answered_by(self) -> str:
        """Short text about the source of the answer; "" if unknown."""
        outcome, channel = self.outcome, self.outcome.channel or ""
        if outcome.auto:
            return f"an automatic choice{' (timed out)' if outcome.timed_out else ''}"
        words = CHANNEL_WORDS.get(channel)
        known = channel if words is None else words.person
        return known if outcome.by is None else f"{known} ({format_user_name(outcome.by)})"

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON object for the model."""
        stored: dict[str, JsonValue] = {
            "id": self.id,
            "timestamp": self.timestamp,
            "question": self.question,
            "answer": self.answer,
        }
        if self.words != self.answer:
            stored["label"] = self.words
        more = {"mode": self.mode, "answered_by": self.answered_by, "notebook": self.notebook}
        return stored | {key: text for key, text in more.items() if text}


def format_rfc3339(moment: datetime) -> str:
    """Return a time such as `2026-03-18T13:19:06.841464Z`."""
    return f"{format_timestamp(moment).replace(' ', 'T')}Z"


def parse_rfc3339(text: JsonValue) -> datetime | None:
    """Return the time of `text`, or None if it is invalid or has no offset from UTC."""
    if not isinstance(text, str) or not _WITH_OFFSET.fullmatch(text):
        return None
    return parse_timestamp(text)


# --- from the record ---------------------------------------------------------------------------


def make_entry(
    request: Mapping[str, JsonValue], response: Mapping[str, JsonValue]
) -> dict[str, JsonValue] | None:
    """Return the log entry of a recorded question and its end, without a number.

    Return None for secrets, and for questions that the user did not see. A question that the user
    saw and did not answer has an `outcome` and no `answer`.
    """
    question, about = as_object(request.get("question")), as_object(response.get("metadata"))
    kind = as_object(question.get("answer_type"))
    moment = parse_timestamp(str(response.get("timestamp")))
    end = _find_end(response, about)
    if moment is None or end is None or not _is_text(question.get("text")):
        return None
    entry: dict[str, JsonValue] = {"v": VERSION, "timestamp": format_rfc3339(moment)}
    entry["question"] = question.get("text")
    if end == "answered":
        answer = entry["answer"] = response.get("answer")
        words = format_answer(kind, answer)
        if words != answer:
            entry["label"] = words
    mode = str(kind.get("type", ""))
    entry |= {"mode": MODES.get(mode, mode), "outcome": end}
    entry |= {"source": _find_asker(request.get("source"))}
    outcome = read_details(end, about)
    sources = {"channel": outcome.channel, BY: outcome.by}
    entry |= {key: value for key, value in sources.items() if value is not None}
    if isinstance(answer := entry.get("answer"), str) and not answer.strip():
        entry["empty"] = True
    return entry | {mark: True for mark in MARKS if mark in outcome.marks}


def _find_end(
    response: Mapping[str, JsonValue], about: Mapping[str, JsonValue]
) -> QuestionEnd | None:
    outcome = response.get("outcome", "answered")
    if outcome == "answered":
        return None if response.get("answer") is None else "answered"
    seen = (end for end in SEEN_ENDS if end == about.get("end"))
    return next(seen, None) if outcome == "cancelled" else None


def _find_asker(source: JsonValue) -> str:
    found = as_object(source)
    return str(found.get("name") or found.get("source") or "")


# --- a line of the log -------------------------------------------------------------------------


def encode_entry(entry: Mapping[str, JsonValue]) -> bytes:
    """Return `entry` as one line."""
    text = json.dumps(make_storable(dict(entry)), ensure_ascii=False, separators=(",", ":"))
    return text.translate(_LINE_BREAKS).encode() + b"\n"


def decode_entry(line: bytes) -> dict[str, JsonValue] | None:
    """Return the entry in `line`, or None if it is damaged."""
    try:
        found = read_json(line.decode())
    except ValueError:
        return None
    return found if isinstance(found, dict) and is_entry(found) else None


def is_entry(found: Mapping[str, JsonValue]) -> bool:
    """Return True if `found` is a valid entry.

    Its question is not blank, and its time has an offset from UTC. Its answer is not blank unless
    `empty` is true. Its number, if it has one, is from 1 to `MAX_ID`.
    """
    number = found.get("id", 1)
    if type(number) is not int or not 1 <= number <= MAX_ID or not _is_text(found.get("question")):
        return False
    if parse_rfc3339(found.get("timestamp", found.get("datetime"))) is None:
        return False
    if found.get("outcome", "answered") != "answered":
        return found["outcome"] in SEEN_ENDS
    answer = found.get("answer")
    return answer is not None and (
        not isinstance(answer, str) or bool(answer.strip()) or found.get("empty") is True
    )


def is_answered(entry: Mapping[str, JsonValue]) -> bool:
    """Return True if `entry` has an answer, and so a number."""
    return entry.get("outcome", "answered") == "answered"


def answered_at(entry: Mapping[str, JsonValue]) -> datetime:
    """Return the time of `entry`, which is valid."""
    moment = parse_rfc3339(entry.get("timestamp", entry.get("datetime")))
    assert moment is not None
    return moment


def to_logged_answer(
    entry: Mapping[str, JsonValue], number: int, *, is_trusted: bool
) -> LoggedAnswer:
    """Return the answer in `entry`, which is valid and has the number `number`."""
    answer, label = entry.get("answer"), entry.get("label")
    words = label if isinstance(label, str) and label.strip() else format_answer(None, answer)
    texts = {key: value for key, value in entry.items() if isinstance(value, str)}
    return LoggedAnswer(
        id=number,
        moment=answered_at(entry),
        question=str(entry["question"]),
        answer=answer,
        words=words,
        mode=texts.get("mode", ""),
        asker=texts.get("source", ""),
        outcome=read_details("answered", entry),
        notebook=texts.get("notebook", ""),
        is_trusted=is_trusted,
    )


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str) and bool(value.strip())


# --- signatures --------------------------------------------------------------------------------


AFTER: Final = "after"
"""Key of the chain value of the lines before an entry. See `extend_chain`."""


def extend_chain(before: str, line: bytes) -> str:
    """Return the chain value of a log up to `line`. `before` is that of the lines before."""
    text = line.strip(b"\r\n")
    return hashlib.sha256(before.encode("ascii", "replace") + b"\n" + text).hexdigest()


def sign_entry(
    entry: Mapping[str, JsonValue], key: SecretBytes, workspace: str
) -> dict[str, JsonValue]:
    """Return `entry`, which has its chain value, with a signature for `workspace`."""
    return {**entry, "signature": f"{_SCHEME}:{_entry_digest(entry, key, workspace)}"}


def has_valid_signature(entry: Mapping[str, JsonValue], key: SecretBytes, workspace: str) -> bool:
    """Return True if `key` signed this `entry` in `workspace`.

    Signatures of scheme 1 are not valid, because they do not cover the workspace.
    """
    found = entry.get("signature")
    if not isinstance(found, str) or not found.isascii():
        return False
    try:
        return hmac.compare_digest(found, f"{_SCHEME}:{_entry_digest(entry, key, workspace)}")
    except StorageError:
        return False


def find_own_lines(
    lines: Iterable[tuple[bytes, Mapping[str, JsonValue] | None]],
    key: SecretBytes,
    workspace: str,
    newest: str,
) -> list[bool]:
    """Return for each line of a log if it is the key holder's own.

    It is if it is signed, and no line between it and the newest signed line is missing, added, or
    moved.

    Args:
        lines: All lines, oldest first, with their entries; None for a damaged line.
        key: The user's key.
        workspace: The workspace of the log.
        newest: The chain value of the log up to the newest signed line.
    """
    value, run, known = "", 0, -1
    runs: list[int | None] = []
    for line, entry in lines:
        is_own = entry is not None and has_valid_signature(entry, key, workspace)
        if is_own and entry is not None and (after := str(entry.get(AFTER))) != value:
            value, run = after, run + 1  # the lines before it have changed
        value = extend_chain(value, line)
        runs.append(run if is_own else None)
        if is_own and value == newest:
            known = run
    return [each == known for each in runs]


def _entry_digest(entry: Mapping[str, JsonValue], key: SecretBytes, workspace: str) -> str:
    unsigned = {name: value for name, value in entry.items() if name != "signature"}
    mac = hmac.new(key.get_secret_value(), digestmod="sha256")
    for value in (_PURPOSE, workspace, unsigned):
        mac.update(canonical_json(value).encode("ascii") + b"\n")
    return mac.hexdigest()


DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 200
"""Maximum number of listed answers."""
NO_HISTORY: Final = "No question has been answered yet: there is no history."
UNTRUSTED: Final = (
    "This notebook is not trusted, so its questions and answers are not read. Only the user can "
    "change that, with `%jp trust`."
)


@dataclass(frozen=True, slots=True)
class QuestionHistory:
    """The answers so far.

    Attributes:
        answers: Oldest first. Empty if the notebook is not `trusted`.
        trusted: True if the notebook is the user's own.
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
        """Return the newest `limit` answers, oldest first.

        Raises:
            UsageError: `limit` is not a number from 1 to `MAX_LIMIT`.
        """
        return self.answers[-validate_limit(limit) :]

    def get(self, number: int) -> tuple[LoggedAnswer, ...]:
        """Return the answers with the id `number`.

        There may be several if logs were merged by hand.
        """
        return tuple(answer for answer in self.answers if answer.id == number)

    def containing(self, text: str) -> tuple[LoggedAnswer, ...]:
        """Return the answers whose question or answer contains `text`, ignoring case.

        Raises:
            UsageError: `text` is blank.
        """
        wanted = text.strip().casefold()
        if not wanted:
            raise UsageError("give a text to search for: it cannot be blank")
        return tuple(each for each in self.answers if wanted in _search_text(each))

    def format_unknown_id(self, number: int) -> str:
        """Return the message that no answer has the id `number`."""
        if not self.answers:
            return NO_HISTORY
        highest = max(answer.id for answer in self.answers)
        return f"There is no answer with the id {number}: the highest id is {highest}."

    def format_no_match(self, text: str) -> str:
        """Return the message that no question and no answer contains `text`."""
        return f"No question and no answer contains {text!r}." if self.answers else NO_HISTORY


def _search_text(answer: LoggedAnswer) -> str:
    # The separator prevents matches across two parts.
    whole = "" if not isinstance(answer.answer, str) else answer.answer
    return "\0".join((answer.question, answer.words, whole)).casefold()


def validate_limit(limit: JsonValue) -> int:
    """Return `limit` if it is a valid number of answers.

    Raises:
        UsageError: It is not.
    """
    if type(limit) is not int or not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"the limit must be a whole number from 1 to {MAX_LIMIT}")
    return limit


# --- of a record -------------------------------------------------------------------------------

Pair = tuple[Mapping[str, JsonValue], Mapping[str, JsonValue]]
"""A recorded question and its end."""


def ended_inquiries(raw: Sequence[Mapping[str, JsonValue]], start: int = 0) -> Iterator[Pair]:
    """Yield each question that ended in the entries of `raw` from `start` on, in order of the ends.

    Ids may repeat in a later turn. A question and its end are in the same turn.
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
                    yield request, normalize_response(dict(entry))


def recorded_answers(raw: Sequence[Mapping[str, JsonValue]]) -> tuple[LoggedAnswer, ...]:
    """Return the answered questions of a record, in the order of the answers.

    Numbers are permanent, because a record only grows.
    """
    entries = (make_entry(*pair) for pair in ended_inquiries(raw))
    answered = [entry for entry in entries if entry is not None and is_answered(entry)]
    return tuple(
        to_logged_answer(entry, number, is_trusted=True) for number, entry in enumerate(answered, 1)
    )


COLUMNS = ("datetime", "question", "answer")


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a table, or the lines of a log.

    Attributes:
        entries: The valid entries, oldest first. `row` identifies a row in repeated imports.
        skipped: The line number and the error of each other row.
    """

    entries: tuple[dict[str, JsonValue], ...]
    skipped: tuple[str, ...]


def read_rows(text: str) -> TableRows:
    """Return the rows of the table `text`."""
    entries: list[dict[str, JsonValue]] = []
    skipped: list[str] = []
    seen: Counter[str] = Counter()
    for line, row in _rows(text):
        if isinstance(row, str):
            skipped.append(f"line {line}: {row}")
        elif line == 1 and tuple(cell.strip().lower() for cell in row) == COLUMNS:
            continue
        elif isinstance(found := _entry(row), str):
            skipped.append(f"line {line}: {found}")
        else:
            found["row"] = _row_digest(list(row), seen)
            entries.append(found)
    return _in_order(entries, skipped)


def read_log(text: str) -> TableRows:
    """Return the answered questions of a log, without their numbers and signatures."""
    entries: list[dict[str, JsonValue]] = []
    skipped: list[str] = []
    seen: Counter[str] = Counter()
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        entry = decode_entry(line.encode("utf-8", "replace"))
        if entry is None:
            skipped.append(f"line {number}: not a log entry")
        elif is_answered(entry):
            moment = format_rfc3339(answered_at(entry))
            kept = {key: value for key, value in entry.items() if key not in _NOT_IMPORTED}
            row = _row_digest([moment, entry["question"], entry["answer"]], seen)
            entries.append({"v": VERSION, "timestamp": moment, **kept, "row": row})
    return _in_order(entries, skipped)


_NOT_IMPORTED = {"v", "id", "timestamp", "datetime", "trusted", "signature", "row"}


def _in_order(entries: Sequence[dict[str, JsonValue]], skipped: Sequence[str]) -> TableRows:
    return TableRows(tuple(sorted(entries, key=lambda x: str(x["timestamp"]))), tuple(skipped))


def _rows(text: str) -> Iterator[tuple[int, Sequence[str] | str]]:
    """Yield each row that is not empty, or an error, with the line number of its end."""
    reader = csv.reader(
        io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=";", strict=True
    )
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as exc:
            yield reader.line_num, str(exc)
            continue
        if row:
            yield reader.line_num, row


def _entry(row: Sequence[str]) -> dict[str, JsonValue] | str:
    """Return the entry of `row` without a number, or an error."""
    if len(row) != len(COLUMNS):
        return f"{len(row)} columns, expected datetime;question;answer"
    when, question, answer = row
    # As in the record, a time without an offset is UTC.
    moment = parse_rfc3339(when.strip()) or parse_timestamp(when.strip())
    if moment is None:
        return f"{when[:40]!r} is not a date with a time, such as 2026-03-18T13:19:06Z"
    if not question.strip() or not answer.strip():
        return "the question or the answer is blank"
    return {
        "v": VERSION,
        "timestamp": format_rfc3339(moment),
        "question": question,
        "answer": answer,
    }


def _row_digest(row: list[JsonValue] | list[str], seen: Counter[str]) -> str:
    # Equal rows are numbered in `seen`, so that each has its own digest.
    text = sorted_json([*row])
    seen[text] += 1
    return hashlib.sha256(f"{seen[text]} {text}".encode("utf-8", "replace")).hexdigest()
