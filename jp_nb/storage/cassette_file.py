"""Cassette file: read, append, rewrite.

    {"jp_nb": "cassette", "version": 1}
    {"tool": ID, "name": …}                     a part, before the first request that contains it
    {"message": ID, "after": ID, "role": …}     a message, with the id of the previous message
    {"request": ID, "provider": …, "messages": ID}
    {"event": "text", …}                        an event of the response
    {"end": "finished", …, "seal": DIGEST}      digest of the request's id and the response

An id is a digest of the content of its line, so a changed line is detected.

Written lines do not change, with one exception. Inquiries run concurrently, and are sorted by their
ids for a reproducible file. The writer sorts successive inquiries once, when another request
follows, so the total work is linear in the length of the file.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.exchange_json import event_from_json, event_to_json
from jp_nb.agent.exchange_recorder import End, Exchange, FailedResponse, IncompleteResponse
from jp_nb.agent.provider import ProviderEvent
from jp_nb.agent.recorded_results import RecordedResult
from jp_nb.agent.request_normalizer import (
    NO_MESSAGE,
    NormalizedRequest,
    RequestPart,
    make_digest,
    make_part,
)
from jp_nb.errors import StorageError
from jp_nb.file_reading import open_regular
from jp_nb.file_writing import is_stream, open_file, replace_file, resolve_write_target
from jp_nb.json_values import (
    MAX_STORED_LEVELS,
    JsonObject,
    as_object,
    compact_json,
    encode_utf8,
    read_json,
)
from jp_nb.storage.files import ForeignFileError, read_owned_file

CASSETTE_SUFFIX: Final = ".cassette.jsonl"
CASSETTE_KIND: Final = "cassette"
CASSETTE_VERSION: Final = 1
MAX_CASSETTE_BYTES: Final = 50_000_000
"""Size limit of a cassette, which is read as a whole."""
CASSETTE_HEADER: Final[JsonObject] = {"jp_nb": CASSETTE_KIND, "version": CASSETTE_VERSION}
PART_KINDS: Final = ("system", "attachment", "tool", "message")
_LISTED: Final = {"system": "system", "attachments": "attachment", "tools": "tool"}
"""Kinds of parts that a request lists, by the key of the list."""
_SETTINGS: Final = ("provider", "model", "tool_choice", "parameters", "schema")
_REQUIRED: Final = ("provider", "model", "messages")
IMPORTANT_KEYS: Final = ("provider", "model", "schema", "tool_choice")
"""Keys with a double weight in the comparison of requests."""
RECORD_AGAIN_HINT: Final = "record it again, or restore the original file"


def default_cassette_path(notebook: Path) -> Path:
    """Return the default cassette path of a notebook."""
    return notebook.with_suffix(CASSETTE_SUFFIX)


@dataclass(frozen=True, slots=True)
class StoredExchange:
    """An exchange in a file."""

    line: int  # of the request, from 1
    request: str  # its id
    summary: JsonObject = field(repr=False)  # content of its line, without the id
    events: tuple[ProviderEvent, ...]
    end: End
    number: int  # of the exchange, from 0

    @property
    def last_message(self) -> str:
        """Id of the last message of the request."""
        return str(self.summary["messages"])

    @property
    def has_failed(self) -> bool:
        """True if the response failed or is incomplete."""
        return isinstance(self.end, FailedResponse | IncompleteResponse)


@dataclass(slots=True)
class CassetteContent:
    """Content of a cassette, in the order of the file. `parts` have kind and id as keys."""

    parts: dict[tuple[str, str], RequestPart] = field(default_factory=dict)
    exchanges: list[StoredExchange] = field(default_factory=list)

    def asked(self, exchange: StoredExchange) -> NormalizedRequest:
        """Return the request of `exchange`, with its parts."""
        listed: dict[str, tuple[RequestPart, ...]] = {}
        for name, kind in _LISTED.items():
            ids = _texts(exchange.summary.get(name))
            listed[name] = tuple(self.parts[kind, str(each)] for each in ids)

        messages: list[RequestPart] = []
        last = exchange.last_message
        while last != NO_MESSAGE:
            messages.append(self.parts["message", last])
            last = messages[-1].after

        settings = {key: value for key, value in exchange.summary.items() if key in _SETTINGS}
        return NormalizedRequest(settings, **listed, messages=tuple(reversed(messages)))

    def is_inquiry(self, exchange: StoredExchange) -> bool:
        """Return True if the request is an inquiry: a tool's question for a model."""
        last = self.parts.get(("message", exchange.last_message))
        return last is not None and "inquiry" in last.value

    def find_nearest(
        self, request: NormalizedRequest, stored: Iterable[StoredExchange]
    ) -> StoredExchange | None:
        """Return the first of the `stored` exchanges with the fewest differences from `request`."""
        positions = {part.id: number for number, part in enumerate(request.messages, 1)}
        lengths = {NO_MESSAGE: 0}
        shared = {NO_MESSAGE: 0}
        for (kind, message), part in self.parts.items():  # a message comes after its predecessor
            if kind == "message":
                lengths[message] = lengths[part.after] + 1
                # An id covers all earlier messages, so a known id is a common beginning.
                shared[message] = positions.get(message, shared[part.after])

        def distance(other: StoredExchange) -> int:
            last = other.last_message
            messages = len(request.messages) + lengths[last] - 2 * shared[last]
            keys = request.summary.keys() | other.summary.keys()
            differing = [key for key in keys if request.summary.get(key) != other.summary.get(key)]
            important = sum(key in IMPORTANT_KEYS for key in differing)
            return messages + 2 * important + len(differing)

        return min(stored, key=distance, default=None)


def refuse_unsafe_cassette_link(path: Path, folder: Path | None = None) -> None:
    """Check that `path` may be written.

    Raises:
        StorageError: It is a link out of `folder` or to another user's file.
    """
    try:
        resolve_write_target(path, folder=folder)
    except OSError as exc:
        raise StorageError(f"the cassette {path} cannot be written: {exc.strerror}") from exc


def refuse_unless_cassette(path: Path) -> None:
    """Check that `path` is a cassette or an empty file, or does not exist.

    Raises:
        StorageError: It is another file.
    """
    if is_stream(path):
        raise StorageError(f"{path} is a device or a pipe, not a cassette: use a file")

    try:
        with os.fdopen(open_regular(path), "rb") as file:
            first = file.readline(1000).strip()
    except FileNotFoundError:
        return
    except OSError as exc:
        raise StorageError(f"the cassette {path} cannot be written: {exc.strerror}") from exc

    try:
        is_ours = not first or as_object(read_json(first.decode())).get("jp_nb") == CASSETTE_KIND
    except ValueError:
        is_ours = False

    if not is_ours:
        raise StorageError(
            f"{path} is not a cassette and is not overwritten: use another file name"
        )


def read_cassette(path: Path) -> CassetteContent:
    """Read the cassette at `path`. Raises what `read_cassette_bytes` and `parse_cassette` raise."""
    return parse_cassette(path, read_cassette_bytes(path))


def read_cassette_bytes(path: Path) -> bytes:
    """Return the content of the cassette at `path`.

    Raises:
        StorageError: The file does not exist, belongs to another user, or is too long.
    """
    try:
        return read_owned_file(path, max_bytes=MAX_CASSETTE_BYTES)
    except FileNotFoundError:
        raise StorageError(f"there is no cassette {path}") from None
    except ForeignFileError as exc:
        raise StorageError(f"the cassette is not used: {exc}") from exc
    except OSError as exc:
        raise StorageError(f"the cassette {path} cannot be read: {exc.strerror}") from exc


def parse_cassette(path: Path, content: bytes) -> CassetteContent:
    """Parse the content of the cassette at `path`.

    Raises:
        StorageError: The content is damaged or was edited; the place is file and line.
    """
    return _CassetteReader(path.name).read(content)


class _CassetteReader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._line = 0
        self._cassette = CassetteContent()
        self._request: tuple[int, str, JsonObject] | None = None
        self._response: list[JsonObject] = []

    def read(self, content: bytes) -> CassetteContent:
        for self._line, line in enumerate(content.split(b"\n"), 1):
            if not line.strip():
                continue
            value = self._parse_line(line)

            if self._line == 1:
                self._read_header(value)
            elif self._request is not None:
                self._read_response(value)
            elif "request" in value:
                self._read_request(value)
            else:
                self._read_part(value)

        if self._line == 1 and not content.strip():
            raise self._error("the file is empty", "a cassette begins with a header line")

        if self._request is not None:
            raise self._error("the file ends in the middle of a response", RECORD_AGAIN_HINT)

        return self._cassette

    def _parse_line(self, line: bytes) -> JsonObject:
        try:
            value = read_json(line.decode(), max_levels=MAX_STORED_LEVELS + 10)
        except ValueError as exc:
            why = "not UTF-8" if isinstance(exc, UnicodeDecodeError) else f"not JSON: {exc}"
            raise self._error(why, RECORD_AGAIN_HINT) from exc

        if not isinstance(value, dict):
            raise self._error("expected a JSON object", RECORD_AGAIN_HINT)

        return value

    def _read_header(self, line_value: JsonObject) -> None:
        if line_value.get("jp_nb") != CASSETTE_KIND:
            begins = compact_json(CASSETTE_HEADER)
            raise self._error("this is not a cassette", f"a cassette begins with the line {begins}")

        version = line_value.get("version")
        if version != CASSETTE_VERSION:
            raise self._error(
                f"this cassette has version {compact_json(version)[:40]}, and this "
                f"jp_nb reads version {CASSETTE_VERSION}",
                "install a jp_nb that reads it, or record the cassette again",
            )

        if line_value != CASSETTE_HEADER:
            raise self._error("the header line has unknown keys", RECORD_AGAIN_HINT)

    def _read_part(self, line_value: JsonObject) -> None:
        kind = next((each for each in PART_KINDS if each in line_value), None)
        if kind is None:
            raise self._error("the line is not a part, a request, or a response", RECORD_AGAIN_HINT)

        given = line_value[kind]
        value = {key: each for key, each in line_value.items() if key != kind}
        after = value.pop("after", NO_MESSAGE) if kind == "message" else NO_MESSAGE
        if not isinstance(after, str):
            raise self._error("`after` of the message is not a text", RECORD_AGAIN_HINT)

        part = make_part(kind, value, after)
        if part.id != given:
            raise self._changed_error(f"this {kind}")

        if after != NO_MESSAGE and ("message", after) not in self._cassette.parts:
            raise self._error("the previous message is missing", RECORD_AGAIN_HINT)

        self._cassette.parts[kind, part.id] = part

    def _read_request(self, line_value: JsonObject) -> None:
        summary = {key: each for key, each in line_value.items() if key != "request"}
        request = line_value["request"]

        if not isinstance(request, str) or make_digest(summary) != request:
            raise self._changed_error("this request")
        if odd := sorted(summary.keys() - {*_SETTINGS, *_LISTED, "messages"}):
            raise self._error(f"unknown key `{odd[0][:60]}` in a request", RECORD_AGAIN_HINT)
        if missing := [key for key in _REQUIRED if not isinstance(summary.get(key), str)]:
            raise self._error(f"the request has no {missing[0]}", RECORD_AGAIN_HINT)

        parts: list[tuple[str, str]] = []
        for key, kind in _LISTED.items():
            parts += [(kind, each) for each in _texts(summary.get(key))]
        if (last := summary["messages"]) != NO_MESSAGE:
            parts.append(("message", str(last)))

        for kind, part in parts:
            if (kind, part) not in self._cassette.parts:
                raise self._error(f"a {kind} of this request is missing", RECORD_AGAIN_HINT)

        self._request = (self._line, request, summary)
        self._response = []

    def _read_response(self, line_value: JsonObject) -> None:
        assert self._request is not None
        line, request, summary = self._request

        if "end" not in line_value:
            if "event" not in line_value:
                raise self._error(
                    "the response to the request above is incomplete", RECORD_AGAIN_HINT
                )
            self._response.append(line_value)
            return

        given = line_value.pop("seal", None)
        if make_digest([request, *self._response, line_value]) != given:
            raise self._changed_error(f"the response to the request of line {line}")

        try:
            events = tuple(event_from_json(each, "event") for each in self._response)
            end: End = event_from_json(line_value, "end")
        except ValueError as exc:
            raise self._error(
                f"the response to the request of line {line}: {exc}", RECORD_AGAIN_HINT
            ) from exc

        number = len(self._cassette.exchanges)
        self._cassette.exchanges.append(StoredExchange(line, request, summary, events, end, number))
        self._request = None

    def _changed_error(self, what: str) -> StorageError:
        return self._error(f"{what} was changed after it was recorded", RECORD_AGAIN_HINT)

    def _error(self, what: str, fix: str) -> StorageError:
        return StorageError(f"{what}: {fix}", place=f"{self._name}:{self._line}")


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, list):
        yield from map(str, value)


def _line(value: JsonObject) -> bytes:
    return encode_utf8(compact_json(value)) + b"\n"


class CassetteWriter:
    """Append exchanges to a cassette.

    The `known` content is kept; if it is None, the first exchange replaces the file. A link may not
    lead out of `folder`, the notebook's.
    """

    def __init__(
        self, path: Path, known: CassetteContent | None = None, *, folder: Path | None = None
    ) -> None:
        self.path = path
        self._folder = folder
        self.written = 0

        self._began = known is not None
        self._settled_parts = set(known.parts) if known is not None else set()
        status = path.stat() if known is not None else None
        self._settled_bytes = self._bytes = status.st_size if status else 0
        self._inode = status.st_ino if status else 0
        self._front = b"" if known is None or _ends_its_line(path) else b"\n"

        self._last: list[Exchange] = []
        self._last_parts: set[tuple[str, str]] = set()

    def add(self, exchange: Exchange) -> None:
        """Write `exchange` to the file.

        Raises:
            StorageError: The file cannot be written, or another program has changed it.
        """
        try:
            self._add(exchange)
        except OSError as exc:
            why = exc.strerror or type(exc).__name__
            raise StorageError(f"the cassette {self.path} cannot be written: {why}") from exc

        self.written += 1

    def _add(self, exchange: Exchange) -> None:
        if not self._began:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, _line(CASSETTE_HEADER), folder=self._folder)
            status = self.path.stat()
            self._settled_bytes = self._bytes = status.st_size
            self._inode = status.st_ino
            self._began = True

        if not (exchange.request.is_inquiry and self._last and self._last[0].request.is_inquiry):
            self._settle()

        block, parts = _block([exchange], self._settled_parts, self._last_parts)
        self._write(self._front + block, self._bytes)
        self._settled_bytes += len(self._front)
        self._front = b""

        self._last.append(exchange)
        self._last_parts |= parts

    def _settle(self) -> None:
        """Write concurrent inquiries in their final order."""
        in_order = sorted(self._last, key=lambda each: each.request.id)

        if in_order != self._last:
            block, _ = _block(in_order, self._settled_parts)
            self._write(block, self._settled_bytes)

        self._settled_parts |= self._last_parts
        self._settled_bytes = self._bytes
        self._last = []
        self._last_parts = set()

    def _write(self, block: bytes, place: int) -> None:
        """Write `block` at the byte offset `place`, and truncate the file after it."""
        if place + len(block) > MAX_CASSETTE_BYTES:
            raise StorageError(
                f"the cassette {self.path} is full: the limit is "
                f"{MAX_CASSETTE_BYTES // 10**6} MB. Record the rest of the conversation on "
                "another cassette"
            )

        descriptor = open_file(self.path, os.O_RDWR, folder=self._folder)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            status = os.fstat(descriptor)
            if (status.st_ino, status.st_size) != (self._inode, self._bytes):
                raise StorageError(
                    f"another program wrote to the cassette {self.path} during the "
                    "recording. Only one kernel at a time can record on a cassette"
                )

            try:
                file.seek(place)
                while block:
                    block = block[file.write(block) :]
            except OSError:
                self._bytes = file.truncate(place)  # remove the incomplete exchange
                raise

            self._bytes = file.truncate()


def _ends_its_line(path: Path) -> bool:
    with os.fdopen(open_regular(path), "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _block(
    exchanges: Sequence[Exchange], *known: set[tuple[str, str]]
) -> tuple[bytes, set[tuple[str, str]]]:
    """Return the lines of `exchanges` with their new parts, and the keys of these parts.

    `known` are the parts that the file already contains.
    """
    added: set[tuple[str, str]] = set()

    def is_new(part: RequestPart) -> bool:
        return not any((part.kind, part.id) in each for each in (*known, added))

    lines: list[JsonObject] = []

    for exchange in exchanges:
        asked = exchange.request

        # A known message implies all before it.
        messages = reversed(list(takewhile(is_new, reversed(asked.messages))))
        for part in (*asked.system, *asked.attachments, *asked.tools, *messages):
            if is_new(part):
                added.add((part.kind, part.id))
                chain: JsonObject = {"after": part.after} if part.kind == "message" else {}
                lines.append({part.kind: part.id, **chain, **part.value})

        response = [event_to_json(each) for each in (*exchange.events, exchange.end)]
        sealed = {**response[-1], "seal": make_digest([asked.id, *response])}
        lines += [{"request": asked.id, **asked.summary}, *response[:-1], sealed]

    return b"".join(map(_line, lines)), added


RESULT_KINDS: Final = ("result", "error")


class CassetteResults:
    """Recorded tool results, by the id of the message before them.

    The id covers all earlier messages, so a result is found only after the same conversation.
    """

    def __init__(self, content: CassetteContent) -> None:
        self._next: dict[str, list[RequestPart]] = {}
        self._given: Counter[str] = Counter()
        seen = {NO_MESSAGE}

        for exchange in content.exchanges:
            if content.is_inquiry(exchange):  # its tool results are placeholders
                continue

            part = content.parts.get(("message", exchange.last_message))
            while part is not None and part.id not in seen:
                seen.add(part.id)
                self._next.setdefault(part.after, []).append(part)
                part = content.parts.get(("message", part.after))

    def of(self, last_message: str) -> list[RecordedResult]:
        """Return the next recorded results after `last_message`; the last ones are repeated."""
        ways = [part for part in self._next.get(last_message, ()) if _is_result(part)]
        way = min(self._given[last_message], len(ways) - 1)
        self._given[last_message] += 1
        part = ways[way] if ways else None

        found = list[RecordedResult]()
        while part is not None:
            text = str(part.value.get("text", ""))
            failed = part.value["role"] == "error"
            found.append(RecordedResult(text, failed))
            part = next(filter(_is_result, self._next.get(part.id, ())), None)

        return found


def _is_result(part: RequestPart) -> bool:
    return part.value.get("role") in RESULT_KINDS
