"""One attempt of the model to answer: a request with its response so far, and its tool calls.

A response that reaches the token limit is continued by the next request, which is an attempt of its
own (`continued_answer.py`). Of more tool calls than the limit `max_tool_calls`, the first *surplus*
call is kept with an error for the model, and the others are dropped. `model_call.py` sends the
requests.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jp_nb.agent.calls.call import Call
from jp_nb.agent.model_requests.overlap_trimmer import OverlapTrimmer
from jp_nb.agent.model_requests.response_builder import ResponseBuilder
from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.agent.provider_events import TextPart
from jp_nb.record.entries.events import ChatResponse, Entry, ToolCallRequest
from jp_nb.record.reading.marks import mark_continuation
from jp_nb.record.request_context.request_head import RequestHead

CALLS_SETTING = "assistant.request.max_tool_calls"
CUT_CALL_TEXT = (
    "The answer reached its token limit within this call. The arguments are "
    "incomplete, so the call did not run. Call again with shorter arguments, or "
    "split the work into several calls."
)


@dataclass(slots=True)
class Attempt:
    """One request to `model`, and its response so far.

    `response_receiver.py` sets the attributes without a method here, as the events arrive.

    Attributes:
        max_tool_calls: Number of tool calls that run; 0: all of them.
        trimmer: Removes the text that a continuation repeats; None in the first response.
        builder: Builds the entries of the response. It also has the last event (`finished`), and
            the calls whose arguments are not valid, by their number.
        entries: The complete entries to record.
        last_entry: The last complete entry, which may be a call that is dropped.
        has_content: True once the response has a text or a tool call.
        has_ended_text: True if a text has ended, and the display does not know it yet.
        call_count: Number of tool calls, including those that do not run or are dropped.
        withheld_index: Output item of the text that the trimmer withholds; None without one.
        head: The head of the request, if it is to be recorded.
        host: The host of the server, if it is to be recorded.
    """

    model: str
    max_tool_calls: int = 0
    trimmer: OverlapTrimmer | None = None
    builder: ResponseBuilder = field(default_factory=ResponseBuilder)
    entries: list[Entry] = field(default_factory=list)
    last_entry: Entry | None = None
    has_content: bool = False
    has_ended_text: bool = False
    call_count: int = 0
    withheld_index: int | None = None
    head: RequestHead | None = None
    host: str = ""

    def trim(self, part: TextPart) -> TextPart | None:
        """Return the new text in `part` of a continuation; None if there is none yet.

        Reasoning of a continuation is dropped: only the text continues. Call this only with a
        `trimmer`.
        """
        assert self.trimmer is not None
        if part.kind != "message":
            return None

        text = self.trimmer.feed(part.text)
        self.withheld_index = part.index
        return replace(part, text=text) if text else None

    def take_withheld_text(self) -> TextPart | None:
        """Return the text that the trimmer withholds, once; None without one."""
        if self.trimmer is None or self.withheld_index is None:
            return None

        index = self.withheld_index
        self.withheld_index = None
        text = self.trimmer.finish()
        return TextPart(index, "message", text) if text else None

    def combine_entries(self, unflushed: Sequence[Entry]) -> list[Entry]:
        """Return the entries to record, complete ones first. A continuation is marked as such."""
        entries = [*self.entries, *unflushed]
        if self.trimmer is None:
            return entries

        for index, entry in enumerate(entries):
            if isinstance(entry, ChatResponse) and entry.kind == "message":
                entries[index] = mark_continuation(entry)
                break
        return entries

    def find_truncated_call(self) -> str | None:
        """Return the name of the call in which the token limit was reached, if any."""
        last = self.last_entry
        end = self.builder.finished
        if end is None or end.reason != "max_tokens" or not isinstance(last, ToolCallRequest):
            return None

        # Earlier calls are complete. The last one is complete as well if it has valid arguments.
        # Without any text, its arguments may be cut, although some models call like this.
        last_number = self.call_count - 1
        incomplete = {*self.builder.bad_arguments, *self.builder.without_arguments}
        return last.name if last_number in incomplete else None

    def add_entry(self, entry: Entry) -> None:
        """Add a complete entry. Surplus tool calls are dropped, except for the first.

        That one gets an error as its response, which explains the limit (`make_calls`).
        """
        self.last_entry = entry
        if isinstance(entry, ToolCallRequest):
            self.call_count += 1
            # Of `max_tool_calls = 2`, calls 0 and 1 run, call 2 is kept, and call 3 is dropped.
            if 0 < self.max_tool_calls < self.call_count - 1:
                return
        self.entries.append(entry)

    def make_calls(self, tools: ToolSet) -> list[Call]:
        """Return the tool calls of the response, with the errors of those that cannot run.

        One call beyond the limit is in `entries`: its error tells the model about the limit.
        """
        errors = dict(self.builder.bad_arguments)  # by the number of the call, from 0
        if self.find_truncated_call() is not None:
            errors[self.call_count - 1] = CUT_CALL_TEXT

        surplus = self.call_count - self.max_tool_calls
        if self.max_tool_calls and surplus > 0:
            others = f" Further calls that are dropped: {surplus - 1}." if surplus > 1 else ""
            # Calls are numbered from 0, so this is the first call that exceeds the limit.
            errors[self.max_tool_calls] = (
                f"This call did not run. Your answer contains {self.call_count} tool calls, but "
                f"{CALLS_SETTING} allows {self.max_tool_calls}.{others} Make fewer calls in one "
                "answer."
            )

        requests = (entry for entry in self.entries if isinstance(entry, ToolCallRequest))
        return [
            Call(request, tools.tools.get(request.name), errors.get(number))
            for number, request in enumerate(requests)
        ]
