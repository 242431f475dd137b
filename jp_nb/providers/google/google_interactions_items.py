"""Make output items of the steps of a response of Gemini's Interactions API.

The decoder (`google_interactions_decoder.py`) collects a step while it arrives. This module decides
which output item of our events the step is, when the item ends, and which metadata it then has:

- A thought is one item, which ends when the step stops.
- An output ends at the next step, because the next request may continue it: then both are one item.
- A call ends when it stops. But if its arguments are empty or cut, only a later step, or the final
  status, shows that the server has nothing to add. At the limit of tokens, it has no end.

A `Flush` event ends an item. The record then has an entry, of which later requests make the step
again (`make_thought_step` and the functions beside it). If that would not give the step of the
server, for example because of unknown fields, the metadata has this one (`STEPS_KEY`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.agent.provider_events import Flush
from jp_nb.json_reading import is_json_object
from jp_nb.providers.google.google_continued_decoder import THOUGHT_SIGNATURE_KEY
from jp_nb.providers.google.google_interactions_steps import (
    STEPS_KEY,
    join_texts,
    make_call_step,
    make_output_step,
    make_thought_step,
)
from jp_nb.providers.google.google_open_steps import OpenStep
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.response_parts.answer_text import AnswerText
from jp_nb.providers.response_parts.event_buffer import EventBuffer

ECHOED_STEPS: Final = frozenset({"user_input", "function_result"})
"""Types of the steps of the request, which a server may repeat. They get an index, but no item."""


class StepItems:
    """The output items of one response, which may take several requests.

    The decoder adds the texts of outputs to `answer`, which is told here when an output ends.

    A step that arrives is an `OpenStep`: its fields (`wire`), and the pieces of those that arrive
    in pieces, such as `signature` and `arguments`.

    The size of a response is limited by the sum of two counters of `EventBuffer`: `bytes`, the size
    of its events, and `held_chars`, that of all that is in no event yet, which the decoder counts
    by `hold`. Arguments that become an event, and a signature that becomes metadata, are released
    here, because `bytes` counts them. The content of a whole step in metadata is not in `bytes`, so
    it stays held.

    Attributes:
        count: Number of items so far.
        output_error: The error that the last output with an error has; None without one.
    """

    def __init__(self, answer: AnswerText, *, has_schema: bool) -> None:
        self.count = 0
        self.output_error: Any = None
        self._answer = answer
        self._has_schema = has_schema
        # True from the start of a continuing request until its first step:
        self._begins_continuation = False
        # Outputs that have stopped, and that are one item, which the next request may continue:
        self._stopped_outputs: list[OpenStep] = []
        # The end of a call whose arguments are empty or cut:
        self._pending_call: Flush | None = None

    def begin_continuation(self) -> None:
        """Note that the next steps are those of another request."""
        self._begins_continuation = True

    def open_step(self, wire: WireMessage, out: EventBuffer) -> OpenStep:
        """Return the step that the server starts as `wire`, with its output item.

        The first output of a continuation continues the output before it. Any other step is a new
        item, and ends the items that had to wait for it.
        """
        self.flush_pending_call(out)
        is_output = wire["type"] == "model_output"
        continues_output = self._begins_continuation and is_output
        self._begins_continuation = False

        if continues_output and self._stopped_outputs:
            return OpenStep(self._stopped_outputs[0].index, {**wire})

        self.flush_outputs(out)
        return OpenStep(self._make_index(), {**wire})

    def open_inner_step(self, kind: str) -> OpenStep:
        """Return a step of the type `kind` for contents that arrive within a step of another type.

        Some servers send the thoughts of a model within an output, or its text within a thought.
        The decoder keeps this step as `inner` of the other one.
        """
        return OpenStep(self._make_index(), {"type": kind})

    def _make_index(self) -> int:
        self.count += 1
        return self.count - 1

    def stop(self, step: OpenStep, out: EventBuffer) -> None:
        """Complete a step, and end its item unless this has to wait."""
        step.end()  # its collected pieces become fields of `step.wire`
        match step.type:
            case "model_output":
                self.output_error = step.wire.get("error") or self.output_error
                self._stopped_outputs.append(step)
            case "thought":
                self._stop_thought(step, out)
            case "function_call":
                self._stop_call(step, out)
            case kind if kind not in ECHOED_STEPS:  # unknown: only the record has it
                _flush_with_metadata(step, {STEPS_KEY: step.wire}, out)

        if step.inner is not None:
            # The inner step is the next item. So an output around it is not continued, and ends.
            self.flush_outputs(out)
            self.stop(step.inner, out)

    def _stop_thought(self, step: OpenStep, out: EventBuffer) -> None:
        """End the item of a thought, with the metadata that its text lacks.

        - A thought that the record cannot express has its whole step as metadata.
        - A thought with a signature has only this as metadata, which may come without any text.
        - A thought of text only has no metadata.
        - A thought with nothing at all is no item.
        """
        text = join_texts([step.wire], "summary")
        signature = step.wire.get("signature")
        is_expressible = step.wire == make_thought_step(text, signature)

        if not is_expressible:
            _flush_with_metadata(step, {STEPS_KEY: step.wire}, out)
        elif signature:
            out.release(sum(map(len, step.signature)))
            _flush_with_metadata(step, {THOUGHT_SIGNATURE_KEY: signature}, out)
        elif text:
            out.add(Flush(step.index))

    def _stop_call(self, step: OpenStep, out: EventBuffer) -> None:
        """Add the arguments of a call, and its end if they are complete."""
        call = step.wire
        text = step.arguments.resolve()
        out.release(step.arguments.held_chars)
        is_complete = is_json_object(text)

        if text:
            out.add_arguments(step.index, text)
            # Cut arguments are only in the event. The step in metadata needs an object.
            call["arguments"] = json.loads(text) if is_complete else {}

        arguments = call.get("arguments", {})
        is_expressible = call == make_call_step(call["id"], call["name"], arguments)
        metadata: dict[str, JsonValue] = {} if is_expressible else {STEPS_KEY: call}
        flush = Flush(step.index, metadata)

        if is_complete:
            out.add(flush)
        else:
            self._pending_call = flush

    def flush_pending_call(self, out: EventBuffer) -> None:
        """End a call whose end had to wait: the caller knows that the limit did not cut it."""
        flush = self._pending_call
        self._pending_call = None
        if flush is not None:
            out.add(flush)

    def flush_outputs(self, out: EventBuffer) -> None:
        """End the item of the stopped outputs: one, or those that continue each other.

        - A text that the record can express has no metadata.
        - Other outputs have the whole steps as metadata: with further fields, of several requests,
          or without any text, such as an image.
        - Outputs with nothing at all are no item.
        """
        stopped = self._stopped_outputs
        self._stopped_outputs = []
        if not stopped:
            return

        first = stopped[0]
        steps = [step.wire for step in stopped]
        kept: Any = steps if len(steps) > 1 else steps[0]
        text = join_texts(steps, "content")
        self._answer.finish(first.index, out)

        # With a schema, the record has the data of the answer, whose text may have been different.
        is_expressible = steps == [make_output_step(text)] and not self._has_schema
        has_other_content = any(step.get("content") for step in steps)
        if text and is_expressible:
            out.add(Flush(first.index))
        elif text:
            out.add(Flush(first.index, {STEPS_KEY: kept}))
        elif has_other_content:
            _flush_with_metadata(first, {STEPS_KEY: kept}, out)


def _flush_with_metadata(
    step: OpenStep, metadata: Mapping[str, JsonValue], out: EventBuffer
) -> None:
    """End the item of `step`, which may have no text."""
    # Metadata needs a part to be stored with. An empty one is not shown.
    out.add_text(step.index, "reasoning", "")
    out.add(Flush(step.index, metadata))
