"""Decode the stream of a response of Gemini's Interactions API.

A response is a list of steps (`google_interactions_steps.py`). Each one starts, grows by deltas,
and stops. A step that the record cannot express is kept as metadata of its entry.

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.agent.provider import Finished, FinishReason, Flush, ToolCallStart
from jp_nb.errors import ProviderError
from jp_nb.json_values import compact_json, is_json_object
from jp_nb.providers.google.google_continued_decoder import THOUGHT_SIGNATURE_KEY, ContinuedDecoder
from jp_nb.providers.google.google_errors import GOOGLE_NAME, end_with_error
from jp_nb.providers.google.google_interactions_steps import (
    CONTENTS_FIELD,
    STEPS_KEY,
    OpenStep,
    join_texts,
    make_call_step,
    make_output_step,
    make_thought_step,
)
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.request_parts.tool_call_ids import make_call_id
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.response_parts.stream_decoder import WireObject
from jp_nb.providers.schemas.answer_schemas import AnswerSchema

MAX_UNKNOWN: Final = 20
"""Maximum number of unknown events, steps, and deltas of a response that the log names."""
_LOGGER: Final = logging.getLogger(__name__)


_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "completed": "completed",
    "requires_action": "completed",
    "incomplete": "max_tokens",
    "budget_exceeded": "max_tokens",
    "requires_continuation": "max_tokens",  # after the last continuation
}
_USAGE: Final = (
    ("total_input_tokens", "input_tokens"),
    ("total_output_tokens", "output_tokens"),
    ("total_thought_tokens", "output_tokens"),  # not included in the output of the server
    ("total_thought_tokens", "reasoning_tokens"),
    ("total_cached_tokens", "cache_read_tokens"),
)
_UNFINISHED: Final = frozenset({"in_progress", "queued"})
_ENDS: Final = frozenset(
    {"completed", "requires_action", "incomplete", "budget_exceeded", "failed", "cancelled"}
)
"""Statuses after which nothing but the end of the interaction follows."""
_KIND_OF_DELTA: Final = {"text": "model_output", "thought_summary": "thought"}
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "thought": frozenset({"type", "summary", "signature"}),
    "model_output": frozenset({"type", "content"}),
    "function_call": frozenset({"type", "id", "name", "arguments"}),
}
"""The fields of a step that become events."""
_ECHOES: Final = frozenset({"user_input", "function_result"})
"""Steps of the request, which a server may repeat."""


class InteractionsDecoder(ContinuedDecoder):
    """Decoder for one response of the Interactions API.

    The item of a step is ended (`Flush`) when the step stops, except in two cases. An output is
    ended at the next step, because the next request may continue it. A call with empty or cut
    arguments is ended later, because only the final status tells that it is complete: at the
    status `max_tokens`, it is dropped.
    """

    def __init__(self, schema: AnswerSchema | None = None, *, request: bytes = b"") -> None:
        super().__init__(schema, _USAGE)
        self._request = request
        self._has_schema = schema is not None
        self._steps: dict[Any, OpenStep] = {}  # by the server's index
        self._has_answer = False
        self._next_index = 0  # of the output item of the next step
        self._unflushed_outputs: list[
            OpenStep
        ] = []  # stopped, but the next request may continue them
        self._pending_call: Flush | None = None  # the end of a call with empty or cut arguments
        self._error: Any = None  # of an output, for a response without an error of its own
        self._begins_continuation = False  # no step of a continuation has started yet
        self._end: WireObject | None = None  # an update with a final status
        self._unknown: set[str] = set()

    def begin_continuation(self) -> str:
        """Return the token for the next request, whose stream follows; "" if there is none."""
        self._steps.clear()
        self._begins_continuation = True
        return super().begin_continuation()

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`."""
        match message.get("event_type"):
            case "step.delta":
                self._apply_delta(message.get("index"), message.get("delta"), out)
                if metadata := message.get("metadata"):
                    self.add_usage(metadata.get("total_usage"), out)
            case "step.start":
                self._start_step(message.get("index"), message["step"], out)
            case "step.stop":
                self._stop_step(self._steps.pop(message.get("index")), out)
                self.add_usage(message.get("usage"), out)
            case "interaction.completed":
                self._complete(message["interaction"], out)
            case "interaction.status_update":
                out.note_state()
                self.add_usage(message.get("usage"), out)
                self._note_status(message)
            case "error":
                out.add(end_with_error(message.get("error")))
            case None if "error" in message:
                out.add(end_with_error(message["error"]))
            case kind if kind != "interaction.created":
                self._report_unknown(f"event {kind}")

    def finish(self, out: EventBuffer, *, has_end_mark: bool = False) -> None:
        """Add the last event after a final status, or an end mark if all steps have stopped."""
        if self._end is not None:
            self._complete(self._end, out)
        elif has_end_mark and self._has_answer and not self._steps:
            self._flush_pending_call(out)
            self._flush_outputs(out)
            out.add(Finished())

    def _note_status(self, update: WireObject) -> None:
        """Note a final status, in case that the stream ends without `interaction.completed`."""
        self._clear_end()
        status = update.get("status")
        # A model that does not stream has its steps only in `interaction.completed`.
        if status in _ENDS and (self._next_index or status == "failed"):
            self._end = update
            self.is_complete = True  # only `interaction.completed` is missing

    def _clear_end(self) -> None:
        # A step after a final status shows that the response had not ended.
        self._end = None
        self.is_complete = False

    def _report_unknown(self, what: str) -> None:
        if what not in self._unknown and len(self._unknown) < MAX_UNKNOWN:
            self._unknown.add(what)
            _LOGGER.debug("google: unknown %.100s", what)

    def _start_step(self, wire_index: Any, step: WireMessage, out: EventBuffer) -> None:
        """Open a step. The first output of a continuation continues the item before it."""
        self._clear_end()
        kind = step["type"]
        index = self._next_index

        if wire_index in self._steps:
            self._stop_step(self._steps.pop(wire_index), out)

        self._flush_pending_call(out)
        if self._begins_continuation and self._unflushed_outputs and kind == "model_output":
            index = self._unflushed_outputs[0].index
        else:
            self._flush_outputs(out)
            self._next_index += 1
        self._begins_continuation = False

        opened = self._steps[wire_index] = OpenStep(index, {**step})
        if extra := step.keys() - _FIELDS.get(kind, frozenset()):
            out.held_chars += len(compact_json({key: step[key] for key in extra}))

        if kind in CONTENTS_FIELD:
            for content in step.get(CONTENTS_FIELD[kind]) or []:
                self._emit_content(opened, content, out)
        elif kind == "function_call":
            self._start_call(opened, out)
        elif kind not in _ECHOES:
            self._report_unknown(f"step {kind}")

    def _start_call(self, opened: OpenStep, out: EventBuffer) -> None:
        call = opened.wire
        self._has_answer = True
        call["id"] = call.get("id") or make_call_id(opened.index, self._request)
        out.add(ToolCallStart(opened.index, call["id"], call["name"]))
        opened.arguments.set_first(call.get("arguments"))
        out.held_chars += opened.arguments.held_chars

    def _apply_delta(self, wire_index: Any, delta: WireObject | None, out: EventBuffer) -> None:
        if delta is None:
            return

        self._clear_end()
        step = self._steps[wire_index]
        match step.type, delta["type"]:
            # The kind of the delta counts: servers send texts within thoughts.
            case "model_output" | "thought", "text" | "thought_summary" as kind:
                content = delta if kind == "text" else delta.get("content")
                if content:
                    self._add_content(step, _KIND_OF_DELTA[kind], content, out)
            case "model_output", "image" | "audio" | "document" | "video":
                self._add_content(step, "model_output", delta, out)
            case "model_output", "text_annotation_delta":
                step.add_annotations(delta.get("annotations") or [])
                out.held_chars += len(compact_json(delta))
            case "thought", "thought_signature":
                step.signature.append(delta["signature"])
                out.held_chars += len(delta["signature"])
            case "function_call", "arguments_delta":
                out.held_chars -= step.arguments.held_chars
                step.arguments.add(delta.get("arguments"))
                out.held_chars += step.arguments.held_chars
            case _, kind:
                step.merge(delta)
                out.held_chars += len(compact_json(delta))
                self._report_unknown(f"delta {kind} of a step {step.type}")

    def _add_content(
        self, step: OpenStep, kind: str, content: WireObject, out: EventBuffer
    ) -> None:
        """Add a content of a step of the type `kind`, which arrives within `step`."""
        if kind != step.type:
            if step.inner is None:
                step.inner = OpenStep(self._next_index, {"type": kind})
                self._next_index += 1
            step = step.inner

        step.add_content(content)
        self._emit_content(step, content, out)

    def _emit_content(self, step: OpenStep, content: WireObject, out: EventBuffer) -> None:
        """Add the text of a content to `out`. Other contents only count as received."""
        if content.get("type") != "text":
            out.held_chars += len(compact_json(content))
        elif step.type == "thought":
            out.add_text(step.index, "reasoning", content["text"])
        elif content["text"]:
            self._has_answer = True
            self._answer.feed(step.index, content["text"], out)

    def _stop_step(self, step: OpenStep, out: EventBuffer) -> None:
        """Complete a step, and end its item unless this has to wait."""
        step.end()
        match step.type:
            case "model_output":
                self._error = step.wire.get("error") or self._error
                self._unflushed_outputs.append(step)
            case "thought":
                self._stop_thought(step, out)
            case "function_call":
                self._stop_call(step, out)
            case kind if kind not in _ECHOES:
                _flush_step(step, out)

        if step.inner is not None:
            # The contents within the step are an item of their own, which comes after it.
            self._flush_outputs(out)
            self._stop_step(step.inner, out)

    def _stop_thought(self, step: OpenStep, out: EventBuffer) -> None:
        text = join_texts([step.wire], "summary")
        signature = step.wire.get("signature")
        if step.wire != make_thought_step(text, signature):
            _flush_step(step, out)
        elif signature:
            out.held_chars -= sum(map(len, step.signature))
            _flush_step(step, out, {THOUGHT_SIGNATURE_KEY: signature})
        elif text:
            out.add(Flush(step.index))

    def _stop_call(self, step: OpenStep, out: EventBuffer) -> None:
        """Add the arguments of a call, and its end if they are complete."""
        call = step.wire
        text = step.arguments.resolve()
        out.held_chars -= step.arguments.held_chars

        if text:
            out.add_text(step.index, None, text)
        is_complete = is_json_object(text)

        if text:
            call["arguments"] = json.loads(text) if is_complete else {}
        is_known = call == make_call_step(call["id"], call["name"], call.get("arguments", {}))
        metadata: dict[str, JsonValue] = {} if is_known else {STEPS_KEY: call}
        flush = Flush(step.index, metadata)

        if is_complete:
            out.add(flush)
        else:  # The arguments are empty or cut, which the status tells.
            self._pending_call = flush

    def _flush_pending_call(self, out: EventBuffer) -> None:
        flush = self._pending_call
        self._pending_call = None
        if flush is not None:
            out.add(flush)

    def _flush_outputs(self, out: EventBuffer) -> None:
        """End the item of the stopped outputs: one, or those that continue each other."""
        opened = self._unflushed_outputs
        self._unflushed_outputs = []
        if not opened:
            return

        index = opened[0].index
        steps = [each.wire for each in opened]
        text = join_texts(steps, "content")
        self._answer.finish(index, out)

        if not text:
            if any(step.get("content") for step in steps):  # such as an image
                _flush_step(opened[0], out)
        elif steps == [make_output_step(text)] and not self._has_schema:
            out.add(Flush(index))
        else:
            kept: Any = steps if len(steps) > 1 else steps[0]
            out.add(Flush(index, {STEPS_KEY: kept}))

    def _complete(self, interaction: WireObject, out: EventBuffer) -> None:
        """Stop all steps, and add the last event, unless another request continues the response."""
        status = interaction["status"]
        if self._next_index == 0:  # a model that does not stream its steps
            for index, step in enumerate(interaction.get("steps") or []):
                self._start_step(index, step, out)
                self._stop_step(self._steps.pop(index), out)

        for index in [*self._steps]:  # a server that does not stop its steps
            self._flush_pending_call(out)
            self._flush_outputs(out)
            self._stop_step(self._steps.pop(index), out)

        self.add_usage(interaction.get("usage"), out)
        token = interaction.get("continuation_token")
        if status == "requires_continuation" and self.keep_token(token):
            return

        if status in _UNFINISHED:
            raise ProviderError(
                f"{GOOGLE_NAME} ended its response while it was {status}", kind="transient"
            )

        error = next(iter(interaction.get("errors") or []), self._error)
        if error or status == "failed":
            out.add(end_with_error(error or {"message": "the interaction failed"}))
            return

        reason: FinishReason = _FINISH_REASONS.get(status, "other")
        if reason != "max_tokens":
            self._flush_pending_call(out)

        self._flush_outputs(out)
        detail = str(status) if reason == "other" else None
        out.add(Finished(reason, detail))


def _flush_step(
    step: OpenStep, out: EventBuffer, metadata: Mapping[str, JsonValue] | None = None
) -> None:
    # Without any text, the step needs a part to be stored. An empty one is not shown.
    out.add_text(step.index, "reasoning", "")
    if metadata is None:
        metadata = {STEPS_KEY: step.wire}
    out.add(Flush(step.index, metadata))
