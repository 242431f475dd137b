"""A tool call of a Chat Completions stream, and a piece of it.

`call_assembler.py` finds the call to which a piece belongs, and `call_names.py` its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jp_nb.providers.response_parts.streamed_arguments import StreamedArguments


@dataclass(frozen=True, slots=True)
class StreamedCallPiece:
    """A piece of a call: an element of `tool_calls` in a message of the stream.

    A server may omit each of the fields, and give all calls the same `index`. `has_empty_name` is
    True if it sent an empty name, and False if it sent none.
    """

    index: Any = None
    id: str = ""
    name: str = ""
    arguments: Any = None
    has_empty_name: bool = False

    @property
    def is_empty(self) -> bool:
        """True if the piece has neither an id, nor a name, nor arguments."""
        return not (self.id or self.name or self.arguments)


class StreamedCall:
    """A tool call whose pieces arrive.

    Attributes:
        number: The number of the call in the response, from 0.
        index: The index that the server gave to its first piece.
        id: The first id that the server gave it.
        name: The name of the tool so far.
        has_empty_name: True if the server sent an empty name. If no other name follows, the model
            has called a tool with an empty name. Without any name, the stream is incomplete.
        is_started: True after the event `ToolCallStart`, which has the complete name.
        arguments: The arguments so far.
    """

    def __init__(self, number: int, index: Any) -> None:
        self.number = number
        self.index = index
        self.id = ""
        self.name = ""
        self.has_empty_name = False
        self.is_started = False
        self.arguments = StreamedArguments()

    def has_same_id(self, piece: StreamedCallPiece) -> bool:
        """Return True if `piece` has the id of this call."""
        return bool(piece.id) and piece.id == self.id

    def has_other_id(self, piece: StreamedCallPiece) -> bool:
        """Return True if both have an id, and not the same."""
        return bool(piece.id and self.id) and piece.id != self.id
