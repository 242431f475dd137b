"""`jp-nb check`: find secrets in a notebook, and check its record and its cassette.

Only a replay shows for certain whether a cassette is complete. Nothing runs here: the requests in
cells, and those in the record of a headless run, must be on the cassette.

Source: `docs/ci.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import argparse
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.recording import RequestNormalizer
from jp_nb.config.secrets import find_api_keys, hide_api_keys, is_secret_name
from jp_nb.errors import ConfigError, StorageError, UsageError
from jp_nb.headless.files import read_notebook
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record import merge
from jp_nb.record.clock import parse_timestamp, stored_id, utc_now
from jp_nb.record.config_history import Projection
from jp_nb.record.context import RequestContext, build_context
from jp_nb.record.conversations import notices
from jp_nb.record.document import CONVERSATION_KEYS, KEY, VERSION, Document, events_of, others_of
from jp_nb.record.events import ChatRequest, ChatResponse, Compaction, Entry, ToolCallRequest
from jp_nb.record.integrity import match_pairs
from jp_nb.record.stream import ConversationStream
from jp_nb.storage import answers_file
from jp_nb.storage import cassette as cassette_module
from jp_nb.storage.answers_file import decode_answers, parse_answers, read_answers
from jp_nb.storage.cassette import (
    CassetteContent,
    parse_cassette,
    read_bytes,
    read_cassette,
)
from jp_nb.text import one_line, plain
from jp_nb.tools.secrets import SecretAnswers

SHORTEST_VALUE: Final = 8
"""Characters of a variable's value: a shorter one may stand in any text by chance."""
SHOWN: Final = 4
"""Characters of a key that are shown: enough to tell whose it is."""
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{60,}+\n?)*+[A-Za-z0-9+/]*+={0,2}\n?")
MIN_BASE64: Final = 200
"""Characters of what may be the bytes of a picture: some run of its letters looks like a key."""


class KeySearch:
    """Finds keys in texts.

    Args:
        environment: Its variables that are called like secrets are looked for, too.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._secrets: dict[str, SecretAnswers] = {}
        for name, value in sorted(environment.items()):
            if (
                is_secret_name(name)
                and len(value.strip()) >= SHORTEST_VALUE
                and not _is_path(value)
            ):
                secrets = self._secrets[name] = SecretAnswers()
                secrets.add(value)

    def found_in(self, text: str) -> Iterator[str]:
        """Yield for each key in `text` what it is, in words that do not tell it."""
        if len(text) < MIN_BASE64 or not _BASE64.fullmatch(text):
            shown = plain(text, limit=len(text)) if "\x1b" in text else text
            for key in dict.fromkeys(find_api_keys(shown)):
                begin = plain(key[:SHOWN]).replace("\n", " ")
                yield f"a possible API key: {begin}… ({len(key)} characters)"
        for name, secrets in self._secrets.items():
            if secrets.hide(text) != text:
                yield f"the value of the environment variable {name}"

    def hide(self, text: str) -> str:
        """Return `text` made plain, without the keys in it. What is cut first may keep a part."""
        text = hide_api_keys(plain(text, limit=len(text)))
        for secrets in self._secrets.values():
            text = secrets.hide(text)
        return text


def _is_path(value: str) -> bool:
    try:
        return os.path.lexists(value)
    except ValueError:
        return False


MAX_NAME: Final = 80
"""Characters of a key of an object, where it is part of a place."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        path: The file.
        place: Where in it, such as `cells[3].outputs[0].text`; "" if it is the file as a whole.
        message: What is wrong, without any secret.
    """

    path: Path
    place: str
    message: str

    def __str__(self) -> str:
        place = f"{one_line(self.place)}: " if self.place else ""
        return one_line(hide_api_keys(f"{self.path}: {place}{self.message}"), limit=2000)


def check_notebook(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield what is wrong with the notebook at `path`; a cassette beside it is not looked at."""
    try:
        notebook = read_notebook(path)
    except StorageError as exc:
        yield Finding(path, "", str(exc).removeprefix(f"{path}: ").removeprefix(f"{path} "))
        return
    for place, text in all_texts(notebook, keys):
        for found in keys.found_in(text):
            yield Finding(path, place, f"contains {found}")
    for place, message in _of_record(notebook.metadata, keys):
        yield Finding(path, place, message)


def cells_of(notebook: Any) -> list[Mapping[str, Any]]:
    """Return the cells of a notebook that anybody may have written; [] in place of what is none."""
    cells = notebook.get("cells")
    found = cells if isinstance(cells, list) else []
    return [cell if isinstance(cell, Mapping) else {} for cell in found]


def all_texts(value: Any, keys: KeySearch) -> Iterator[tuple[str, str]]:
    """Yield each text in JSON `value`, names included, with its place, in which no key is told."""
    waiting = [("", value)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, Mapping):
            yield from ((place, str(name)) for name in value)
            below = [(_below(place, str(name), keys), item) for name, item in value.items()]
            waiting += reversed(below)
        elif isinstance(value, list):
            waiting += reversed([(f"{place}[{i}]", item) for i, item in enumerate(value)])


def _below(place: str, name: str, keys: KeySearch) -> str:
    name = one_line(keys.hide(name), limit=MAX_NAME)
    return f"{place}.{name}" if place else name


# --- the record ------------------------------------------------------------------------------


def _of_record(metadata: Any, keys: KeySearch) -> Iterator[tuple[str, str]]:
    """Yield place and message for what is wrong with the record in a notebook's `metadata`."""
    if merge.unreadable_carrier(metadata):
        yield "metadata.widgets", merge.DAMAGED
    stored = merge.read_carrier(metadata)
    if stored is None:
        return
    yield from _of_conversation(stored, "", keys)
    others = others_of(stored)
    if not others and isinstance(stored, dict) and not events_of(stored):
        yield f"metadata.{KEY}", "the record is empty: remove it with `jp-nb strip --record`"
    for number, other in enumerate(others):
        shape = as_object(other)
        alone: JsonObject = {key: shape[key] for key in CONVERSATION_KEYS if key in shape}
        yield from _of_conversation({**alone, "version": VERSION}, f"others[{number}].", keys)


def _of_conversation(stored: JsonValue, prefix: str, keys: KeySearch) -> Iterator[tuple[str, str]]:
    place = f"metadata.{KEY}"
    try:
        stream = Document.load(stored, clock=utc_now, tolerant=True).conversation
    except StorageError as exc:
        yield place, f"{prefix}{exc}"
        return
    named = (*_ids(stream, keys), *_times(stream, keys))
    for notice in (*notices(stream), *named, *_loose_ends(stream)):
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
        yield (
            place,
            f"{prefix}events: the setting {problem.path} is unknown or not valid, and is ignored",
        )


def _ids(stream: ConversationStream, keys: KeySearch) -> Iterator[str]:
    counts = Counter(filter(None, map(stored_id, stream.raw)))
    for index, raw in enumerate(stream.raw):
        identifier = stored_id(raw)
        if identifier is not None and counts[identifier] > 1:
            shown = f"{keys.hide(identifier)!r:.80}"
            yield f"events[{index}].event_id: {shown} is the id of several entries"


def _times(stream: ConversationStream, keys: KeySearch) -> Iterator[str]:
    for index, entry in enumerate(stream.entries):
        text = entry.timestamp
        if text and parse_timestamp(text) is None:
            yield f"events[{index}].timestamp: {keys.hide(text)!r:.80} is not a timestamp"


def _loose_ends(stream: ConversationStream) -> Iterator[str]:
    """Yield what a kernel left open that ended in the middle of a turn."""
    turn: list[tuple[int, Entry]] = []
    number = 0
    for event in stream.events():
        if event.turn != number:
            yield from _of_turn(turn)
            turn, number = [], event.turn
        turn.append((event.position, event.entry))
    yield from _of_turn(turn)


def _of_turn(turn: list[tuple[int, Entry]]) -> Iterator[str]:
    _, open_, loose = match_pairs(turn)
    for index, entry in turn:
        if index in open_:
            what = "this tool call" if isinstance(entry, ToolCallRequest) else "this question"
            yield f"events[{index}]: {what} has no response: the kernel ended first"
        elif index in loose:
            yield f"events[{index}]: this response has no request before it"


MAGIC: Final = "%%jp"
NOTE: Final = "\n["
"""Begins what is said behind a request of images that it shows (`record/events.py`)."""
NOT_RUN: Final = "skip-execution"
"""The tag of a cell that runners of Jupyter pass over."""
VALUE: Final = "{{"
"""Begins a name that is replaced by what only a kernel knows."""
MAX_PROVIDERS: Final = 8
"""Of one conversation, whose point of view is tried."""
AGAIN: Final = "record it again (`jp-nb run NB --record`, `pytest --jp-record`)"


def check_cassette_file(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield what is wrong with the cassette at `path` alone: damage, and keys in it."""
    try:
        content = read_bytes(path)
    except StorageError as exc:
        yield Finding(path, "", str(exc))
        return
    try:
        parse_cassette(path, content)
    except StorageError as exc:
        line, _, message = str(exc).removeprefix(f"{path.name}:").partition(": ")
        known = line.isdecimal()
        yield Finding(path, f"line {line}" if known else "", message if known else str(exc))
    yield from keys_in_lines(path, content, keys)


def keys_in_lines(path: Path, content: bytes, keys: KeySearch) -> Iterator[Finding]:
    """Yield the keys in `content` of the file at `path`, each with its line."""
    for number, line in enumerate(content.split(b"\n"), 1):
        for found in keys.found_in(line.decode("utf-8", "replace")):
            yield Finding(path, f"line {number}", f"contains {found}")


def check_answers_file(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield what is wrong with the answers file at `path`: what it means, and keys in it."""
    try:
        content = read_answers(path)
    except ConfigError as exc:
        yield Finding(path, "", "; ".join(problem.message for problem in exc.problems))
        return
    try:
        parse_answers(decode_answers(path, content), path.name)
    except ConfigError as exc:
        place = (exc.file or "").removeprefix(f"{path.name}, ")
        known = place.startswith("line ")
        message = "; ".join(problem.message for problem in exc.problems)
        yield Finding(path, place if known else "", message)
    yield from keys_in_lines(path, content, keys)


def check_up_to_date(notebook: Path, cassette: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield what the notebook asks, or its last headless run said, that is not on its cassette.

    Nothing of what either check of the files alone finds.
    """
    try:
        content, read = read_cassette(cassette), read_notebook(notebook)
    except StorageError:
        return
    asked = _asked(content)
    for number, cell in enumerate(cells_of(read)):
        text = _request(cell)
        if text and VALUE not in text and not _is_asked(text, asked):
            message = f"the request of this cell is not in {cassette.name}: {AGAIN}"
            yield Finding(notebook, f"cells[{number}]", message)
    unknown = _first_unknown(read.metadata, content)
    if unknown is not None:
        said = one_line(keys.hide(unknown), limit=100)
        message = (
            f"a message after the request {said!r} of the last run is not in "
            f"{cassette.name}: {AGAIN}"
        )
        yield Finding(notebook, "metadata.jp", message)


# --- what cells ask --------------------------------------------------------------------------


def _request(cell: Any) -> str:
    """Return the request of a `%%jp` cell that runners run; "" of any other cell."""
    tags = cell.get("metadata", {}).get("tags")
    if isinstance(tags, list) and NOT_RUN in tags:
        return ""
    if cell.get("cell_type") != "code" or not isinstance(source := cell.get("source"), str):
        return ""
    first, _, rest = source.strip().partition("\n")
    return rest.strip() if first.split()[:1] == [MAGIC] else ""


def _asked(content: CassetteContent) -> list[str]:
    """Return all that a person asks on the cassette, sorted."""
    texts = (part.value for part in content.parts.values() if part.value.get("role") == "user")
    return sorted(str(value.get("text", "")).strip() for value in texts)


def _is_asked(text: str, asked: list[str]) -> bool:
    """Return True if one of `asked` is `text`, or is that with notes on images behind it."""
    noted = text + NOTE
    whole, longer = bisect_left(asked, text), bisect_left(asked, noted)
    is_there = whole < len(asked) and asked[whole] == text
    return is_there or (longer < len(asked) and asked[longer].startswith(noted))


# --- what the record says --------------------------------------------------------------------


def _first_unknown(metadata: Any, content: CassetteContent) -> str | None:
    """Return the request in the record after which something was sent that is not on the cassette.

    None if all is there, or that cannot be told: the record is damaged, was not made by a headless
    run, or compacted.
    """
    try:
        document = Document.load(merge.read_carrier(metadata), clock=utc_now)
    except StorageError:
        return None
    stream = document.conversation
    made_so = stream.head.get("made") == "headless"
    if not made_so or any(isinstance(entry, Compaction) for entry in stream.entries):
        return None
    try:
        providers = Projection(stream, lambda: ()).providers()
    except ConfigError:
        return None
    thread = build_context(stream, providers)
    known = [
        {index for index, each in enumerate(_messages(thread, name)) if each in content.parts}
        for name in list(dict.fromkeys(providers))[:MAX_PROVIDERS]
    ]
    for index, request in _sent(thread):
        if not any(index in each for each in known):
            return request.content
    return None


def _messages(thread: RequestContext, provider: str) -> list[tuple[str, str]]:
    """Return the messages of `thread`, as `provider` is sent them, by kind and id."""
    asked = RequestNormalizer(provider).of(ModelRequest(model="", thread=thread))
    return [(part.kind, part.id) for part in asked.messages]


def _sent(thread: RequestContext) -> Iterator[tuple[int, ChatRequest]]:
    """Yield the number of each item of `thread` that was sent, and the request it belongs to."""
    items = [item.entry for item in thread]
    while items and isinstance(items[-1], ChatResponse):
        items.pop()  # what the model said last
    request: ChatRequest | None = None
    for index, entry in enumerate(items):
        if isinstance(entry, ChatRequest):
            request = entry
        if request is not None:
            yield index, request


NOTEBOOK: Final = ".ipynb"
ENDS: Final = (NOTEBOOK, cassette_module.SUFFIX, answers_file.SUFFIX)
"""Of the names of the files that are checked."""
MAX_LISTED: Final = 20
"""Findings of one kind in one file."""


def check(options: argparse.Namespace) -> int:
    """Print a line for each finding; return 1 if there are any."""
    files = _files(options.files)
    keys = KeySearch(os.environ)
    found = False
    for path in files.notebooks:
        found |= _tell(path, check_notebook(path, keys), keys)
    for path in files.cassettes:
        found |= _tell(path, check_cassette_file(path, keys), keys)
    for path in files.answers:
        found |= _tell(path, check_answers_file(path, keys), keys)
    for notebook, cassette in files.pairs:
        found |= _tell(notebook, check_up_to_date(notebook, cassette, keys), keys)
    if not found:
        count = len(files.notebooks) + len(files.cassettes) + len(files.answers)
        print(f"{count} file{'' if count == 1 else 's'} checked: no problems found")
    return 1 if found else 0


@dataclass(slots=True)
class CheckedFiles:
    """What is looked at, each file once: dictionaries keep the order in which it was named."""

    notebooks: dict[Path, None] = field(default_factory=dict)
    cassettes: dict[Path, None] = field(default_factory=dict)
    answers: dict[Path, None] = field(default_factory=dict)
    pairs: dict[tuple[Path, Path], None] = field(default_factory=dict)


def _files(named: Sequence[Path]) -> CheckedFiles:
    """Return what is to be looked at: what is named, and what lies beside notebooks among it.

    Raises:
        UsageError: If there is no such file, or it is none of those.
    """
    files = CheckedFiles()
    for path in (file for each in named for file in _listed(each)):
        found = next((end for end in ENDS if path.name.endswith(end)), None)
        if found is None:
            raise UsageError(f"{path} cannot be checked: supported are *{', *'.join(ENDS)}")
        _add(files, path, path.with_name(path.name.removesuffix(found) + NOTEBOOK))
    return files


def _listed(named: Path) -> list[Path]:
    """Return `named`, or what is to be checked in that folder; what is hidden is not."""
    if named.is_file():
        return [named]
    if not named.is_dir():
        raise UsageError(f"there is no file or folder {named}")
    found: list[Path] = []
    for folder, below, names in os.walk(named):
        below[:] = sorted(name for name in below if not name.startswith("."))
        shown = (name for name in sorted(names) if not name.startswith("."))
        found += [Path(folder) / name for name in shown if name.endswith(ENDS)]
    if not found:
        raise UsageError(f"{named} contains no files to check: *{', *'.join(ENDS)}")
    return found


def _add(files: CheckedFiles, path: Path, notebook: Path) -> None:
    """Add `path`, which is `notebook` or a file beside it, and what it is held against."""
    cassette, answers = (
        cassette_module.default_cassette_path(notebook),
        notebook.with_suffix(answers_file.SUFFIX),
    )
    if path == notebook:
        files.notebooks[path] = None
    if path in (notebook, cassette) and cassette.is_file():
        files.cassettes[cassette] = None
        if notebook.is_file():
            files.pairs[notebook, cassette] = None
    if path in (notebook, answers) and answers.is_file():
        files.answers[answers] = None


def _tell(path: Path, findings: Iterator[Finding], keys: KeySearch) -> bool:
    """Print the first `findings` about one file; return True if there is one."""
    first = list(islice(findings, MAX_LISTED))
    for finding in first:
        print(keys.hide(str(finding)))
    if (more := sum(1 for _ in findings)) > 0:
        print(keys.hide(str(Finding(path, "", f"and {more} more"))))
    return bool(first)
