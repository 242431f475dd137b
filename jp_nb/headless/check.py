"""Command `jp-nb check`: find secrets, and check the record and the cassette of a notebook.

Nothing runs here. The requests of cells and of the record of a headless run must be on the
cassette, but only a replay shows that the cassette is complete.

Source: `docs/ci.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import argparse
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.agent.exchanges import RequestNormalizer
from jp_nb.agent.provider import ModelRequest
from jp_nb.config.secrets import (
    SECRET_ANSWER,
    Redactor,
    find_api_keys,
    hide_api_keys,
    is_secret_name,
)
from jp_nb.errors import ConfigError, StorageError, UsageError
from jp_nb.headless.files import read_notebook
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record import merge
from jp_nb.record.clock import parse_timestamp, read_stored_id, utc_now
from jp_nb.record.config_history import Projection
from jp_nb.record.context import RequestContext, build_context
from jp_nb.record.document import (
    CONVERSATION_KEYS,
    RECORD_KEY,
    RECORD_VERSION,
    Document,
    get_events,
    get_others,
    list_notices,
)
from jp_nb.record.events import ChatRequest, ChatResponse, Compaction, ToolCallRequest
from jp_nb.record.head import RequestHead, read_request_head
from jp_nb.record.integrity import match_pairs
from jp_nb.record.stream import ConversationStream, TurnEvent
from jp_nb.storage import answers_file
from jp_nb.storage import cassette_file as cassette_module
from jp_nb.storage.answers_file import decode_answers, parse_answers, read_answers
from jp_nb.storage.cassette_file import (
    CassetteContent,
    parse_cassette,
    read_cassette,
    read_cassette_bytes,
)
from jp_nb.text import MAX_LISTED_LINES, one_line, plain

SHORTEST_VALUE: Final = 8  # a shorter value of a variable may occur in a text by chance
SHOWN_KEY_CHARS: Final = 4  # number of characters of a key that identify it in a finding
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{60,}+\n?)*+[A-Za-z0-9+/]*+={0,2}\n?")
MIN_BASE64: Final = 200  # minimum length of image data, which may look like it contains keys


class KeySearch:
    """Finds API keys, and values of environment variables such as `SERVICE_TOKEN`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._secrets: dict[str, Redactor] = {}
        for name, value in sorted(environment.items()):
            if not is_secret_name(name) or len(value.strip()) < SHORTEST_VALUE:
                continue
            with suppress(ValueError):
                if os.path.lexists(value):
                    continue
            self._secrets[name] = Redactor(SECRET_ANSWER, value)

    def find(self, text: str) -> Iterator[str]:
        """Yield a description of each secret in `text`, with at most the beginning of a key."""
        if len(text) < MIN_BASE64 or not _BASE64.fullmatch(text):
            visible = plain(text, limit=len(text)) if "\x1b" in text else text
            for key in dict.fromkeys(find_api_keys(visible)):
                begin = plain(key[:SHOWN_KEY_CHARS]).replace("\n", " ")
                yield f"a possible API key: {begin}… ({len(key)} characters)"

        for name, secrets in self._secrets.items():
            if secrets.hide(text) != text:
                yield f"the value of the environment variable {name}"

    def hide(self, text: str) -> str:
        """Return `text` without keys and control characters. Hide keys before a text is cut."""
        text = hide_api_keys(plain(text, limit=len(text)))
        for secrets in self._secrets.values():
            text = secrets.hide(text)
        return text


Finding = tuple[str, str]
"""A problem in a file: its location, such as `cells[3].outputs[0].text` ("" for the whole file),
and a description without secrets."""


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
    if merge.find_unreadable_carriers(metadata):
        yield "metadata.widgets", merge.DAMAGED

    stored = merge.read_carrier(metadata)
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
    _, open_, loose = match_pairs(turn)

    for index, entry in turn:
        if index in open_:
            event = "this tool call" if isinstance(entry, ToolCallRequest) else "this question"
            yield f"events[{index}]: {event} has no response: the kernel ended first"
        elif index in loose:
            yield f"events[{index}]: this response has no request before it"


MAGIC: Final = "%%jp"
TOOL_PART: Final = "tool"
"""Kind of the parts of a cassette that are definitions of tools."""
NOTE: Final = "\n["  # start of the notes on images that follow a request (`record/events.py`)
SKIP_TAG: Final = "skip-execution"  # tag of a cell that Jupyter's runners skip
VALUE_MARK: Final = "{{"  # start of a `{{name}}` that only a kernel can replace
MAX_PROVIDERS: Final = 8  # maximum number of providers whose messages are compared
RECORD_AGAIN: Final = "record it again (`jp-nb run NB --record`, `pytest --jp-record`)"


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


def check_up_to_date(notebook: Path, cassette: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield the requests of the notebook, and of its last headless run, that the cassette lacks.

    Yields no problem of one file alone: the other checks find these.
    """
    try:
        content = read_cassette(cassette)
        read = read_notebook(notebook)
    except StorageError:
        return

    parts = (part.value for part in content.parts.values() if part.value.get("role") == "user")
    asked = sorted(str(value.get("text", "")).strip() for value in parts)

    listed = read.get("cells")
    cells = listed if isinstance(listed, list) else []
    for number, cell in enumerate(cells):
        text = _find_request(cell) if isinstance(cell, Mapping) else ""
        if text and VALUE_MARK not in text and not _is_recorded(text, asked):
            message = f"the request of this cell is not in {cassette.name}: {RECORD_AGAIN}"
            yield f"cells[{number}]", message

    unknown = _find_unrecorded(read.metadata, content)
    if unknown is not None:
        request = one_line(keys.hide(unknown), limit=100)
        message = f"a message after the request {request!r} of the last run is not in"
        yield "metadata.jp", f"{message} {cassette.name}: {RECORD_AGAIN}"

    for name in _find_changed_tools(read.metadata, content):
        tool = one_line(keys.hide(name), limit=100)
        message = f"the definition of the tool {tool} in the last request differs from those on"
        yield "metadata.jp", f"{message} {cassette.name}: {RECORD_AGAIN}"


def _find_changed_tools(metadata: Any, content: CassetteContent) -> list[str]:
    """Return the tools of the last request that have other definitions on the cassette.

    A tool of a server changes with the server, so nothing in the notebook shows it. A tool that the
    cassette does not name is no change: the user may have used it once in a live notebook.
    """
    try:
        stream = Document.load(merge.read_carrier(metadata), clock=utc_now).conversation
    except StorageError:
        return []

    head: RequestHead | None = None
    for entry in stream.entries:
        head = read_request_head(entry, head)
    if head is None:
        return []

    request = ModelRequest("", RequestContext(), tools=head.tools)
    parts = RequestNormalizer("").normalize(request).tools
    tools = [part.value for (kind, _), part in content.parts.items() if kind == TOOL_PART]
    recorded = {tool.get("name") for tool in tools}
    names = [part.value.get("name") for part in parts if (TOOL_PART, part.id) not in content.parts]
    return [str(name) for name in names if name in recorded]


def _find_request(cell: Any) -> str:
    tags = cell.get("metadata", {}).get("tags")
    if isinstance(tags, list) and SKIP_TAG in tags:
        return ""
    if cell.get("cell_type") != "code" or not isinstance(source := cell.get("source"), str):
        return ""

    first, _, rest = source.strip().partition("\n")
    return rest.strip() if first.split()[:1] == [MAGIC] else ""


def _is_recorded(text: str, asked: list[str]) -> bool:
    noted = text + NOTE
    whole = bisect_left(asked, text)
    longer = bisect_left(asked, noted)

    is_there = whole < len(asked) and asked[whole] == text
    return is_there or (longer < len(asked) and asked[longer].startswith(noted))


def _find_unrecorded(metadata: Any, content: CassetteContent) -> str | None:
    """Return the request of the first turn with a message that is not on the cassette.

    Returns None if there is none, or the record is damaged, compacted, or not of a headless run.
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

    context = build_context(stream, providers)
    recorded = []
    for name in list(dict.fromkeys(providers))[:MAX_PROVIDERS]:
        asked = RequestNormalizer(name).normalize(ModelRequest(model="", context=context))
        messages = enumerate((part.kind, part.id) for part in asked.messages)
        recorded.append({index for index, message in messages if message in content.parts})

    for index, request in _iter_sent(context):
        if not any(index in each for each in recorded):
            return request.content
    return None


def _iter_sent(context: RequestContext) -> Iterator[tuple[int, ChatRequest]]:
    """Yield the index of each item that was sent, and its request."""
    items = [item.entry for item in context]
    while items and isinstance(items[-1], ChatResponse):
        items.pop()  # the last answer was not sent

    request: ChatRequest | None = None
    for index, entry in enumerate(items):
        if isinstance(entry, ChatRequest):
            request = entry
        if request is not None:
            yield index, request


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
