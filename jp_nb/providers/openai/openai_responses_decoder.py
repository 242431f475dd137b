"""Decode the stream of a response of the OpenAI Responses API.

The stream announces each *item* (a message, a reasoning, or a call), sends its parts, and ends it:

    response.output_item.added      {"item": {"type": "message", "id": "msg_1"}}
    response.output_text.delta      {"item_id": "msg_1", "delta": "Hel"}
    response.output_text.delta      {"item_id": "msg_1", "delta": "lo"}
    response.output_item.done       {"item": {"type": "message", "id": "msg_1", "content": …}}
    response.completed              {"response": {"output": …, "usage": …}}

The *family* of an event about a part is the middle of its type, such as `output_text`. Servers omit
many of these events, so an item may begin with its text, or be found only in the last event.
`openai_responses_items.py` finds the item that an event belongs to, which is open or has ended, if
there is one. It names a part of an item by its family and index (`ItemPart`).
`openai_responses_endings.py` reads the response in the last event.

A message can be a *commentary*: the model tells what it is doing, before it calls a tool.

The arguments of a call can be in four places, of which servers fill some: the start of the item
(`first_arguments`), pieces (`arguments`), the event that ends the pieces (`whole_arguments`), and
the end of the item. `choose_arguments` prefers the last of these that is not empty.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from jp_nb.agent.provider_events import Finished, Flush, KeepAlive, TextKind, ToolCallStart
from jp_nb.errors import ProviderError
from jp_nb.providers.openai.openai_responses_endings import (
    list_input_changes,
    make_finished,
    make_response_error,
    parse_responses_usage,
    read_refused_request,
)
from jp_nb.providers.openai.openai_responses_items import (
    ANY_TEXT,
    ItemPart,
    OutputItem,
    OutputItems,
)
from jp_nb.providers.openai.openai_responses_metadata import (
    ENCRYPTED_KEY,
    ITEM_KEY,
    PART_SEPARATOR,
    make_call_metadata,
    make_message_metadata,
    make_reasoning_metadata,
)
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.response_parts.generated_call_ids import make_call_id
from jp_nb.providers.response_parts.stream_decoder import Decoder, WireObject
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.text import one_line

_LOGGER: Final = logging.getLogger(__name__)
_STATUS_OF_LAST_EVENT: Final[Mapping[str, str]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_TEXT_KINDS: Final[Mapping[str, TextKind]] = {
    "output_text": "message",
    "reasoning_summary_text": "reasoning",
    "reasoning_text": "reasoning",
}
_REFUSAL: Final = "refusal"
_FAMILIES: Final = (*_TEXT_KINDS, _REFUSAL)
_FAMILY_OF_EVENT: Final[Mapping[str, str]] = {
    **{f"response.{family}.delta": family for family in _FAMILIES},
    **{f"response.{family}.done": family for family in _FAMILIES},
}
"""The family of each event about a part of an item."""
_IGNORED_EVENTS: Final = frozenset(
    {
        "response.content_part.added",
        "response.content_part.done",
        "response.output_text.annotation.added",  # also in the complete item
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
    }
)
_STATE_EVENTS: Final = frozenset(
    {
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.compaction.compacting",
    }
)
"""Events that tell only that the server still works."""


class ResponsesDecoder(Decoder):
    """Decoder for one response of the Responses API.

    It fills in the methods of `Decoder` (`stream_decoder.py`): `feed` gets the events of a server,
    and adds ours to `out`. In most methods, `message` is an event of the server, and `content` is
    the item in it. A `Flush` event ends an item.

    Texts of the answer pass `self._answer` of the base class, which tells a message from structured
    data. Text that is in no event yet counts for the size limit of the response: `out.hold` adds
    its length, and `out.release` takes it away.

    `name` is that of the provider, for errors. A call without an id gets one from a digest of the
    `request` body. `on_response` gets the object of the response at its end.
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
        self._name = name
        self._request = request
        self._items = OutputItems()
        self._refusal: list[str] = []  # pieces of the text with which the model refuses
        self._logged: set[str] = set()  # unknown types of events and items

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`."""
        kind = message.get("type") or ""
        if (family := _FAMILY_OF_EVENT.get(kind)) is not None:
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
            case _ if kind not in _IGNORED_EVENTS:
                self._apply_response_event(message, kind, out)

    def _apply_response_event(self, message: WireObject, kind: str, out: EventBuffer) -> None:
        """Apply an event about the whole response, or an unknown one."""
        if kind in _STATUS_OF_LAST_EVENT:
            self._end_response(message.get("response") or {}, _STATUS_OF_LAST_EVENT[kind], out)
        elif kind == "error" or (not kind and "error" in message):
            # OpenAI has the fields of the error in the event itself. Its type is not the error's.
            error = message.get("error") or {**message, "type": None}
            self._fail(error, out)
        elif kind in _STATE_EVENTS:
            out.note_state()  # unlike a `KeepAlive`, it does not extend the idle timeout
        else:
            self._log_unknown(kind)
            out.add(KeepAlive())  # such as `keepalive`

    def _log_unknown(self, kind: str) -> None:
        """Name an unknown type of an event or item in the log, once."""
        if kind not in self._logged:
            self._logged.add(kind)
            _LOGGER.debug("%s sent an unknown event or item: %s", self._name, one_line(kind))

    def finish(self, out: EventBuffer, *, has_end_mark: bool = False) -> None:
        """Add the last event if the response can be complete although its last message is missing.

        All items must have ended, and the last one must be a part of the answer: a call, or a
        message that is no commentary.
        """
        if self._items.open or not self._items.all:
            return

        last = self._items.all[-1]
        is_answer = last.kind == "message" and not last.is_commentary
        if last.kind == "function_call" or is_answer:
            out.add(self._make_finished("completed", {}))

    def _add_arguments(self, message: WireObject, out: EventBuffer) -> None:
        """Add a piece of the arguments of a call; or all of them, with the event that ends them."""
        is_end = "arguments" in message
        item = self._items.find_open(message, "function_call")
        if item is None and is_end:
            return  # the item has ended
        if item is None:
            item = self._items.open_item(message, "function_call")

        if is_end:
            item.call.whole_arguments = message["arguments"] or ""
        else:
            out.hold(item.call.arguments.add(message.get("delta")))

    def _start_item(self, message: WireObject, content: WireObject, out: EventBuffer) -> None:
        """Open the item that `message` announces, unless it is already open."""
        open_item = self._items.find_open(message, content["type"])
        if open_item is not None and open_item.is_repeated_by(message, content):
            return

        item = self._items.open_item(message, content["type"])
        if item.kind == "function_call":
            item.call.call_id = content.get("call_id")
            item.call.first_arguments = content.get("arguments") or ""
            self._start_call(item, content, out)

    def _end_announced_item(
        self, message: WireObject, content: WireObject, out: EventBuffer
    ) -> None:
        """End the item that `message` ends, which has `content` as a whole."""
        ended = self._items.find_ended(content.get("id"), message.get("output_index"))
        is_repetition = ended is not None and ended.end == content
        if is_repetition:
            return

        item = self._items.find_for_end(message, content)
        self._end_item(item, content, out)

    def _start_call(
        self, item: OutputItem, content: WireObject, out: EventBuffer, *, is_complete: bool = False
    ) -> None:
        """Report the start of a call, as soon as its name is known.

        An empty name counts only in the complete item: there, the model has chosen it.
        """
        name: Any = content.get("name")
        has_name = bool(name) or (is_complete and name == "")
        if item.call.is_started or not has_name:
            return

        item.call.is_started = True
        item.call.call_id = content.get("call_id")
        call_id = item.call.call_id or make_call_id(item.index, self._request)
        out.add(ToolCallStart(item.index, call_id, name))

    def _add_part(self, message: WireObject, family: str, out: EventBuffer) -> None:
        """Add the text of an event about a part: a piece, or the whole text at the end of the part.

        The whole text is ignored if the part, or its item, has arrived before.
        """
        kind = "reasoning" if "reasoning" in family else "message"  # a refusal is in a message
        # Some servers send plain texts within items of reasoning. The event's family decides.
        item = self._items.find_open(message, kind) or self._items.find_open(message, ANY_TEXT)
        text = message.get("delta")
        is_end_of_part = text is None and ("text" in message or "refusal" in message)

        if item is None and is_end_of_part:
            ended = self._items.find_ended(message.get("item_id"), message.get("output_index"))
            if ended is not None:
                return

        if item is None:
            item = self._items.open_item(message, kind)

        part = (family, message.get("summary_index", message.get("content_index")))
        if is_end_of_part and not item.has_part(part):
            text = message.get("text") or message.get("refusal")
        self._add_text(item, part, text or "", out)

    def _add_text(self, item: OutputItem, part: ItemPart, text: str, out: EventBuffer) -> None:
        """Add a piece of the text of `part`. The text of a refusal is kept for the last event."""
        if not text:
            return

        family = part[0]
        is_new = part not in item.parts
        item.parts[part] = item.parts.get(part, 0) + len(text)
        if family == _REFUSAL:
            self._refusal.append(text)
            out.hold(len(text))
            return

        kind = _TEXT_KINDS[family]
        if is_new and kind in item.texts:
            text = PART_SEPARATOR + text  # the parts of an item are one text in the record

        if kind not in item.texts:
            item.texts[kind] = item.index if item.kind == kind else self._items.make_index()

        if kind == "reasoning":
            out.add_text(item.texts[kind], kind, text)
        else:
            self._answer.feed(item.texts[kind], text, out)

    def _flush_other_text(self, item: OutputItem, out: EventBuffer) -> None:
        """End a text of another kind than the item, which is its own item in our events."""
        for kind, index in item.texts.items():
            if kind == item.kind:
                continue
            if kind == "message":
                self._answer.finish(index, out)
            out.add(Flush(index))

    def _end_item(self, item: OutputItem, content: WireObject, out: EventBuffer) -> None:
        """End an item with what its `content` has and the stream had not, and with its metadata."""
        if item.is_ended:
            return

        self._items.end(item, content)
        match item.kind:
            case "message":
                self._add_missing_parts(item, content, out)
                self._answer.finish(item.index, out)
                out.add(Flush(item.index, make_message_metadata(content)))
            case "reasoning":
                self._add_missing_parts(item, content, out)
                self._end_reasoning(item, content, out)
            case "function_call":
                self._start_call(item, content, out, is_complete=True)
                self._end_call(item, content, out)
            case _:
                # An item of another type: only the metadata has it, for later requests.
                self._log_unknown(content["type"])
                out.count_metadata(content)  # towards the size limit
                out.add_text(item.index, "reasoning", "")  # metadata needs a part
                out.add(Flush(item.index, {ITEM_KEY: content}))

        self._flush_other_text(item, out)

    def _add_missing_parts(self, item: OutputItem, content: WireObject, out: EventBuffer) -> None:
        """Add the parts of a complete item that were not streamed.

        Servers give the parts of reasoning other indexes there, so it is added only as a whole.
        """
        if item.kind == "reasoning" and item.has_text:
            return

        streamed = {family for family, _ in item.parts}
        for index, part in enumerate(content.get("summary") or content.get("content") or ()):
            # The type of a part is its family, but for a `summary_text` of reasoning.
            family = str(part.get("type")).replace("summary", "reasoning_summary")
            if family not in streamed and (family in _TEXT_KINDS or family == _REFUSAL):
                text = part.get("text") or part.get("refusal") or ""
                self._add_text(item, (family, index), text, out)

    def _end_reasoning(self, item: OutputItem, content: WireObject, out: EventBuffer) -> None:
        """End a reasoning. Later requests send it back by its id and its encrypted content."""
        item_id = content.get("id")
        encrypted = content.get("encrypted_content")
        if not isinstance(item_id, str):
            out.add(Flush(item.index))
            return

        # Later requests divide the text into the parts of its summary again.
        lengths = [length for (family, _), length in item.parts.items() if "summary" in family]
        metadata = make_reasoning_metadata(item_id, encrypted, lengths, has_text=item.has_text)
        if ENCRYPTED_KEY in metadata and not item.has_text:
            out.add_text(item.index, "reasoning", "")  # metadata needs a part

        out.add(Flush(item.index, metadata))

    def _end_call(self, item: OutputItem, content: WireObject, out: EventBuffer) -> None:
        """Add the arguments of a call, and its end.

        Raises:
            ProviderError: The call has no name.
        """
        if not item.call.is_started:
            raise ProviderError(f"{self._name} called a tool without a name", kind="transient")

        arguments = item.choose_arguments(content.get("arguments"))
        received = item.call.arguments.resolve()
        if received and arguments != received:
            _LOGGER.debug("%s corrected the arguments of a tool call", self._name)

        out.release(item.call.arguments.held_chars)
        out.add_arguments(item.index, arguments)

        metadata = make_call_metadata(content, arguments)
        if ITEM_KEY in metadata:
            out.count_metadata(content)
        out.add(Flush(item.index, metadata))

    def _end_response(self, response: WireObject, status: str, out: EventBuffer) -> None:
        """Add all that is missing, and the last event. `status` is that of the server's event."""
        self._on_response(response)
        status = response.get("status") or status  # the response's own counts

        if status != "failed":
            self._add_missing_items(response.get("output"), out)
        if usage := response.get("usage"):
            out.add(parse_responses_usage(usage))
        for change in list_input_changes(response):
            out.add(change)

        if status == "failed":
            self._fail(response.get("error"), out)
            return

        for item in self._items.all:  # of servers that do not end items
            is_text = item.kind in ("message", "reasoning")
            if is_text or (status == "completed" and item.is_complete_call()):
                self._end_item(item, {}, out)

        out.add(self._make_finished(status, response))

    def _add_missing_items(self, output: object, out: EventBuffer) -> None:
        """Add the items in the `output` of the response that were not streamed.

        Those are all, of a response that was not streamed at all, or else only calls: a text cannot
        be told from one that was streamed.
        """
        listed = output if isinstance(output, list) else []
        was_streamed = bool(self._items.all)
        for content in listed:
            if was_streamed and not self._items.is_missing_call(content):
                continue
            item = self._items.open_item({"item": content}, content["type"])
            self._end_item(item, content, out)

    def _make_finished(self, status: str, response: WireObject) -> Finished:
        return make_finished(status, response, refusal="".join(self._refusal))

    def _fail(self, error: Any, out: EventBuffer) -> None:
        """Add `Finished` if the server refused the request, or raise its `error`."""
        refused = read_refused_request(error)
        if refused is None:
            raise make_response_error(error, provider=self._name)
        out.add(refused)
