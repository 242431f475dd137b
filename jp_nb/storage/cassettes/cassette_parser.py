"""Read the lines of a cassette into requests with their responses.

    {"jp_nb": "cassette", "version": 1}
    {"tool": ID, "name": …}                     a part, before the first request that contains it
    {"message": ID, "after": ID, "role": …}     a message, with the id of the previous message
    {"request": ID, "provider": …, "messages": ID}
    {"event": "text", …}                        an event of the response
    {"end": "finished", …, "seal": DIGEST}      digest of the request's id and the response

An id is a digest of the content of its line, so a changed line is detected. No I/O: files are in
`cassette_file.py` and `cassette_writer.py`.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from jp_nb.agent.model_requests.exchange_json import event_from_json
from jp_nb.agent.model_requests.normalized_request import NO_MESSAGE, make_digest, make_part
from jp_nb.agent.model_requests.recorded_exchange import End
from jp_nb.errors import StorageError
from jp_nb.json_limits import MAX_STORED_LEVELS
from jp_nb.json_reading import read_json
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import compact_json
from jp_nb.storage.cassettes.cassette_content import (
    CASSETTE_HEADER,
    CASSETTE_KIND,
    CASSETTE_VERSION,
    LISTED_KINDS,
    SETTING_KEYS,
    CassetteContent,
    StoredExchange,
    iter_ids,
)

PART_KINDS: Final = ("system", "attachment", "tool", "message")
_REQUIRED: Final = ("provider", "model", "messages")
"""Keys that every request has."""
RECORD_AGAIN_HINT: Final = "record it again, or restore the original file"


def parse_cassette(path: Path, content: bytes) -> CassetteContent:
    """Parse the content of the cassette at `path`.

    Raises:
        StorageError: The content is damaged or was edited; the place is file and line.
    """
    return _CassetteReader(path.name).read(content)


class _OpenRequest(NamedTuple):
    """A request whose response is being read: its line, its id, and its content without the id."""

    line: int
    request: str
    summary: JsonObject


class _CassetteReader:
    """Reads the lines of one cassette. Between a request and its `end` are lines of a response."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._line = 0  # number of the current line, for the place of an error
        self._has_header = False
        self._cassette = CassetteContent()
        self._request: _OpenRequest | None = None
        self._response: list[JsonObject] = []

    def read(self, content: bytes) -> CassetteContent:
        for number, line in enumerate(content.split(b"\n"), 1):
            self._line = number
            if not line.strip():
                continue

            value = self._parse_line(line)
            if not self._has_header:
                self._read_header(value)
                self._has_header = True
            elif self._request is not None:
                self._read_response(value)
            elif "request" in value:
                self._read_request(value)
            else:
                self._read_part(value)

        if not self._has_header:
            self._line = 1
            raise self._error("the file is empty", "a cassette begins with a header line")

        if self._request is not None:
            raise self._error("the file ends in the middle of a response", RECORD_AGAIN_HINT)

        return self._cassette

    def _parse_line(self, line: bytes) -> JsonObject:
        try:
            # A line may contain an entry of a record, which is nested in a few levels of the line.
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
        """Read the line of a part of a request: its kind is the key of its id."""
        kind = next((kind for kind in PART_KINDS if kind in line_value), None)
        if kind is None:
            raise self._error("the line is not a part, a request, or a response", RECORD_AGAIN_HINT)

        stored_id = line_value[kind]
        value = {key: item for key, item in line_value.items() if key != kind}
        after = value.pop("after", NO_MESSAGE) if kind == "message" else NO_MESSAGE
        if not isinstance(after, str):
            raise self._error("`after` of the message is not a text", RECORD_AGAIN_HINT)

        part = make_part(kind, value, after)
        if part.id != stored_id:
            raise self._changed_error(f"this {kind}")

        if after != NO_MESSAGE and ("message", after) not in self._cassette.parts:
            raise self._error("the previous message is missing", RECORD_AGAIN_HINT)

        self._cassette.parts[kind, part.id] = part

    def _read_request(self, line_value: JsonObject) -> None:
        """Read the line of a request, whose parts are known. The lines of its response follow."""
        summary = {key: value for key, value in line_value.items() if key != "request"}
        request = line_value["request"]

        if not isinstance(request, str) or make_digest(summary) != request:
            raise self._changed_error("this request")
        if unknown := sorted(summary.keys() - {*SETTING_KEYS, *LISTED_KINDS, "messages"}):
            raise self._error(f"unknown key `{unknown[0][:60]}` in a request", RECORD_AGAIN_HINT)
        if missing := [key for key in _REQUIRED if not isinstance(summary.get(key), str)]:
            raise self._error(f"the request has no {missing[0]}", RECORD_AGAIN_HINT)

        # A request lists the ids of its parts. Of the messages, it has the last one: each message
        # names the previous one.
        parts: list[tuple[str, str]] = []
        for key, kind in LISTED_KINDS.items():
            parts += [(kind, part_id) for part_id in iter_ids(summary.get(key))]
        if (last := summary["messages"]) != NO_MESSAGE:
            parts.append(("message", str(last)))

        for kind, part_id in parts:
            if (kind, part_id) not in self._cassette.parts:
                raise self._error(f"a {kind} of this request is missing", RECORD_AGAIN_HINT)

        self._request = _OpenRequest(self._line, request, summary)
        self._response = []

    def _read_response(self, line_value: JsonObject) -> None:
        """Read an event of the response, or its end, which completes the exchange."""
        assert self._request is not None
        line, request, summary = self._request

        if "end" not in line_value:
            if "event" not in line_value:
                raise self._error(
                    "the response to the request above is incomplete", RECORD_AGAIN_HINT
                )
            self._response.append(line_value)
            return

        seal = line_value.pop("seal", None)
        if make_digest([request, *self._response, line_value]) != seal:
            raise self._changed_error(f"the response to the request of line {line}")

        try:
            events = tuple(event_from_json(stored, "event") for stored in self._response)
            end: End = event_from_json(line_value, "end")
        except ValueError as exc:
            raise self._error(
                f"the response to the request of line {line}: {exc}", RECORD_AGAIN_HINT
            ) from exc

        exchange = StoredExchange(
            line=line,
            request=request,
            summary=summary,
            events=events,
            end=end,
            number=len(self._cassette.exchanges),
        )
        self._cassette.exchanges.append(exchange)
        self._request = None

    def _changed_error(self, what: str) -> StorageError:
        return self._error(f"{what} was changed after it was recorded", RECORD_AGAIN_HINT)

    def _error(self, what: str, fix: str) -> StorageError:
        return StorageError(f"{what}: {fix}", place=f"{self._name}:{self._line}")
