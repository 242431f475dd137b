"""The output items of a response of the Responses API, and the item that an event belongs to.

An *item* is a message, a reasoning, or a call. An event names its item by an id and a *place* (its
`output_index`). Servers omit one of them, give all items the same, or change it during an item, so
`OutputItems` compares both.

Source: `docs/providers.md`, "What servers really send".
"""

from __future__ import annotations

from typing import Any, Final

from jp_nb.agent.provider import TextKind
from jp_nb.json_values import is_json_object
from jp_nb.providers.response_parts.stream_decoder import WireObject
from jp_nb.providers.response_parts.streamed_arguments import (
    StreamedArguments,
    format_arguments_text,
    is_empty_object,
)

MAX_OPEN_ITEMS: Final = 128
"""Number of items without an end that an event may belong to."""
ANY_TEXT: Final = "any text"
"""Kind of an item that is a message or reasoning."""

ItemPart = tuple[str, Any]
"""Family of events of a part of an item, such as `output_text`, and the index of the part."""


class ItemCall:
    """A function call whose parts arrive.

    Attributes:
        is_started: True if the start of the call was reported.
        first_arguments: The arguments in the start of the item.
        arguments: The arguments that arrive in pieces.
        whole_arguments: The arguments in the event that ends them.
    """

    def __init__(self) -> None:
        self.call_id: str | None = None
        self.is_started = False
        self.first_arguments: Any = ""
        self.arguments = StreamedArguments()
        self.whole_arguments: Any = ""


class OutputItem:
    """An output item whose parts arrive.

    `kind` is the type of the server, such as `function_call`. `index` is its number in our events.
    """

    def __init__(self, kind: str, index: int, id_: Any, place: Any) -> None:
        self.kind = kind
        self.index = index
        self.id = id_  # of the server
        self.place = place  # of the server
        self.end: WireObject = {}  # the item as its last event has it
        self.is_ended = False
        # Of a message or reasoning:
        self.parts: dict[ItemPart, int] = {}  # length of each
        self.texts: dict[TextKind, int] = {}  # numbers of the items of our events for its texts
        self.is_commentary = False
        self.call = ItemCall()  # if the item is one

    @property
    def has_text(self) -> bool:
        """True if the item has a text of its kind."""
        return self.kind in self.texts

    def has_kind(self, kind: str) -> bool:
        """Return True if the item can be that of an event about `kind`."""
        if kind == ANY_TEXT:
            return self.kind in ("message", "reasoning")
        return self.kind == kind

    def has_part(self, part: ItemPart) -> bool:
        """Return True if the deltas of `part` have arrived. Servers may omit its index in some."""
        family, index = part
        if index is None or (family, None) in self.parts:
            return any(known == family for known, _ in self.parts)
        return part in self.parts

    def is_repeated_by(self, message: WireObject, content: WireObject) -> bool:
        """Return True if the start of an item is this one again."""
        call_id = content.get("call_id")
        if self.kind == "function_call" and call_id:
            return bool(call_id == self.call.call_id)
        is_same = content.get("id") == self.id and message.get("output_index") == self.place
        return is_same and bool(self.id) and not (self.parts or not self.call.arguments.is_empty())

    def choose_arguments(self, last: Any) -> str:
        """Return the arguments. The `last` ones of the server count, unless they are empty."""
        received = self.call.arguments.resolve()
        values = (last, self.call.whole_arguments, received, self.call.first_arguments)
        texts = [text for text in map(format_arguments_text, values) if text]
        contents = [text for text in texts if not is_empty_object(text)]
        return next(iter(contents or texts), "")

    def is_complete_call(self) -> bool:
        """Return True if the item is a call whose end is missing, but not its arguments."""
        is_open = self.call.is_started and not self.is_ended
        return is_open and is_json_object(self.choose_arguments(None))


class OutputItems:
    """The items of one response, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[OutputItem] = []
        self.open: list[OutputItem] = []  # without their end
        self._ended: dict[Any, OutputItem] = {}  # by id and place, the last one of each
        self._next_index = 0

    def make_index(self) -> int:
        """Return the number of another item of our events."""
        self._next_index += 1
        return self._next_index - 1

    def open_item(self, message: WireObject, kind: str) -> OutputItem:
        """Return a new item that begins with `message`."""
        id_ = _read_id(message)
        item = OutputItem(kind, self.make_index(), id_, message.get("output_index"))
        self.all.append(item)
        self.open.append(item)
        return item

    def find_open(self, message: WireObject, kind: str) -> OutputItem | None:
        """Return the item that `message` continues or ends; None if it has not begun."""
        id_ = _read_id(message)
        place = message.get("output_index")
        candidates = [item for item in self.open[-MAX_OPEN_ITEMS:] if item.has_kind(kind)]
        candidates.reverse()

        for item in candidates:
            if item.id == id_ and item.place == place:
                return item
        for item in candidates:
            if id_ and item.id == id_:
                return item
        for item in candidates:
            if place is not None and item.place == place:
                return item
        for item in candidates:
            if None in (id_, item.id) and None in (place, item.place):
                return item

        return None

    def find_for_end(self, message: WireObject, content: WireObject) -> OutputItem:
        """Return the item that `content`, a complete item, ends. It may not have begun."""
        call_id = content.get("call_id")
        for opened in self.open[-MAX_OPEN_ITEMS:]:
            if call_id and opened.call.call_id == call_id:
                return opened

        item = self.find_open(message, content["type"])
        is_another_call = item is not None and call_id and item.call.call_id not in (None, call_id)
        if item is None or is_another_call:
            item = self.open_item(message, content["type"])
        return item

    def find_ended(self, id_: Any, place: Any) -> OutputItem | None:
        """Return the last item with this id and place that has ended."""
        return self._ended.get((id_, place))

    def end(self, item: OutputItem, content: WireObject) -> None:
        """Mark `item` as ended by `content`, the complete item."""
        item.is_ended = True
        item.end = content
        item.is_commentary = content.get("phase") == "commentary"
        self.open.remove(item)
        self._ended[item.id, item.place] = item

    def is_missing_call(self, content: WireObject) -> bool:
        """Return True if `content`, of the end of the response, is a call that was not streamed."""
        if content.get("type") != "function_call":
            return False
        call_id = content.get("call_id")
        known = {item.call.call_id for item in self.all if item.kind == "function_call"}
        # Calls that were streamed without an id may be the same.
        return bool(call_id) and None not in known and call_id not in known


def _read_id(message: WireObject) -> Any:
    return message.get("item_id") or (message.get("item") or {}).get("id")
