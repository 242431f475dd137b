"""Lines of a question log: encode, decode, and sign entries.

Each line is one entry: a question of a record with its answer, or with the `outcome` of one that
the user saw and did not answer (`make_log_entry` in `question_log_entries.py`). Answers have a
permanent number, counted from 1.

A signature covers the entry, the workspace, and the *chain value* of the lines before it: a digest
of all of them. The lines of a whole log are in `question_log_contents.py`. No I/O: files are in
`question_log_file.py`.

Source: `docs/record.md`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from contextlib import suppress
from typing import Final

from pydantic import SecretBytes

from jp_nb.errors import StorageError
from jp_nb.json_limits import MAX_INTEGER
from jp_nb.json_reading import read_json
from jp_nb.json_values import JsonObject, as_object
from jp_nb.json_writing import canonical_json
from jp_nb.record.entries.outcomes import SEEN_ENDS
from jp_nb.record.reading.question_log_entries import is_answered, read_entry_time
from jp_nb.storable_json import make_storable

AFTER_KEY: Final = "after"
"""Key of the chain value of the lines before an entry."""
_SCHEME: Final = 2
_PURPOSE: Final = f"jp_nb question {_SCHEME}"
_LINE_BREAKS: Final = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}
"""Line ends for some readers, which JSON does not escape."""

LogEntry = JsonObject
"""Keys are `question`, `answer` or `outcome`, a time, `source`, `id` (the number), and others."""


def encode_log_entry(entry: LogEntry) -> bytes:
    """Return `entry` as one line."""
    text = json.dumps(make_storable(dict(entry)), ensure_ascii=False, separators=(",", ":"))
    return text.translate(_LINE_BREAKS).encode() + b"\n"


def decode_log_entry(line: bytes) -> LogEntry | None:
    """Return the entry in `line`, or None if it is damaged.

    Its question is not blank, and its time has an offset from UTC. Its answer is not blank unless
    `empty` is true. Its number, if it has one, is from 1 to `MAX_INTEGER`.
    """
    try:
        entry = as_object(read_json(line.decode()))
    except ValueError:
        return None
    question = entry.get("question")
    number = entry.get("id", 1)
    answer = entry.get("answer")

    if not isinstance(question, str) or not question.strip():
        return None
    if type(number) is not int or not 1 <= number <= MAX_INTEGER or read_entry_time(entry) is None:
        return None

    # Without an answer, only the end of a question that the user saw is valid.
    if not is_answered(entry):
        outcome = entry["outcome"]
        return entry if isinstance(outcome, str) and outcome in SEEN_ENDS else None

    is_blank = isinstance(answer, str) and not answer.strip() and entry.get("empty") is not True
    return None if answer is None or is_blank else entry


def extend_chain(before: str, line: bytes) -> str:
    """Return the chain value of a log up to `line`. `before` is that of the lines before."""
    text = line.strip(b"\r\n")
    return hashlib.sha256(before.encode("ascii", "replace") + b"\n" + text).hexdigest()


def sign_entry(entry: LogEntry, key: SecretBytes, workspace: str) -> LogEntry:
    """Return `entry`, which has its chain value, with a signature for `workspace`."""
    return {**entry, "signature": _signature(entry, key, workspace)}


def has_valid_signature(entry: LogEntry, key: SecretBytes, workspace: str) -> bool:
    """Return True if `key` signed this `entry` in `workspace`.

    Signatures of scheme 1 are not valid, because they do not cover the workspace.
    """
    found = entry.get("signature")
    if isinstance(found, str) and found.isascii():
        with suppress(StorageError):
            return hmac.compare_digest(found, _signature(entry, key, workspace))
    return False


def _signature(entry: LogEntry, key: SecretBytes, workspace: str) -> str:
    """Return the signature of `entry`. A signature that it has already does not count."""
    unsigned = {name: value for name, value in entry.items() if name != "signature"}
    mac = hmac.new(key.get_secret_value(), digestmod="sha256")
    for value in (_PURPOSE, workspace, unsigned):
        mac.update(canonical_json(value).encode("ascii") + b"\n")
    return f"{_SCHEME}:{mac.hexdigest()}"
