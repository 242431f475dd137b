"""Command `jp-nb check`: find secrets, and check the record and the cassette of a notebook.

No cell runs.

Source: `docs/ci.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.secrets import hide_api_keys
from jp_nb.errors import ConfigError, StorageError, UsageError
from jp_nb.headless.commands.cassette_coverage import check_up_to_date
from jp_nb.headless.commands.key_search import Finding, KeySearch
from jp_nb.headless.files import read_notebook
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.documents import carrier
from jp_nb.record.documents.document import (
    CONVERSATION_KEYS,
    RECORD_KEY,
    RECORD_VERSION,
    Document,
    get_events,
    get_others,
    list_notices,
)
from jp_nb.record.entries.clock import parse_timestamp, read_stored_id, utc_now
from jp_nb.record.entries.events import ToolCallRequest
from jp_nb.record.entries.pairs import match_pairs
from jp_nb.record.entries.turn_entries import TurnEvent
from jp_nb.record.stream import ConversationStream
from jp_nb.storage.cassettes import cassette_file as cassette_module
from jp_nb.storage.cassettes.cassette_content import parse_cassette
from jp_nb.storage.cassettes.cassette_file import read_cassette_bytes
from jp_nb.storage.configuration import answers_file
from jp_nb.storage.configuration.answers_file import decode_answers, parse_answers, read_answers
from jp_nb.text import MAX_LISTED_LINES, one_line


def check_notebook(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield the problems of a notebook: secrets, and errors of its record."""
    try:
        notebook = read_notebook(path)
    except StorageError as exc:
        yield ("", str(exc).removeprefix(f"{path}: ").removeprefix(f"{path} "))
        return

    for place, text in iter_texts(notebook, keys):
        for secret in keys.find(text):
            yield place, f"contains {secret}"
    yield from _check_record(notebook.metadata, keys)


def iter_texts(value: Any, keys: KeySearch) -> Iterator[tuple[str, str]]:
    """Yield the location and the text of each string in a JSON value, object keys included."""
    waiting = [("", value)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, Mapping):
            yield from ((place, str(name)) for name in value)
            below = []
            for key, item in value.items():
                name = one_line(keys.hide(str(key)), limit=80)
                inner = f"{place}.{name}" if place else name
                below.append((inner, item))
            waiting += reversed(below)
        elif isinstance(value, list):
            waiting += reversed([(f"{place}[{i}]", item) for i, item in enumerate(value)])


def _check_record(metadata: Any, keys: KeySearch) -> Iterator[Finding]:
    if carrier.find_unreadable_carriers(metadata):
        yield "metadata.widgets", carrier.DAMAGED

    stored = carrier.read_carrier(metadata)
    if stored is None:
        return

    yield from _check_conversation(stored, "", keys)
    others = get_others(stored)
    if not others and isinstance(stored, dict) and not get_events(stored):
        yield f"metadata.{RECORD_KEY}", "the record is empty: remove it with `jp-nb strip --record`"

    for number, other in enumerate(others):
        shape = as_object(other)
        alone: JsonObject = {key: shape[key] for key in CONVERSATION_KEYS if key in shape}
        yield from _check_conversation(
            {**alone, "version": RECORD_VERSION}, f"others[{number}].", keys
        )


def _check_conversation(stored: JsonValue, prefix: str, keys: KeySearch) -> Iterator[Finding]:
    place = f"metadata.{RECORD_KEY}"
    try:
        stream = Document.load(stored, clock=utc_now, tolerant=True).conversation
    except StorageError as exc:
        yield place, f"{prefix}{exc}"
        return

    problems = (*list_notices(stream), *_check_ids_and_times(stream, keys))
    for notice in problems:
        yield place, f"{prefix}{notice}"

    for _, turn in groupby(stream.events(), lambda event: event.turn):
        for notice in _check_pairs(turn):
            yield place, f"{prefix}{notice}"

    if stream.damage:
        return

    try:
        projection = Projection(stream, lambda: ())
        projection.config()
    except ConfigError as exc:
        yield place, f"{prefix}events: the resulting configuration is not valid at {exc.path}"
        return

    for problem in projection.problems.values():
        why = "is unknown or not valid, and is ignored"
        yield place, f"{prefix}events: the setting {problem.path} {why}"


def _check_ids_and_times(stream: ConversationStream, keys: KeySearch) -> Iterator[str]:
    counts = Counter(filter(None, map(read_stored_id, stream.raw)))
    for index, identifier in enumerate(map(read_stored_id, stream.raw)):
        if identifier is not None and counts[identifier] > 1:
            quoted = f"{keys.hide(identifier)!r:.80}"
            yield f"events[{index}].event_id: {quoted} is the id of several entries"

    for index, entry in enumerate(stream.entries):
        text = entry.timestamp
        if text and parse_timestamp(text) is None:
            yield f"events[{index}].timestamp: {keys.hide(text)!r:.80} is not a timestamp"


def _check_pairs(events: Iterable[TurnEvent]) -> Iterator[str]:
    turn = [(event.position, event.entry) for event in events]
    pairs = match_pairs(turn)

    for index, entry in turn:
        if index in pairs.unanswered:
            event = "this tool call" if isinstance(entry, ToolCallRequest) else "this question"
            yield f"events[{index}]: {event} has no response: the kernel ended first"
        elif index in pairs.loose:
            yield f"events[{index}]: this response has no request before it"


def check_cassette_file(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield the problems of a cassette: damage and secrets."""
    content = b""
    try:
        content = read_cassette_bytes(path)
        parse_cassette(path, content)
    except StorageError as exc:
        line, _, message = str(exc).removeprefix(f"{path.name}:").partition(": ")
        if line.isdecimal():
            yield f"line {line}", message
        else:
            yield "", str(exc)

    yield from _find_keys_in_lines(content, keys)


def _find_keys_in_lines(content: bytes, keys: KeySearch) -> Iterator[Finding]:
    for number, line in enumerate(content.split(b"\n"), 1):
        for secret in keys.find(line.decode("utf-8", "replace")):
            yield f"line {number}", f"contains {secret}"


def check_answers_file(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield the problems of an answers file: errors and secrets."""
    content = b""
    try:
        content = read_answers(path)
        parse_answers(decode_answers(path, content), path.name)
    except ConfigError as exc:
        place = (exc.file or "").removeprefix(f"{path.name}, ")
        message = "; ".join(problem.message for problem in exc.problems)
        if not place.startswith("line "):
            place = ""
        yield place, message

    yield from _find_keys_in_lines(content, keys)


NOTEBOOK_SUFFIX: Final = ".ipynb"
CHECKS: Final[Mapping[str, Callable[[Path, KeySearch], Iterator[Finding]]]] = {
    NOTEBOOK_SUFFIX: check_notebook,
    cassette_module.CASSETTE_SUFFIX: check_cassette_file,
    answers_file.ANSWERS_SUFFIX: check_answers_file,
}
"""The check of each kind of file, by suffix."""


def check(options: argparse.Namespace) -> int:
    """Print the findings and return 1 if there is one. At most `MAX_LISTED_LINES` for each file."""
    files = _find_files(options.files)
    keys = KeySearch(os.environ)
    has_findings = False

    for suffix, check_file in CHECKS.items():
        for path in files:
            if path.name.endswith(suffix):
                has_findings |= _print_findings(path, check_file(path, keys), keys)

    for path in files:
        notebook = _replace_suffix(path, NOTEBOOK_SUFFIX)
        if path.name.endswith(cassette_module.CASSETTE_SUFFIX) and notebook.is_file():
            has_findings |= _print_findings(notebook, check_up_to_date(notebook, path, keys), keys)

    if not has_findings:
        count = "1 file" if len(files) == 1 else f"{len(files)} files"
        print(f"{count} checked: no problems found")
    return 1 if has_findings else 0


def _find_files(named: Sequence[Path]) -> list[Path]:
    """Find the files to check, each once: the named ones, and those next to named notebooks."""
    files: dict[Path, None] = {}
    for path in chain.from_iterable(map(_expand_folder, named)):
        if not path.name.endswith(tuple(CHECKS)):
            raise UsageError(f"{path} cannot be checked: supported are *{', *'.join(CHECKS)}")
        files[path] = None
        if path.name.endswith(NOTEBOOK_SUFFIX):
            beside = (_replace_suffix(path, suffix) for suffix in CHECKS)
            files |= dict.fromkeys(file for file in beside if file.is_file())

    return [*files]


def _replace_suffix(path: Path, suffix: str) -> Path:
    known = next(end for end in CHECKS if path.name.endswith(end))
    return path.with_name(path.name.removesuffix(known) + suffix)


def _expand_folder(named: Path) -> list[Path]:
    if named.is_file():
        return [named]
    if not named.is_dir():
        raise UsageError(f"there is no file or folder {named}")

    files: list[Path] = []
    for folder, below, names in os.walk(named):
        below[:] = sorted(name for name in below if not name.startswith("."))
        visible = (name for name in sorted(names) if not name.startswith("."))
        files += [Path(folder) / name for name in visible if name.endswith(tuple(CHECKS))]

    if not files:
        raise UsageError(f"{named} contains no files to check: *{', *'.join(CHECKS)}")
    return files


def _print_findings(path: Path, findings: Iterator[Finding], keys: KeySearch) -> bool:
    shown = list(islice(findings, MAX_LISTED_LINES))
    more = sum(1 for _ in findings)
    if more:
        shown.append(("", f"and {more} more"))

    for place, message in shown:
        where = f"{one_line(place)}: " if place else ""
        line = one_line(hide_api_keys(f"{path}: {where}{message}"), limit=2000)
        print(keys.hide(line))
    return bool(shown)
