"""Collect the events that a decoder finds in a response, and hide the provider's API key in them.

A decoder (`stream_decoder.py`) adds events and pieces of text, and the `StreamDecoder` takes the
events of each chunk (`take`). Adjacent pieces of one text become one event. An *index* is the
number of an output item of the response: a text, a reasoning, or a call.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Final, NamedTuple

from jp_nb.agent.provider_events import (
    Finished,
    Flush,
    InputChange,
    KeepAlive,
    ProviderEvent,
    TextKind,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.config.redactor import RedactedStream
from jp_nb.json_limits import MAX_INTEGER
from jp_nb.json_values import as_object
from jp_nb.json_writing import compact_json
from jp_nb.providers.key_redactor import NO_KEY, KeyRedactor

MAX_FINISH_REASON_CHARS: Final = 40
_MAX_DETAIL_CHARS: Final = 2000
"""Maximum length of the server's explanation of a finish reason."""


class _RedactedText(NamedTuple):
    """An item in which the key is hidden while it grows; arguments if `kind` is None."""

    stream: RedactedStream
    kind: TextKind | None


class EventBuffer:
    """Events of one response that were decoded and not taken yet.

    It joins adjacent pieces of a text, measures the content, and removes the key. Text above
    `max_bytes` is dropped; `StreamDecoder` reports it. `max_bytes` 0 sets no limit. After
    `Finished`, `add` drops events.

    Attributes:
        finished: True after the event `Finished`.
        open_calls: Indexes of the incomplete calls.
        keep_alives: Number of keep-alives of the server.
        state_reports: Number of messages that reported only a state of the server.
        chars: Characters of texts, arguments, and names of tools in the events.
        bytes: Size of texts, arguments, tool calls, and texts in metadata. Other metadata counts
            only if a decoder adds it (`count_metadata`), or holds its characters.
        held_chars: Received characters that are not counted in `bytes`, because they are in no
            event yet, or only in metadata that is not a text. A decoder changes it by `hold` and
            `release`. `bytes + held_chars` is the size of the response, which is limited.
    """

    def __init__(self, redactor: KeyRedactor = NO_KEY, max_bytes: int = 0) -> None:
        self.finished = False
        self.open_calls: set[int] = set()
        self.keep_alives = 0
        self.state_reports = 0
        self.held_chars = 0
        self.chars = 0
        self.bytes = 0
        self._events: list[ProviderEvent] = []
        # The text that grows: its item, its kind (None: arguments of a call), and its pieces.
        self._index = -1
        self._kind: TextKind | None = None
        self._pieces: list[str] = []
        self._max_bytes = max_bytes
        self._redactor = redactor
        # The items of which an end may be held back, because the key may begin there, by index:
        self._redacted: dict[int, _RedactedText] = {}

    def add_text(self, index: int, kind: TextKind, text: str) -> None:
        """Add a piece of text of item `index`. An item without any text has an empty piece."""
        self._add_piece(index, kind, text)

    def add_arguments(self, index: int, text: str) -> None:
        """Add a piece of the arguments of the call that is item `index`."""
        self._add_piece(index, None, text)

    def _add_piece(self, index: int, kind: TextKind | None, text: str) -> None:
        """Add a piece to the text that grows. Another item, or another kind, begins a new text."""
        size = len(text)
        self.bytes += size if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        self.chars += size
        if 0 < self._max_bytes < self.bytes:
            return  # `StreamDecoder` reports it

        if index != self._index or kind is not self._kind:
            self._end_text()
            self._index = index
            self._kind = kind

        self._pieces.append(text)

    def hold(self, chars: int) -> None:
        """Count characters that were received, and that the decoder keeps until a later event."""
        self.held_chars += chars

    def release(self, chars: int) -> None:
        """Count held characters no longer: they are in an event, whose text `bytes` counts."""
        self.held_chars -= chars

    def count_metadata(self, value: object) -> None:
        """Count metadata of the next `Flush` that is no text, and that the decoder did not hold."""
        self.bytes += len(compact_json(value).encode("utf-8", "surrogatepass"))

    def note_state(self) -> None:
        """Note that a message reported only a state, which does not extend the idle timeout."""
        self.state_reports += 1

    def add(
        self, event: ToolCallStart | Flush | KeepAlive | Usage | InputChange | Finished
    ) -> None:
        """Add an event that is not a text."""
        if self.finished:
            return

        self._end_text()
        match event:
            case ToolCallStart(index=index, id=id_, name=name):
                if not (isinstance(index, int) and isinstance(id_, str) and isinstance(name, str)):
                    raise TypeError  # `StreamDecoder` reports it
                self.open_calls.add(index)
                self.bytes += len(name) + len(id_)
                self.chars += len(name)
            case KeepAlive():
                self.keep_alives += 1
            case Flush(index=index, metadata=metadata):
                self.open_calls.discard(index)
                # An end counts one byte, so that a server cannot send any number of them.
                self.bytes += 1 + sum(len(v) for v in metadata.values() if isinstance(v, str))
                if metadata:
                    event = Flush(index, as_object(self._redactor.hide_value(dict(metadata))))
                self._end_redacted(index)
            case Finished(reason=reason, detail=detail):
                self.finished = True
                event = Finished(reason, self._format_detail(detail))
                self._end_all_redacted()
            case InputChange(reason=reason):
                shown_reason = self._redactor.hide(reason)[:MAX_FINISH_REASON_CHARS]
                event = replace(event, reason=shown_reason)
                self.bytes += len(shown_reason)
            case Usage():
                event = _keep_valid_counts(event)

        self._events.append(event)

    def _format_detail(self, detail: object) -> str | None:
        """Return the server's explanation of a finish reason, which is shown to the user."""
        if detail is None:
            return None
        return self._redactor.hide(str(detail))[:_MAX_DETAIL_CHARS]

    def take(self) -> list[ProviderEvent]:
        """Return the events since the last call."""
        self._end_text()
        events = self._events
        self._events = []
        return events

    def take_redacted_ends(self) -> list[ProviderEvent]:
        """Return the ends of texts that were held back, because a key might have begun there."""
        self._end_all_redacted()
        return self.take()

    def _end_text(self) -> None:
        """Make one event of the pieces of the text that grows."""
        if not self._pieces:
            return

        text = self._pieces[0] if len(self._pieces) == 1 else "".join(self._pieces)
        self._pieces.clear()

        if self._redactor.applies_to_responses:
            earlier = self._redacted.get(self._index)
            stream = earlier.stream if earlier else self._redactor.stream()
            self._redacted[self._index] = _RedactedText(stream, self._kind)
            text = stream.feed(text)

        self._append_text_event(self._index, self._kind, text)

    def _end_redacted(self, index: int) -> None:
        """Add the end of item `index` that was held back, because a key might have begun there."""
        redacted = self._redacted.pop(index, None)
        if redacted is None:
            return

        end = redacted.stream.finish()
        if end:
            self._append_text_event(index, redacted.kind, end)

    def _end_all_redacted(self) -> None:
        for index in [*self._redacted]:
            self._end_redacted(index)

    def _append_text_event(self, index: int, kind: TextKind | None, text: str) -> None:
        if kind is None:
            self._events.append(ToolCallArguments(index, text))
        else:
            self._events.append(TextPart(index, kind, text))


def _keep_valid_counts(usage: Usage) -> Usage:
    """Return `usage` without values that are no counts: these are added up and stored as JSON."""
    counts = {
        name: count
        for name, count in asdict(usage).items()
        if type(count) is int and 0 <= count <= MAX_INTEGER
    }
    return Usage(**counts)
