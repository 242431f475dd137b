"""Join the pieces of the name of a tool call in a Chat Completions stream.

A server sends the name once, in pieces, or again with each piece of the call. Only the names of the
offered tools tell a piece of a name from the whole name of another call. For example, `read` and
then `_file` are one name if `read_file` is offered, and two calls if `read` and `_file` are.

Source: `docs/providers.md`, "What servers really send".
"""

from __future__ import annotations

from collections.abc import Collection

from jp_nb.providers.openai.streamed_calls import StreamedCall, StreamedCallPiece


class CallNames:
    """Joins the names of calls. `tools` are the names of the offered tools; there may be none."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = frozenset(tools)

    def are_two_tools(self, call: StreamedCall, piece: StreamedCallPiece) -> bool:
        """Return True if `piece` has the name of another offered tool than `call`."""
        return call.name != piece.name and {call.name, piece.name} <= self._tools

    def extend(self, call: StreamedCall, piece: StreamedCallPiece) -> str | None:
        """Return the name of `call` after `piece`; None if this has the name of another call.

        The first of these rules that fits decides:

        - Without a name, or with the same name, the piece changes nothing.
        - The first name of a call is its name.
        - The names of two offered tools are two calls.
        - A name that makes the beginning of an offered tool's name is a piece of it: behind the
          name so far (`joined`), or in place of it if the server repeats the name so far.
        - With the same id, after the start of the call was reported, the first name counts.
        - With the same id, or before the arguments of a call that has no offered tool's name, the
          model has invented a name, which is joined in the same way.
        - Any other name is that of another call.
        """
        name = piece.name
        if not name or name == call.name:
            return call.name
        if not call.name:
            return name
        if self.are_two_tools(call, piece):
            return None

        joined = call.name + name
        is_repetition = name.startswith(call.name)
        if not call.is_started:
            if self._begins_tool_name(joined):
                return joined
            if is_repetition and self._begins_tool_name(name):
                return name

        has_same_id = call.has_same_id(piece)
        if has_same_id and call.is_started:
            return call.name

        is_offered = call.name in self._tools or name in self._tools
        may_be_invented = call.arguments.is_empty() and not is_offered
        if has_same_id or may_be_invented:
            return name if is_repetition else joined
        return None

    def _begins_tool_name(self, name: str) -> bool:
        """Return True if the name of an offered tool begins with `name`."""
        return any(tool.startswith(name) for tool in self._tools)

    def is_complete(self, call: StreamedCall) -> bool:
        """Return True if no further piece can change the name of `call`."""
        if not call.name:
            return False
        if self._tools and call.name not in self._tools:
            return False  # a piece may follow

        # Arguments follow the whole name. Before them, the name of a longer tool may still arrive,
        # and without any offered tool, a longer name that the model has invented.
        if not call.arguments.is_empty():
            return True
        other_tools = self._tools - {call.name}
        begins_other = any(tool.startswith(call.name) for tool in other_tools)
        return bool(self._tools) and not begins_other
