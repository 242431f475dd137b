"""One request to a model and its outcome; a chain of requests where one answer takes several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jp_nb.agent.model_events import Finished, Retry, TextPart
from jp_nb.agent.response import ResponseBuilder, Seam
from jp_nb.record.events import ChatResponse, Entry, ToolCallRequest
from jp_nb.record.turn_marks import as_continuing, continues

MAX_TOOL_CALLS = "assistant.request.max_tool_calls"
MAX_CONTINUATIONS = 5
"""How often an answer that reaches the token limit is continued."""
CUT_CALL = (
    "The answer reached its token limit within this call. The arguments are "
    "incomplete, so the call did not run. Call again with shorter arguments, or "
    "split the work into several calls."
)


@dataclass(slots=True)
class Chain:
    """One answer in several responses: each of them but the last reached the token limit.

    Attributes:
        may: True if an answer is continued at all.
        parts: How often it was.
        kept: The texts that were stored of it, also by attempts that broke off; of an answer that
            is gone on with as one.
    """

    may: bool
    parts: int = 0
    kept: list[TextPart] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text that was stored of the answer itself."""
        return "".join(part.text for part in self.kept if part.kind == "message")

    def keep(self, entries: Sequence[Entry]) -> None:
        """Note that these `entries` of it were stored."""
        for entry in entries:
            if not isinstance(entry, ChatResponse) or entry.kind == "structured":
                continue
            part = TextPart(0, entry.kind, entry.message or entry.reasoning or "")
            if self.kept and continues(entry):
                part = replace(part, text=self.kept.pop().text + part.text)
            self.kept.append(part)

    def seam(self) -> Seam | None:
        """Return the seam at which the next response goes on; None if it is the first."""
        return Seam(self.text) if self.parts else None

    def goes_on(self, finished: Finished, entries: Sequence[Entry], *, may: bool) -> bool:
        """Return True if the answer goes on after these `entries`, provided that it `may`."""
        texts = [e.message for e in entries if isinstance(e, ChatResponse) and e.message]
        self.keep(entries)
        if not (self.may and may and texts and finished.reason == "max_tokens"):
            return False
        if self.parts == MAX_CONTINUATIONS:
            return False
        self.parts += 1
        return True


@dataclass(slots=True)
class Attempt:
    """One request to `model`, and what came of it so far.

    Attributes:
        seam: Where an answer is gone on with: what it repeats is left out; so is its reasoning.
        most_calls: So many tool calls of it run; 0: all.
        text_ended: True if the last text is complete, and that was not shown yet.
        finished: How the response ended; None if it broke off.
        calls: How many there were.
    """

    model: str
    most_calls: int = 0
    seam: Seam | None = None
    builder: ResponseBuilder = field(default_factory=ResponseBuilder)
    entries: list[Entry] = field(default_factory=list)
    retry: Retry | None = None
    has_content: bool = False
    text_ended: bool = False
    finished: Finished | None = None
    calls: int = 0
    held_index: int | None = None

    def trimmed(self, part: TextPart) -> TextPart | None:
        """Return what is new of a part of a continued answer; None if nothing is, so far."""
        if part.kind != "message" or self.seam is None:
            return None
        text = self.seam.feed(part.text)
        self.held_index = part.index
        return replace(part, text=text) if text else None

    def held(self) -> TextPart | None:
        """Return the text that was held back; none is held back any more."""
        if self.seam is None or self.held_index is None:
            return None
        index, self.held_index = self.held_index, None
        text = self.seam.rest()
        return TextPart(index, "message", text) if text else None

    def stored(self, rest: Sequence[Entry]) -> list[Entry]:
        """Return the entries of the response; the text of a continued answer says so."""
        entries = [*self.entries, *rest]
        for place, entry in enumerate(entries if self.seam is not None else ()):
            if isinstance(entry, ChatResponse) and entry.kind == "message":
                entries[place] = as_continuing(entry)
                break
        return entries

    def cut_call(self) -> list[str]:
        """Return the name of the call within which the token limit was reached, if there is one."""
        last = self.entries[-1] if self.entries else None
        limit_reached = self.finished is not None and self.finished.reason == "max_tokens"
        if not limit_reached or not isinstance(last, ToolCallRequest):
            return []
        broken = {*self.builder.bad_arguments, *self.builder.without_arguments}
        return [last.name] if self.calls - 1 in broken else []

    def keeps(self, entry: Entry) -> bool:
        """Return True if `entry` is stored: of surplus tool calls only the first is."""
        self.calls += isinstance(entry, ToolCallRequest)
        surplus = self.calls - self.most_calls
        return not (self.most_calls and surplus > 1 and isinstance(entry, ToolCallRequest))

    def problems(self) -> dict[int, str]:
        """Return what the model is told of each call that cannot run, by the number of the call."""
        found = dict(self.builder.bad_arguments)
        if self.cut_call():
            found[self.calls - 1] = CUT_CALL
        if self.most_calls and (surplus := self.calls - self.most_calls) > 0:
            others = f" Further calls that are dropped: {surplus - 1}." if surplus > 1 else ""
            found[self.most_calls] = (
                f"This call did not run. Your answer contains {self.calls} tool calls, but "
                f"{MAX_TOOL_CALLS} allows {self.most_calls}.{others} Make fewer calls in one "
                "answer."
            )
        return found
