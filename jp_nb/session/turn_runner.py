"""Run turns from the cell's thread: `%%jp`, `%jp why`, and `%jp retry`.

`%load_ext` does not load this module.

Source: `docs/architecture.md`, `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import JsonValue

from jp_nb.agent.compactor import CompactionSettings
from jp_nb.agent.display import CodeAsks, Display, Notice, ShowRequest
from jp_nb.agent.effective_model import Resolved, host_of
from jp_nb.agent.inquiry import LlmInquiryBackend
from jp_nb.agent.prompts import (
    ActionPrompt,
    Answered,
    AnyEnd,
    FormPrompt,
    PromptEnd,
    QuestionPrompt,
    Unavailable,
)
from jp_nb.agent.provider import Attachment, ModelRequest, Provider, ToolChoice
from jp_nb.agent.tool_set import ToolSet
from jp_nb.agent.tool_sources import SourceAttempt
from jp_nb.agent.turn import TurnEnd, TurnLoop
from jp_nb.agent.turn_record import LastRequest, TurnRecord
from jp_nb.agent.turn_state import RecordedAnswer
from jp_nb.config.directives import Directive
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import (
    ConfigError,
    PromptUnavailable,
    ProviderError,
    ToolSourceError,
    UsageError,
)
from jp_nb.images import Image
from jp_nb.json_values import JsonObject, canonical_json
from jp_nb.providers.errors import format_model_choices
from jp_nb.record.config_changes import Draft
from jp_nb.record.context import RequestContext, build_context
from jp_nb.record.events import BY, TYPED, ChatRequest, ToolCallResponse
from jp_nb.record.head import AttachmentMark, RequestHead
from jp_nb.record.marks import (
    CHOICES,
    EXPLAINS_ERROR,
    LastHost,
    format_other_host,
    last_turn_to_repeat,
    recorded_host,
    recorded_tool_choice,
    to_tool_choice,
)
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_numbers import shown_turn
from jp_nb.record.turn_view import UNTYPED, InterruptedTurn, OpenCall, Turn, read_turn
from jp_nb.rendering.prompt_text import summarize_prompt
from jp_nb.rendering.status import list_inherited_notices
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.session.base_config import MODEL
from jp_nb.session.code_questions import CodeQuestions, format_questions
from jp_nb.session.conversation import INHERITED, ActiveConversation
from jp_nb.session.conversations import (
    CellReruns,
    ConversationList,
    NextConversation,
    branch_before,
)
from jp_nb.session.host import CellRun, Host
from jp_nb.session.notebook_text import ErrorRequest, interpolate, resolve_variables
from jp_nb.session.resolver import LIST_SECONDS, ModelCatalog, Resolver
from jp_nb.session.settings import Settings
from jp_nb.session.sign_in_forms import SignInForms
from jp_nb.session.source_wait import InputForms, SourceWait
from jp_nb.storage import environment
from jp_nb.toolkit.base import CURRENT_RUN, Run
from jp_nb.toolkit.question import Question
from jp_nb.values.base import Description, ValueBudget

if TYPE_CHECKING:  # most turns have no schema
    from jp_nb.session.answer_reader import AnswerReader
    from jp_nb.session.structured import AnswerForm

T = TypeVar("T")

MAX_ANSWER_FORMS: Final = 20
"""Maximum number of types of structured answers that are remembered, for `%jp retry`."""


KEPT_MARKS: Final = ("cell_id", BY, TYPED)
"""Metadata of a request that `%jp retry` repeats. All other metadata is made again or omitted."""


@contextmanager
def _waits_for_user(output: Display | None, run: Run | None) -> Iterator[None]:
    """Tell the `output` of a turn that code of the tool call `run` asks the user in this block."""
    if output is None or run is None:
        yield
        return

    output(CodeAsks(run.call_id, waits=True))
    try:
        yield
    finally:
        output(CodeAsks(run.call_id, waits=False))


def _last_request_id(stream: ConversationStream) -> str | None:
    """Return the `event_id` of the last request; None if it has none."""
    requests = (raw for raw in reversed(stream.raw) if raw.get("type") == "chat_request")
    found = next(requests, {}).get("event_id")
    return found if isinstance(found, str) else None


class TurnRunner:
    """Runs the turns of one session. Call it on the cell's thread."""

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
        self._on_end = on_end
        self.runner = AgentRunner(host, active)
        self._agent = self.runner.agent
        self._front_end = self.runner.front_end
        self._context: tuple[ConversationStream, RequestContext] | None = None
        self.contents: dict[AttachmentMark, Attachment] = {}  # of attachments that were sent
        self._own_heads: list[RequestHead] = []  # of requests, if the record is untrusted
        self.last_request: LastRequest | None = None
        self._last_host = recorded_host(active.document)
        self._record: TurnRecord | None = None  # of the running turn
        self._own_requests: set[str] = set()  # by `event_id`: sent by this kernel
        self._announced_hosts: set[tuple[str, str]] = set()
        self.resolver = Resolver(
            active,
            hide=self.runner.secrets.hide,
            load_answers=self.runner.load_answers,
            before_sending=self._announce_other_host,
        )
        self.resolver.servers.ask = InputForms(self.runner).ask
        self.resolver.servers.sign_in = SignInForms(self.runner).sign_in
        self.catalog = ModelCatalog(self.resolver, self._agent.wait_for, self._agent.run)
        self.compaction_settings = CompactionSettings(
            lambda: active.settings.projection.providers(),
            self.resolver.summarizer,
            now=active.clock,
        )
        self._reruns = CellReruns(active)
        self._ended_turn: Turn | None = None  # used by the thread that holds the line
        self._answer_forms: dict[str, AnswerForm] = {}  # by schema; the last one was used last
        active.line.tool_threads = self.runner.tool_threads

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
        keep: Callable[[Turn], None] | None = None,
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

        def run_in_turn() -> Turn:
            begin = self._prepare_run(
                text,
                model=model,
                directives=directives,
                new=new,
                schema=schema,
                tool_choice=tool_choice,
                strict=strict,
                interpolate=interpolate,
                compact=compact,
            )
            return self._run_and_keep(begin, keep)

        return self._active.line.run(run_in_turn)

    def _run_and_keep(self, begin: Callable[[], Turn], keep: Callable[[Turn], None] | None) -> Turn:
        """Run a turn, and call `keep` with it, also if it fails."""
        self._ended_turn = None
        try:
            return begin()
        finally:
            if keep is not None and self._ended_turn is not None:
                keep(self._ended_turn)

    def _prepare_run(
        self,
        text: str,
        *,
        model: str | None,
        directives: Sequence[Directive],
        new: bool,
        schema: object,
        tool_choice: ToolChoice | None,
        strict: bool,
        interpolate: bool,
        compact: bool,
    ) -> Callable[[], Turn]:
        """Record the options of a turn of the user; return the turn to run."""
        self.require_ready()
        with self._active.files.read_once():
            request = self._read_request(text, interpolated=interpolate)
            cell = self._host.cell_run()
            typed = text.strip("\n")
            typed_mark: JsonObject = {TYPED: typed} if request.text != typed else {}
            json_schema = None if schema is None else self._read_schema(schema)
            other = (
                NextConversation(self._active.create_conversation(), inherits=(*INHERITED, MODEL))
                if new
                else self._reruns.next_conversation(request.text, cell, self.ask_action)
            )
            return self._begin(
                ChatRequest(
                    content=request.text,
                    schema=json_schema,
                    metadata={**cell.metadata(), **typed_mark},
                ),
                other,
                cell,
                images=request.images,
                model=model,
                directives=directives,
                tool_choice=tool_choice,
                strict=strict,
                compact=compact,
            )

    def _read_schema(self, schema: object) -> dict[str, JsonValue]:
        """Return the JSON schema of `schema`, and remember its type for the answer."""
        from jp_nb.session.structured import read_form  # most turns have no schema

        form = read_form(schema, self._host.namespace)
        key = canonical_json(form.schema)
        self._answer_forms.pop(key, None)
        self._answer_forms[key] = form
        if len(self._answer_forms) > MAX_ANSWER_FORMS:
            del self._answer_forms[next(iter(self._answer_forms))]
        return form.schema

    def _make_answer_reader(self, schema: Mapping[str, JsonValue]) -> AnswerReader:
        """Return the reader of an answer that has to fit `schema`, or its type if it is known."""
        from jp_nb.session.answer_reader import AnswerReader
        from jp_nb.session.structured import AnswerForm

        known = self._answer_forms.get(canonical_json(schema))
        return AnswerReader(known or AnswerForm(dict(schema)))

    def explain(self, question: str = "") -> Turn:
        """Let the model explain the last exception of a cell, and show that in the cell.

        The request has the failing cell, the traceback, and the values of its names. The user sees
        all of it. `question` replaces the default question. Raises the errors of `run`.

        Raises:
            UsageError: No cell failed.
        """
        return self._active.line.run(lambda: self._prepare_explanation(question)())

    def _prepare_explanation(self, question: str) -> Callable[[], Turn]:
        self.require_ready()
        with self._active.files.read_once():
            max_chars = self._active.settings.config.interpolation.max_chars
            request = ErrorRequest(self._host.last_error(), self._host.namespace)
            content = self.runner.secrets.hide(request.write(question, room=max_chars))
            typed = self.runner.secrets.hide(request.words(question))
            marks: JsonObject = {EXPLAINS_ERROR: True, TYPED: typed}
            cell = self._host.cell_run()
            return self._begin(
                ChatRequest(content=content, metadata={**cell.metadata(), **marks}),
                self._reruns.next_conversation(content, cell, self.ask_action, same_text=True),
                cell,
                shows_request=True,
            )

    def retry(self, *, model: str | None = None) -> Turn:
        """Send the last request again, in a branch without its turn, and show it in the cell.

        An explanation of an error is skipped. Later settings of the user apply, changes by the
        tools of the turn do not. Raises the errors of `run`.

        Raises:
            UsageError: There is no last turn.
        """
        return self._active.line.run(lambda: self._prepare_retry(model)())

    def _prepare_retry(self, model: str | None) -> Callable[[], Turn]:
        self.require_ready()
        stream = self._active.document.conversation
        turn = last_turn_to_repeat(stream.turns(), "there is no turn to ask again")
        request = next(entry for entry in turn.entries if isinstance(entry, ChatRequest))
        metadata = {key: x for key, x in request.metadata.items() if key in KEPT_MARKS}
        return self._begin(
            ChatRequest(content=request.content, schema=request.response_schema, metadata=metadata),
            branch_before(
                self._active,
                turn.number,
                skipped=range(turn.number + 1, stream.turn_count),
                why=f"turn {shown_turn(turn.number)} is asked again",
            ),
            self._host.cell_run(),
            model=model,
            tool_choice=self.own_tool_choice(request),
            images=stream.images.images_of(request).images,
            shows_request=True,
        )

    def require_ready(self) -> None:
        """Apply configuration files that were not valid when the conversation was opened.

        Raises:
            UsageError: A turn runs.
            ConfigError: The files are still not valid.
        """
        active = self._active
        active.refuse_while_running()
        if active.has_invalid_files:
            if active.is_local and not len(active.document.conversation):
                NextConversation(active.create_conversation(with_parent=False)).activate(active)
            active.has_invalid_files = False

    def own_tool_choice(self, request: ChatRequest) -> ToolChoice | None:
        """Return the tool choice of a recorded `request`; None if it is the configured one."""
        choice = recorded_tool_choice(request)
        stream = self._active.document.conversation
        if choice is None:
            return None
        place = next(place for place, entry in enumerate(stream.entries) if entry is request)
        is_trusted = self._active.trust.trusted
        is_own = stream.raw[place].get("event_id") in self._own_requests
        if choice not in CHOICES and not (is_trusted or is_own):
            return None  # someone else may have named the tool

        then = self._active.settings.projection.until(stream.until(place)).config()
        return None if choice == to_tool_choice(then.assistant.tool_choice) else choice

    def _read_request(self, text: str, *, interpolated: bool) -> Description:
        if not text.strip():
            raise UsageError("the request is empty: write it below `%%jp`")
        if not interpolated:
            return Description(text.strip("\n"))
        config = self._active.settings.config
        budget = ValueBudget(config.interpolation.max_chars, config.values.image_side)
        request = interpolate(text, self._host.namespace, budget)
        return Description(request.text.strip("\n"), request.images)

    def prepare(
        self,
        request: ChatRequest,
        *,
        tool_choice: ToolChoice | None,
        other: NextConversation | None = None,
        directives: Sequence[Directive] = (),
        model: str | None = None,
    ) -> tuple[Settings, Draft, Resolved]:
        """Resolve the configuration of a turn in `other`, or in the active conversation.

        Raises:
            ConfigError: An option or the configuration is not valid. Nothing has changed.
            ProviderError: The key of the model is missing.
            UsageError: The model does not support the schema of the request, or `tool_choice` does
                not fit the tools.
        """
        active = self._active
        stream = active.document.conversation
        settings = active.settings
        inherited: list[str] = []
        if other is not None:
            stream = other.stream
            settings = other.settings(active)
            paths = [path for path in other.inherits if model is None or path != MODEL]
            inherited = list_inherited_notices(settings.inherit(active.settings, paths))
        names = self._host.namespace
        folder = active.files.folder
        directives, notices = resolve_variables(directives, names, folder)
        attempt = SourceAttempt()
        draft = self._draft_with_tools(settings, directives, model, tool_choice, attempt)
        draft.notices[:] = [*inherited, *draft.notices, *notices]
        self.resolver.scripts.choose_changed(draft.made)
        if model is not None:  # also if it was the model before
            self.resolver.scripts.choose(model, draft.config().providers.llm.aliases)
        resolved = self.resolve(
            settings.snapshot(draft), stream.id, tool_choice=tool_choice, attempt=attempt
        )
        if request.response_schema is not None:
            resolved.provider.check_schema(request.response_schema)
        try:
            resolved.provider.check_ready(resolved.model, request.content)
        except ConfigError as exc:
            if exc.kind != "no_model":
                raise
            ways = format_model_choices(resolved.basis.config.providers.llm)
            raise ConfigError(f"{exc}\n{ways}", kind=exc.kind) from exc
        return settings, draft, resolved

    def _draft_with_tools(
        self,
        settings: Settings,
        directives: Sequence[Directive],
        model: str | None,
        tool_choice: ToolChoice | None,
        attempt: SourceAttempt,
    ) -> Draft:
        """Return the draft of `directives`, after the sources that it uses have found their tools.

        The source of a named tool starts first. The changed settings may use other sources.
        """
        switched = [x for x in directives if x.kind in ("tool", "no_tool") and x.text]
        if switched:
            named = [each.text for each in switched if each.kind == "tool"]
            self._discover(settings.config, attempt, names=named, only_named=True)

        draft = settings.draft(directives, model=model)
        choice = [] if tool_choice is None else [tool_choice.removeprefix("tool:")]
        if self._discover(draft.config(), attempt, names=choice):
            draft = settings.draft(directives, model=model)
        return draft

    def _discover(
        self,
        config: AppConfig,
        attempt: SourceAttempt,
        *,
        names: Sequence[str] = (),
        only_named: bool = False,
    ) -> bool:
        """Let sources find their tools; see `Resolver.discover`."""
        if not self.resolver.has_discovering_sources(config):
            return False
        work = self.resolver.discover(config, attempt, names=names, only_named=only_named)
        return self._wait_for_sources(work, config)

    def _wait_for_sources(
        self, work: Coroutine[Any, Any, T], config: AppConfig, *, before_turn: bool = True
    ) -> T:
        """Run `work` on the agent's loop, and serve the cell's thread meanwhile.

        The display of a slow start becomes that of the turn, unless no turn follows.
        """
        if not self.resolver.has_discovering_sources(config):
            return self._agent.wait_for(work)
        wait = SourceWait(self.runner, self._active.line, config, self.resolver.list_starting)
        try:
            return self._agent.wait_for(work, serve=wait.serve)
        finally:
            if not before_turn:
                self.runner.end_early_turn()

    def resolve(
        self,
        basis: ConfigSnapshot,
        conversation_id: str,
        *,
        tool_choice: ToolChoice | None = None,
        attempt: SourceAttempt | None = None,
    ) -> Resolved:
        """Resolve `basis` from the cell's thread; see `Resolver.resolve`."""
        reason = self._front_end.unavailable_reason(basis.config)
        self._describe_attached_values(basis.config)
        work = self.resolver.resolve(
            basis,
            conversation_id,
            tool_choice=tool_choice,
            unavailable_reason=reason,
            attempt=attempt,
        )
        return self._wait_for_sources(work, basis.config)

    def count_tokens(self, provider: Provider, request: ModelRequest, name: str) -> int:
        """Return the tokens of `request` that the server counts; see `Provider.count_tokens`.

        `name` is the name of the provider.
        """
        self._announce_other_host(provider, name)
        return self._agent.wait_for(provider.count_tokens(request, seconds=LIST_SECONDS))

    def _announce_other_host(self, provider: Provider, name: str) -> None:
        """Show that the conversation goes to another host than the turns, once for each pair.

        Any thread may call it.
        """
        record = self._record
        host = host_of(provider)
        last = self._last_host if record is None else record.last_host
        if last is None or not host:
            return
        pair = (last.mark, LastHost.of(host).mark)
        if pair[0] == pair[1] or pair in self._announced_hosts:
            return

        self._announced_hosts.add(pair)
        line = format_other_host(last, host, name)
        running = self._active.running
        output = self.runner.output
        if running is not None and not running.done() and output is not None:
            output(Notice(line))
        else:
            print(f"jp_nb: {line}")

    def tools(self, config: AppConfig, *, may_start: bool = True) -> ToolSet:
        """Return the tools that `config` enables, from the cell's thread.

        `may_start` is as in `SourceAttempt`.
        """
        reason = self._front_end.unavailable_reason(config)
        attempt = SourceAttempt(may_start=may_start)
        work = self.resolver.tools(config, unavailable_reason=reason, attempt=attempt)
        return self._wait_for_sources(work, config, before_turn=False)

    def discover_tools(self, *names: str) -> None:
        """Let the sources that may have these tools or toolsets find their tools.

        Raises:
            ToolSourceError: One failed.
        """
        config = self._active.settings.config
        attempt = SourceAttempt()
        if not self.resolver.has_discovering_sources(config):
            return
        work = self.resolver.discover(config, attempt, names=names, only_named=True)
        self._wait_for_sources(work, config, before_turn=False)
        if attempt.failures:
            raise ToolSourceError("\n".join(x.text for x in attempt.failures.values()))

    def wait_for_server(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work with an MCP server outside of turns, and serve its forms in the cell."""
        return self._wait_for_sources(work, self._active.settings.config, before_turn=False)

    def attachments(self, config: AppConfig) -> tuple[Attachment, ...]:
        """Return the attachments of `config`; see `Resolver.attachments`."""
        self._describe_attached_values(config)
        return self.resolver.attachments(config)

    def _describe_attached_values(self, config: AppConfig) -> None:
        budget = ValueBudget(config.interpolation.max_chars, config.values.image_side)
        urls = config.conversation.attachments
        self.resolver.values.describe(urls, self._host.namespace, budget)

    def inquiry(self, config: AppConfig, tools: ToolSet, conversation_id: str) -> LlmInquiryBackend:
        """Return the model backend for questions of `tools`; see `Resolver.inquiry`."""
        self._describe_attached_values(config)
        return self._agent.wait_for(self.resolver.inquiry(config, tools, conversation_id))

    def _begin(
        self,
        request: ChatRequest,
        other: NextConversation | None,
        cell: CellRun,
        *,
        model: str | None = None,
        directives: Sequence[Directive] = (),
        tool_choice: ToolChoice | None = None,
        strict: bool = False,
        images: Sequence[Image] = (),
        shows_request: bool = False,
        compact: bool = False,
    ) -> Callable[[], Turn]:
        """Record the options of a turn and activate its conversation; return the turn to run."""
        active = self._active
        with active.files.read_once(), self._ending_early_turn():
            settings, draft, resolved = self.prepare(
                request, tool_choice=tool_choice, other=other, directives=directives, model=model
            )
            previous = active.settings.projection
            draft.record()  # before `activate`, which signs and stores the whole conversation
            if other is not None:
                other.activate(active, settings)
            self._reruns.remember_start(cell)
            active.notices += [*draft.notices, *active.files.take_notices()]
            if other is not None and other.is_new:
                self._conversations.announce_left_settings(previous, asks=True)
        number = active.document.conversation.turn_count
        options = len(draft.deltas)

        def run() -> Turn:
            try:
                stream = self.repair_conversation()
                sent = request.model_copy(update={"author": resolved.basis.config.user.name})
                return self._run_loop(
                    resolved,
                    self._request_context(stream, resolved),
                    lambda turn: turn.run(sent, images),
                    number=stream.turn_count,
                    schema=request.response_schema,
                    shown=request.content if shows_request else "",
                    strict=strict,
                    changes=options,
                    compact=compact,
                )
            finally:
                sent_in = active.document.conversation
                request_id = _last_request_id(sent_in)
                if request_id is not None and sent_in.turn_count > number:
                    self._own_requests.add(request_id)
                self._reruns.remember(cell, turn=number, options=options)

        return run

    @contextmanager
    def _ending_early_turn(self) -> Iterator[None]:
        """End the display of a slow start if the turn does not begin."""
        try:
            yield
        except BaseException:
            self.runner.end_early_turn()
            raise

    def resume(
        self,
        found: InterruptedTurn,
        again: Sequence[OpenCall],
        abandoned: Sequence[ToolCallResponse],
        *,
        resolved: Resolved,
        recorded: Mapping[str, RecordedAnswer],
    ) -> Turn:
        """Continue an interrupted turn and show that in the cell.

        The calls `again` run, with the answers that were `recorded` for them. `abandoned` are the
        responses of its other open calls.

        Raises:
            AnswerError: The answer does not fit the schema of the request.
        """
        stream = self.repair_conversation(resumes=True)
        self._context = None  # the context now includes the last turn
        return self._run_loop(
            resolved,
            self.build_context(stream, resolved, in_turn=True),
            lambda turn: turn.resume(again, abandoned),
            number=found.turn,
            schema=found.request.response_schema,
            changes=len(found.taken_back),
            recorded=recorded,
        )

    def repair_conversation(self, *, resumes: bool = False) -> ConversationStream:
        """Repair the active conversation for its next request, and return it."""
        stream = self._active.document.conversation
        if stream.repair(resumes=resumes):
            self._context = None
            self._active.replaced()
        return stream

    def _run_loop(
        self,
        resolved: Resolved,
        thread: RequestContext,
        start: Callable[[TurnLoop], Coroutine[Any, Any, TurnEnd]],
        *,
        number: int,
        schema: Mapping[str, JsonValue] | None,
        shown: str = "",
        strict: bool = False,
        changes: int = 0,
        compact: bool = False,
        recorded: Mapping[str, RecordedAnswer] = MappingProxyType({}),
    ) -> Turn:
        """Run the turn with this `number`, and show it below the request `shown`."""
        self._active.write_journal()  # before the first call starts
        record = TurnRecord(self._active.document.conversation, thread, last_host=self._last_host)
        answer = None if schema is None else self._make_answer_reader(schema)
        turn = TurnLoop(
            self.runner.turn_context(record, resolved.basis.config, recorded),
            resolve=self.resolver.for_turn(resolved),
            strict=strict or os.environ.get(environment.STRICT) == "1",
            compaction_settings=self.compaction_settings,
            compact_first=compact,
            config_changes=changes,
            check_answer=None if answer is None else answer.check,
        )
        output = self.runner.output
        result: Turn | None = None
        assert output is not None
        status = "failed"
        reason = ""
        failed_retry: ProviderError | None = None
        self._record = record
        with self.runner.cell.interrupts.defer():
            try:
                with self.runner.display(output):
                    if shown:
                        output(ShowRequest(shown))
                    end = self.runner.run(start(turn), turn)
                    status, reason = ("interrupted", "") if end is None else (end.status, end.why)
            except ProviderError as exc:
                if answer is None or not answer.is_rejected:
                    raise
                failed_retry = exc  # the request for another answer
            finally:
                self._note_sent(record)
                if turn.is_unanswered or record.thread is not thread:
                    self._context = None
                value = UNTYPED if answer is None else answer.value
                result = self._read_last_turn(record.stream, number, status, value)
                if result is not None:
                    self._ended_turn = result
                    self._on_end(result)
        if status == "stopped":
            raise KeyboardInterrupt("You stopped the turn")
        if status == "interrupted":
            raise KeyboardInterrupt(*([reason] if reason else []))
        assert result is not None  # a turn that completed has begun
        if answer is not None:
            answer.raise_problem(text=result.text, failed_request=failed_retry)
        return result

    def _note_sent(self, record: TurnRecord) -> None:
        self.last_request = record.sent or self.last_request
        self._last_host = record.last_host
        self._record = None
        if not self._active.trust.trusted:
            self._own_heads += [position.head for position in record.thread.heads]

    def _read_last_turn(
        self, stream: ConversationStream, number: int, status: str, value: Any
    ) -> Turn | None:
        """Return the turn that ended with `status`; None if it never began.

        `value` is its structured answer as a value of a type, or `UNTYPED`.
        """
        last = stream.last_turn()
        if last is None or last.number < number:
            return None
        self._conversations.turn_statuses[stream.id, number] = status
        result = read_turn(number, last.entries, status=status, images=stream.images)
        return replace(result, value=value)

    def _request_context(self, stream: ConversationStream, resolved: Resolved) -> RequestContext:
        if self._context is None or self._context[0] is not stream:
            empty = not stream.turn_count  # spares a new conversation the settings
            context = RequestContext(contents=self.contents) if empty else None
            self._context = stream, context or self.build_context(stream, resolved)
        return self._context[1]

    def build_context(
        self,
        stream: ConversationStream,
        resolved: Resolved | None = None,
        *,
        in_turn: bool = False,
    ) -> RequestContext:
        """Return the context of `stream`; see `record.context.build_context`.

        If the record is untrusted, its heads are used only if this kernel has sent them, or if the
        user can see all their texts in the configuration (`resolved`).
        """
        providers = self._active.settings.projection.providers()
        context = build_context(stream, providers, in_turn=in_turn)
        context.contents = self.contents
        if not context.heads or self._active.trust.trusted:
            return context
        known = list(self._own_heads)
        if resolved is not None:
            known.append(resolved.head)
        requests = (x for x in stream.entries if isinstance(x, ChatRequest))
        schemas = {canonical_json(x.response_schema) for x in requests}
        heads = (position.head for position in context.heads)
        if all(any(head.is_part_of(other, schemas) for other in known) for head in heads):
            return context
        return context.without_heads()

    def clear_context(self) -> None:
        """Build the request context again for the next request."""
        self._context = None

    def ask_action(self, prompt: ActionPrompt) -> PromptEnd[Answered]:
        """Show `prompt` in the running cell before a turn, and return its end.

        After an interrupt, raise `KeyboardInterrupt` with a message that nothing ran.
        """
        self._front_end.begin_question(self._active.settings.config)
        try:
            return self._front_end.prompter.ask_in_cell(prompt, keeps_record=False)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "Interrupted before you decided. No request was sent, and nothing ran."
            ) from None

    def ask_questions(
        self, questions: Sequence[Question], *, label: str | None, tool: str | None
    ) -> dict[str, Any]:
        """Return the answers to `questions` by id: configured, or of the user in one form.

        Raises:
            ConfigError: A configured answer does not fit.
            PromptUnavailable: No user is available.
            PromptCancelled: The user gave no answer.
        """
        run = CURRENT_RUN.get()
        if run is not None and run.is_over:
            reason = "the tool call has already ended"
            asked = format_questions(questions, "was", "were")
            raise PromptUnavailable(f"{asked} asked too late: {reason}", reason=reason)
        config = self._active.settings.config
        secrets = self.runner.secrets

        def show(prompt: QuestionPrompt | FormPrompt) -> AnyEnd:
            running = self._active.running
            in_turn = running is not None and not running.done()

            def ask() -> AnyEnd:
                if not in_turn:
                    self._front_end.begin_question(config)
                return self._front_end.prompter.ask_in_cell(prompt, keeps_record=not in_turn)

            line = self._active.line
            output = self.runner.output if in_turn else None
            with _waits_for_user(output, run):
                end = ask() if in_turn or line.is_held_here else line.run(ask)
            if output is not None and not isinstance(end, Unavailable):
                output(Notice(summarize_prompt(prompt, end).plain))
            return end

        prepared = self.runner.load_answers(config)
        own = CodeQuestions(
            questions, config, label=label, tool=tool, prepared=prepared, secrets=secrets
        )
        answers = own.answers(show)
        for question in questions:
            secrets.add_answer(question, answers[question.id])
        return {each.id: each.validated(answers[each.id]) for each in questions}

    def interrupt_threads(self) -> None:
        """Interrupt the turns of other threads, which run or wait: their cell was interrupted."""
        if self._active.line.is_held_by_other_thread:
            self._front_end.cell_interrupted()
        self._active.line.interrupt()
        self.runner.cell.wake()

    def close(self) -> None:
        """Close prompts, providers, and the agent's thread."""
        self._front_end.end()
        self._agent.close(*self.resolver.take_closing())
