"""Run one tool outside of the conversation, and replay the calls of a turn.

The calls run on a copy of the conversation, with separate answers and permissions. A replay sends
no request, as the responses are in the record. Recorded answers are used again for the same
questions. Calls of an untrusted record run only if the user permits it, without recorded answers.

| argument | value |
|---|---|
| `name=value` | JSON if possible, else text; always text if the tool takes text |
| `name:=json` | JSON |
| `{"name": …}` | a JSON object with all arguments |

Source: `docs/guide.md`, `docs/decisions.md` D100, D101.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeVar

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from jp_nb.agent.bench_run import BenchRun, CallOutcome
from jp_nb.agent.call import Call
from jp_nb.agent.inquiry import InquiryBackend, InquiryError, ModelInquiry
from jp_nb.agent.prompts import Action, ActionPrompt, Answered, PromptDetail, Unavailable
from jp_nb.agent.tool_set import OfferedTool, ToolSet, with_all_tools_enabled
from jp_nb.agent.turn import user_required_error
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.agent.turn_state import BatchContext, RecordedAnswer
from jp_nb.errors import ConfigError, PromptCancelled, PromptUnavailable, ReplayError, UsageError
from jp_nb.images import Image
from jp_nb.json_values import as_object, copy_nested_json, is_storable, read_json, sorted_json
from jp_nb.record.change_marks import read_proposed_by
from jp_nb.record.clock import utc_now
from jp_nb.record.context import RequestContext
from jp_nb.record.events import (
    ChatRequest,
    ConfigDelta,
    Entry,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.stream import ConversationStream, TurnEntries
from jp_nb.record.turn_numbers import to_shown_turn
from jp_nb.record.turn_view import ToolCall, read_turn
from jp_nb.rendering.prompt_text import spell_name
from jp_nb.rendering.report import Report, join_reports, make_line
from jp_nb.rendering.tool_text import NOT_OFFERED_NOTE, Replayed, render_call_outcome, render_replay
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host
from jp_nb.session.turn_runner import TurnRunner
from jp_nb.storage import environment
from jp_nb.text import MAX_ITEMS_IN_LINE, one_line
from jp_nb.toolkit.parameters import declared_types
from jp_nb.toolkit.python import REGISTRY, PythonTool

REQUEST = "The user runs tools of this conversation directly."  # for a model that answers questions
ANSWERS_IGNORED: Final = (
    "Recorded answers were not used: this notebook's history is not trusted. `%jp trust` shows its "
    "settings, and asks."
)
IMAGE_DIGEST_CHARS: Final = len("sha256:") + 12
FORMS = "name=value, name:=json, or a JSON object"
_ARGUMENT = re.compile(r"([^=:\s]+)\s*(:?)=(.*)", re.DOTALL)
_CANCEL: Final = Action("c", "Do not run it", "cancel")
_RUN_HERE: Final = Action("r", "Run it here", "run")


@dataclass(frozen=True, slots=True)
class NoInquiry:
    """Inquiry backend without a model, as the configured one is not available."""

    problem: ConfigError

    async def inquire(self, context: RequestContext, inquiry: ModelInquiry) -> JsonValue:
        """Raise `InquiryError` with the reason."""
        raise InquiryError(str(self.problem)) from self.problem


@dataclass(frozen=True, slots=True)
class BenchTools:
    """The tools that the model can call now, and those possible with all tools on and a user."""

    offered: ToolSet
    possible: ToolSet

    def find(self, tool: str | Callable[..., Any]) -> OfferedTool:
        """Return a tool by its name or function.

        Raises:
            UsageError: There is none that runs.
        """
        name = tool if isinstance(tool, str) else _registered_tool(tool).name
        found = self.possible.tools.get(name)

        if found is None and name in self.possible.missing:
            raise UsageError(f"{name} cannot run: {self.possible.missing[name]}")

        if found is None:
            near = difflib.get_close_matches(name, self.possible.tools, n=1)
            hint = f": did you mean {near[0]!r}?" if near else "; `%jp tools` lists them"
            raise UsageError(f"Tool not found: {name}{hint}")

        if not isinstance(tool, str) and found.executor is not _registered_tool(tool):
            other = self.possible.clashes.get(name, f"another tool is used as {name!r}")
            raise UsageError(f"this function is not the tool {name!r}: {other}")

        return found


def _registered_tool(function: Callable[..., Any]) -> PythonTool:
    for tool in REGISTRY.all().values():
        if function in (tool, tool.function):
            return tool

    name = getattr(function, "__name__", type(function).__name__)
    raise UsageError(f"{one_line(name, limit=80)} is not a tool. Decorate it with `@jp.tool`")


@dataclass(frozen=True, slots=True)
class ToolBench:
    """Runs tools of the active conversation without recording the calls."""

    host: Host
    turns: TurnRunner
    active: ActiveConversation

    def tools(self, *names: str) -> BenchTools:
        """Return the tools of the effective configuration. The sources of `names` start."""
        self.active.refuse_while_running()
        self.turns.cell_resolver.discover_tools(*names)

        offered = self.turns.cell_resolver.tools(self.active.settings.config, may_start=False)
        config = offered.config or self.active.settings.config
        possible = self.turns.cell_resolver.tools(with_all_tools_enabled(config), may_start=False)
        return BenchTools(offered, possible)

    def confirm_recorded(self, calls: Sequence[ToolCallRequest]) -> None:
        """Ask the user whether `calls` of an untrusted record run.

        Raises:
            PromptUnavailable: No user is available to decide. Nothing has run.
            PromptCancelled: The user does not want them to run.
        """
        distrust = self.active.trust.why_not
        if distrust is None:
            return

        self.active.refuse_while_running()

        if len(calls) == 1:
            text = f"{untrusted_call(calls[0].name, distrust)}. If it runs, it runs"
        else:
            text = (
                f"This notebook's history is not trusted ({distrust}), so these {len(calls)} calls "
                "may have been added by someone else. If they run, they run"
            )

        exhibits = tuple(
            PromptDetail(f"{number}. {spell_name(call.name)}", call.arguments or "(no arguments)")
            for number, call in enumerate(calls, start=1)
        )
        text = f"{text} here, with your rights."
        actions = (_CANCEL, _RUN_HERE)
        prompt = ActionPrompt(text, actions, exhibits=exhibits, last_line="Run?")

        match self.turns.cell_questions.ask_action(prompt):
            case Answered(value="run"):
                return
            case Unavailable(reason=reason):
                raise PromptUnavailable(
                    "the history of this notebook is not trusted, and only a user can decide "
                    f"whether its tool calls run; no user is available: {reason}. Nothing was run. "
                    "`%jp trust` in a live session shows its settings, and asks",
                    reason=reason,
                )

        raise PromptCancelled("nothing was run")

    def call(
        self, tools: BenchTools, tool: OfferedTool, arguments: Mapping[str, Any]
    ) -> CallOutcome:
        """Call `tool` as a turn does, show it in the running cell, and return its outcome.

        Raises:
            UsageError: An argument has no form in JSON, or a turn runs.
            ConfigError: The configuration is not valid.
            KeyboardInterrupt: It was interrupted, or the user stopped it in a prompt.
            PromptUnavailable: A decision was left open in a strict run.
        """
        request = ToolCallRequest(
            id="bench", name=tool.name, arguments=_to_json(arguments, tool.name)
        )
        run = self.run(tools, [[Call(request, tool)]], {})
        outcome = next((outcome for _, outcome in run.outcomes()), None)

        if outcome is not None:
            front_end = self.turns.runner.front_end
            config = self.active.settings.config
            report = render_call_outcome(
                outcome, timed=front_end.unavailable_reason(config) is None
            )

            if tool.name not in tools.offered.tools:
                off = f"it is off; turn it on with `%%jp -t {tool.name}`"
                why_not = tools.offered.missing.get(tool.name) or off
                report = join_reports(
                    [make_line(NOT_OFFERED_NOTE.format(outcome.name, why_not)), report]
                )

            self.show(report)
            for image in outcome.images:
                if data := image.display_data:
                    self.host.show({**data, "text/plain": image.words_with_size})

        raise_for_end(run)
        assert outcome is not None  # the run was not stopped
        return outcome

    def show(self, report: Report) -> None:
        """Display `report` in the running cell."""
        self.host.show({"text/markdown": report.markdown, "text/plain": report.text})

    def run(
        self,
        tools: BenchTools,
        batches: Sequence[Sequence[Call]],
        recorded: Mapping[str, RecordedAnswer],
    ) -> BenchRun:
        """Run `batches` in a copy of the conversation, with `recorded` answers."""
        active = self.active
        runner = self.turns.runner
        active.refuse_while_running()

        config = active.settings.config
        stream = active.document.conversation
        entries = [] if stream.damage else copy_nested_json(stream.raw)
        scratch = ConversationStream(copy_nested_json(stream.head), clock=utc_now, raw=entries)
        scratch.repair()
        scratch.start_turn(ChatRequest(content=REQUEST))
        record = TurnRecord(scratch, self.turns.contexts.build(scratch))

        inquiry: InquiryBackend
        try:
            inquiry = self.turns.cell_resolver.inquiry(config, tools.offered, stream.id)
        except ConfigError as exc:
            inquiry = NoInquiry(exc)  # tools without questions to a model still run

        catalog = tools.offered.documentation
        basis = active.settings.snapshot()
        context = BatchContext(inquiry=inquiry, catalog=catalog, basis=basis)
        turn = runner.turn_context(record, config, recorded, is_bench=True)
        run = BenchRun(batches, context, turn)

        assert runner.output is not None
        with runner.display(runner.output):
            if runner.run(run.run(), run) is None:
                run.stopped = True

        return run


def _to_json(arguments: Mapping[str, Any], name: str) -> dict[str, JsonValue]:
    """Return `arguments` as a model would write them: a date or a path is a text."""
    try:
        converted = to_jsonable_python(dict(arguments))
    except ValueError:  # a value that JSON does not have
        converted = None

    if not is_storable(converted) or not isinstance(converted, dict):
        raise UsageError(f"the arguments of {name} must be JSON values")

    return converted


def untrusted_call(name: str, distrust: str) -> str:
    """Return the first sentence of a prompt about an untrusted call of `name`."""
    return (
        f"This notebook's history is not trusted ({distrust}), so the call of {spell_name(name)} "
        "may have been added by someone else"
    )


def raise_for_end(run: BenchRun) -> None:
    """Raise the exception of a turn with the same end as `run`, after its display."""
    if run.stopped:
        raise KeyboardInterrupt("You stopped the call. It is not part of the conversation.")

    reason = run.turn.unavailable_reason
    if reason is not None and os.environ.get(environment.STRICT_VARIABLE) == "1":
        raise user_required_error(reason)


@dataclass(slots=True)
class RecordedBatch:
    """The tool calls of one response, and their configuration change."""

    calls: list[ToolCallRequest]
    change: ConfigDelta | None = None
    answered: bool = False


def _group_calls(entries: Sequence[Entry]) -> list[RecordedBatch]:
    batches: list[RecordedBatch] = []
    for entry in entries:
        match entry:
            case ToolCallRequest():
                if not batches or batches[-1].answered:
                    batches.append(RecordedBatch([]))
                batches[-1].calls.append(entry)
            case ToolCallResponse() if batches:
                batches[-1].answered = True
            case ConfigDelta() if batches and read_proposed_by(entry):
                batches[-1].change = entry
    return batches


def recorded_answers(entries: Sequence[Entry]) -> dict[str, RecordedAnswer]:
    """Return the answers in the `entries` of a turn, without secrets, by inquiry id."""
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
    batches = _group_calls(turn.entries)
    number = turn.number
    if not batches:
        raise UsageError(f"turn {to_shown_turn(number)} called no tool: there is nothing to replay")

    all_calls = list(chain.from_iterable(batch.calls for batch in batches))
    tools = bench.tools(*{call.name for call in all_calls})

    images = bench.active.document.conversation.images
    recorded = read_turn(number, turn.entries, images=images).tool_calls
    final = iter(recorded)  # with the final arguments

    def repeat_calls(batch: RecordedBatch) -> list[Call]:
        return [call_again(request) for request in batch.calls]

    def call_again(asked: ToolCallRequest) -> Call:
        arguments = dict(next(final).arguments)
        request = ToolCallRequest(id=asked.id, name=asked.name, arguments=arguments)
        return Call(request, tools.possible.tools.get(asked.name))

    calls = [repeat_calls(batch) for batch in batches]

    bench.confirm_recorded([call.request for call in chain.from_iterable(calls)])
    answers = {} if asks else recorded_answers(turn.entries)
    note = ""
    if answers and not bench.active.trust.trusted:
        answers = {}
        note = ANSWERS_IGNORED

    run = bench.run(tools, calls, answers)
    results = list(_compare(run, batches, recorded))
    bench.show(render_replay(number, results, note))
    raise_for_end(run)

    if strict and (different := [result.name for result in results if not result.same]):
        raise ReplayError(
            f"{len(different)} of {len(results)} results of turn {to_shown_turn(number)} "
            f"differ from the record: {', '.join(dict.fromkeys(different))}"
        )


def _compare(
    run: BenchRun, batches: Sequence[RecordedBatch], recorded: Sequence[ToolCall]
) -> Iterator[Replayed]:
    outcomes = {id(call): outcome for call, outcome in run.outcomes()}
    earlier = iter(recorded)

    for number, batch in enumerate(batches):
        for call in run.batches[number]:
            before = next(earlier)
            outcome = outcomes.get(id(call))
            now = None
            then = _format_result(before.content, before.images, is_error=bool(before.is_error))
            note = "not run"
            if outcome is not None:
                now = _format_result(outcome.content, outcome.images, is_error=outcome.is_error)
                note = "the tool is not available" if call.tool is None else ""
            yield Replayed(before.name, then, now, note=note)

        change = run.approved[number] if number < len(run.approved) else None
        if batch.change is not None or change is not None:
            yield Replayed("configuration", _format_change(batch.change), _format_change(change))


def _format_result(content: str | None, images: Sequence[Image], *, is_error: bool) -> str | None:
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


def read_object(text: str) -> dict[str, JsonValue]:
    """Return arguments from the JSON object in `text`.

    Raises:
        UsageError: It is not a JSON object.
    """
    try:
        value = read_json(text)
    except ValueError as exc:
        raise UsageError(f"the arguments are not JSON: {exc}. Expected {FORMS}") from exc

    if not isinstance(value, dict):
        raise UsageError(f"expected one JSON object, found {one_line(text, limit=60)!r}")
    return value


def read_assignments(words: Sequence[str], schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return arguments for a tool with this parameter `schema`, or raise `UsageError`."""
    properties = as_object(schema.get("properties"))
    arguments: dict[str, JsonValue] = {}

    for word in words:
        match = _ARGUMENT.fullmatch(word)
        if match is None:
            shown = one_line(word, limit=60)
            raise UsageError(f"{shown!r} is not an argument, expected {FORMS}")

        name, colon, text = match.groups()
        if name in arguments:
            raise UsageError(f"the argument {one_line(name, limit=60)!r} is given twice")

        types = declared_types(as_object(properties.get(name)))
        arguments[name] = text
        if colon or "string" not in types or not types <= {"string", "null"}:
            try:
                arguments[name] = read_json(text)
            except ValueError as exc:
                if colon:
                    raise UsageError(f"the value after {name}:= is not JSON: {exc}") from exc

    return arguments


C = TypeVar("C", ToolCall, ToolCallRequest)


def find_call(calls: Sequence[C], wanted: str, *, about: str = "") -> C:
    """Return the last of `calls` whose id is `wanted` or begins with it.

    `about` describes the calls in errors: ` of weather`.

    Raises:
        UsageError: There is none, or there are several that begin with it.
    """
    found = [call for call in calls if call.id == wanted]
    found = found or [call for call in calls if call.id.startswith(wanted)]
    shown = one_line(wanted, limit=80)

    if not found:
        raise UsageError(f"no call{about} in this conversation has an id that begins with {shown}")

    ids = list(dict.fromkeys(one_line(call.id, limit=80) for call in found))
    if len(ids) > 1:
        listed = ", ".join(ids[:MAX_ITEMS_IN_LINE])
        if len(ids) > MAX_ITEMS_IN_LINE:
            listed += f" and {len(ids) - MAX_ITEMS_IN_LINE} more"
        raise UsageError(f"several calls{about} have an id that begins with {shown}: {listed}")

    return found[-1]
