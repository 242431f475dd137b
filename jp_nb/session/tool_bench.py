"""Tools tried outside of the conversation: as a turn would call them, and nothing of it is kept.

The calls run on a copy of the conversation, with answers and permissions of their own.

Source: `docs/guide.md`, `docs/decisions.md` D100.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.agent.asking import BatchContext
from jp_nb.agent.bench_run import BenchRun
from jp_nb.agent.call_outcome import CallOutcome
from jp_nb.agent.calls import Call
from jp_nb.agent.model_inquiry import InquiryBackend, InquiryError, ModelInquiry
from jp_nb.agent.prompts import Action, ActionPrompt, Answered, Exhibit, Unavailable
from jp_nb.agent.questions import RecordedAnswer, TurnState
from jp_nb.agent.tool_set import NEEDS_PERSON, OfferedTool, ToolSet, switched_on
from jp_nb.agent.turn import needs_person
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.errors import ConfigError, PromptCancelled, PromptUnavailable, UsageError
from jp_nb.json_values import is_storable, json_copy
from jp_nb.record.events import ChatRequest, ToolCallRequest
from jp_nb.record.recorded_images import RecordedImages
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread, thread_of
from jp_nb.record.timestamps import utc_now
from jp_nb.rendering.bench_report import NOT_OFFERED, call_report, said
from jp_nb.rendering.report import Report, joined
from jp_nb.rendering.wording import one_name
from jp_nb.safe_text import one_line
from jp_nb.session.active_conversation import ActiveConversation
from jp_nb.session.host import Host
from jp_nb.session.turns import TurnRunner
from jp_nb.tooling.python import REGISTRY, PythonTool
from jp_nb.workspace import variables

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

    async def inquire(self, thread: Thread, inquiry: ModelInquiry) -> JsonValue:
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
        if self.offered.missing.get(name) == NEEDS_PERSON:
            return NEEDS_PERSON
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
        return BenchTools(self._turns.tools(config), self._turns.tools(switched_on(config)))

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
        match self._turns.decide(recorded_calls_prompt(calls, doubt)):
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
        outcome = next((outcome for _, outcome in run.ended()), None)
        if outcome is not None:
            self._show(outcome, tools.why_not_offered(tool.name))
        check_end(run)
        assert outcome is not None  # a run that nobody stopped has ended
        return outcome

    def show(self, report: Report) -> None:
        """Display `report` in the running cell."""
        self._host.show({"text/markdown": report.markdown, "text/plain": report.text})

    def _show(self, outcome: CallOutcome, why_not: str | None) -> None:
        nobody = self._turns.work.front_end.nobody(self._active.settings.config)
        report = call_report(outcome, timed=nobody is None)
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
        active, work = self._active, self._turns.work
        active.refuse_while_running()
        config = active.settings.config
        scratch = self._scratch()
        thread = thread_of(scratch, active.settings.projection.providers())
        output = work.begin(config)
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
                secrets=work.secrets, recorded=recorded, prepared=work.prepared(config)
            ),
            prompter=work.front_end.prompter,
            cell=work.cell,
            display=output,
            shared=work.context(active.document.conversation),
            faulted=work.faulted,
        )
        with work.shown(output):
            if work.serve(run.run(), run) is None:
                run.stopped = True
        return run

    def _scratch(self) -> ConversationStream:
        """Return a copy of the conversation, with a turn of its own, of which nobody hears."""
        stream = self._active.document.conversation
        entries = [] if stream.damage else json_copy(stream.raw)
        copy = ConversationStream(json_copy(stream.head), clock=utc_now, raw=entries)
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
        f"This notebook's history is not trusted ({doubt}), so the call of `{one_name(name)}` may "
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
        Exhibit(f"{number}. {one_name(call.name)}", call.arguments or "(no arguments)")
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
            return dict(json_copy(arguments))
    except TypeError:  # of what JSON has not
        pass
    raise UsageError(f"the arguments of {name} must be JSON values")


def check_end(run: BenchRun) -> None:
    """Raise what a turn would for the end of `run`, once it is shown.

    Raises:
        KeyboardInterrupt: If it was interrupted, or the person stopped it where they were asked.
        PromptUnavailable: In a strict run, if nobody could decide something.
    """
    if run.stopped:
        raise KeyboardInterrupt(STOPPED)
    if run.unavailable is not None and os.environ.get(variables.STRICT) == "1":
        raise needs_person(run.unavailable)
