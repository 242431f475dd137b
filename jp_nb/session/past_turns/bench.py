"""The tool bench: run tools of the active conversation without a trace in it.

`jp.call` and `%jp call` run one call, and `%jp replay` (`turn_replay.py`) all calls of a turn. The
calls run on a copy of the conversation, with separate answers and permissions. A configuration
change that a tool proposes never takes effect.

Source: `docs/guide.md`, `docs/decisions.md` D100.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from jp_nb.agent.call_steps.bench_run import BenchRun
from jp_nb.agent.call_steps.call_outcome import CallOutcome
from jp_nb.agent.calls.call import Call
from jp_nb.agent.inquiries.inquiry import InquiryBackend, InquiryError, ModelInquiry
from jp_nb.agent.offered_tools.configured_tools import with_all_tools_enabled
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.agent.turn import make_user_required_error
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.agent.turn_state import BatchContext, RecordedAnswer
from jp_nb.errors import ConfigError, UsageError
from jp_nb.json_values import copy_nested_json
from jp_nb.record.entries.events import ChatRequest, ToolCallRequest
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.stream import ConversationStream
from jp_nb.rendering.report import Report, join_reports, make_line
from jp_nb.rendering.reports.call_outcome_text import NOT_OFFERED_NOTE, render_call_outcome
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host
from jp_nb.session.turns.turn_runner import TurnRunner
from jp_nb.storable_json import is_storable
from jp_nb.storage import environment
from jp_nb.text import one_line
from jp_nb.toolkit.function_tools.python_tool import PythonTool
from jp_nb.toolkit.function_tools.tool_registry import REGISTRY

REQUEST: Final = "The user runs tools of this conversation directly."
"""Text of the turn for a model that answers questions of the tools."""


@dataclass(frozen=True, slots=True)
class ToolBench:
    """Runs tools of the active conversation without recording the calls."""

    host: Host
    turns: TurnRunner
    active: ActiveConversation

    def find_tools(self, *names: str) -> BenchTools:
        """Return the tools of the effective configuration. The sources of `names` start.

        They are those that the model can call now, and those that it could call with all tools on.
        Only an enabled tool has a definition, so the tools are resolved twice.
        """
        self.active.refuse_while_running()
        self.turns.cell_resolver.discover_tools(*names)

        offered = self.turns.cell_resolver.resolve_tools(
            self.active.settings.config, may_start=False
        )
        # `offered.config` also has the tools that the sources have found, if there are any.
        config = offered.config or self.active.settings.config
        possible = self.turns.cell_resolver.resolve_tools(
            with_all_tools_enabled(config), may_start=False
        )
        return BenchTools(offered, possible)

    def call(
        self, tools: BenchTools, tool: OfferedTool, arguments: Mapping[str, Any]
    ) -> CallOutcome:
        """Call `tool` as a turn does, show it in the running cell, and return its outcome.

        The tool may be one that is off. The user permits the call as in a turn.

        Raises:
            UsageError: An argument has no form in JSON, or a turn runs.
            ConfigError: The configuration is not valid.
            KeyboardInterrupt: It was interrupted, or the user stopped it in a prompt.
            PromptUnavailable: A decision was left open in a strict run.
        """
        converted = _to_json(arguments, tool.name)
        request = ToolCallRequest(id="bench", name=tool.name, arguments=converted)
        run = self.run_batches(tools, [[Call(request, tool)]], {})

        outcome = next((outcome for _, outcome in run.iter_outcomes()), None)
        if outcome is not None:
            self._show_outcome(outcome, tool, tools.offered)

        raise_for_end(run)
        assert outcome is not None  # the run was not stopped
        return outcome

    def _show_outcome(self, outcome: CallOutcome, tool: OfferedTool, offered: ToolSet) -> None:
        """Show the outcome, with a note if the model could not have called the tool."""
        config = self.active.settings.config
        # Outputs of runs without a user, such as tests of a notebook, are compared: no times.
        has_user = self.turns.runner.front_end.find_unavailable_reason(config) is None
        report = render_call_outcome(outcome, timed=has_user)

        if tool.name not in offered.tools:
            is_off = f"it is off; turn it on with `%%jp -t {tool.name}`"
            reason = offered.missing.get(tool.name) or is_off
            note = make_line(NOT_OFFERED_NOTE.format(outcome.name, reason))
            report = join_reports([note, report])

        self.show(report)
        for image in outcome.images:
            bundle = image.display_data
            if bundle:  # a front end cannot show every type of image
                self.host.show({**bundle, "text/plain": image.words_with_size})

    def show(self, report: Report) -> None:
        """Display `report` in the running cell."""
        self.host.show({"text/markdown": report.markdown, "text/plain": report.text})

    def run_batches(
        self,
        tools: BenchTools,
        batches: Sequence[Sequence[Call]],
        recorded: Mapping[str, RecordedAnswer],
    ) -> BenchRun:
        """Run `batches` of calls in a copy of the conversation, with `recorded` answers.

        The calls of a batch run at once, as those of one response of a model. The copy has a turn
        of its own, to which the questions of the tools belong.
        """
        active = self.active
        runner = self.turns.runner
        active.refuse_while_running()

        # The record of the run, which is dropped at its end.
        config = active.settings.config
        stream = active.document.conversation
        stream_copy = _copy_conversation(stream)
        stream_copy.start_turn(ChatRequest(content=REQUEST))
        record = TurnRecord(stream_copy, self.turns.contexts.build(stream_copy))

        inquiry: InquiryBackend
        try:
            inquiry = self.turns.cell_resolver.make_inquiry(config, tools.offered, stream.id)
        except ConfigError as exc:
            inquiry = NoInquiry(exc)  # tools without questions to a model still run

        catalog = tools.offered.documentation
        basis = active.settings.snapshot()
        context = BatchContext(inquiry=inquiry, catalog=catalog, basis=basis)
        turn = self.turns.turn_contexts.begin(record, config, recorded, is_bench=True)
        bench_run = BenchRun(batches, context, turn)

        with runner.output.showing_current():
            result = runner.run(bench_run.run_all(), work=bench_run)  # which gets the interrupts
        if result is None:  # only after an interrupt
            bench_run.stopped = True
        return bench_run


@dataclass(frozen=True, slots=True)
class BenchTools:
    """The tools that the bench can run.

    Attributes:
        offered: The tools that the model can call now.
        possible: The tools that it could call with all tools on, and with a user.
    """

    offered: ToolSet
    possible: ToolSet

    def find(self, tool: str | Callable[..., Any]) -> OfferedTool:
        """Return a tool by its name or function.

        Raises:
            UsageError: There is none that runs.
        """
        if isinstance(tool, str):
            return self._find_by_name(tool)

        registered = _find_registered_tool(tool)
        name = registered.name
        offered_tool = self._find_by_name(name)
        if offered_tool.executor is not registered:
            other = self.possible.clashes.get(name, f"another tool is used as {name!r}")
            raise UsageError(f"this function is not the tool {name!r}: {other}")
        return offered_tool

    def _find_by_name(self, name: str) -> OfferedTool:
        tool = self.possible.tools.get(name)
        if tool is not None:
            return tool

        if name in self.possible.missing:
            raise UsageError(f"{name} cannot run: {self.possible.missing[name]}")
        nearest = difflib.get_close_matches(name, self.possible.tools, n=1)
        hint = f": did you mean {nearest[0]!r}?" if nearest else "; `%jp tools` lists them"
        raise UsageError(f"Tool not found: {name}{hint}")


def _find_registered_tool(function: Callable[..., Any]) -> PythonTool:
    for tool in REGISTRY.all().values():
        if function in (tool, tool.function):
            return tool

    name = getattr(function, "__name__", type(function).__name__)
    raise UsageError(f"{one_line(name, limit=80)} is not a tool. Decorate it with `@jp.tool`")


@dataclass(frozen=True, slots=True)
class NoInquiry:
    """Inquiry backend without a model, as the configured one is not available.

    It implements `InquiryBackend` (`agent/inquiries/inquiry.py`).
    """

    problem: ConfigError

    async def inquire(self, context: RequestContext, inquiry: ModelInquiry) -> JsonValue:
        """Raise `InquiryError` with the reason."""
        raise InquiryError(str(self.problem)) from self.problem


def _copy_conversation(stream: ConversationStream) -> ConversationStream:
    """Return a copy that can be changed. That of a damaged conversation has no entries."""
    entries = [] if stream.damage else copy_nested_json(stream.raw)
    copied = ConversationStream(copy_nested_json(stream.properties), clock=utc_now, raw=entries)
    copied.repair()  # the calls of an interrupted turn may have no response
    return copied


def _to_json(arguments: Mapping[str, Any], name: str) -> dict[str, JsonValue]:
    """Return `arguments` as a model would write them: a date or a path is a text."""
    try:
        converted = to_jsonable_python(dict(arguments))
    except ValueError:  # a value that JSON does not have
        converted = None

    if not is_storable(converted) or not isinstance(converted, dict):
        raise UsageError(f"the arguments of {name} must be JSON values")

    return converted


def raise_for_end(run: BenchRun) -> None:
    """Raise the exception with which a turn would end, after the display of `run`.

    It is `KeyboardInterrupt` if the user stopped the run, and `PromptUnavailable` if a strict run
    left a decision open. Otherwise, return.
    """
    if run.stopped:
        raise KeyboardInterrupt("You stopped the call. It is not part of the conversation.")

    reason = run.turn.unavailable_reason
    if reason is not None and os.environ.get(environment.STRICT_VARIABLE) == "1":
        raise make_user_required_error(reason)
