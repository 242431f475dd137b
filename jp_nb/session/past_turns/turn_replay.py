"""Replay a turn: run its recorded tool calls again, and compare the results (`%jp replay`).

The user sees the effect of a changed tool. The calls run on the tool bench (`bench.py`), in a copy
of the conversation, so nothing is recorded. A change that they propose is `approved` as usual, but
never takes effect. No request is sent, as the record has the responses. Recorded answers are used
again for the same questions of tools. Calls of an untrusted record run only if the user permits it,
and without recorded answers.

Source: `docs/guide.md`, `docs/decisions.md` D101.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from jp_nb.agent.call_steps.bench_run import BenchRun
from jp_nb.agent.calls.call import Call
from jp_nb.errors import ReplayError, UsageError
from jp_nb.images import Image
from jp_nb.json_writing import sorted_json
from jp_nb.record.entries.events import ConfigDelta, Entry, ToolCallRequest, ToolCallResponse
from jp_nb.record.entries.proposed_by import read_proposed_by
from jp_nb.record.entries.turn_entries import TurnEntries
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.turn_reader import read_turn
from jp_nb.record.reading.turn_view import ToolCall
from jp_nb.rendering.transcripts.replay_text import Replayed, render_replay
from jp_nb.session.past_turns.bench import BenchTools, ToolBench, raise_for_end
from jp_nb.session.past_turns.reusable_answers import read_reusable_answers
from jp_nb.session.past_turns.untrusted_calls import confirm_untrusted_calls

ANSWERS_IGNORED: Final = (
    "Recorded answers were not used: this notebook's history is not trusted. `%jp trust` shows its "
    "settings, and asks."
)
IMAGE_DIGEST_CHARS: Final = len("sha256:") + 12


def replay_turn(bench: ToolBench, turn: TurnEntries, *, asks: bool, strict: bool) -> None:
    """Run the calls of a recorded turn, and show those with different results and a table of all.

    `asks` asks all questions, instead of using recorded answers.

    Raises:
        UsageError: The turn called no tool.
        ReplayError: `strict`, and a result differs.
        KeyboardInterrupt: The user stopped it.
        PromptUnavailable: No user is available to permit calls of an untrusted record, or a
            decision was left open in a strict run.
        PromptCancelled: The user does not want calls of an untrusted record to run.
    """
    active = bench.active
    number = turn.number
    views = read_turn(number, turn.entries, images=active.document.conversation.images).tool_calls
    batches = _group_calls(turn.entries, views)
    if not batches:
        raise UsageError(f"turn {to_shown_turn(number)} called no tool: there is nothing to replay")

    tools = bench.find_tools(*{view.name for view in views})
    calls = [_repeat_calls(batch, tools) for batch in batches]
    requests = [call.request for call in chain.from_iterable(calls)]
    confirm_untrusted_calls(active, bench.turns.cell_questions, requests)

    answers = {} if asks else read_reusable_answers(turn.entries)
    note = ""
    if answers and not active.trust.trusted:
        answers = {}
        note = ANSWERS_IGNORED

    run = bench.run_batches(tools, calls, answers)
    results = list(_compare(batches, run))
    bench.show(render_replay(number, results, note))
    raise_for_end(run)  # if the user stopped it, or a strict run left a decision open

    different_names = [result.name for result in results if not result.is_same]
    if strict and different_names:
        raise ReplayError(
            f"{len(different_names)} of {len(results)} results of turn {to_shown_turn(number)} "
            f"differ from the record: {', '.join(dict.fromkeys(different_names))}"
        )


@dataclass(slots=True)
class RecordedBatch:
    """The tool calls of one response of the model, which ran at once.

    Attributes:
        calls: The calls with their recorded results.
        change: The configuration change that the calls proposed, if it was approved.
        is_answered: True if the record has a result: the next call then begins another batch.
    """

    calls: list[ToolCall]
    change: ConfigDelta | None = None
    is_answered: bool = False


def _group_calls(entries: Sequence[Entry], views: Sequence[ToolCall]) -> list[RecordedBatch]:
    """Return the batches of a turn. `views` has one view of each request in `entries`."""
    batches: list[RecordedBatch] = []
    remaining = iter(views)

    for entry in entries:
        match entry:
            case ToolCallRequest():
                if not batches or batches[-1].is_answered:
                    batches.append(RecordedBatch([]))
                batches[-1].calls.append(next(remaining))
            case ToolCallResponse() if batches:
                batches[-1].is_answered = True
            case ConfigDelta() if batches and read_proposed_by(entry):
                batches[-1].change = entry

    return batches


def _repeat_calls(batch: RecordedBatch, tools: BenchTools) -> list[Call]:
    """Return new calls with the arguments of the calls in `batch`, as the user edited them."""
    calls: list[Call] = []
    for view in batch.calls:
        request = ToolCallRequest(id=view.id, name=view.name, arguments=dict(view.arguments))
        tool = tools.possible.tools.get(view.name)  # also one that is switched off now
        calls.append(Call(request, tool))
    return calls


def _compare(batches: Sequence[RecordedBatch], run: BenchRun) -> Iterator[Replayed]:
    """Yield the recorded and the new result of each call, then of the changes of its batch.

    `run` has the same batches with new calls. A call that did not run, because the user stopped the
    run, has no new result. That of a tool that is not available is an error.
    """
    outcomes = {id(call): outcome for call, outcome in run.iter_outcomes()}

    for index, batch in enumerate(batches):
        for recorded, call in zip(batch.calls, run.batches[index], strict=True):
            old_result = _format_result(
                recorded.content, recorded.images, is_error=bool(recorded.is_error)
            )
            new_result = None
            note = "not run"

            outcome = outcomes.get(id(call))
            if outcome is not None:
                new_result = _format_result(
                    outcome.content, outcome.images, is_error=outcome.is_error
                )
                note = "the tool is not available" if call.tool is None else ""
            yield Replayed(recorded.name, old_result, new_result, note=note)

        new_change = run.approved[index] if index < len(run.approved) else None
        if batch.change is not None or new_change is not None:
            old_text = _format_change(batch.change)
            yield Replayed("configuration", old_text, _format_change(new_change))


def _format_result(content: str | None, images: Sequence[Image], *, is_error: bool) -> str | None:
    """Return a result as a text that can be compared; None without a result."""
    if content is None:
        return None

    text = f"error: {content}" if is_error else content
    lines = [
        f"[{image.noun}: {image.words}, {image.digest[:IMAGE_DIGEST_CHARS]}]" for image in images
    ]
    return "\n".join([text, *lines])


def _format_change(change: ConfigDelta | None) -> str | None:
    if change is None:
        return None
    return sorted_json({"set": dict(change.delta), "unset": list(change.unsets)})
