"""Run one tool outside of the conversation, and replay the calls of a turn.

The calls run on a copy of the conversation, with answers and permissions of their own. A replay
sends nothing to the model: its responses are in the record. Recorded answers are used again for
the same questions. Calls of an untrusted record run only if the user permits each one, without its
answers.

| written | is |
|---|---|
| `name=value` | JSON if possible, else text; always text if the tool takes text |
| `name:=json` | JSON |
| `{"name": …}` | a JSON object with all arguments |

Source: `docs/guide.md`, `docs/decisions.md` D100, `docs/decisions.md` D101.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from pydantic import JsonValue

from jp_nb.agent.bench import BenchRun, CallOutcome
from jp_nb.agent.inquiry import InquiryBackend, InquiryError, ModelInquiry
from jp_nb.agent.prompts import Action, ActionPrompt, Answered, PromptDetail, Unavailable
from jp_nb.agent.questions import BatchContext, RecordedAnswer, TurnState
from jp_nb.agent.tool_call import Call
from jp_nb.agent.tool_set import NEEDS_USER, OfferedTool, ToolSet, with_all_tools_enabled
from jp_nb.agent.turn import user_required_error
from jp_nb.agent.turn_state import TurnRecord
from jp_nb.errors import ConfigError, PromptCancelled, PromptUnavailable, ReplayError, UsageError
from jp_nb.images import Image
from jp_nb.json_values import as_object, copy_nested_json, is_storable, read_json, sorted_json
from jp_nb.record.clock import utc_now
from jp_nb.record.context import RequestContext, build_context
from jp_nb.record.events import (
    ChatRequest,
    ConfigDelta,
    Entry,
    InquiryRequest,
    InquiryResponse,
    RecordedImages,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.stream import ConversationStream, TurnEntries, proposed_by
from jp_nb.record.turns import ToolCall, read_turn
from jp_nb.rendering.prompts import one_name
from jp_nb.rendering.report import Report, joined
from jp_nb.rendering.tools import NOT_OFFERED, Replayed, call_report, replay_report, said
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host
from jp_nb.session.turns import TurnRunner
from jp_nb.storage import environment
from jp_nb.text import one_line
from jp_nb.tools.parameters import declared_types
from jp_nb.tools.python import REGISTRY, PythonTool

CALL_ID = "bench"
REQUEST = "The user runs tools of this conversation directly."
"""What a model is told that answers a question of such a call."""
_CANCEL: Final = Action("c", "Cancel", "cancel")
_RUN_HERE: Final = Action("r", "Run here", "run")
STOPPED = "You stopped the call. It is not part of the conversation."


class NoInquiry:
    """Answers no question: the configured model cannot be had."""

    def __init__(self, problem: ConfigError) -> None:
        self._problem = problem

    async def inquire(self, thread: RequestContext, inquiry: ModelInquiry) -> JsonValue:
        """Raise `InquiryError`, which says why."""
        raise InquiryError(str(self._problem)) from self._problem


@dataclass(frozen=True, slots=True)
class BenchTools:
    """The tools that may be called on the bench.

    Attributes:
        offered: What the model is offered.
        possible: What it could be offered, were everything on and a person there.
    """

    offered: ToolSet
    possible: ToolSet

    def find(self, wanted: str | Callable[..., Any]) -> OfferedTool:
        """Return a tool by its name, or as a function.

        Raises:
            UsageError: If there is none, or it cannot run; the message offers the nearest name.
        """
        name = wanted if isinstance(wanted, str) else _tool_of(wanted).name
        found = self.possible.tools.get(name)
        if found is None and name in self.possible.missing:
            raise UsageError(f"{name} cannot run: {self.possible.missing[name]}")
        if found is None:
            near = difflib.get_close_matches(name, self.possible.tools, n=1)
            hint = f": did you mean {near[0]!r}?" if near else "; `%jp tools` lists them"
            raise UsageError(f"Tool not found: {name}{hint}")
        if not isinstance(wanted, str) and found.executor is not _tool_of(wanted):
            other = self.possible.clashes.get(name, f"another tool is used as {name!r}")
            raise UsageError(f"this function is not the tool {name!r}: {other}")
        return found

    def why_not_offered(self, name: str) -> str | None:
        """Return why the model is not offered the tool now; None if it is."""
        if name in self.offered.tools:
            return None
        if self.offered.missing.get(name) == NEEDS_USER:
            return NEEDS_USER
        return self.offered.missing.get(name) or f"it is off; turn it on with `%%jp -t {name}`"


def _tool_of(function: Callable[..., Any]) -> PythonTool:
    """Return the registered tool that `function` is, or is under."""
    known = REGISTRY.all().values()
    found = next((each for each in known if function in (each, each.function)), None)
    if found is None:
        name = getattr(function, "__name__", type(function).__name__)
        raise UsageError(f"{one_line(name, limit=80)} is not a tool. Decorate it with `@jp.tool`")
    return found


class ToolBench:
    """Calls tools of the active conversation without being a part of it.

    Args:
        host: Where what comes of it is shown.
        turns: What runs turns, and these calls.
        active: The conversation.
    """

    def __init__(self, host: Host, turns: TurnRunner, active: ActiveConversation) -> None:
        self._host = host
        self._turns = turns
        self._active = active

    @property
    def images(self) -> RecordedImages:
        """The images of the conversation."""
        return self._active.document.conversation.images

    @property
    def trusts_record(self) -> bool:
        """True if what the conversation holds is the user's own, or they trust it."""
        return self._active.trust.trusted

    def tools(self) -> BenchTools:
        """Return the tools as they are configured now."""
        self._active.refuse_while_running()
        config = self._active.settings.config
        return BenchTools(
            self._turns.tools(config), self._turns.tools(with_all_tools_enabled(config))
        )

    def confirm_recorded(self, calls: Sequence[ToolCallRequest]) -> None:
        """Show `calls` that come from an untrusted record, and let the user decide about them.

        Raises:
            PromptUnavailable: If no user is available to decide; nothing has run.
            PromptCancelled: If the user does not want them to run.
        """
        doubt = self._active.trust.why_not
        if doubt is None:
            return
        self._active.refuse_while_running()
        match self._turns.ask_action(recorded_calls_prompt(calls, doubt)):
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
        self, tools: BenchTools, tool: OfferedTool, arguments: Mapping[str, JsonValue]
    ) -> CallOutcome:
        """Call `tool` as a turn would, show it in the running cell, and return what came of it.

        Raises:
            UsageError: If the arguments are not JSON, or a turn runs.
            ConfigError: If the configuration is not valid.
            KeyboardInterrupt: If it was interrupted, or the person stopped it where they were
                asked.
            PromptUnavailable: In a strict run, if nobody could decide something.
        """
        request = ToolCallRequest(
            id=CALL_ID, name=tool.name, arguments=_checked(tool.name, arguments)
        )
        run = self.run(tools, [[Call(request, tool)]], {})
        outcome = next((outcome for _, outcome in run.outcomes()), None)
        if outcome is not None:
            self._show(outcome, tools.why_not_offered(tool.name))
        raise_for_end(run)
        assert outcome is not None  # a run that nobody stopped has ended
        return outcome

    def show(self, report: Report) -> None:
        """Display `report` in the running cell."""
        self._host.show({"text/markdown": report.markdown, "text/plain": report.text})

    def _show(self, outcome: CallOutcome, why_not: str | None) -> None:
        unavailable_reason = self._turns.runner.front_end.unavailable_reason(
            self._active.settings.config
        )
        report = call_report(outcome, timed=unavailable_reason is None)
        if why_not is not None:
            report = joined([said(NOT_OFFERED.format(outcome.name, why_not)), report])
        self.show(report)
        for image in outcome.images:
            self._host.show({image.media_type: image.text, "text/plain": image.words_with_size})

    def run(
        self,
        tools: BenchTools,
        batches: Sequence[Sequence[Call]],
        recorded: Mapping[str, RecordedAnswer],
    ) -> BenchRun:
        """Run `batches` in a scratch copy of the conversation; `recorded` answers are known."""
        active, work = self._active, self._turns.runner
        active.refuse_while_running()
        config = active.settings.config
        scratch = self._scratch()
        thread = build_context(scratch, active.settings.projection.providers())
        output = work.begin_turn(config)
        context = BatchContext(
            thread=thread,
            inquiry=self._inquiry(tools.offered),
            catalog=tools.offered.documentation,
            interrupts=config.interrupt,
            basis=active.settings.snapshot(),
        )
        run = BenchRun(
            batches=batches,
            context=context,
            record=TurnRecord(scratch, thread),
            state=TurnState(
                secrets=work.secrets, recorded=recorded, prepared=work.load_answers(config)
            ),
            prompter=work.front_end.prompter,
            cell=work.cell,
            display=output,
            shared=work.tool_context(active.document.conversation),
            on_tool_error=work.on_tool_error,
        )
        with work.display(output):
            if work.run(run.run(), run) is None:
                run.stopped = True
        return run

    def _scratch(self) -> ConversationStream:
        """Return a copy of the conversation, with a turn of its own, of which nobody hears."""
        stream = self._active.document.conversation
        entries = [] if stream.damage else copy_nested_json(stream.raw)
        copy = ConversationStream(copy_nested_json(stream.head), clock=utc_now, raw=entries)
        copy.repair()
        copy.start_turn(ChatRequest(content=REQUEST))
        return copy

    def _inquiry(self, tools: ToolSet) -> InquiryBackend:
        conversation = self._active.document.conversation
        try:
            return self._turns.inquiry(self._active.settings.config, tools, conversation.id)
        except ConfigError as exc:
            return NoInquiry(exc)  # a tool that asks no model is none the worse for it


def untrusted_call(name: str, doubt: str) -> str:
    """Return the beginning of a question about a call of `name` in an untrusted record."""
    return (
        f"This notebook's history is not trusted ({doubt}), so the call of {one_name(name)} may "
        "have been added by someone else"
    )


def recorded_calls_prompt(calls: Sequence[ToolCallRequest], doubt: str) -> ActionPrompt:
    """Return the question whether `calls` of an untrusted record run, which shows each of them."""
    if len(calls) == 1:
        text, runs = untrusted_call(calls[0].name, doubt), "If it runs, it runs"
    else:
        text, runs = (
            f"This notebook's history is not trusted ({doubt}), so these {len(calls)} calls may "
            "have been added by someone else",
            "If they run, they run",
        )
    exhibits = tuple(
        PromptDetail(f"{number}. {one_name(call.name)}", call.arguments or "(no arguments)")
        for number, call in enumerate(calls, start=1)
    )
    return ActionPrompt(
        f"{text}. {runs} here, with your rights.",
        (_CANCEL, _RUN_HERE),
        exhibits=exhibits,
        last_line="Run?",
    )


def _checked(name: str, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a copy of `arguments`, which a person may have made of anything."""
    try:
        if is_storable(dict(arguments)):
            return dict(copy_nested_json(arguments))
    except TypeError:  # of what JSON has not
        pass
    raise UsageError(f"the arguments of {name} must be JSON values")


def raise_for_end(run: BenchRun) -> None:
    """Raise what a turn would for the end of `run`, once it is shown.

    Raises:
        KeyboardInterrupt: If it was interrupted, or the person stopped it where they were asked.
        PromptUnavailable: In a strict run, if nobody could decide something.
    """
    if run.stopped:
        raise KeyboardInterrupt(STOPPED)
    if run.unavailable is not None and os.environ.get(environment.STRICT) == "1":
        raise user_required_error(run.unavailable)


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


def group_calls(entries: Sequence[Entry]) -> list[RecordedBatch]:
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


def recorded_answers(entries: Sequence[Entry]) -> dict[str, RecordedAnswer]:
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
        self._batches = group_calls(turn.entries)
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
        answers = {} if asks else recorded_answers(self._turn.entries)
        note = ""
        if answers and not self._bench.trusts_record:
            answers, note = {}, NOT_YOURS
        run = self._bench.run(tools, calls, answers)
        found = list(self._compared(run, recorded))
        self._bench.show(replay_report(self._turn.number, found, note))
        raise_for_end(run)
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
        outcomes = {id(call): outcome for call, outcome in run.outcomes()}
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


FORMS = "name=value, name:=json, or a JSON object"
_ARGUMENT = re.compile(r"([^=:\s]+)\s*(:?)=(.*)", re.DOTALL)


def read_object(text: str) -> dict[str, JsonValue]:
    """Return the arguments that are written as one JSON object.

    Raises:
        UsageError: If it is none.
    """
    try:
        value = read_json(text)
    except ValueError as exc:
        raise UsageError(f"the arguments are not JSON: {exc}. Expected {FORMS}") from exc
    if not isinstance(value, dict):
        raise UsageError(f"expected one JSON object, found {one_line(text, limit=60)!r}")
    return value


def read_assignments(words: Sequence[str], schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the arguments in `words` for a tool that takes what `schema` says.

    Raises:
        UsageError: If one is malformed, or given twice.
    """
    known = as_object(schema.get("properties"))
    found: dict[str, JsonValue] = {}
    for word in words:
        match = _ARGUMENT.fullmatch(word)
        if match is None:
            shown = one_line(word, limit=60)
            raise UsageError(f"{shown!r} is not an argument, expected {FORMS}")
        name, colon, text = match.groups()
        if name in found:
            raise UsageError(f"the argument {one_line(name, limit=60)!r} is given twice")
        found[name] = _json(name, text) if colon else _value(text, known.get(name))
    return found


def _json(name: str, text: str) -> JsonValue:
    try:
        return read_json(text)
    except ValueError as exc:
        raise UsageError(f"the value after {name}:= is not JSON: {exc}") from exc


def _value(text: str, schema: JsonValue) -> JsonValue:
    types = declared_types(as_object(schema))
    if "string" in types and types <= {"string", "null"}:
        return text
    try:
        return read_json(text)
    except ValueError:
        return text


MAX_IDS: Final = 10
"""Of those that are listed where several would do."""
_SHOWN: Final = 80


class WithId(Protocol):
    """A call, as it is recorded or as code reads it."""

    @property
    def id(self) -> str:
        """Return the model's id of it."""
        ...


C = TypeVar("C", bound=WithId)


def find_call(calls: Sequence[C], wanted: str, *, about: str = "") -> C:
    """Return the last of `calls` with the id `wanted`, else the one whose id begins so.

    `about` says which calls these are, for errors: ` of weather`.

    Raises:
        UsageError: If there is none, or several ids begin so.
    """
    found = [call for call in calls if call.id == wanted]
    found = found or [call for call in calls if call.id.startswith(wanted)]
    shown = one_line(wanted, limit=_SHOWN)
    if not found:
        raise UsageError(f"no call{about} in this conversation has an id that begins with {shown}")
    ids = list(dict.fromkeys(one_line(call.id, limit=_SHOWN) for call in found))
    if len(ids) > 1:
        more = f" and {len(ids) - MAX_IDS} more" if len(ids) > MAX_IDS else ""
        listed = f"{', '.join(ids[:MAX_IDS])}{more}"
        raise UsageError(f"several calls{about} have an id that begins with {shown}: {listed}")
    return found[-1]
