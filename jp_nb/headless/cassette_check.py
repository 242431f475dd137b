"""Whether the files beside a notebook may be shared, and its cassette is that of it as it is now.

A replay alone can tell for certain. Here nothing runs: what cells ask in words, and what the
record of a headless run says, has to be on the cassette.

Source: `docs/ci.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from jp_nb.agent.asked_request import AskedRequests
from jp_nb.agent.model_events import ModelRequest
from jp_nb.errors import ConfigError, StorageError
from jp_nb.headless.files import read_notebook
from jp_nb.headless.key_search import KeySearch
from jp_nb.headless.notebook_check import Finding, cells_of
from jp_nb.record import carrier
from jp_nb.record.document import Document
from jp_nb.record.events import ChatRequest, ChatResponse, Compaction
from jp_nb.record.projection import Projection
from jp_nb.record.thread import Thread, thread_of
from jp_nb.record.timestamps import utc_now
from jp_nb.safe_text import one_line
from jp_nb.workspace.answers_file import decode_answers, parse_answers, read_answers
from jp_nb.workspace.cassette_file import (
    CassetteContent,
    parse_cassette,
    read_bytes,
    read_cassette,
)

MAGIC: Final = "%%jp"
NOTE: Final = "\n["
"""Begins what is said behind a request of images that it shows (`record/recorded_images.py`)."""
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
        document = Document.load(carrier.read(metadata), clock=utc_now)
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
    thread = thread_of(stream, providers)
    known = [
        {index for index, each in enumerate(_messages(thread, name)) if each in content.parts}
        for name in list(dict.fromkeys(providers))[:MAX_PROVIDERS]
    ]
    for index, request in _sent(thread):
        if not any(index in each for each in known):
            return request.content
    return None


def _messages(thread: Thread, provider: str) -> list[tuple[str, str]]:
    """Return the messages of `thread`, as `provider` is sent them, by kind and id."""
    asked = AskedRequests(provider).of(ModelRequest(model="", thread=thread))
    return [(part.kind, part.id) for part in asked.messages]


def _sent(thread: Thread) -> Iterator[tuple[int, ChatRequest]]:
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
