"""The output items of a response of the Responses API, and the item that an event belongs to.

An *item* is a message, a reasoning, or a call. An event names its item by an id and an
`output_index`. Servers omit one of them, give all items the same, or change it during an item, so
`OutputItems` compares both.

Source: `docs/providers.md`, "What servers really send".
"""

from __future__ import annotations

from typing import Any, Final

from jp_nb.agent.provider_events import TextKind
from jp_nb.json_reading import is_json_object
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
        call_id: The id that a result of the call names, unlike the id of its item.
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

    Attributes:
        kind: The type that the server gave it, such as `function_call`.
        index: The number of the item in our events.
        id: The id that the server gave it.
        output_index: The index that the server gave it.
        end: The whole item, as its last event had it.
        is_ended: True after this event.
        parts: The length of each part of its text so far.
        texts: The number of the item in our events, by the kind of the text. A server can send a
            plain text within a reasoning: this becomes an item of its own there.
        is_commentary: True for a message that is not part of the answer. It is known at the end.
        call: The call, if the item is one.
    """

    def __init__(self, kind: str, index: int, id_: Any, output_index: Any) -> None:
        self.kind = kind
        self.index = index
        self.id = id_
        self.output_index = output_index
        self.end: WireObject = {}
        self.is_ended = False
        self.parts: dict[ItemPart, int] = {}
        self.texts: dict[TextKind, int] = {}
        self.is_commentary = False
        self.call = ItemCall()

    @property
    def has_text(self) -> bool:
        """True if it is a message with a plain text, or a reasoning with reasoning."""
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
        """Return True if `message`, the start of an item, announces this one again.

        Calls have an id of their own. Another item is the same only as long as nothing of it has
        arrived: some servers give all items the same id and `output_index`.
        """
        call_id = content.get("call_id")
        if self.kind == "function_call" and call_id:
            return bool(call_id == self.call.call_id)

        has_same_id = bool(self.id) and content.get("id") == self.id
        has_same_index = message.get("output_index") == self.output_index
        has_content = bool(self.parts) or not self.call.arguments.is_empty()
        return has_same_id and has_same_index and not has_content

    def choose_arguments(self, last: Any) -> str:
        """Return the arguments of a call, of the four places where a server may send them.

        Those in the end of the item (`last`) come first. Empty ones, or `{}`, count only if there
        are no others.
        """
        received = self.call.arguments.resolve()  # the pieces together
        values = (last, self.call.whole_arguments, received, self.call.first_arguments)
        texts = [text for text in map(format_arguments_text, values) if text]
        whole_texts = [text for text in texts if not is_empty_object(text)]
        return next(iter(whole_texts or texts), "")

    def is_complete_call(self) -> bool:
        """Return True if the item is a call whose end is missing, but not its arguments."""
        is_open = self.call.is_started and not self.is_ended
        return is_open and is_json_object(self.choose_arguments(None))


class OutputItems:
    """The items of one response, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[OutputItem] = []
        self.open: list[OutputItem] = []  # without their end
        self._ended: dict[Any, OutputItem] = {}  # the last one of each id and `output_index`
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
        """Return the item that `message` continues or ends; None if it has not begun.

        It is the last one with the same id and `output_index`, else with the same id, else with the
        same `output_index`. Otherwise it is the last one that may be the same: for each of the two,
        the message or the item has no value.
        """
        id_ = _read_id(message)
        output_index = message.get("output_index")
        candidates = [item for item in self.open[-MAX_OPEN_ITEMS:] if item.has_kind(kind)]
        candidates.reverse()

        for item in candidates:
            if item.id == id_ and item.output_index == output_index:
                return item
        for item in candidates:
            if id_ and item.id == id_:
                return item
        for item in candidates:
            if output_index is not None and item.output_index == output_index:
                return item
        for item in candidates:
            may_have_same_id = id_ is None or item.id is None
            may_have_same_index = output_index is None or item.output_index is None
            if may_have_same_id and may_have_same_index:
                return item

        return None

    def find_for_end(self, message: WireObject, content: WireObject) -> OutputItem:
        """Return the item that `content`, a complete item, ends: a new one if it has not begun.

        The id of a call decides, if there is one.
        """
        call_id = content.get("call_id")
        for opened in self.open[-MAX_OPEN_ITEMS:]:
            if call_id and opened.call.call_id == call_id:
                return opened

        item = self.find_open(message, content["type"])
        is_another_call = item is not None and call_id and item.call.call_id not in (None, call_id)
        if item is None or is_another_call:
            item = self.open_item(message, content["type"])
        return item

    def find_ended(self, id_: Any, output_index: Any) -> OutputItem | None:
        """Return the last item with this id and output_index that has ended."""
        return self._ended.get((id_, output_index))

    def end(self, item: OutputItem, content: WireObject) -> None:
        """Mark `item` as ended by `content`, the whole item; empty if the server did not end it."""
        item.is_ended = True
        item.end = content
        item.is_commentary = content.get("phase") == "commentary"
        self.open.remove(item)
        self._ended[item.id, item.output_index] = item

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
