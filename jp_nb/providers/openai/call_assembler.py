"""Find the tool call to which each piece of a Chat Completions stream belongs.

Only this protocol needs it: the other ones mark where each call begins. Servers give each call an
id and an index, or omit them, or give all calls the same. The rules, in the order of the code:

1. `_find_candidate`: the piece may belong to the call with its index and its id, else with its id,
   else with its index, else to the last call. Without a candidate, it begins a call.
2. `_begins_call`: the name, the id, and the arguments of the candidate decide whether the piece
   continues it. For example, a name after whole arguments begins another call.
3. `CallNames` (`call_names.py`): a name can arrive in pieces, or again with each piece. `extend`
   returns the name of the call after the piece, or None if the piece has the name of another call.
   The call is reported as soon as no piece can change its name.

A call or a piece may have no id: then `has_same_id` and `has_other_id` are both false. An empty
name (`has_empty_name`) is one that the model has chosen, and not one that is missing.

Source: `docs/providers.md`, "What servers really send", which has the rules as a table.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from jp_nb.agent.provider_events import Flush, ToolCallStart
from jp_nb.errors import ProviderError
from jp_nb.json_reading import is_json_object
from jp_nb.providers.openai.call_names import CallNames
from jp_nb.providers.openai.streamed_calls import StreamedCall, StreamedCallPiece
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.response_parts.generated_call_ids import make_call_id


class CallAssembler:
    """Assembles the calls of one response of Chat Completions.

    The calls become output items from `first_item` on. `tools` are the names of the offered tools.
    A call without an id gets one from the body of the `request`.
    """

    def __init__(
        self, provider: str, first_item: int, *, tools: Collection[str] = (), request: bytes = b""
    ) -> None:
        self._provider = provider
        self._first_item = first_item
        self._names = CallNames(tools)
        self._request = request
        self.calls: list[StreamedCall] = []
        # The last call with each index and with each id of the server:
        self._by_index: dict[Any, StreamedCall] = {}
        self._by_id: dict[str, StreamedCall] = {}
        # The numbers of the calls for which the current message has a name:
        self._named_in_message: set[int] = set()

    def begin_message(self) -> None:
        """Note that the next pieces are in another message: it may repeat the names of calls."""
        self._named_in_message.clear()

    def add(self, piece: StreamedCallPiece, out: EventBuffer) -> None:
        """Add a piece to its call, or to a new one."""
        call = self._find_candidate(piece)

        # The object `{}` is all of the arguments, if the call has no others.
        is_empty_object = piece.arguments == {} and call is not None and call.arguments.is_empty()
        if piece.is_empty and not is_empty_object:
            return

        if call is None or self._begins_call(piece, call):
            call = self._open_call(piece)
            # The call is open before its start is reported, which waits for the whole name.
            out.open_calls.add(self._first_item + call.number)

        if piece.id:
            self._by_id[piece.id] = call
        if piece.name:
            self._named_in_message.add(call.number)

        self._extend_call(call, piece, out)
        if not call.is_started and self._names.is_complete(call):
            self._report_start(call, out)

    def _extend_call(self, call: StreamedCall, piece: StreamedCallPiece, out: EventBuffer) -> None:
        """Add the id, the name, and the arguments of `piece` to `call`."""
        call.id = call.id or piece.id
        call.has_empty_name = call.has_empty_name or piece.has_empty_name

        earlier_name = call.name
        call.name = self._names.extend(call, piece) or earlier_name
        # Held text is in no event yet, but it counts for the size of the response.
        out.hold(len(call.name) - len(earlier_name))
        out.hold(call.arguments.add(piece.arguments))

    def _find_candidate(self, piece: StreamedCallPiece) -> StreamedCall | None:
        """Return the call that `piece` may belong to; None if it begins one.

        The first of these that there is: the call with its index and its id; with its id, if the
        server does not give one id to several calls; with its index; the last call.
        """
        at_index = None if piece.index is None else self._by_index.get(piece.index)
        if at_index is not None and at_index.id == piece.id:
            return at_index

        # Some servers give one id to several calls, others another index to each piece.
        with_id = self._by_id.get(piece.id)
        if with_id is not None and self._may_continue_id(piece, with_id):
            return with_id

        # An index tells nothing if the pieces before had none, and this one names no call.
        has_indexes = bool(self._by_index)
        if piece.index is not None and (has_indexes or piece.name):
            return at_index
        return self.calls[-1] if self.calls else None

    def _may_continue_id(self, piece: StreamedCallPiece, call: StreamedCall) -> bool:
        """Return True if `piece` may belong to `call`, which has the same id."""
        if piece.index in (None, call.index):
            return True

        # Some servers give each piece a new index, and an empty name instead of none.
        if piece.has_empty_name and piece.index not in self._by_index:
            return not call.arguments.is_whole()
        return not piece.name

    def _begins_call(self, piece: StreamedCallPiece, call: StreamedCall) -> bool:
        """Return True if `piece` begins another call than `call`, its candidate.

        The first of these rules that fits decides:

        - A piece without a name continues the call. If it has no index either, another id begins a
          call as soon as the arguments of the candidate are whole.
        - A call without a name gets the name of the piece. But if the server has sent an empty
          name for it, and its arguments are whole, the piece begins another call.
        - A second name in one message begins a call, unless it has the same id.
        - A name with another id begins a call. But some servers make a new id for each piece: a
          piece with an index continues arguments that are not whole yet, unless both names are
          those of offered tools (`are_two_tools`).
        - The same name begins a call if there are no ids, and the arguments are whole.
        - Another name begins a call, unless it extends the name of the call.
        """
        has_other_id = call.has_other_id(piece)
        if not piece.name:
            # Most pieces end here. `is_whole` comes last, because it may parse all arguments.
            return has_other_id and piece.index is None and call.arguments.is_whole()

        has_whole_arguments = call.arguments.is_whole()
        if not call.name:
            return call.has_empty_name and has_whole_arguments

        if call.number in self._named_in_message and not call.has_same_id(piece):
            return True

        if has_other_id:
            is_amid_arguments = not (has_whole_arguments or call.arguments.is_empty())
            may_continue = piece.index is not None and is_amid_arguments
            return not may_continue or self._names.are_two_tools(call, piece)

        if piece.name == call.name:
            return has_whole_arguments and not call.id
        return self._names.extend(call, piece) is None

    def _open_call(self, piece: StreamedCallPiece) -> StreamedCall:
        """Return a new call, which begins with `piece`."""
        call = StreamedCall(len(self.calls), piece.index)
        self.calls.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        return call

    def _report_start(self, call: StreamedCall, out: EventBuffer) -> None:
        """Add the event with the name of the call, which no later piece changes."""
        call.is_started = True
        out.release(len(call.name))
        item = self._first_item + call.number
        out.add(ToolCallStart(item, call.id or make_call_id(item, self._request), call.name))

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
                self._report_start(call, out)

            text = call.arguments.resolve()
            out.release(call.arguments.held_chars)
            if text:
                out.add_arguments(self._first_item + call.number, text)
            if not is_cut or is_json_object(text):
                out.add(Flush(self._first_item + call.number))
