"""The tool calls of a recorded turn, run anew with today's tools, beside what they answered then.

The model is not asked: its answers are in the record. Recorded answers are used again for the same
questions. Calls of an untrusted record run only if the user says so, and without its answers.

Source: `docs/guide.md`, `docs/decisions.md` D101.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.bench_run import BenchRun
from jp_nb.agent.call_outcome import CallOutcome
from jp_nb.agent.calls import Call
from jp_nb.agent.questions import RecordedAnswer
from jp_nb.errors import ReplayError, UsageError
from jp_nb.image import Image
from jp_nb.json_values import sorted_json
from jp_nb.record.events import (
    ConfigDelta,
    Entry,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.proposals import proposed_by
from jp_nb.record.turn_entries import TurnEntries
from jp_nb.record.turn_view import ToolCall, read_turn
from jp_nb.rendering.replay_report import Replayed, replay_report
from jp_nb.session.tool_bench import BenchTools, ToolBench, check_end

NOT_YOURS: Final = (
    "Recorded answers were not used: this notebook's history is not trusted. `%jp trust` shows its "
    "settings, and asks."
)
DIGEST_CHARS: Final = len("sha256:") + 12


@dataclass(slots=True)
class RecordedBatch:
    """The calls of one response of the model, and what they changed."""

    calls: list[ToolCallRequest]
    change: ConfigDelta | None = None
    answered: bool = False


def batches_of(entries: Sequence[Entry]) -> list[RecordedBatch]:
    """Return the batches of calls in the `entries` of a turn, in their order."""
    batches: list[RecordedBatch] = []
    for entry in entries:
        match entry:
            case ToolCallRequest():
                if not batches or batches[-1].answered:
                    batches.append(RecordedBatch([]))
                batches[-1].calls.append(entry)
            case ToolCallResponse() if batches:
                batches[-1].answered = True
            case ConfigDelta() if batches and proposed_by(entry):
                batches[-1].change = entry
    return batches


def answers_of(entries: Sequence[Entry]) -> dict[str, RecordedAnswer]:
    """Return the answers in the `entries` of a turn by the id of their inquiry; no secrets."""
    asked = {e.id: e.question for e in entries if isinstance(e, InquiryRequest)}
    found: dict[str, RecordedAnswer] = {}
    for entry in entries:
        if not isinstance(entry, InquiryResponse) or entry.outcome != "answered":
            continue
        channel = entry.metadata.get("channel")
        origin = channel if isinstance(channel, str) else None
        if (question := asked.get(entry.id)) is not None:
            found[entry.id] = RecordedAnswer(question, entry.answer, origin)
    return found


class TurnReplay:
    """Runs the calls of one recorded turn again.

    Args:
        bench: Calls tools.
        turn: The turn.
    """

    def __init__(self, bench: ToolBench, turn: TurnEntries) -> None:
        self._bench = bench
        self._turn = turn
        self._batches = batches_of(turn.entries)
        if not self._batches:
            raise UsageError(f"turn {turn.number} called no tool: there is nothing to replay")

    def run(self, *, asks: bool, strict: bool) -> None:
        """Run the calls, show each that answers otherwise, and a table of all.

        Args:
            asks: Put questions anew, instead of taking the recorded answers.
            strict: What is not the same is an error.

        Raises:
            ReplayError: With `strict`, if something is not the same.
            KeyboardInterrupt: If the user stopped it.
            PromptUnavailable: If no user is available to decide about calls of an untrusted
                record; in a strict run, also about anything else.
            PromptCancelled: If the user does not want calls of an untrusted record to run.
        """
        tools = self._bench.tools()
        turn = read_turn(self._turn.number, self._turn.entries, images=self._bench.images)
        recorded = turn.tool_calls
        calls = list(self._calls(tools, recorded))
        self._bench.confirm_recorded([call.request for batch in calls for call in batch])
        answers = {} if asks else answers_of(self._turn.entries)
        note = ""
        if answers and not self._bench.trusts_record:
            answers, note = {}, NOT_YOURS
        run = self._bench.run(tools, calls, answers)
        found = list(self._compared(run, recorded))
        self._bench.show(replay_report(self._turn.number, found, note))
        check_end(run)
        if strict and (others := [each.name for each in found if not each.same]):
            raise ReplayError(
                f"{len(others)} of {len(found)} results of turn {self._turn.number} "
                f"differ from the record: {', '.join(dict.fromkeys(others))}"
            )

    def _calls(self, tools: BenchTools, recorded: Sequence[ToolCall]) -> Iterator[list[Call]]:
        """Yield the calls of each batch, with the arguments that they ran with."""
        ran_with = iter(recorded)
        for batch in self._batches:
            yield [
                Call(
                    ToolCallRequest(
                        id=request.id, name=request.name, arguments=dict(next(ran_with).arguments)
                    ),
                    tools.possible.tools.get(request.name),
                )
                for request in batch.calls
            ]

    def _compared(self, run: BenchRun, recorded: Sequence[ToolCall]) -> Iterator[Replayed]:
        outcomes = {id(call): outcome for call, outcome in run.ended()}
        then = iter(recorded)
        for number, batch in enumerate(self._batches):
            for call in run.batches[number]:
                before = next(then)
                gone = call.tool is None
                yield _result(before, outcomes.get(id(call)), gone=gone)
            change = run.approved[number] if number < len(run.approved) else None
            if batch.change is not None or change is not None:
                yield Replayed("configuration", _change(batch.change), _change(change))


def _result(before: ToolCall, outcome: CallOutcome | None, *, gone: bool) -> Replayed:
    then = _text(before.content, before.images, is_error=bool(before.is_error))
    if outcome is None:
        return Replayed(before.name, then, None, note="not run")
    now = _text(outcome.content, outcome.images, is_error=outcome.is_error)
    return Replayed(before.name, then, now, note="the tool is not available" if gone else "")


def _text(content: str | None, images: Sequence[Image], *, is_error: bool) -> str | None:
    """Return a result with a line for each image, which is told from others by its digest."""
    if content is None:
        return None
    lines = [f"[image: {image.words}, {image.digest[:DIGEST_CHARS]}]" for image in images]
    return "\n".join([f"error: {content}" if is_error else content, *lines])


def _change(change: ConfigDelta | None) -> str | None:
    if change is None:
        return None
    said: dict[str, JsonValue] = {"set": dict(change.delta), "unset": list(change.unsets)}
    return sorted_json(said)
