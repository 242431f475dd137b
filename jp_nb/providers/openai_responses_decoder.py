"""Decode the stream of a response of the OpenAI Responses API.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Finished,
    FinishReason,
    Flush,
    InputChange,
    KeepAlive,
    TextKind,
    ToolCallStart,
    Usage,
)
from jp_nb.errors import ProviderError
from jp_nb.json_values import compact_json, is_json_object, read_json
from jp_nb.providers.answer_schemas import AnswerSchema
from jp_nb.providers.errors import classify_stream_error
from jp_nb.providers.event_buffer import EventBuffer
from jp_nb.providers.request_body import encode_json
from jp_nb.providers.stream_decoder import Decoder, WireObject
from jp_nb.providers.streamed_arguments import (
    StreamedArguments,
    format_arguments_text,
    is_empty_object,
)
from jp_nb.providers.tool_call_ids import make_call_id
from jp_nb.text import one_line

ITEM_ID: Final = "openai_item_id"
ENCRYPTED: Final = "openai_encrypted_content"
SUMMARY_LENGTHS: Final = "openai_summary_lengths"
"""Lengths of the parts of a summary, which the record joins by blank lines. One part needs none."""
PHASE: Final = "openai_phase"
ANNOTATIONS: Final = "openai_annotations"
ITEM: Final = "openai_item"
"""Whole item that the record cannot express otherwise."""
PART_SEPARATOR: Final = "\n\n"
MAX_OPEN_ITEMS: Final = 128
"""Number of items without an end that an event may belong to."""

_LOGGER: Final = logging.getLogger(__name__)
_STATUSES: Final[Mapping[str, str]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_INCOMPLETE: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refused",
}
_REFUSAL_CODES: Final = frozenset({"invalid_prompt", "bio_policy", "misalignment_policy_violation"})
"""Codes of errors that mean that the request was refused."""
_TEXT_KINDS: Final[Mapping[str, TextKind]] = {
    "output_text": "message",
    "reasoning_summary_text": "reasoning",
    "reasoning_text": "reasoning",
}
_REFUSAL: Final = "refusal"
_FAMILIES: Final = (*_TEXT_KINDS, _REFUSAL)
_PARTS: Final[Mapping[str, str]] = {
    **{f"response.{family}.delta": family for family in _FAMILIES},
    **{f"response.{family}.done": family for family in _FAMILIES},
}
"""Events of parts of an item, with their families."""
_FRAMES: Final = frozenset(
    {
        "response.content_part.added",
        "response.content_part.done",
        "response.output_text.annotation.added",  # also in the complete item
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
    }
)
_STATES: Final = frozenset(
    {
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.compaction.compacting",
    }
)
_CALL_FIELDS: Final = frozenset({"type", "id", "call_id", "name", "arguments", "status"})


class ResponsesDecoder(Decoder):
    """Decoder for one response of the Responses API.

    Items are found by their id and `output_index`, of which servers omit one, give all items the
    same, or change it during an item. A call without an id gets one from a digest of the request
    body. `on_response` gets the object of the response at its end.
    """

    def __init__(
        self,
        name: str,
        schema: AnswerSchema | None = None,
        *,
        request: bytes = b"",
        on_response: Callable[[WireObject], object] = lambda _: None,
    ) -> None:
        super().__init__(schema)
        self._on_response = on_response
        self.unknown: Counter[str] = Counter()  # types of events and items
        self._name = name
        self._request = request
        self._items: list[_Item] = []
        self._open: list[_Item] = []  # without their end
        self._ended: dict[Any, _Item] = {}  # by id and output index, the last one of each
        self._item_count = 0
        self._refusal: list[str] = []

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`."""
        kind = message.get("type") or ""
        if (family := _PARTS.get(kind)) is not None:
            self._add_part(message, family, out)
            return

        match kind:
            case "response.function_call_arguments.delta" | "response.function_call_arguments.done":
                self._add_arguments(message, out)
            case "response.output_item.added":
                if content := message.get("item"):
                    self._start_item(message, content, out)
            case "response.output_item.done":
                if content := message.get("item"):
                    self._end_announced_item(message, content, out)
            case _ if kind not in _FRAMES:
                self._apply_response_event(message, kind, out)

    def _apply_response_event(self, message: WireObject, kind: str, out: EventBuffer) -> None:
        if kind in _STATUSES:
            self._end_response(message.get("response") or {}, _STATUSES[kind], out)
        elif kind == "error" or (not kind and "error" in message):
            self._fail(message.get("error") or {**message, "type": None}, out)
        elif kind in _STATES:
            out.note_state()
        else:
            self._count_unknown(kind)
            out.add(KeepAlive())  # such as `keepalive`

    def _count_unknown(self, kind: str) -> None:
        if kind not in self.unknown:
            _LOGGER.debug("%s sent an unknown event or item: %s", self._name, one_line(kind))
        self.unknown[kind] += 1

    def finish(self, out: EventBuffer, *, has_end_mark: bool = False) -> None:
        """Add the last event if all items have ended, the last one with a part of the answer."""
        last = self._items[-1] if self._items else None
        if last is None or self._open:
            return
        if last.kind == "function_call" or (last.kind == "message" and not last.is_commentary):
            out.add(self._make_finished("completed", {}))

    def _find_open(self, message: WireObject, kind: str) -> _Item | None:
        """Return the item that `message` continues or ends; None if it has not begun."""
        id_ = message.get("item_id") or (message.get("item") or {}).get("id")
        place = message.get("output_index")
        found = [item for item in self._open[-MAX_OPEN_ITEMS:] if item.has_kind(kind)]

        for item in reversed(found):
            if item.id == id_ and item.place == place:
                return item
        for item in reversed(found):
            if id_ and item.id == id_:
                return item
        for item in reversed(found):
            if place is not None and item.place == place:
                return item
        for item in reversed(found):
            if None in (id_, item.id) and None in (place, item.place):
                return item

        return None

    def _find(self, message: WireObject, kind: str) -> _Item:
        return self._find_open(message, kind) or self._open_item(message, kind)

    def _open_item(self, message: WireObject, kind: str) -> _Item:
        id_ = message.get("item_id") or (message.get("item") or {}).get("id")
        item = _Item(kind, self._item_count, id_, message.get("output_index"))
        self._items.append(item)
        self._open.append(item)
        self._item_count += 1
        return item

    def _add_arguments(self, message: WireObject, out: EventBuffer) -> None:
        is_end = "arguments" in message
        if is_end and self._find_open(message, "function_call") is None:
            return  # the item has ended
        item = self._find(message, "function_call")

        out.held_chars -= item.arguments.held_chars
        if is_end:
            item.whole_arguments = message["arguments"] or ""
        else:
            item.arguments.add(message.get("delta"))

        out.held_chars += item.arguments.held_chars

    def _start_item(self, message: WireObject, content: WireObject, out: EventBuffer) -> None:
        open_item = self._find_open(message, content["type"])
        if open_item is not None and open_item.is_repeated_by(message, content):
            return

        item = self._open_item(message, content["type"])
        if item.kind == "function_call":
            item.call_id = content.get("call_id")
            item.first_arguments = content.get("arguments") or ""
            self._start_call(item, content, out)

    def _end_announced_item(
        self, message: WireObject, content: WireObject, out: EventBuffer
    ) -> None:
        ended = self._ended.get((content.get("id"), message.get("output_index")))
        if ended is not None and ended.end == content:
            return  # a repetition
        item = self._find_for_end(message, content)
        self._end_item(item, content, out)

    def _find_for_end(self, message: WireObject, content: WireObject) -> _Item:
        call_id = content.get("call_id")
        for opened in self._open[-MAX_OPEN_ITEMS:]:
            if call_id and opened.call_id == call_id:
                return opened

        item = self._find_open(message, content["type"])
        is_another_call = item is not None and call_id and item.call_id not in (None, call_id)
        if item is None or is_another_call:
            item = self._open_item(message, content["type"])
        return item

    def _start_call(
        self, item: _Item, content: WireObject, out: EventBuffer, *, is_complete: bool = False
    ) -> None:
        name = content.get("name")
        # A model can choose an empty name, which the complete item has.
        if item.is_started or not (name or (is_complete and name == "")):
            return

        item.is_started = True
        item.name = name
        item.call_id = content.get("call_id")
        call_id = item.call_id or make_call_id(item.index, self._request)
        out.add(ToolCallStart(item.index, call_id, name))

    def _add_part(self, message: WireObject, family: str, out: EventBuffer) -> None:
        kind = "reasoning" if "reasoning" in family else "message"
        # Servers send texts within items of reasoning, too, and the family of the event counts.
        item = self._find_open(message, kind) or self._find_open(message, _ANY_TEXT)
        text = message.get("delta")
        is_end = text is None and ("text" in message or "refusal" in message)
        named = (message.get("item_id"), message.get("output_index"))
        if item is None and is_end and named in self._ended:
            return  # the item has ended

        if item is None:
            item = self._open_item(message, kind)

        part = (family, message.get("summary_index", message.get("content_index")))
        if is_end and not item.has_part(part):
            text = message.get("text") or message.get("refusal")
        self._add_text(item, part, text or "", out)

    def _add_text(self, item: _Item, part: ItemPart, text: str, out: EventBuffer) -> None:
        if not text:
            return

        family = part[0]
        is_new = part not in item.parts
        item.parts[part] = item.parts.get(part, 0) + len(text)
        if family == _REFUSAL:
            self._refusal.append(text)
            out.held_chars += len(text)
            return

        kind = _TEXT_KINDS[family]
        if is_new and kind in item.texts:
            text = PART_SEPARATOR + text
        if kind not in item.texts:
            item.texts[kind] = self._find_output(item, kind)
        if kind == "reasoning":
            out.add_text(item.texts[kind], kind, text)
        else:
            self._answer.feed(item.texts[kind], text, out)

    def _find_output(self, item: _Item, kind: TextKind) -> int:
        if item.kind == kind:
            return item.index
        self._item_count += 1
        return self._item_count - 1

    def _flush_other_text(self, item: _Item, out: EventBuffer) -> None:
        """End the text of another kind than the item."""
        for kind, output in item.texts.items():
            if kind == item.kind:
                continue
            if kind == "message":
                self._answer.finish(output, out)
            out.add(Flush(output))

    def _end_item(self, item: _Item, content: WireObject, out: EventBuffer) -> None:
        if item.is_ended:
            return

        item.is_ended = True
        item.end = content
        self._open.remove(item)
        self._ended[item.id, item.place] = item
        item.is_commentary = content.get("phase") == "commentary"

        match item.kind:
            case "message":
                self._add_missing_parts(item, content, out)
                self._answer.finish(item.index, out)
                out.add(Flush(item.index, _message_metadata(content)))
            case "reasoning":
                self._add_missing_parts(item, content, out)
                self._end_reasoning(item, content, out)
            case "function_call":
                self._start_call(item, content, out, is_complete=True)
                self._end_call(item, content, out)
            case _:
                self._count_unknown(content["type"])
                out.bytes += len(encode_json(content))
                out.add_text(item.index, "reasoning", "")  # metadata needs a part
                out.add(Flush(item.index, {ITEM: content}))

        self._flush_other_text(item, out)

    def _add_missing_parts(self, item: _Item, content: WireObject, out: EventBuffer) -> None:
        streamed = {family for family, _ in item.parts}
        if item.kind == "reasoning" and item.has_text:
            return

        for index, part in enumerate(content.get("summary") or content.get("content") or ()):
            family = str(part.get("type")).replace("summary", "reasoning_summary")
            if family not in streamed and (family in _TEXT_KINDS or family == _REFUSAL):
                text = part.get("text") or part.get("refusal") or ""
                self._add_text(item, (family, index), text, out)

    def _end_reasoning(self, item: _Item, content: WireObject, out: EventBuffer) -> None:
        item_id = content.get("id")
        encrypted = content.get("encrypted_content")
        if not isinstance(item_id, str):
            out.add(Flush(item.index))
            return

        metadata: dict[str, JsonValue] = {ITEM_ID: item_id}
        if isinstance(encrypted, str) and encrypted:
            metadata[ENCRYPTED] = encrypted
            lengths: list[JsonValue] = [
                length for (family, _), length in item.parts.items() if "summary" in family
            ]
            if item.has_text and len(lengths) != 1:
                metadata[SUMMARY_LENGTHS] = lengths
            if not item.has_text:
                out.add_text(item.index, "reasoning", "")  # metadata needs a part

        out.add(Flush(item.index, metadata))

    def _end_call(self, item: _Item, content: WireObject, out: EventBuffer) -> None:
        if not item.is_started:
            raise ProviderError(f"{self._name} called a tool without a name", kind="transient")

        arguments = item.choose_arguments(content.get("arguments"))
        received = item.arguments.resolve()
        if received and arguments != received:
            _LOGGER.debug("%s corrected the arguments of a tool call", self._name)

        out.held_chars -= item.arguments.held_chars
        out.add_text(item.index, None, arguments)

        metadata: dict[str, JsonValue] = {}
        if isinstance(item_id := content.get("id"), str):
            metadata[ITEM_ID] = item_id
        if content.keys() - _CALL_FIELDS or not _is_compact(arguments):
            metadata[ITEM] = {**content, "arguments": arguments}
            out.bytes += len(encode_json(content))

        out.add(Flush(item.index, metadata))

    def _end_response(self, response: WireObject, status: str, out: EventBuffer) -> None:
        self._on_response(response)
        status = response.get("status") or status

        if status != "failed":
            self._add_missing_items(response.get("output"), out)
        if usage := response.get("usage"):
            out.add(_parse_usage(usage))

        for change in response.get("input_transformations") or ():
            reason = str(change.get("reason")).removesuffix("_mismatch")
            is_dropped = change.get("action") == "removed"
            out.add(InputChange(reason, is_dropped, mark=str(change.get("id") or "")))

        if status == "failed":
            self._fail(response.get("error"), out)
            return

        for item in self._items:  # of servers that do not end items
            is_text = item.kind in ("message", "reasoning")
            if is_text or (status == "completed" and item.is_complete_call()):
                self._end_item(item, {}, out)

        out.add(self._make_finished(status, response))

    def _add_missing_items(self, output: object, out: EventBuffer) -> None:
        """Add the items at the end of the response that were not streamed."""
        listed = output if isinstance(output, list) else []
        was_streamed = bool(self._items)
        for content in listed:
            if was_streamed and not self._is_missing_call(content):
                continue
            item = self._open_item({"item": content}, content["type"])
            self._end_item(item, content, out)

    def _is_missing_call(self, content: WireObject) -> bool:
        if content.get("type") != "function_call":
            return False
        call_id = content.get("call_id")
        known = {item.call_id for item in self._items if item.kind == "function_call"}
        # Calls that were streamed without an id may be the same.
        return bool(call_id) and None not in known and call_id not in known

    def _make_finished(self, status: str, response: WireObject) -> Finished:
        if status == "completed":
            refusal = "".join(self._refusal)
            return Finished("refused", refusal) if refusal else Finished()

        details = response.get("incomplete_details") or {}
        given = details.get("reason") if status == "incomplete" else None
        word = str(given or status)
        reason = _INCOMPLETE.get(word, "other")
        detail = None if reason == "max_tokens" else word
        return Finished(reason, detail)

    def _fail(self, error: Any, out: EventBuffer) -> None:
        details: Mapping[str, Any] = error if isinstance(error, dict) else {}
        code = details.get("code")
        if code in _REFUSAL_CODES:
            misalignment = details.get("misalignment") or {}
            explanation = misalignment.get("detailed_explanation") or details.get("message")
            reason = f"{code}: {explanation}" if explanation else code
            out.add(Finished("refused", reason))
            return

        if param := details.get("param"):
            error = {**details, "message": f"{details.get('message')} (at `{param}`)"}

        raise classify_stream_error(error, provider=self._name)


ItemPart = tuple[str, Any]
"""Family of events of a part of an item, and the index of the part."""


_ANY_TEXT: Final = "any text"
"""A message, or reasoning."""


class _Item:
    """An output item whose parts arrive. `id` and `place` are the ones that the server gave it."""

    def __init__(self, kind: str, index: int, id_: Any, place: Any) -> None:
        self.kind = kind
        self.index = index
        self.id = id_
        self.place = place
        self.call_id: str | None = None
        self.name = ""
        self.parts: dict[ItemPart, int] = {}  # length of each
        self.texts: dict[TextKind, int] = {}  # output items of its texts
        self.is_started = False  # as a call
        self.is_ended = False
        self.is_commentary = False
        self.end: WireObject = {}
        self.arguments = StreamedArguments()
        self.first_arguments: Any = ""  # of the start of the item
        self.whole_arguments: Any = ""  # of the end of the arguments

    @property
    def has_text(self) -> bool:
        """True if the item has a text of its kind."""
        return self.kind in self.texts

    def has_kind(self, kind: str) -> bool:
        """Return True if the item can be that of an event about `kind`."""
        if kind == _ANY_TEXT:
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
            return bool(call_id == self.call_id)
        is_same = content.get("id") == self.id and message.get("output_index") == self.place
        return is_same and bool(self.id) and not (self.parts or not self.arguments.is_empty)

    def choose_arguments(self, last: Any) -> str:
        """Return the arguments. The `last` ones of the server count, unless they are empty."""
        received = self.arguments.resolve()
        values = (last, self.whole_arguments, received, self.first_arguments)
        texts = [text for text in map(format_arguments_text, values) if text]
        contents = [text for text in texts if not is_empty_object(text)]
        return next(iter(contents or texts), "")

    def is_complete_call(self) -> bool:
        """Return True if the item is a call whose end is missing, but not its arguments."""
        is_open = self.is_started and not self.is_ended
        return is_open and is_json_object(self.choose_arguments(None))


def _message_metadata(content: WireObject) -> dict[str, JsonValue]:
    metadata: dict[str, JsonValue] = {
        key: value
        for key, value in ((ITEM_ID, content.get("id")), (PHASE, content.get("phase")))
        if isinstance(value, str)
    }

    parts = content.get("content") or ()
    annotations = list(chain.from_iterable(part.get("annotations") or () for part in parts))
    if annotations:
        metadata[ANNOTATIONS] = annotations
    return metadata


def _is_compact(arguments: str) -> bool:
    try:
        return compact_json(read_json(arguments)) == arguments
    except ValueError:
        return True  # the record has other arguments


def _parse_usage(usage: WireObject) -> Usage:
    read = usage.get("input_tokens_details") or {}
    written = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        reasoning_tokens=written.get("reasoning_tokens"),
        cache_read_tokens=read.get("cached_tokens"),
        cache_write_tokens=read.get("cache_write_tokens"),
    )
