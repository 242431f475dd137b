"""One attempt of the model to answer, and the parts of an answer that is continued.

A response that reaches the token limit is continued by the next request. An *attempt* is one
request with its response so far, and a `ContinuedAnswer` is the whole: the attempts that are
recorded as parts of one answer. `jp_nb/agent/model_requests/model_call.py` sends them.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jp_nb.agent.calls.call import Call
from jp_nb.agent.model_requests.overlap_trimmer import OverlapTrimmer
from jp_nb.agent.model_requests.response_builder import ResponseBuilder
from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.agent.provider import (
    Finished,
    TextPart,
)
from jp_nb.record.entries.events import ChatResponse, Entry, ToolCallRequest
from jp_nb.record.reading.marks import (
    is_continuation,
    mark_continuation,
)
from jp_nb.record.request_context.request_head import RequestHead

CALLS_SETTING = "assistant.request.max_tool_calls"
MAX_ANSWER_CONTINUATIONS = 5
"""Maximum number of continuations of a response that reaches the token limit."""
CUT_CALL_TEXT = (
    "The answer reached its token limit within this call. The arguments are "
    "incomplete, so the call did not run. Call again with shorter arguments, or "
    "split the work into several calls."
)


@dataclass(slots=True)
class ContinuedAnswer:
    """One answer in several responses. All but the last reached the token limit."""

    is_enabled: bool
    parts: int = 0  # continuations
    kept: list[TextPart] = field(default_factory=list)  # recorded; a continued text is one part

    def note_recorded(self, entries: Sequence[Entry]) -> None:
        """Note that `entries` of the answer are recorded."""
        for entry in entries:
            if not isinstance(entry, ChatResponse) or entry.kind == "structured":
                continue
            part = TextPart(0, entry.kind, entry.message or entry.reasoning or "")
            if self.kept and is_continuation(entry):
                part = replace(part, text=self.kept.pop().text + part.text)
            self.kept.append(part)

    def trimmer(self) -> OverlapTrimmer | None:
        """Return the trimmer for the next response; None if it is the first."""
        if not self.parts:
            return None
        text = "".join(part.text for part in self.kept if part.kind == "message")
        return OverlapTrimmer(text)

    def begin_continuation(self, finished: Finished, entries: Sequence[Entry]) -> bool:
        """Return True if the answer is to be continued after a response with these `entries`."""
        is_cut = finished.reason == "max_tokens" and self.parts < MAX_ANSWER_CONTINUATIONS
        has_text = any(isinstance(entry, ChatResponse) and entry.message for entry in entries)
        is_continued = self.is_enabled and is_cut and has_text

        if is_continued:
            self.parts += 1
        return is_continued


@dataclass(slots=True)
class Attempt:
    """One request to `model`, and its response so far.

    In a continuation, `trimmer` removes repeated text, and reasoning is dropped.
    """

    model: str
    max_tool_calls: int = 0  # that run; 0: no limit
    trimmer: OverlapTrimmer | None = None
    builder: ResponseBuilder = field(default_factory=ResponseBuilder)
    entries: list[Entry] = field(default_factory=list)
    has_content: bool = False
    text_ended: bool = False  # and the display does not know it yet
    call_count: int = 0
    held_index: int | None = None  # item of the text that the trimmer holds back
    head: RequestHead | None = None  # of the request, if it is to be recorded
    host: str = ""  # of the server, if it is to be recorded

    def trim(self, part: TextPart) -> TextPart | None:
        """Return the new part of a part of a continuation; None if there is none yet."""
        if part.kind != "message" or self.trimmer is None:
            return None

        text = self.trimmer.feed(part.text)
        self.held_index = part.index
        return replace(part, text=text) if text else None

    def entries_to_record(self, rest: Sequence[Entry]) -> list[Entry]:
        """Return the entries of the response. The text of a continuation is marked as such."""
        entries = [*self.entries, *rest]
        if self.trimmer is None:
            return entries

        for index, entry in enumerate(entries):
            if isinstance(entry, ChatResponse) and entry.kind == "message":
                entries[index] = mark_continuation(entry)
                break
        return entries

    def make_truncated_call(self) -> list[str]:
        """Return the name of the call in which the token limit was reached, if any."""
        last = self.entries[-1] if self.entries else None
        end = self.builder.finished
        if end is None or end.reason != "max_tokens" or not isinstance(last, ToolCallRequest):
            return []

        # Earlier calls are complete, and so is the last one if its arguments are valid.
        broken = {*self.builder.bad_arguments, *self.builder.without_arguments}
        return [last.name] if self.call_count - 1 in broken else []

    def should_record(self, entry: Entry) -> bool:
        """Return True if `entry` is recorded: surplus tool calls are not, except for the first."""
        if not isinstance(entry, ToolCallRequest):
            return True

        self.call_count += 1
        # The first surplus call gets an error as its response, which explains the limit.
        is_surplus = 0 < self.max_tool_calls < self.call_count - 1
        return not is_surplus

    def calls(self, tools: ToolSet) -> list[Call]:
        """Return the tool calls of the response, with the errors of those that cannot run."""
        errors = dict(self.builder.bad_arguments)
        if self.make_truncated_call():
            errors[self.call_count - 1] = CUT_CALL_TEXT

        surplus = self.call_count - self.max_tool_calls
        if self.max_tool_calls and surplus > 0:
            others = f" Further calls that are dropped: {surplus - 1}." if surplus > 1 else ""
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
