"""Runs turns from the cell's thread: everything that `%load_ext` can do without.

Source: `docs/architecture.md`, `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pydantic import JsonValue

from jp_nb.agent.compaction import CompactionSettings
from jp_nb.agent.display import Notice, ShowRequest
from jp_nb.agent.inquiry import LlmInquiryBackend
from jp_nb.agent.prompts import (
    ActionPrompt,
    FormPrompt,
    FormPromptEnd,
    PromptEnd,
    QuestionPrompt,
    Unavailable,
)
from jp_nb.agent.provider import Attachment, ToolChoice
from jp_nb.agent.questions import RecordedAnswer
from jp_nb.agent.tool_set import ToolSet
from jp_nb.agent.turn import TurnEnd, TurnLoop
from jp_nb.agent.turn_state import LastRequest, Resolved
from jp_nb.config.directives import Directive
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import ConfigError, PromptUnavailable, UsageError
from jp_nb.images import Image
from jp_nb.providers.errors import format_model_choices
from jp_nb.record.config_changes import Draft
from jp_nb.record.context import RequestContext, thread_of
from jp_nb.record.events import ChatRequest, ToolCallResponse
from jp_nb.record.journal import OpenCall
from jp_nb.record.marks import recorded_host
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turns import InterruptedTurn, Turn, read_turn
from jp_nb.rendering.forms import record_of
from jp_nb.rendering.tables import kept_notices
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.session.conversation import INHERITED, ActiveConversation
from jp_nb.session.conversations import CellReruns, FirstRequests, NextConversation
from jp_nb.session.host import CellRun, Host
from jp_nb.session.notebook_values import interpolate, resolve_variables
from jp_nb.session.resolver import ModelCatalog, Resolver
from jp_nb.session.settings import MODEL, Settings
from jp_nb.storage import environment
from jp_nb.tools.base import CURRENT_RUN
from jp_nb.tools.question import Question
from jp_nb.values.base import Description, ValueBudget

STOPPED = "You stopped the turn"
UNDECIDED = "Interrupted before you decided. No request was sent, and nothing ran."


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """The basis of a turn to come; nothing has changed yet.

    Attributes:
        settings: The configuration of its conversation.
        draft: What its options change in it.
        resolved: What that comes to.
    """

    settings: Settings
    draft: Draft
    resolved: Resolved


class TurnRunner:
    """The turns of one session. Tools and turns run elsewhere; all else on the cell's thread.

    Args:
        host: Where the session runs.
        active: The conversation to run them on.
        known: Keeps the status of each turn, by conversation and number.
        ended: Takes each turn that began, once it is over.

    Attributes:
        last_request: The last request that went out in this kernel.
    """

    def __init__(
        self,
        host: Host,
        active: ActiveConversation,
        known: dict[tuple[str, int], str],
        *,
        ended: Callable[[Turn], None],
    ) -> None:
        self._host = host
        self._active = active
        self._known = known
        self._ended = ended
        self.runner = AgentRunner(host, active)
        self._agent, self._front_end = self.runner.agent, self.runner.front_end
        self._threads: tuple[ConversationStream, RequestContext] | None = None
        self.last_request: LastRequest | None = None
        self._last_host = recorded_host(active.document)
        self.resolver = Resolver(
            active, hide=self.runner.secrets.hide, prepared=self.runner.load_answers
        )
        self.catalog = ModelCatalog(self.resolver, self._agent.wait_for)
        self.compaction_settings = CompactionSettings(
            self._providers_in_course, self.resolver.summarizer, now=active.clock
        )
        self.first_requests = FirstRequests(active)
        self.reruns = CellReruns(active)

    # --- what is asked -----------------------------------------------------------------------

    def read_request(self, text: str, *, interpolated: bool) -> Description:
        """Return `text` as it is asked: if `interpolated`, with the notebook's values in it.

        Raises:
            UsageError: If it is empty or names something unknown.
        """
        if not text.strip():
            raise UsageError("the request is empty: write it below `%%jp`")
        if not interpolated:
            return Description(text.strip("\n"))
        config = self._active.settings.config
        budget = ValueBudget(config.interpolation.max_chars, config.values.image_side)
        asked = interpolate(text, self._host.namespace, budget)
        return Description(asked.text.strip("\n"), asked.images)

    def next_conversation(
        self, content: str, cell: CellRun, *, new: bool = False, same_text: bool = False
    ) -> NextConversation | None:
        """Return the conversation in which `cell` asks `content`; None: the active one.

        With `same_text`, a cell that asked something else before is not run again.

        Raises:
            ConfigError: If what it starts from is wrong.
            PromptCancelled: If the person was asked, and wants nothing to be asked.
        """
        if new:
            return NextConversation(
                self._active.create_conversation(), inherits=(*INHERITED, MODEL)
            )
        if (
            again := self.first_requests.restart_conversation(content, cell, same_text=same_text)
        ) is not None:
            return again
        repeated = self.reruns.find_repeated(content, cell, same_text=same_text)
        return (
            None if repeated is None else self.reruns.choose_conversation(repeated, self.ask_action)
        )

    def hide_secrets(self, text: str) -> str:
        """Return `text` without the secrets that the person has answered tools with."""
        return self.runner.secrets.hide(text)

    def read_schema(self, schema: object) -> dict[str, JsonValue] | None:
        """Return the JSON schema that `schema` means, None: it is None.

        Raises:
            UsageError: If it describes nothing.
        """
        if schema is None:
            return None
        from jp_nb.session.structured import read_schema  # most turns have no schema

        return read_schema(schema, self._host.namespace)

    def prepare(
        self,
        other: NextConversation | None,
        directives: Sequence[Directive],
        *,
        text: str,
        model: str | None,
        schema: Mapping[str, JsonValue] | None,
        tool_choice: ToolChoice | None,
    ) -> PreparedTurn:
        """Resolve what a turn with the request `text` would run on in `other`.

        Without `other` it would run in the active conversation.

        Raises:
            ConfigError: If an option or the configuration is wrong; nothing has changed.
            ProviderError: If the key of the model is missing.
            UsageError: If the model cannot answer in `schema`, or no tool is as `tool_choice` says.
        """
        active = self._active
        stream, settings = active.document.conversation, active.settings
        kept: list[str] = []
        if other is not None:
            stream, settings = other.stream, other.settings(active.files)
            keeps = [path for path in other.inherits if model is None or path != MODEL]
            kept = kept_notices(settings.inherit(active.settings, keeps))
        chosen, notices = resolve_variables(directives, self._host.namespace, active.files.folder)
        draft = settings.draft(chosen, model=model)
        draft.notices[:] = [*kept, *draft.notices, *notices]
        resolved = self.resolve(settings.snapshot(draft), stream.id, tool_choice=tool_choice)
        if schema is not None:
            resolved.provider.check_schema(schema)
        self._check_ready(resolved, text)
        return PreparedTurn(settings, draft, resolved)

    @staticmethod
    def _check_ready(resolved: Resolved, text: str) -> None:
        try:
            resolved.provider.check_ready(resolved.model, text)
        except ConfigError as exc:
            if exc.kind != "no_model":
                raise
            ways = format_model_choices(resolved.basis.config.providers.llm)
            raise ConfigError(f"{exc}\n{ways}", kind=exc.kind) from exc

    # --- what the configuration is resolved into -----------------------------------------------

    def resolve(
        self,
        basis: ConfigSnapshot,
        conversation_id: str,
        *,
        tool_choice: ToolChoice | None = None,
    ) -> Resolved:
        """Resolve `basis` from the cell's thread; see `Resolver.resolve`."""
        unavailable_reason = self._front_end.unavailable_reason(basis.config)
        self._look_at_values(basis.config)
        return self._agent.wait_for(
            self.resolver.resolve(
                basis,
                conversation_id,
                tool_choice=tool_choice,
                unavailable_reason=unavailable_reason,
            )
        )

    def tools(self, config: AppConfig) -> ToolSet:
        """Return the tools that `config` enables, from the cell's thread."""
        unavailable_reason = self._front_end.unavailable_reason(config)
        return self._agent.wait_for(
            self.resolver.tools(config, unavailable_reason=unavailable_reason)
        )

    def attachments(self, config: AppConfig) -> tuple[Attachment, ...]:
        """Return what `config` attaches, from the cell's thread; see `Resolver.attachments`."""
        self._look_at_values(config)
        return self.resolver.attachments(config)

    def _look_at_values(self, config: AppConfig) -> None:
        """Describe the variables that are attached, as they are now."""
        budget = ValueBudget(config.interpolation.max_chars, config.values.image_side)
        urls = config.conversation.attachments
        self.resolver.values.describe(urls, self._host.namespace, budget)

    def inquiry(self, config: AppConfig, tools: ToolSet, conversation_id: str) -> LlmInquiryBackend:
        """Return what answers the questions of `tools`; see `Resolver.inquiry`."""
        self._look_at_values(config)
        return self._agent.wait_for(self.resolver.inquiry(config, tools, conversation_id))

    # --- one turn ----------------------------------------------------------------------------

    def run(
        self,
        request: ChatRequest,
        *,
        resolved: Resolved,
        strict: bool,
        changes: int = 0,
        images: Sequence[Image] = (),
        shows_request: bool = False,
        compact: bool = False,
    ) -> Turn:
        """Run `request` as a turn of the active conversation and show it in the cell.

        The model is shown `images` with it, within the limits of the record. `resolved` counts
        until tools change the configuration. Its last `changes` were made for this turn. With
        `shows_request` the person sees what is asked: their cell does not say it. With `compact`
        the conversation is made shorter before.

        Raises:
            AnswerError: If the answer does not fit the schema of `request`.
        """
        stream = self.repair_conversation()
        turn = self._loop(
            resolved, self._thread(stream), strict=strict, changes=changes, compact_first=compact
        )
        return self._finish(
            turn,
            turn.run(request, images),
            number=stream.turn_count,
            schema=request.response_schema,
            shown=request.content if shows_request else "",
        )

    def resume(
        self,
        found: InterruptedTurn,
        again: Sequence[OpenCall],
        abandoned: Sequence[ToolCallResponse],
        *,
        resolved: Resolved,
        recorded: Mapping[str, RecordedAnswer],
    ) -> Turn:
        """Continue the turn that was interrupted, and show that in the cell.

        The calls `again` run, with what was `recorded` of their questions; the model is
        told that the others were `abandoned`.

        Raises:
            AnswerError: If the answer does not fit the schema of the request.
        """
        stream = self.repair_conversation(resumes=True)
        self._threads = None  # the last turn belongs to what is sent now
        thread = thread_of(stream, self._providers_in_course(), in_turn=True)
        changes = len(found.taken_back)
        turn = self._loop(resolved, thread, changes=changes, recorded=recorded)
        return self._finish(
            turn,
            turn.resume(again, abandoned),
            number=found.turn,
            schema=found.request.response_schema,
        )

    def repair_conversation(self, *, resumes: bool = False) -> ConversationStream:
        """Return the active conversation, fit to be sent once its last turn has ended.

        If that `resumes`, its open calls stay open.
        """
        stream = self._active.document.conversation
        if stream.repair(resumes=resumes):
            self._threads = None
            self._active.replaced()
        return stream

    def _loop(
        self,
        resolved: Resolved,
        thread: RequestContext,
        *,
        strict: bool = False,
        changes: int = 0,
        compact_first: bool = False,
        recorded: Mapping[str, RecordedAnswer] = MappingProxyType({}),
    ) -> TurnLoop:
        """Return what runs one turn of the active conversation, shown in the cell."""
        stream = self._active.document.conversation
        self._active.write_journal()  # there is one before calls begin
        return TurnLoop(
            stream=stream,
            thread=thread,
            resolve=self.resolver.for_turn(resolved),
            prompter=self._front_end.prompter,
            cell=self.runner.cell,
            prepared=self.runner.load_answers(
                resolved.basis.config
            ),  # may raise: before it is shown
            display=self.runner.begin_turn(resolved.basis.config),
            strict=strict or os.environ.get(environment.STRICT) == "1",
            context=self.runner.tool_context(stream),
            secrets=self.runner.secrets,
            on_tool_error=self.runner.on_tool_error,
            compaction_settings=self.compaction_settings,
            compact_first=compact_first,
            progress=self._active.keep_progress,
            changes=changes,
            recorded=recorded,
            last_host=self._last_host,
        )

    def _finish(
        self,
        turn: TurnLoop,
        job: Coroutine[Any, Any, TurnEnd],
        *,
        number: int,
        schema: Mapping[str, JsonValue] | None,
        shown: str = "",
    ) -> Turn:
        """Run the `job` of `turn`, which has that `number`, and show it below what was `shown`."""
        output, stream, thread = self.runner.output, turn.stream, turn.request_context
        assert output is not None
        status, why = "failed", ""
        with self.runner.cell.defer_interrupts():
            try:
                with self.runner.display(output):
                    if shown:
                        output(ShowRequest(shown))
                    end = self.runner.run(job, turn)
                    status, why = ("interrupted", "") if end is None else (end.status, end.why)
            finally:
                self.last_request, self._last_host = turn.sent or self.last_request, turn.host
                if turn.is_unanswered or turn.request_context is not thread:
                    self._threads = None
                made = self._view(number, turn, status)
                if made is not None:
                    self._ended(made)
        if status == "stopped":
            raise KeyboardInterrupt(STOPPED)
        if status == "interrupted":
            raise KeyboardInterrupt(*([why] if why else []))
        assert made is not None  # a turn that completed has begun
        if schema is not None:
            from jp_nb.session.structured import check_answer

            answered = stream.last_turn()
            entries = answered.entries if answered else ()
            check_answer(entries, schema, text=made.text)
        return made

    def _thread(self, stream: ConversationStream) -> RequestContext:
        """Return the provider's view of `stream`, kept from turn to turn."""
        if self._threads is None or self._threads[0] is not stream:
            empty = not stream.turn_count  # as is each conversation that begins with this turn
            seen = RequestContext() if empty else thread_of(stream, self._providers_in_course())
            self._threads = stream, seen
        return self._threads[1]

    def _providers_in_course(self) -> list[str]:
        return self._active.settings.projection.providers()

    def clear_context(self) -> None:
        """Have the provider's view of the conversation made anew."""
        self._threads = None

    def _view(self, number: int, turn: TurnLoop, status: str) -> Turn | None:
        """Return the turn as code reads it; None if it never began."""
        made = turn.stream.last_turn()
        if made is None or made.number < number:
            return None
        self._known[turn.stream.id, number] = status
        return read_turn(number, made.entries, status=status, images=turn.stream.images)

    # --- a question from ordinary code -------------------------------------------------------

    def ask_action(self, prompt: ActionPrompt) -> PromptEnd:
        """Put `prompt` to the person in the running cell, ahead of a turn.

        Raises:
            KeyboardInterrupt: If the kernel was interrupted; it says that nothing was done.
        """
        self._front_end.begin_question(self._active.settings.config)
        try:
            return self._front_end.ask_in_cell(prompt, keeps_record=False)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(UNDECIDED) from None

    def ask_question(self, question: Question, *, label: str | None, tool: str | None) -> Any:
        """Return the answer to `question` as `ask_questions` does."""
        return self.ask_questions([question], label=label, tool=tool)[question.id]

    def ask_questions(
        self, questions: Sequence[Question], *, label: str | None, tool: str | None
    ) -> dict[str, Any]:
        """Return the answers to `questions` by id: configured, or from the person, as one form.

        Raises:
            ConfigError: If a configured answer does not fit.
            PromptUnavailable: If nobody can be asked.
            PromptCancelled: If somebody was asked and gave no answer.
        """
        from jp_nb.session.ask import CodeQuestions, format_questions  # most turns ask none

        run = CURRENT_RUN.get()
        if run is not None and run.is_over:
            raise PromptUnavailable(
                f"{format_questions(questions, 'was', 'were')} asked too late: the tool call has "
                "already ended",
                reason="the tool call has already ended",
            )
        config = self._active.settings.config
        prepared = self.runner.load_answers(config)
        own = CodeQuestions(questions, config, label=label, tool=tool, prepared=prepared)
        answers = own.answers(lambda prompt: self._put(prompt, config))
        for question in questions:
            self.runner.secrets.add_answer(question, answers[question.id])
        return {each.id: each.validated(answers[each.id]) for each in questions}

    def _put(
        self, prompt: QuestionPrompt | FormPrompt, config: AppConfig
    ) -> PromptEnd | FormPromptEnd:
        """Put `prompt` to the person in the running cell, whether a turn runs in it or not."""
        running = self._active.running
        in_turn = running is not None and not running.done()
        if not in_turn:
            self._front_end.begin_question(config)
        end: PromptEnd | FormPromptEnd
        if isinstance(prompt, FormPrompt):
            prompt = replace(prompt, pages=tuple(map(self._hidden, prompt.pages)))
            end = self._front_end.ask_form_in_cell(prompt, keeps_record=not in_turn)
        else:
            prompt = self._hidden(prompt)
            end = self._front_end.ask_in_cell(prompt, keeps_record=not in_turn)
        if in_turn and self.runner.output is not None and not isinstance(end, Unavailable):
            self.runner.output(Notice(record_of(prompt, end).plain))
        return end

    def _hidden(self, page: QuestionPrompt) -> QuestionPrompt:
        return replace(page, question=self.runner.secrets.hide_in_question(page.question))

    def close(self) -> None:
        """Close prompts, providers and the agent's thread."""
        self._front_end.end()
        self._agent.close(*self.resolver.take_closing())
