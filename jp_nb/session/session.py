"""`Session`: public operations of the assistant of one kernel.

This module connects the packages. `%load_ext` needs few of them: `settings.py` is loaded if
something is configured, and `turns.py` with the first turn.

Source: `docs/architecture.md`, `docs/guide.md`, `docs/record.md`, `docs/decisions.md` D119.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jp_nb.errors import ConfigError, JpNbError, UsageError
from jp_nb.record.clock import DEFAULT_CLOCK, Clock, clock_from_epoch, utc_now
from jp_nb.record.events import ChatRequest
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import CellRun, Host, NotebookStorage
from jp_nb.storage import environment
from jp_nb.storage.config_files import ConfigFiles
from jp_nb.storage.trust import FolderTrust, PendingConsent
from jp_nb.text import one_line

if TYPE_CHECKING:
    from jp_nb.agent.provider import ToolChoice
    from jp_nb.config.directives import Directive
    from jp_nb.config.tree.app import AppConfig
    from jp_nb.images import Image
    from jp_nb.record.turns import Turn
    from jp_nb.session.bench import ToolBench
    from jp_nb.session.conversations import ConversationList, NextConversation
    from jp_nb.session.settings import Settings
    from jp_nb.session.turns import TurnRunner


def choose_clock(notebook: NotebookStorage, files: ConfigFiles) -> Clock:
    """Return the clock of new entries: a reproducible one in headless runs that are configured so.

    Raises:
        UsageError: `SOURCE_DATE_EPOCH` is not a number of seconds.
    """
    if not notebook.headless:
        return utc_now
    if epoch := os.environ.get(environment.EPOCH):
        return clock_from_epoch(epoch)
    if files.has_configuration() or os.environ.get(environment.OVERRIDES):
        from jp_nb.session.settings import is_reproducible

        if is_reproducible(files):
            return DEFAULT_CLOCK
    return utc_now


RELOAD_TIMEOUT = 2.0
"""Seconds to wait for the page's record when the extension is loaded again."""


class Session:
    """The assistant of one notebook, driven from the cell's thread.

    Attributes:
        files: The configuration files of the workspace and the user.
        notices: Notices to print for the user.
    """

    def __init__(
        self, host: Host, *, clock: Clock | None = None, previous: Session | None = None
    ) -> None:
        self.host = host
        self.notices: list[str] = []
        self.last_turn: Turn | None = previous.last_turn if previous is not None else None
        self._clashes: dict[str, str] = {}
        self._advised: set[tuple[str, ...]] = set()
        notebook = host.find_notebook()
        folder = (notebook.path.parent if notebook.path else Path.cwd()).resolve()
        self.files = ConfigFiles(folder, None if notebook.headless else FolderTrust())
        self.active: ActiveConversation = ActiveConversation(
            notebook,
            self.files,
            clock=clock or choose_clock(notebook, self.files),
            notices=self.notices,
            previous=previous.active if previous is not None else None,
        )
        self.document, self.store = self.active.document, self.active.store
        if self.active.is_local and self.files.has_configuration():
            from jp_nb.session.settings import find_odd_rules

            self.notices += find_odd_rules(self.files, self.document.conversation.base_config)
        if self.active.restored and previous is None and os.environ.get(environment.OVERRIDES):
            from jp_nb.session.settings import read_overrides

            self.configure(*read_overrides())
        self.notices += self.files.take_notices()

    @property
    def settings(self) -> Settings:
        """The settings of the active conversation."""
        return self.active.settings

    @property
    def config(self) -> AppConfig:
        """The effective configuration."""
        return self.settings.config

    @cached_property
    def conversations(self) -> ConversationList:
        """The conversations of the notebook."""
        from jp_nb.session.conversations import ConversationList

        return ConversationList(self.active)

    @cached_property
    def turns(self) -> TurnRunner:
        """The turn runner."""
        from jp_nb.session.turns import TurnRunner

        return TurnRunner(
            self.host, self.active, self.conversations.turn_statuses, on_end=self._keep_last_turn
        )

    @cached_property
    def bench(self) -> ToolBench:
        """The runner of tools outside of the conversation."""
        from jp_nb.session.bench import ToolBench

        return ToolBench(self.host, self.turns, self.active)

    def configure(self, *directives: Directive, model: str | None = None) -> None:
        """Record all of the changes to the configuration, or none.

        Raises:
            ConfigError: A change or the resulting configuration is not valid.
        """
        self.notices += self.settings.change(*directives, model=model)
        self.notices += self.files.take_notices()

    def write_config(self, where: Literal["user", "workspace"], *directives: Directive) -> None:
        """Write values to the configuration file of the user or the workspace, effective at once.

        Raises:
            ConfigError: A value or the resulting configuration is not valid.
            StorageError: The file cannot be read or written.
        """
        from jp_nb.session.settings import write_config_file

        projection = self.settings.projection
        self.notices += write_config_file(where, directives, projection, self.files)
        self.notices += self.files.take_notices()

    def format_status(self) -> str:
        """Return one line with model, conversation, and place of the record, equal in each run."""
        turns = self.document.conversation.turn_count
        conversation = "new conversation"
        if turns:
            prefix = "conversation restored" if self.active.restored else "conversation"
            conversation = f"{prefix} ({turns} turn{'' if turns == 1 else 's'})"
        return f"model {self._model_name()} · {conversation} · {self.active.location}"

    def _model_name(self) -> str:
        conversation = self.document.conversation
        if self.active.is_local and not conversation.deltas:  # without loading the settings
            match conversation.base_config:
                case {"assistant": {"model": {"id": {"provider": provider, "name": name}}}}:
                    return f"{provider}/{name}"
        try:
            return self.settings.model
        except ConfigError:  # reported when a command needs the configuration
            return "unknown (the configuration is not valid)"

    def pending(self) -> list[PendingConsent]:
        """Return the content of files that is ignored until the user consents to it.

        Raises:
            ConfigError: An answers file is not valid.
        """
        with self.files.discard_notices():  # the caller shows a table instead of notices
            self.turns.runner.load_answers(self.config)
            with suppress(ConfigError):  # reported when the cassette is used
                _ = self.active.cassettes.active
            return [*self.files.pending(), *self.active.questions.pending()]

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Show an exception in one line, and print the notices after the block."""
        try:
            yield
        except (JpNbError, KeyboardInterrupt) as exc:
            self.host.show_in_one_line(exc)
            raise
        finally:
            self.print_notices(*self.store.take_notices())

    def print_notices(self, *more: str) -> None:
        """Print the notices for the user, and `more`."""
        self._add_clash_notices()
        self._add_tool_advice()
        self.notices += self.files.take_notices()
        notices = [*self.notices, *more]
        self.notices.clear()
        for notice in notices:
            print(f"jp_nb: {one_line(self.files.relative(notice), limit=2000)}")

    def _add_clash_notices(self) -> None:
        python = sys.modules.get("jp_nb.tools.python")  # not loaded: there are no tools
        if python is None:
            return
        from jp_nb.tools.builtin import BUILTINS

        functions = python.PythonFunctions(python.REGISTRY, BUILTINS)
        try:
            clashes = functions.clashes(self.config.conversation.tools)
        except ConfigError:  # reported when a command needs the configuration
            return
        self.notices += [
            f"two tools have the same name: {text}. Rename one of them"
            for name, text in clashes.items()
            if self._clashes.get(name) != text
        ]
        self._clashes = clashes

    def _add_tool_advice(self) -> None:
        python = sys.modules.get("jp_nb.tools.python")
        for tool in python.REGISTRY.all().values() if python is not None else ():
            if tool.definition in self._advised:
                continue
            from jp_nb.tools.python import suggest_improvements

            self._advised.add(tool.definition)
            self.notices += [
                f"tool {tool.name}: {sentence}" for sentence in suggest_improvements(tool)
            ]

    def run_turn(
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
    ) -> Turn:
        """Run one turn and show it in the cell.

        Args:
            text: The request.
            model: The model for this and later turns.
            directives: Changes of the configuration for this and later turns.
            new: Begin a new conversation.
            schema: The schema of a structured answer; see `structured.read_schema`.
            tool_choice: Replaces the configured one for the first request of the turn.
            strict: An open decision ends the turn.
            interpolate: Replace each `{{name}}` in `text` by the value.
            compact: Compact the conversation before the turn, by the configured rules.

        Raises:
            UsageError: `text`, `schema` or `tool_choice` is not valid, the model does not support
                the schema, or a turn runs. Nothing was recorded.
            ConfigError: An option or the configuration is not valid. Nothing was recorded.
            PromptCancelled: The cell ran before, and the user canceled. Nothing was recorded.
            ProviderError: The model could not be reached. The record has the partial response.
            AnswerError: The structured answer is missing or does not fit. The record has it.
            PromptUnavailable: `strict`, and a decision was left open.
            KeyboardInterrupt: The turn was interrupted, or the user stopped it in a prompt. The
                record has the partial response.
        """
        turns = self._require_ready()
        request = turns.read_request(text, interpolated=interpolate)
        cell = self.host.cell_run()
        json_schema = turns.read_schema(schema)
        other = turns.next_conversation(request.text, cell, new=new)
        return self._run(
            ChatRequest(content=request.text, schema=json_schema, metadata=cell.metadata()),
            other,
            cell,
            images=request.images,
            model=model,
            directives=directives,
            tool_choice=tool_choice,
            strict=strict,
            compact=compact,
        )

    def explain(self, question: str = "") -> Turn:
        """Let the model explain the last exception of a cell, and show that in the cell.

        The request has the failing cell, the traceback, and the values of its names. The user sees
        all of it. `question` replaces the default question. Raises the errors of `run_turn`.

        Raises:
            UsageError: No cell failed.
        """
        from jp_nb.record.marks import EXPLAINS_ERROR
        from jp_nb.session.last_error import error_request

        turns = self._require_ready()
        max_chars = self.config.interpolation.max_chars
        error, names = self.host.last_error(), self.host.namespace
        request = error_request(error, question, room=max_chars, namespace=names)
        content = turns.runner.secrets.hide(request)
        cell = self.host.cell_run()
        other = turns.next_conversation(content, cell, same_text=True)
        return self._run(
            ChatRequest(content=content, metadata={**cell.metadata(), EXPLAINS_ERROR: True}),
            other,
            cell,
            shows_request=True,
        )

    def retry(self, *, model: str | None = None) -> Turn:
        """Send the last request again, in a branch without its turn, and show it in the cell.

        An explanation of an error is skipped. Later settings of the user apply, changes by the
        tools of the turn do not. Raises the errors of `run_turn`.

        Raises:
            UsageError: There is no last turn.
        """
        from jp_nb.record.events import IMAGES
        from jp_nb.record.marks import HOST, TOOL_CHOICE, last_turn_to_repeat
        from jp_nb.session.conversations import branch_before

        self._require_ready()
        stream = self.document.conversation
        turn = last_turn_to_repeat(stream.turns(), "there is no turn to ask again")
        request = next(entry for entry in turn.entries if isinstance(entry, ChatRequest))
        set_again = (IMAGES, TOOL_CHOICE, HOST)
        metadata = {key: x for key, x in request.metadata.items() if key not in set_again}
        return self._run(
            ChatRequest(content=request.content, schema=request.response_schema, metadata=metadata),
            branch_before(
                self.active,
                turn.number,
                skipped=range(turn.number + 1, stream.turn_count),
                why=f"turn {turn.number} is asked again",
            ),
            self.host.cell_run(),
            model=model,
            tool_choice=self._own_tool_choice(request),
            images=self.document.conversation.images.images_of(request).images,
            shows_request=True,
        )

    def resume(self, conversation: str = "") -> Turn | None:
        """Continue the last turn, which was interrupted, and show that in the cell.

        The user decides about each tool call that may have run already. If the last turn is
        complete, `conversation` or the newest one of the journal becomes active. Then nothing is
        sent, and None is returned. Raises the errors of `run_turn`.

        Raises:
            UsageError: There is no such conversation, nothing to resume, or an undefined tool.
            PromptUnavailable: No user is available to decide about a call. Nothing has changed.
            PromptCancelled: The user decides later. Nothing has changed.
        """
        from jp_nb.rendering.status import finished_words, skipped_words
        from jp_nb.session.resume import TurnResumption

        turns = self._require_ready()
        if conversation:
            if not self.conversations.restore_from_journal(conversation):
                raise UsageError(
                    f"the journal has no conversation {one_line(conversation, limit=60)} that is "
                    "missing from the notebooks. `%jp resume` restores the newest one; "
                    "`%jp switch` opens a conversation of this notebook"
                )
            return None
        resumption = TurnResumption(self.active, self.conversations.turn_statuses)
        turn = resumption.find_turn()
        if turn is None:
            if self.conversations.restore_from_journal():
                return None
            if not self.document.conversation.turn_count:
                raise UsageError("there is nothing to resume: this conversation has no turn yet")
            raise UsageError(
                "there is nothing to resume: the last turn is complete. Ask it again: `%jp retry`"
            )
        if turn.open_calls:
            resumption.refuse_missing_tools(turn, self.bench.tools())
        again, skipped = resumption.ask_user(turn, turns.ask_action)
        if turn.finished:
            self.notices.append(finished_words([call.name for call in turn.finished]))
        if skipped:
            self.notices.append(skipped_words([call.request.name for call in skipped]))
        if turn.untrusted_changes:
            self.notices.append(
                "options of this turn are not applied again, because the history of this notebook "
                "is not trusted: `%jp trust`"
            )
        with resumption.reapply_options(turn):
            prepared = turns.prepare(
                None,
                (),
                text=turn.request.content,
                model=None,
                schema=turn.request.response_schema,
                tool_choice=self._own_tool_choice(turn.request) if turn.is_unanswered else None,
            )
        return turns.resume(
            turn,
            again,
            resumption.responses(skipped),
            resolved=prepared.resolved,
            recorded=resumption.answers(again),
        )

    def _own_tool_choice(self, request: ChatRequest) -> ToolChoice | None:
        """Return the tool choice of `request`; None if it is the configured one."""
        from jp_nb.record.marks import recorded_tool_choice, to_tool_choice

        choice, stream = recorded_tool_choice(request), self.document.conversation
        if choice is None:
            return None
        place = next(place for place, entry in enumerate(stream.entries) if entry is request)
        then = self.settings.projection.until(stream.until(place)).config()
        return None if choice == to_tool_choice(then.assistant.tool_choice) else choice

    def _require_ready(self) -> TurnRunner:
        self.active.refuse_while_running()
        self.active.reload_files()
        return self.turns

    def _run(
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
    ) -> Turn:
        """Run `request` as a turn, in `other` if there is one, after all checks."""
        active, turns = self.active, self.turns
        prepared = turns.prepare(
            other,
            directives,
            text=request.content,
            model=model,
            schema=request.response_schema,
            tool_choice=tool_choice,
        )
        previous = self.settings.projection
        if other is not None:
            active.activate(
                other.stream,
                trusted=other.trusted,
                is_local=other.is_new,
                settings=prepared.settings,
            )
            self.notices += filter(None, [other.notice])
        turns.first_requests.remember(cell)
        draft = prepared.draft
        draft.record()
        self.notices += [*draft.notices, *self.files.take_notices()]
        if other is not None and other.is_new:
            self.conversations.announce_left_settings(previous, asks=True)
        number, options = self.document.conversation.turn_count, len(draft.deltas)
        author = prepared.resolved.basis.config.user.name
        try:
            return turns.run(
                request.model_copy(update={"author": author}),
                resolved=prepared.resolved,
                strict=strict,
                changes=options,
                images=images,
                shows_request=shows_request,
                compact=compact,
            )
        finally:
            turns.reruns.remember(cell, turn=number, options=options)

    def _keep_last_turn(self, turn: Turn) -> None:
        self.last_turn = self.host.namespace["_jp"] = turn

    def should_reopen(self) -> bool:
        """Return True, after closing this session, if the page has a record to read again."""
        if not self.store.can_reload(RELOAD_TIMEOUT):
            return False  # no page replies: keep this session
        self.close()
        return True

    def close(self) -> None:
        """Close the turn runner, the journal, and the storage backend."""
        try:
            if "turns" in vars(self):
                self.turns.close()
        finally:
            self.active.close()
            self.store.close()
