"""Run turns from the cell's thread: `%%jp`, `%jp q`, and `jp.query`.

A turn is read (`cell_requests.py`), drafted with its options (`turn_draft.py`), and prepared: its
context, and its loop (`agent/turn.py`). Then it runs to its end (`turn_execution.py`). `%jp resume`
and `%jp retry` use the same steps.

The parts for these steps, such as the resolver, are made once for a session, so `TurnRunner` has
them as attributes. `%load_ext` does not load this module.

Words:

- The turns of several threads wait in the *line* (`active.line`), so that one runs at a time.
- The *options* of a turn, such as `-m` and `-t`, are recorded as changes of the configuration. If
  the turn ends without an answer, its loop reverts them, so it gets their number.
- The tools of `%jp fix` are on for its turn only (`turn_tools.py`).

Source: `docs/architecture.md`, `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jp_nb.agent.compacting.compactor import CompactionSettings
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.provider import ToolChoice
from jp_nb.agent.turn import TurnLoop
from jp_nb.agent.turn_plan import TurnPlan
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.agent.turn_state import RecordedAnswer
from jp_nb.config.directives import Directive
from jp_nb.record.entries.events import ToolCallResponse
from jp_nb.record.interrupted_turn import InterruptedTurn
from jp_nb.record.reading.plan_marks import add_plan_note
from jp_nb.record.reading.turn_view import Turn
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.stream import ConversationStream
from jp_nb.record.unfinished_calls import OpenCall
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.conversations import ConversationList
from jp_nb.session.host import CellRun, Host
from jp_nb.session.mcp_servers.input_forms import InputForms
from jp_nb.session.mcp_servers.sign_in_forms import SignInForms
from jp_nb.session.model_access.host_notices import HostNotices
from jp_nb.session.next_conversation import NextConversation
from jp_nb.session.questions.cell_questions import CellQuestions
from jp_nb.session.resolution.cell_resolver import CellResolver
from jp_nb.session.resolution.model_catalog import ModelCatalog
from jp_nb.session.resolution.plan_first import read_turn_plan
from jp_nb.session.resolution.resolver import Resolver
from jp_nb.session.turn_contexts import TurnContexts
from jp_nb.session.turns.answer_forms import AnswerForms
from jp_nb.session.turns.cell_requests import TurnRequest, TurnRequestReader
from jp_nb.session.turns.cell_reruns import CellReruns
from jp_nb.session.turns.request_contexts import RequestContexts
from jp_nb.session.turns.turn_draft import TurnDraft, TurnDrafter
from jp_nb.session.turns.turn_execution import PreparedTurn, TurnExecution, keep_nothing
from jp_nb.session.turns.turn_tools import switch_turn_tools_off
from jp_nb.storage import environment
from jp_nb.toolkit.builtin.submit_plan import TURN_NOTE

if TYPE_CHECKING:  # most turns have no schema
    from jp_nb.session.turns.answer_reader import AnswerReader


class TurnRunner:
    """Runs the turns of one session. Call it on the cell's thread.

    Args:
        active: The active conversation.
        conversations: The conversations of the notebook, which also keep the statuses of turns.
        on_end: Called with each turn that has ended, also if it failed.

    Attributes:
        own_requests: The `event_id` of each request that this kernel sent.
        runner: Runs the loop of a turn on the agent's thread.
        turn_contexts: Give a turn, or a call on the bench, what it needs from cell and session.
        host_notices: Tells the user of requests to another host.
        resolver: Resolves the settings of turns, on the agent's thread.
        cell_resolver: The same from the cell's thread.
        drafter: Drafts the configuration of a turn with its options.
        catalog: The model lists of providers.
        compaction_settings: The settings of compactions, with functions that they need.
        contexts: The contexts of requests.
        reruns: Knows which cells have sent requests before.
        cell_questions: Asks the user in the running cell.
    """

    def __init__(
        self,
        host: Host,
        active: ActiveConversation,
        conversations: ConversationList,
        *,
        on_end: Callable[[Turn], None],
    ) -> None:
        self._host = host
        self._active = active
        self._conversations = conversations
        self.own_requests: set[str] = set()

        self.runner = AgentRunner(host, active)
        self._agent = self.runner.agent
        self._front_end = self.runner.front_end
        self.turn_contexts = TurnContexts(host, active, self.runner)
        # The line refuses a thread that a tool of the running turn waits for.
        active.line.find_tool_threads = self.runner.find_tool_threads

        self.host_notices = HostNotices(active, self.runner)
        self.resolver = Resolver(
            active,
            hide=self.runner.secrets.hide,
            load_answers=self.turn_contexts.load_answers,
            before_sending=self.host_notices.announce,
        )
        self.resolver.servers.ask = InputForms(self.runner).ask
        self.resolver.servers.sign_in = SignInForms(self.runner).sign_in
        self.catalog = ModelCatalog(self.resolver, self._agent.wait_for, self._agent.run)
        self.compaction_settings = CompactionSettings(
            lambda: active.settings.projection.providers(),
            self.resolver.background.make_summarizer,
            now=active.clock,
        )

        self.cell_resolver = CellResolver(host, active, self.runner, self.resolver)
        self.drafter = TurnDrafter(host, active, self.resolver, self.cell_resolver)
        self.cell_questions = CellQuestions(active, self.runner, self.turn_contexts.load_answers)
        self.contexts = RequestContexts(active)
        self._execution = TurnExecution(
            self.runner, conversations, self.host_notices, self.contexts, on_end=on_end
        )
        self.reruns = CellReruns(active)
        self._answer_forms = AnswerForms()
        self._reader = TurnRequestReader(
            host, active, self.reruns, self.cell_questions, self._answer_forms
        )

    def run(
        self,
        text: str,
        *,
        model: str | None = None,
        directives: Sequence[Directive] = (),
        new: bool = False,
        schema: object = None,
        tool_choice: ToolChoice | None = None,
        strict: bool = False,
        interpolate: bool = True,
        compact: bool = False,
        plan: bool = False,
        keep: Callable[[Turn], object] = keep_nothing,
    ) -> Turn:
        """Run one turn and show it in the cell. `jp_nb.query` describes the options.

        The turns of other threads that came earlier run first. `keep` is called with the turn, also
        if it fails.

        Raises:
            UsageError: `text`, `schema` or `tool_choice` is not valid, the model does not support
                the schema, or the caller is part of a running turn. Nothing was recorded.
            ConfigError: An option or the configuration is not valid. Nothing was recorded.
            PromptCancelled: The cell ran before, and the user canceled. Nothing was recorded.
            ProviderError: The model could not be reached. The record has the partial response.
            AnswerError: The structured answer is missing or does not fit. The record has it.
            PromptUnavailable: `strict`, and a decision was left open.
            KeyboardInterrupt: The turn was interrupted, or the user stopped it in a prompt. The
                record has the partial response.
        """

        def read_turn_request() -> TurnRequest:
            turn_request = self._reader.read(text, schema=schema, interpolated=interpolate, new=new)
            return replace(
                turn_request,
                model=model,
                directives=directives,
                tool_choice=tool_choice,
                strict=strict,
                compact=compact,
                plan_first=plan,
            )

        return self._active.line.run(partial(self.run_request, read_turn_request, keep))

    def require_ready(self) -> None:
        """Apply configuration files that were not valid when the conversation was opened.

        Such a conversation began without any settings. If it is still empty, a new one with the
        settings of the files replaces it.

        Raises:
            UsageError: A turn runs.
            ConfigError: The files are still not valid.
        """
        active = self._active
        active.refuse_while_running()
        if not active.has_invalid_files:
            return

        if active.is_local and not len(active.document.conversation):
            fresh = active.create_conversation(with_parent=False)
            NextConversation(fresh).activate(active)
        active.has_invalid_files = False

    def run_request(
        self,
        read_turn_request: Callable[[], TurnRequest],
        keep: Callable[[Turn], object] = keep_nothing,
    ) -> Turn:
        """Run the turn of a request, and show it in the cell. The caller holds the line.

        `keep` is called with the turn, also if it fails.
        """
        self.require_ready()
        # The cell may show that it starts the tools of the turn. That ends if no turn begins.
        with self.runner.output.ending_early():
            switch_turn_tools_off(self._active)  # of a turn that a dying kernel left
            with self._active.files.read_once():  # each configuration file
                turn_request = read_turn_request()
                draft = self._record_options(turn_request)

            number = self._active.document.conversation.turn_count
            option_count = len(draft.changes.deltas)
            try:
                prepared = self._prepare_request(turn_request, draft)
                return self._execution.run(prepared, keep)
            finally:
                self._remember_request(turn_request.cell, number, option_count)

    def _record_options(self, turn_request: TurnRequest) -> TurnDraft:
        """Draft and record the options of a turn, and activate its conversation."""
        active = self._active
        next_conversation = turn_request.next_conversation
        draft = self.drafter.draft(
            turn_request.request,
            tool_choice=turn_request.tool_choice,
            next_conversation=next_conversation,
            directives=turn_request.directives,
            model=turn_request.model,
            plan_first=turn_request.plan_first,
        )

        previous = active.settings.projection
        draft.changes.record()  # before `activate`, which signs and stores the conversation
        if next_conversation is not None:
            next_conversation.activate(active, draft.settings)

        self.reruns.remember_start(turn_request.cell)  # before the request is recorded
        active.notices += [*draft.changes.notices, *active.files.notices.take()]
        if next_conversation is not None and next_conversation.is_new:
            self._conversations.announce_left_settings(previous, asks=True)
        return draft

    def _prepare_request(self, turn_request: TurnRequest, draft: TurnDraft) -> PreparedTurn:
        """Prepare a new turn of the active conversation, which has its options already."""
        stream = self.contexts.repair_conversation()
        context = self.contexts.continue_context(stream, draft.resolved)
        answer = self._make_answer_reader(turn_request.request.response_schema)
        loop = self._make_loop(
            draft.resolved,
            context,
            answer,
            strict=turn_request.strict,
            config_changes=len(draft.changes.deltas),
            compact_first=turn_request.compact,
            plan=TurnPlan(is_required=turn_request.plan_first),
        )

        author = draft.resolved.basis.config.user.name
        request = turn_request.request.model_copy(update={"author": author})
        if turn_request.plan_first:
            request = add_plan_note(request, TURN_NOTE)
        shown_request = request.content if turn_request.shows_request else ""
        return PreparedTurn(
            number=stream.turn_count,
            loop=loop,
            start=partial(loop.run, request, turn_request.images),
            context=context,
            answer=answer,
            shown_request=shown_request,
        )

    def _remember_request(self, cell: CellRun, number: int, option_count: int) -> None:
        """Remember that `cell` sent the request of turn `number`, if it was sent."""
        stream = self._active.document.conversation
        request_id = _find_last_request_id(stream)
        if request_id is not None and stream.turn_count > number:
            self.own_requests.add(request_id)
        self.reruns.remember(cell, turn=number, option_count=option_count)

    def resume(
        self,
        turn: InterruptedTurn,
        repeated: Sequence[OpenCall],
        abandoned: Sequence[ToolCallResponse],
        *,
        resolved: Resolved,
        recorded: Mapping[str, RecordedAnswer],
    ) -> Turn:
        """Continue an interrupted turn and show that in the cell.

        It does not wait in the line: the caller has refused to run beside another turn, by
        `require_ready`, and has recorded the options.

        The calls `repeated` run, with the answers that were `recorded` for them. `abandoned` are
        the responses of its other open calls.

        Raises:
            AnswerError: The answer does not fit the schema of the request.
        """
        stream = self.contexts.repair_conversation(resumes=True)
        self.contexts.clear()  # the context now includes the last turn
        context = self.contexts.build(stream, resolved, in_turn=True)
        answer = self._make_answer_reader(turn.request.response_schema)
        loop = self._make_loop(
            resolved,
            context,
            answer,
            config_changes=len(turn.taken_back),  # were reverted, and apply again
            recorded=recorded,
            plan=read_turn_plan(turn.request, stream, trusted=self._active.trust.trusted),
        )

        prepared = PreparedTurn(
            number=turn.turn,
            loop=loop,
            start=partial(loop.resume, repeated, abandoned),
            context=context,
            answer=answer,
        )
        try:
            return self._execution.run(prepared)
        finally:
            switch_turn_tools_off(self._active)

    def _make_answer_reader(self, schema: Mapping[str, Any] | None) -> AnswerReader | None:
        return None if schema is None else self._answer_forms.make_reader(schema)

    def _make_loop(
        self,
        resolved: Resolved,
        context: RequestContext,
        answer: AnswerReader | None,
        *,
        config_changes: int,
        strict: bool = False,
        compact_first: bool = False,
        recorded: Mapping[str, RecordedAnswer] = MappingProxyType({}),
        plan: TurnPlan,
    ) -> TurnLoop:
        """Return the loop of a turn in the active conversation; its display is ready."""
        # The journal, a file that survives the kernel, has the turn before its first tool starts.
        self._active.journal_use.write()
        record = TurnRecord(
            self._active.document.conversation, context, last_host=self.host_notices.last_host
        )
        check_answer = None if answer is None else answer.check
        turn = self.turn_contexts.begin(record, resolved.basis.config, recorded)
        turn.plan = plan
        return TurnLoop(
            turn,
            resolve=self.resolver.for_turn(resolved),
            strict=strict or os.environ.get(environment.STRICT_VARIABLE) == "1",
            compaction_settings=self.compaction_settings,
            compact_first=compact_first,
            config_change_count=config_changes,
            check_answer=check_answer,
        )

    def interrupt_threads(self) -> None:
        """Interrupt the turns of other threads, which run or wait: their cell was interrupted."""
        if self._active.line.is_held_by_other_thread:
            self._front_end.cell_interrupted()  # it shows no further prompt
        self._active.line.interrupt()
        self.runner.cell.wake()  # so that the thread that runs a turn looks at the line

    def close(self) -> None:
        """Close prompts, providers, and the agent's thread."""
        self._front_end.end()
        self._agent.close(*self.resolver.take_closing())


def _find_last_request_id(stream: ConversationStream) -> str | None:
    """Return the `event_id` of the last request; None if it has none."""
    for raw in reversed(stream.raw):
        if raw.get("type") == "chat_request":
            event_id = raw.get("event_id")
            return event_id if isinstance(event_id, str) else None
    return None
