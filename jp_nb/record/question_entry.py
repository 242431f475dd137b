"""One answered question as it is kept outside of a record: what a line of the log holds. Pure.

An entry of the log is a JSON object in one line. It carries its own number, so that it is named
the same wherever it lies; older logs have three fields alone, and their place is their number.

Source: `docs/record.md`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import JsonValue, SecretBytes

from jp_nb.errors import StorageError
from jp_nb.json_values import as_object, canonical_json, read_json, storable
from jp_nb.record.answer_words import LEFT, answer_in_words
from jp_nb.record.inquiry_events import BY, marks_in, who_in
from jp_nb.record.timestamps import format_timestamp, parse_timestamp
from jp_nb.safe_text import shown_name

VERSION: Final = 1
MAX_ID: Final = 2**53 - 1
"""What every reader of JSON takes for the number that it is; a greater one is damage."""
MODES: Final = {"select": "choice", "text": "freetext"}
"""What the kinds of questions are called in logs; the others by their own names."""
_SCHEME: Final = 2
_PURPOSE: Final = f"jp_nb question {_SCHEME}"
_WITH_OFFSET: Final = re.compile(
    r"\d{4}-\d\d-\d\d[ Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_LINE_BREAKS: Final = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}
"""Ends of lines, for some readers; JSON leaves them as they are."""


@dataclass(frozen=True, slots=True)
class PastAnswer:
    """A question that was asked, and its answer.

    Attributes:
        id: Counted from 1; it never changes.
        moment: When it was answered.
        question: The question's text, as it was asked.
        answer: The answer itself.
        words: The answer in words.
        mode: `choice`, `freetext`, or another kind of question; "" if that is not known.
        channel: `form`, `stdin`, `terminal`, `configured`, `remembered`, `model`; "" likewise.
        asker: The tool that asked, `assistant`, or whoever else; "" likewise.
        marks: Those of `auto`, `timed_out` and `empty` that hold.
        notebook: Where it was asked, as seen from the workspace; "" if that is not known.
        by: Who answered, where several people share the notebook: as a page claims.
        vouched: True if it stands in the user's own record, their key signed it, or they agreed
            to it.
    """

    id: int
    moment: datetime
    question: str
    answer: JsonValue
    words: str
    mode: str = ""
    channel: str = ""
    asker: str = ""
    marks: tuple[str, ...] = ()
    notebook: str = ""
    by: str | None = None
    vouched: bool = True

    @property
    def timestamp(self) -> str:
        """The moment as RFC 3339 has it, in UTC."""
        return zoned(self.moment)

    @property
    def answered_by(self) -> str:
        """Who answered, in a word or two; "" if that is not known."""
        if "auto" in self.marks:
            return f"an automatic choice{' (timed out)' if 'timed_out' in self.marks else ''}"
        known = _ANSWERED_BY.get(self.channel, self.channel)
        return known if self.by is None else f"{known} ({shown_name(self.by)})"

    def to_json(self) -> dict[str, JsonValue]:
        """Return what a model reads of it."""
        said: dict[str, JsonValue] = {
            "id": self.id,
            "timestamp": self.timestamp,
            "question": self.question,
            "answer": self.answer,
        }
        if self.words != self.answer:
            said["label"] = self.words
        more = {"mode": self.mode, "answered_by": self.answered_by, "notebook": self.notebook}
        return said | {key: text for key, text in more.items() if text}


_ANSWERED_BY: Final = {
    "form": "the user",
    "stdin": "the user",
    "terminal": "the user",
    "remembered": "the user (remembered)",
    "configured": "the configuration",
    "answers": "the user, in an answers file",
    "model": "a model",
}


def zoned(moment: datetime) -> str:
    """Return `2026-03-18T13:19:06.841464Z`."""
    return f"{format_timestamp(moment).replace(' ', 'T')}Z"


def read_moment(text: JsonValue) -> datetime | None:
    """Return the moment that `text` names; None if it is none, or has no offset from UTC."""
    if not isinstance(text, str) or not _WITH_OFFSET.fullmatch(text):
        return None
    return parse_timestamp(text)


# --- from the record ---------------------------------------------------------------------------


def entry_of(
    request: Mapping[str, JsonValue], response: Mapping[str, JsonValue]
) -> dict[str, JsonValue] | None:
    """Return what a log keeps of a recorded question and its end, but for its number.

    None if it keeps nothing: of a secret, and where nobody was asked. A question that somebody
    saw and did not answer has an `outcome` and no `answer`.
    """
    question, about = as_object(request.get("question")), as_object(response.get("metadata"))
    kind = as_object(question.get("answer_type"))
    moment = parse_timestamp(str(response.get("timestamp")))
    outcome = _outcome(response, about)
    if moment is None or outcome is None or not _is_text(question.get("text")):
        return None
    entry: dict[str, JsonValue] = {"v": VERSION, "timestamp": zoned(moment)}
    entry["question"] = question.get("text")
    if outcome == "answered":
        answer = entry["answer"] = response.get("answer")
        words = answer_in_words(kind, answer)
        if words != answer:
            entry["label"] = words
    mode = str(kind.get("type", ""))
    entry |= {"mode": MODES.get(mode, mode), "outcome": outcome}
    entry |= {"source": _asker(request.get("source"))}
    if isinstance(channel := about.get("channel"), str):
        entry["channel"] = channel
    if (by := who_in(about)) is not None:
        entry[BY] = by
    if isinstance(answer := entry.get("answer"), str) and not answer.strip():
        entry["empty"] = True
    return entry | dict.fromkeys(marks_in(about), True)


def _outcome(response: Mapping[str, JsonValue], about: Mapping[str, JsonValue]) -> str | None:
    """Return `answered`, or how somebody left the question; None if no log keeps it."""
    outcome = response.get("outcome", "answered")
    if outcome == "answered":
        return None if response.get("answer") is None else "answered"
    end = about.get("end")
    return end if outcome == "cancelled" and isinstance(end, str) and end in LEFT else None


def _asker(source: JsonValue) -> str:
    """Return who asked: a tool by its name, else the kind of asker."""
    found = as_object(source)
    return str(found.get("name") or found.get("source") or "")


# --- a line of the log -------------------------------------------------------------------------


def to_line(entry: Mapping[str, JsonValue]) -> bytes:
    """Return `entry` as one line, its end included."""
    text = json.dumps(storable(dict(entry)), ensure_ascii=False, separators=(",", ":"))
    return text.translate(_LINE_BREAKS).encode() + b"\n"


def read_line(line: bytes) -> dict[str, JsonValue] | None:
    """Return the entry in `line`; None if it is damaged."""
    try:
        found = read_json(line.decode())
    except ValueError:
        return None
    return found if isinstance(found, dict) and is_entry(found) else None


def is_entry(found: Mapping[str, JsonValue]) -> bool:
    """Return True if `found` is an answered question, or one that ended without an answer.

    Its question is not blank, its time is one and says its offset from UTC. Its answer is not
    blank either, unless `empty` says that somebody meant it to be. Its number, if it has one, is
    a whole number from 1 to `MAX_ID`.
    """
    number = found.get("id", 1)
    if type(number) is not int or not 1 <= number <= MAX_ID or not _is_text(found.get("question")):
        return False
    if read_moment(found.get("timestamp", found.get("datetime"))) is None:
        return False
    if found.get("outcome", "answered") != "answered":
        return found["outcome"] in LEFT
    answer = found.get("answer")
    return answer is not None and (
        not isinstance(answer, str) or bool(answer.strip()) or found.get("empty") is True
    )


def is_answered(entry: Mapping[str, JsonValue]) -> bool:
    """Return True if `entry` has an answer, and so a number in the list of questions."""
    return entry.get("outcome", "answered") == "answered"


def moment_of(entry: Mapping[str, JsonValue]) -> datetime:
    """Return when the question of `entry`, which is well formed, was answered."""
    moment = read_moment(entry.get("timestamp", entry.get("datetime")))
    assert moment is not None
    return moment


def past_answer(entry: Mapping[str, JsonValue], number: int, *, vouched: bool) -> PastAnswer:
    """Return the answered question that `entry`, which is well formed, is number `number` of."""
    answer, label = entry.get("answer"), entry.get("label")
    words = label if isinstance(label, str) and label.strip() else answer_in_words(None, answer)
    text: dict[str, Any] = {
        name: value if isinstance(value := entry.get(key), str) else ""
        for name, key in (("mode", "mode"), ("channel", "channel"), ("asker", "source"))
    }
    notebook = entry.get("notebook")
    return PastAnswer(
        id=number,
        moment=moment_of(entry),
        question=str(entry["question"]),
        answer=answer,
        words=words,
        marks=marks_in(entry),
        notebook=notebook if isinstance(notebook, str) else "",
        by=who_in(entry),
        vouched=vouched,
        **text,
    )


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str) and bool(value.strip())


# --- whose it is -------------------------------------------------------------------------------


AFTER: Final = "after"
"""The key of an entry for the chain value of the lines before it; see `chained`."""


def chained(before: str, line: bytes) -> str:
    """Return the chain value of a log up to `line`, given that of the lines `before`."""
    text = line.strip(b"\r\n")
    return hashlib.sha256(before.encode("ascii", "replace") + b"\n" + text).hexdigest()


def signed(
    entry: Mapping[str, JsonValue], key: SecretBytes, workspace: str
) -> dict[str, JsonValue]:
    """Return `entry`, which has its chain value, as the holder of `key` signs it in `workspace`."""
    return {**entry, "signature": f"{_SCHEME}:{_digest(entry, key, workspace)}"}


def is_signed(entry: Mapping[str, JsonValue], key: SecretBytes, workspace: str) -> bool:
    """Return whether the holder of `key` signed `entry`, as it is, in `workspace`.

    A signature of scheme 1 named no workspace, so it is none.
    """
    found = entry.get("signature")
    if not isinstance(found, str) or not found.isascii():
        return False
    try:
        return hmac.compare_digest(found, f"{_SCHEME}:{_digest(entry, key, workspace)}")
    except StorageError:
        return False


def owned(
    lines: Iterable[tuple[bytes, Mapping[str, JsonValue] | None]],
    key: SecretBytes,
    workspace: str,
    newest: str,
) -> list[bool]:
    """Return of each line of a log whether it counts as the key holder's own.

    It does if it is signed, and no line is missing, added or moved between it and the newest one
    that was signed.

    Args:
        lines: All lines, oldest first, with the entries in them; None: it is damaged.
        key: The key.
        workspace: The workspace of the log.
        newest: The chain value of the log up to the newest line that was signed.
    """
    value, run, known = "", 0, -1
    runs: list[int | None] = []
    for line, entry in lines:
        is_own = entry is not None and is_signed(entry, key, workspace)
        if is_own and entry is not None and (after := str(entry.get(AFTER))) != value:
            value, run = after, run + 1  # what was before it is not before it now
        value = chained(value, line)
        runs.append(run if is_own else None)
        if is_own and value == newest:
            known = run
    return [each == known for each in runs]


def _digest(entry: Mapping[str, JsonValue], key: SecretBytes, workspace: str) -> str:
    said = {name: value for name, value in entry.items() if name != "signature"}
    mac = hmac.new(key.get_secret_value(), digestmod="sha256")
    for value in (_PURPOSE, workspace, said):
        mac.update(canonical_json(value).encode("ascii") + b"\n")
    return mac.hexdigest()
