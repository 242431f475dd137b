"""Decode the stream of a response of Gemini's Interactions API.

A response is a list of *steps*: thoughts, outputs, and calls (`google_interactions_steps.py`). Each
one starts, grows by deltas, and stops:

    step.start               {"index": 0, "step": {"type": "model_output"}}
    step.delta               {"index": 0, "delta": {"type": "text", "text": "Hello."}}
    step.stop                {"index": 0}
    interaction.completed    {"interaction": {"status": "completed", "usage": …}}

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from jp_nb.agent.provider_events import Finished, FinishReason, ToolCallStart
from jp_nb.errors import ProviderError
from jp_nb.json_writing import compact_json
from jp_nb.providers.google.google_continued_decoder import ContinuedDecoder
from jp_nb.providers.google.google_errors import GOOGLE_NAME, end_with_error
from jp_nb.providers.google.google_interactions_items import ECHOED_STEPS, StepItems
from jp_nb.providers.google.google_interactions_steps import CONTENTS_FIELD
from jp_nb.providers.google.google_open_steps import OpenStep
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.response_parts.generated_call_ids import make_call_id
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
_FINAL_STATUSES: Final = frozenset(
    {"completed", "requires_action", "incomplete", "budget_exceeded", "failed", "cancelled"}
)
"""Statuses of an update after which nothing but the end of the interaction follows.

The token for `requires_continuation` is only in that end.
"""
_KIND_OF_DELTA: Final = {"text": "model_output", "thought_summary": "thought"}
"""The type of the step to which a delta with a text belongs."""
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "thought": frozenset({"type", "summary", "signature"}),
    "model_output": frozenset({"type", "content"}),
    "function_call": frozenset({"type", "id", "name", "arguments"}),
}
"""The fields of a step that become events. Others are kept only in its metadata."""


class InteractionsDecoder(ContinuedDecoder):
    """Decoder for one response of the Interactions API.

    It fills in the methods of `Decoder` (`stream_decoder.py`): `feed` gets the messages of the
    server, and adds events to `out`. It collects each step until it stops. `StepItems` then makes
    the end of its output item, with metadata.

    Of the base classes, `_answer` makes events of the texts of outputs, which are data if there is
    a schema. `is_complete` tells the caller that a missing end does no harm. `keep_token` returns
    False if the response is not continued any more.

    Everything that arrives counts for the size limit of the response. A text counts as an event.
    What is in no event yet, or only in metadata, is counted by `out.hold`.
    """

    def __init__(self, schema: AnswerSchema | None = None, *, request: bytes = b"") -> None:
        super().__init__(schema, _USAGE)
        self._request = request
        self._items = StepItems(self._answer, has_schema=schema is not None)
        # Steps that have started and not stopped, by the server's index:
        self._open_steps: dict[Any, OpenStep] = {}
        self._has_answer = False  # a text of an output, or a call, has arrived
        self._unknown: set[str] = set()  # unknown events, steps, and deltas that the log names
        # A status update with a final status. It has the fields of an interaction that
        # `_complete` reads, and replaces it if the stream ends without `interaction.completed`.
        self._final_update: WireObject | None = None

    def begin_continuation(self) -> str:
        """Return the token for the next request, whose stream follows; "" if there is none."""
        self._open_steps.clear()
        self._items.begin_continuation()
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
                self._items.stop(self._open_steps.pop(message.get("index")), out)
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
        if self._final_update is not None:
            self._complete(self._final_update, out)
        elif has_end_mark and self._has_answer and not self._open_steps:
            self._items.flush_pending_call(out)
            self._items.flush_outputs(out)
            out.add(Finished())

    def _note_status(self, update: WireObject) -> None:
        """Keep an update with a final status, in case that no `interaction.completed` follows."""
        self._forget_final_update()
        status = update.get("status")
        has_steps = self._items.count > 0

        # A model that does not stream has its steps only in `interaction.completed`.
        if status in _FINAL_STATUSES and (has_steps or status == "failed"):
            self._final_update = update
            self.is_complete = True  # only `interaction.completed` is missing

    def _forget_final_update(self) -> None:
        """Forget a final status: a step after it shows that the response had not ended."""
        self._final_update = None
        self.is_complete = False

    def _report_unknown(self, description: str) -> None:
        """Name a part of the stream that this decoder does not know in the log, once."""
        if description not in self._unknown and len(self._unknown) < MAX_UNKNOWN:
            self._unknown.add(description)
            _LOGGER.debug("google: unknown %.100s", description)

    def _start_step(self, wire_index: Any, step: WireMessage, out: EventBuffer) -> None:
        """Open a step, whose start may have contents already."""
        self._forget_final_update()
        kind = step["type"]

        if wire_index in self._open_steps:
            self._items.stop(self._open_steps.pop(wire_index), out)

        opened = self._items.open_step(step, out)
        self._open_steps[wire_index] = opened

        if extra := step.keys() - _FIELDS.get(kind, frozenset()):
            out.hold(len(compact_json({key: step[key] for key in extra})))

        if kind in CONTENTS_FIELD:
            for content in step.get(CONTENTS_FIELD[kind]) or []:
                self._emit_content(opened, content, out)
        elif kind == "function_call":
            self._start_call(opened, out)
        elif kind not in ECHOED_STEPS:
            self._report_unknown(f"step {kind}")

    def _start_call(self, opened: OpenStep, out: EventBuffer) -> None:
        """Report the start of a call, whose step may have the arguments already."""
        call = opened.wire
        self._has_answer = True
        call["id"] = call.get("id") or make_call_id(opened.index, self._request)
        out.add(ToolCallStart(opened.index, call["id"], call["name"]))
        opened.arguments.set_first(call.get("arguments"))
        out.hold(opened.arguments.held_chars)

    def _apply_delta(self, wire_index: Any, delta: WireObject | None, out: EventBuffer) -> None:
        """Add a piece to the step with the server's index."""
        if delta is None:
            return

        self._forget_final_update()
        step = self._open_steps[wire_index]
        match step.type, delta["type"]:
            # The kind of the delta counts: servers send texts within thoughts.
            case "model_output" | "thought", "text" | "thought_summary" as kind:
                # A delta with a text of the answer has the fields of a content itself.
                content = delta if kind == "text" else delta.get("content")
                if content:
                    self._add_content(step, _KIND_OF_DELTA[kind], content, out)
            case "model_output", "image" | "audio" | "document" | "video":
                self._add_content(step, "model_output", delta, out)
            case "model_output", "text_annotation_delta":
                step.add_annotations(delta.get("annotations") or [])
                out.hold(len(compact_json(delta)))
            case "thought", "thought_signature":
                step.signature.append(delta["signature"])
                out.hold(len(delta["signature"]))
            case "function_call", "arguments_delta":
                out.hold(step.arguments.add(delta.get("arguments")))
            case _, kind:
                step.merge(delta)
                out.hold(len(compact_json(delta)))
                self._report_unknown(f"delta {kind} of a step {step.type}")

    def _add_content(
        self, step: OpenStep, kind: str, content: WireObject, out: EventBuffer
    ) -> None:
        """Add a part of a step of the type `kind`, which arrives within `step`."""
        if kind != step.type:
            if step.inner is None:
                step.inner = self._items.open_inner_step(kind)
            step = step.inner

        step.add_content(content)
        self._emit_content(step, content, out)

    def _emit_content(self, step: OpenStep, content: WireObject, out: EventBuffer) -> None:
        """Add the text of a part to `out`. Other parts, such as images, only count as held."""
        if content.get("type") != "text":
            out.hold(len(compact_json(content)))
        elif step.type == "thought":
            out.add_text(step.index, "reasoning", content["text"])
        elif content["text"]:
            self._has_answer = True
            self._answer.feed(step.index, content["text"], out)

    def _complete(self, interaction: WireObject, out: EventBuffer) -> None:
        """Stop all steps, and add the last event, unless another request continues the response.

        `interaction` is that of `interaction.completed`, or else the update with the final status.
        """
        status = interaction["status"]
        self._stop_all_steps(interaction, out)
        self.add_usage(interaction.get("usage"), out)

        token = interaction.get("continuation_token")
        if status == "requires_continuation" and self.keep_token(token):
            return

        if status in _UNFINISHED:
            raise ProviderError(
                f"{GOOGLE_NAME} ended its response while it was {status}", kind="transient"
            )

        error = next(iter(interaction.get("errors") or []), self._items.output_error)
        if error or status == "failed":
            out.add(end_with_error(error or {"message": "the interaction failed"}))
            return

        reason: FinishReason = _FINISH_REASONS.get(status, "other")
        if reason != "max_tokens":
            self._items.flush_pending_call(out)

        self._items.flush_outputs(out)
        detail = str(status) if reason == "other" else None
        out.add(Finished(reason, detail))

    def _stop_all_steps(self, interaction: WireObject, out: EventBuffer) -> None:
        """Stop the steps that the server did not stop, or that only its last message has."""
        if self._items.count == 0:  # a model that does not stream its steps
            for index, step in enumerate(interaction.get("steps") or []):
                self._start_step(index, step, out)
                self._items.stop(self._open_steps.pop(index), out)

        for index in [*self._open_steps]:  # a server that does not stop its steps
            # A later step shows that the one before it is complete.
            self._items.flush_pending_call(out)
            self._items.flush_outputs(out)
            self._items.stop(self._open_steps.pop(index), out)
