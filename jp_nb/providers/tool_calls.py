"""Assemble tool calls from the pieces of a stream, however a server groups them.

`StreamedArguments` finds the arguments of one call. `CallAssembler` finds the call that a piece of
Chat Completions belongs to; the other dialects mark the begin of each call.

Source: `docs/providers.md`, "What servers really send".
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from itertools import dropwhile
from typing import Any, Final

from jp_nb.agent.provider import Flush, ToolCallStart
from jp_nb.errors import ProviderError
from jp_nb.json_values import is_json_object, read_json, split_json_objects
from jp_nb.providers.event_buffer import EventBuffer

_STRUCTURE: Final = re.compile(r'\\.?|["{}]', re.DOTALL)


def make_call_id(number: int, request: bytes) -> str:
    """Return an id for a call without one: a digest of its number and the request body.

    It is unique in the conversation, because each request is longer than the last one. It is the
    same if the request is sent again.
    """
    digest = sha256(b"%d " % number + request)
    return f"call_{digest.hexdigest()[:32]}"


class StreamedArguments:
    """The JSON arguments of one call, which arrive in any form.

    Servers send pieces of the text, or snapshots (each piece repeats the text so far), or the whole
    text again. Only all pieces together show which of these they are, so `resolve` decides.
    """

    def __init__(self) -> None:
        self.held_chars = 0  # that are kept here
        self._first = ""
        self._snapshot = ""
        self._sizes: list[int] = []  # of the snapshots so far, the last one included
        self._pieces: list[str] | None = None  # set once a piece is no snapshot
        self._is_whole: bool | None = None  # of the last snapshot, if it is known
        self._scan = _ObjectScan()

    @property
    def is_empty(self) -> bool:
        """True if no text has arrived."""
        return self._pieces is None and not self._snapshot.strip()

    def add(self, value: Any) -> None:
        """Add a piece of text, or arguments that are an object instead of a text.

        Raises:
            TypeError: It is neither, nor None.
        """
        piece = format_arguments_text(value)
        if not piece:
            return

        self._is_whole = None
        if self._pieces is not None:
            self._pieces.append(piece)
            self.held_chars += len(piece)
        elif piece.startswith(self._snapshot):
            self._sizes.append(len(piece))
            self._snapshot = piece
            self.held_chars = len(self._first) + len(piece)
        elif is_empty_object(self._snapshot):
            # Some servers send `{}` before the arguments.
            self._sizes = [len(piece)]
            self._snapshot = piece
            self.held_chars = len(self._first) + len(piece)
        else:
            self._pieces = [*self._list_snapshots(), piece]
            self.held_chars = len(self._first) + sum(map(len, self._pieces))

    def set_first(self, value: Any) -> None:
        """Set the arguments that the start of the call has. Pieces may repeat them."""
        text = format_arguments_text(value)
        if not is_empty_object(text):
            self._first = text
            self.held_chars += len(text)

    def is_whole(self) -> bool:
        """Return True if the text so far can be all of the arguments."""
        if self._pieces is None:
            if self._is_whole is None:
                self._is_whole = is_json_object(self._snapshot)
            return self._is_whole
        return self._scan.is_closed_after(self._pieces)

    def resolve(self) -> str:
        """Return the text of the arguments, which is a JSON object if the pieces mean one.

        If they mean several objects, or none, it is all that was sent, and the call will not run.
        """
        received = self._resolve_pieces()
        if not self._first:
            return received
        if not received.strip() or is_empty_object(received):
            return self._first
        return _merge_repetitions(self._first + received)

    def _resolve_pieces(self) -> str:
        if self._pieces is not None:
            return _merge_repetitions("".join(self._pieces))
        if len(self._sizes) < 2 or is_json_object(self._snapshot):
            return _merge_repetitions(self._snapshot)
        return _merge_repetitions("".join(self._list_snapshots()))

    def _list_snapshots(self) -> list[str]:
        return [self._snapshot[:size] for size in self._sizes]


class _ObjectScan:
    """Finds the end of a JSON object in growing text. It reads each piece once."""

    def __init__(self) -> None:
        self._count = 0  # of the pieces that were read
        self._depth = 0
        self._in_string = False
        self._escape = ""  # a backslash at the end of the last piece

    def is_closed_after(self, pieces: list[str]) -> bool:
        """Return True if all objects of the text in `pieces` are closed."""
        for piece in pieces[self._count :]:
            self._read(self._escape + piece)

        self._count = len(pieces)
        return self._depth == 0 and not self._in_string

    def _read(self, text: str) -> None:
        self._escape = ""

        for match in _STRUCTURE.finditer(text):
            token = match[0]
            if token == "\\":
                self._escape = token
            elif token == '"':
                self._in_string = not self._in_string
            elif token == "{" and not self._in_string:
                self._depth += 1
            elif token == "}" and not self._in_string:
                self._depth -= 1


def format_arguments_text(value: Any) -> str:
    """Return arguments on the wire as text: a text, an object, or None.

    Raises:
        TypeError: It is another value.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    raise TypeError  # `StreamDecoder` reports it


def is_empty_object(text: str) -> bool:
    """Return True if `text` is `{}`."""
    return "".join(text.split()) == "{}"


def _merge_repetitions(text: str) -> str:
    """Return one object if `text` repeats it, also after `{}`. Other text is returned unchanged."""
    if is_json_object(text):
        return text

    objects = split_json_objects(text)
    contents = [*dropwhile(is_empty_object, objects)] or objects[:1]

    try:
        meanings = {json.dumps(read_json(each), sort_keys=True) for each in contents}
    except ValueError:
        return text

    return contents[-1] if len(meanings) == 1 else text


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a call, as an element of `tool_calls` of Chat Completions has it.

    A server may omit each of the fields, and give all calls the same `index`.
    """

    index: Any = None
    id: str = ""
    name: str = ""
    arguments: Any = None
    has_empty_name: bool = False  # it names the call, and the name is empty

    @property
    def is_empty(self) -> bool:
        """True if the piece has neither an id, nor a name, nor arguments."""
        return not (self.id or self.name or self.arguments)


class StreamedCall:
    """A tool call whose pieces arrive. `id` is the one that the server gave first."""

    def __init__(self, number: int, index: Any) -> None:
        self.number = number  # of the call in the response, from 0
        self.index = index  # of its first piece
        self.id = ""
        self.name = ""
        self.has_empty_name = False  # of the model; without any name, the stream is incomplete
        self.is_started = False  # its name is complete and was reported
        self.arguments = StreamedArguments()


class CallAssembler:
    """Assembles the calls of one response of Chat Completions.

    The calls become output items from `first_item` on. `tools` are the names of the offered tools,
    which tell a name in pieces from the names of two calls.
    """

    def __init__(
        self, provider: str, first_item: int, *, tools: Collection[str] = (), request: bytes = b""
    ) -> None:
        self._provider = provider
        self._first_item = first_item
        self._tools = frozenset(tools)
        self._request = request
        self._by_index: dict[Any, StreamedCall] = {}
        self._by_id: dict[str, StreamedCall] = {}
        self._named_in_message: set[int] = set()  # numbers of calls that this message names
        self.calls: list[StreamedCall] = []

    def begin_message(self) -> None:
        """Note that the next pieces are in another message of the stream."""
        self._named_in_message.clear()

    def add(self, piece: CallDelta, out: EventBuffer) -> None:
        """Add a piece to its call, or to a new one."""
        call = self._find(piece)
        # The object `{}` is all of the arguments, if the call has no others.
        is_object = piece.arguments == {} and call is not None and call.arguments.is_empty
        if piece.is_empty and not is_object:
            return

        if call is None or self._begins_call(piece, call):
            call = self._open(piece)
            out.open_calls.add(self._first_item + call.number)
        if piece.id:
            self._by_id[piece.id] = call
        if piece.name:
            self._named_in_message.add(call.number)

        held = call.arguments.held_chars + len(call.name)
        call.id = call.id or piece.id
        call.has_empty_name = call.has_empty_name or piece.has_empty_name
        call.name = self._continue_name(call, piece) or call.name
        call.arguments.add(piece.arguments)
        out.held_chars += call.arguments.held_chars + len(call.name) - held
        if self._is_name_complete(call):
            self._start(call, out)

    def are_whole(self) -> bool:
        """Return True if each call has a name and one whole object as arguments."""
        return all(
            (call.name or call.has_empty_name) and is_json_object(call.arguments.resolve())
            for call in self.calls
        )

    def finish(self, out: EventBuffer, *, is_cut: bool) -> None:
        """Add the rest of the calls to `out`. With `is_cut`, incomplete calls are not ended.

        Raises:
            ProviderError: A call has no name.
        """
        for call in self.calls:
            has_name = bool(call.name) or call.has_empty_name
            if not has_name and is_cut:
                continue
            if not has_name:
                raise ProviderError(
                    f"{self._provider} called a tool without a name", kind="transient"
                )
            if not call.is_started:
                self._start(call, out)

            text = call.arguments.resolve()
            out.held_chars -= call.arguments.held_chars
            if text:
                out.add_text(self._first_item + call.number, None, text)
            if not is_cut or is_json_object(text):
                out.add(Flush(self._first_item + call.number))

    def _find(self, piece: CallDelta) -> StreamedCall | None:
        """Return the call that `piece` may belong to; None if it begins one."""
        at_index = None if piece.index is None else self._by_index.get(piece.index)
        if at_index is not None and at_index.id == piece.id:
            return at_index

        # Some servers give one id to several calls, others another index to each piece.
        with_id = self._by_id.get(piece.id)
        if with_id is not None and self._may_continue(piece, with_id):
            return with_id

        # An index that only later pieces have tells nothing.
        has_indexes = bool(self._by_index)
        if piece.index is not None and (has_indexes or piece.name):
            return at_index
        return self.calls[-1] if self.calls else None

    def _may_continue(self, piece: CallDelta, call: StreamedCall) -> bool:
        """Return True if `piece` may belong to `call`, which has the same id."""
        if piece.index in (None, call.index):
            return True
        if piece.has_empty_name and piece.index not in self._by_index:
            return not call.arguments.is_whole()
        return not piece.name

    def _begins_call(self, piece: CallDelta, call: StreamedCall) -> bool:
        """Return True if `piece` begins another call than `call`, whose index it has."""
        has_same_id = bool(piece.id) and piece.id == call.id
        has_other_id = bool(piece.id and call.id) and piece.id != call.id
        if has_other_id and piece.index is None and not piece.name:
            return call.arguments.is_whole()
        if not piece.name:
            return False
        if not call.name:
            return call.has_empty_name and call.arguments.is_whole()
        if call.number in self._named_in_message and not has_same_id:
            return True

        is_over = call.arguments.is_whole()
        if has_other_id:
            # Some servers make a new id for each piece, which also has the index.
            has_begun = not (is_over or call.arguments.is_empty)
            is_same = piece.index is not None and has_begun
            return not is_same or self._are_two_tools(call, piece)
        if piece.name == call.name:
            # A server that gives ids gives each call one.
            return is_over and not call.id
        return self._continue_name(call, piece) is None

    def _are_two_tools(self, call: StreamedCall, piece: CallDelta) -> bool:
        return call.name != piece.name and {call.name, piece.name} <= self._tools

    def _continue_name(self, call: StreamedCall, piece: CallDelta) -> str | None:
        """Return the name of `call` after `piece`; None if this is the name of another call."""
        name = piece.name
        if not name or name == call.name:
            return call.name
        if not call.name:
            return name
        if self._are_two_tools(call, piece):
            return None

        joined = call.name + name
        if not call.is_started:
            if self._is_begin_of_tool(joined):
                return joined
            if name.startswith(call.name) and self._is_begin_of_tool(name):
                return name

        has_same_id = bool(piece.id) and piece.id == call.id
        is_known = call.name in self._tools or name in self._tools
        if has_same_id and call.is_started:
            return call.name  # the first name counts
        if has_same_id or (call.arguments.is_empty and not is_known):
            return name if name.startswith(call.name) else joined
        return None

    def _is_begin_of_tool(self, name: str) -> bool:
        return any(tool.startswith(name) for tool in self._tools)

    def _is_name_complete(self, call: StreamedCall) -> bool:
        if call.is_started or not call.name:
            return False
        if self._tools and call.name not in self._tools:
            return False  # a piece may follow
        is_begin = any(tool.startswith(call.name) for tool in self._tools - {call.name})
        return not call.arguments.is_empty or (bool(self._tools) and not is_begin)

    def _open(self, piece: CallDelta) -> StreamedCall:
        call = StreamedCall(len(self.calls), piece.index)
        self.calls.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        return call

    def _start(self, call: StreamedCall, out: EventBuffer) -> None:
        call.is_started = True
        out.held_chars -= len(call.name)
        item = self._first_item + call.number
        out.add(ToolCallStart(item, call.id or make_call_id(item, self._request), call.name))
