"""Decode the streams of Anthropic Messages.

A response is a list of *blocks*: thinking, texts, and calls of tools. Each one starts, grows by
deltas, and stops (`anthropic_open_blocks.py`). Messages about the whole response come before and
after all blocks:

    message_start            {"message": {"id": …, "usage": {"input_tokens": 9}}}
    content_block_start      {"index": 0, "content_block": {"type": "text"}}
    content_block_delta      {"index": 0, "delta": {"type": "text_delta", "text": "Hello."}}
    content_block_stop       {"index": 0}
    message_delta            {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
    message_stop             {}

Source: `docs/providers.md`, https://platform.claude.com/docs/en/build-with-claude/streaming.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.provider_events import (
    Finished,
    FinishReason,
    Flush,
    KeepAlive,
    TextKind,
    ToolCallStart,
)
from jp_nb.json_reading import is_json_object
from jp_nb.providers.anthropic.anthropic_open_blocks import (
    REDACTED_THINKING_KEY,
    THINKING_SIGNATURE_KEY,
    OpenBlock,
)
from jp_nb.providers.anthropic.anthropic_thinking_changes import list_thinking_changes
from jp_nb.providers.anthropic.anthropic_usage import AnthropicUsage
from jp_nb.providers.network.errors import classify_stream_error
from jp_nb.providers.request_parts.parameter_names import ParameterNames
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.response_parts.generated_call_ids import make_call_id
from jp_nb.providers.response_parts.stream_decoder import Decoder, WireObject
from jp_nb.providers.schemas.answer_schemas import AnswerSchema

ANTHROPIC_NAME: Final = "anthropic"
_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "end_turn": "completed",
    "stop_sequence": "completed",
    "tool_use": "completed",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refused",
}
_KIND_OF_BLOCK: Final[Mapping[str, TextKind]] = {"text": "message", "thinking": "reasoning"}
_BLOCK_OF_DELTA: Final = {"text_delta": "text", "thinking_delta": "thinking"}
"""Types of blocks that some servers do not start."""


class AnthropicDecoder(Decoder):
    """Decoder for one response of Anthropic Messages, a list of *blocks* with an index each.

    It fills in the methods of `Decoder` (`stream_decoder.py`): `feed` gets the events of a server,
    and adds ours to `out`. A block is one output item in our events, which a `Flush` ends, or two
    if a server sends a text within a block of thinking.

    Texts of the answer pass `self._answer` of the base class, which tells a message from structured
    data. Text that is in no event yet counts for the size limit of the response: `out.hold` adds
    its length, and `out.release` takes it away.

    `is_complete`, of the base class, is set when only the end mark is missing. Then a connection
    that breaks does no harm: `finish` adds the last event, `Finished`.
    """

    def __init__(
        self,
        schema: AnswerSchema | None = None,
        *,
        request: bytes = b"",
        on_message: Callable[[WireObject], None] = lambda _: None,
        parameter_names: Mapping[str, ParameterNames] | None = None,
        find_signatures: Callable[[Sequence[str]], Sequence[str]] = lambda paths: [""] * len(paths),
    ) -> None:
        """Make a decoder for a structured answer with `schema`, or for a text.

        Args:
            schema: The schema of a structured answer.
            request: The body of the request.
            on_message: Gets the message of the first event, such as for its diagnostics.
            parameter_names: Restore the names of the parameters of each tool, by the tool's name.
                The request has other names for those that the API does not accept.
            find_signatures: Returns the signatures of the thinking at paths in the request, such
                as `messages.1.content.0`. A server names these paths if thinking did not fit.
        """
        super().__init__(schema)
        self._request = request
        self._on_message = on_message
        self._parameter_names = parameter_names or {}
        self._find_signatures = find_signatures

        # Blocks that have started and not stopped, by the server's index:
        self._open_blocks: dict[object, OpenBlock] = {}
        self._item_count = 0
        self._has_answer = False  # a text of the answer, or a call, has arrived
        # The end of a call with empty or cut arguments. Only the stop reason, or a later block,
        # tells that the limit of tokens did not cut them, so that the call has ended:
        self._pending_flush: Flush | None = None

        # What the server reports about the response, until the last event tells it:
        self._usage = AnthropicUsage()
        self._transformations: object = None  # thinking that it did not pass to the model
        self._stop_reason: str | None = None
        self._stop_details: Mapping[str, JsonValue] = {}

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`."""
        match message.get("type"):
            case "content_block_delta":
                self._apply_delta(message.get("index"), message.get("delta"), out)
            case "content_block_start":
                self._start_block(message.get("index"), message.get("content_block"), out)
            case "content_block_stop":
                self._stop_block(message.get("index"), out)
            case "message_start":
                self._start_message(message.get("message") or {}, out)
            case "message_delta":
                self._apply_message_delta(message, out)
            case "message_stop":
                self._end_message(out)
            case "ping":
                out.add(KeepAlive())
            case "error":
                raise classify_stream_error(message.get("error"), provider=ANTHROPIC_NAME)
            case None if "error" in message:
                raise classify_stream_error(message["error"], provider=ANTHROPIC_NAME)

    def finish(self, out: EventBuffer, *, has_end_mark: bool = False) -> None:
        """Add the last event after a stop reason, or after the end mark if all blocks are whole."""
        is_whole = all(block.is_whole() for block in self._open_blocks.values())
        if self._stop_reason or (has_end_mark and self._has_answer and is_whole):
            self._end_message(out)

    def _start_message(self, message: WireObject, out: EventBuffer) -> None:
        self._on_message(message)
        self._transformations = message.get("input_transformations")
        self._add_usage(message.get("usage"), out)

    def _end_message(self, out: EventBuffer) -> None:
        """End all blocks, and add the reports about the thinking of the request and `Finished`."""
        for index in [*self._open_blocks]:  # of a server that does not stop its blocks
            self._stop_block(index, out)
        self._flush_pending_call(out)
        for change in list_thinking_changes(self._transformations, self._find_signatures):
            out.add(change)
        out.add(self._make_finished())

    def _start_block(self, index: object, content: WireObject | None, out: EventBuffer) -> None:
        """Open a block with the `content` that its start has."""
        if content is None:
            return

        if index in self._open_blocks:
            # A server that does not stop its blocks, or gives all of them the same index.
            self._stop_block(index, out)
        self._flush_pending_call(out)

        block = self._open_block(content["type"])
        block.tool = content.get("name") or ""
        self._open_blocks[index] = block

        match block.type:
            case "text":
                self._add_piece(block, "message", content.get("text"), out)
            case "thinking":
                self._add_signature(block, content.get("signature"), out)
                self._add_piece(block, "reasoning", content.get("thinking"), out)
                self._add_piece(block, "message", content.get("text"), out)
            case "redacted_thinking":
                block.redacted = content["data"]
            case "tool_use":
                self._has_answer = True
                call_id = content.get("id") or make_call_id(block.index, self._request)
                out.add(ToolCallStart(block.index, call_id, content["name"]))
                block.arguments.set_first(content.get("input"))
                out.hold(block.arguments.held_chars)

    def _open_block(self, kind: str) -> OpenBlock:
        """Return a new block with the type `kind`, which is the next output item."""
        block = OpenBlock(kind, self._item_count)
        self._item_count += 1
        return block

    def _apply_delta(self, index: object, delta: WireObject | None, out: EventBuffer) -> None:
        """Add a piece to the block with the server's `index`."""
        if delta is None:
            return

        kind = delta["type"]
        block = self._open_blocks.get(index)
        if block is None and kind in _BLOCK_OF_DELTA:  # a server that does not start its blocks
            block = self._open_block(_BLOCK_OF_DELTA[kind])
            self._open_blocks[index] = block
        if block is None:
            raise LookupError  # `StreamDecoder` reports an invalid message

        # The kind of the delta counts: servers send texts within blocks of thinking.
        match kind:
            case "text_delta":
                self._add_piece(block, "message", delta["text"], out)
            case "thinking_delta":
                self._add_piece(block, "reasoning", delta["thinking"], out)
            case "signature_delta":
                self._add_signature(block, delta["signature"], out)
            case "input_json_delta" if block.type == "tool_use":
                added_chars = block.arguments.add(delta["partial_json"])
                out.hold(added_chars)

    def _stop_block(self, index: object, out: EventBuffer) -> None:
        """End the items of a block. A block that is not open has been stopped before."""
        block = self._open_blocks.pop(index, None)
        if block is None:
            return
        if block.type == "tool_use":
            self._stop_call(block, out)
            return

        if block.type in ("thinking", "redacted_thinking"):
            self._add_thinking_metadata(block, out)
        for kind, item in block.items.items():
            if kind == "message":
                self._answer.finish(item, out)
                out.add(Flush(item))
            else:
                out.add(Flush(item, block.metadata))

    def _add_thinking_metadata(self, block: OpenBlock, out: EventBuffer) -> None:
        """Set the metadata of thinking, which later requests send back.

        Thinking has the server's signature, or is encrypted as a whole (*redacted*).
        """
        if signature := "".join(block.signature):
            block.metadata[THINKING_SIGNATURE_KEY] = signature
            out.release(len(signature))  # the size of the metadata counts instead

        if block.redacted:
            block.metadata[REDACTED_THINKING_KEY] = block.redacted

        if block.metadata and "reasoning" not in block.items:
            # A signature without text is replayed as well, so it needs a part.
            block.items = {"reasoning": block.index, **block.items}
            out.add_text(block.index, "reasoning", "")

    def _stop_call(self, block: OpenBlock, out: EventBuffer) -> None:
        """Add the arguments of a call, and its end if they are complete."""
        text = block.arguments.resolve()
        out.release(block.arguments.held_chars)

        if names := self._parameter_names.get(block.tool):
            text = names.restore(text)

        if text:
            out.add_arguments(block.index, text)

        if is_json_object(text):
            out.add(Flush(block.index))
        else:  # The stop reason tells whether the arguments are empty or cut.
            self._flush_pending_call(out)
            self._pending_flush = Flush(block.index)

    def _add_piece(
        self, block: OpenBlock, kind: TextKind, text: str | None, out: EventBuffer
    ) -> None:
        """Add a piece of text to the item of `block` for texts of this kind."""
        if not text:
            return

        if kind not in block.items:
            block.items[kind] = self._find_item(block, kind)

        if kind == "message":
            self._has_answer = True
            self._answer.feed(block.items[kind], text, out)
        else:
            out.add_text(block.items[kind], kind, text)

    def _find_item(self, block: OpenBlock, kind: TextKind) -> int:
        """Return the output item for texts of `kind` in `block`: its own, or a new one."""
        if _KIND_OF_BLOCK.get(block.type) == kind:
            return block.index
        self._item_count += 1
        return self._item_count - 1

    def _add_signature(self, block: OpenBlock, signature: str | None, out: EventBuffer) -> None:
        if signature:
            block.signature.append(signature)
            out.hold(len(signature))

    def _flush_pending_call(self, out: EventBuffer) -> None:
        """End the call whose end had to wait, unless the stop reason shows that it was cut.

        A call that the limit of tokens has cut gets no end, so it is not run.
        """
        flush = self._pending_flush
        self._pending_flush = None
        is_cut = _FINISH_REASONS.get(self._stop_reason or "") == "max_tokens"
        if flush is not None and not is_cut:
            out.add(flush)

    def _apply_message_delta(self, message: WireObject, out: EventBuffer) -> None:
        """Keep the stop reason and the reports. After it, only the end mark is missing."""
        delta = message.get("delta") or {}
        self._stop_reason = delta.get("stop_reason") or self._stop_reason
        self._stop_details = delta.get("stop_details") or self._stop_details
        if self._stop_reason:
            self.is_complete = True
            self._flush_pending_call(out)

        self._transformations = message.get("input_transformations") or self._transformations
        self._add_usage(message.get("usage"), out)

    def _add_usage(self, usage: WireObject | None, out: EventBuffer) -> None:
        if usage:
            out.add(self._usage.update(usage))

    def _make_finished(self) -> Finished:
        """Return the last event. A response without a stop reason has ended with its end mark."""
        stop_reason = self._stop_reason
        reason: FinishReason = "completed"
        if stop_reason is not None:
            reason = _FINISH_REASONS.get(stop_reason, "other")

        if reason == "refused":
            details = (self._stop_details.get(name) for name in ("category", "explanation"))
            return Finished(reason, ": ".join(str(text) for text in details if text) or None)

        detail = stop_reason if reason == "other" else None
        return Finished(reason, detail)
