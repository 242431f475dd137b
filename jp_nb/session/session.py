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
from jp_nb.record.clock import EARLIEST, Clock, position_clock, utc_now
from jp_nb.record.events import ChatRequest
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import CellRun, Host, NotebookStorage
from jp_nb.storage import environment
from jp_nb.storage.config_files import ConfigFiles
from jp_nb.storage.trust import FolderTrust, Pending
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


def clock_at(home: NotebookStorage, files: ConfigFiles) -> Clock:
    """Return what gives entries made at `home` their times, and with them their ids.

    Raises:
        UsageError: If `SOURCE_DATE_EPOCH` is no number of seconds.
    """
    if not home.headless:
        return utc_now
    if epoch := os.environ.get(environment.EPOCH):
        return position_clock(epoch)
    if files.anything() or os.environ.get(environment.OVERRIDES):
        from jp_nb.session.settings import is_reproducible

        if is_reproducible(files):
            return EARLIEST
    return utc_now


RELOAD_TIMEOUT = 2.0
"""Seconds that a page has to say what it holds, when the extension is loaded again."""


class Session:
    """The assistant of one notebook, driven from the cell's thread.

    Attributes:
        host: Where it runs.
        active: The active conversation.
        document: The conversations of this notebook.
        store: Where they are kept.
        files: The configuration files around the notebook.
        notices: What the person should be told once.
        last_turn: The last turn, if there was one.
    """

    def __init__(
        self, host: Host, *, clock: Clock | None = None, previous: Session | None = None
    ) -> None:
        self.host = host
        self.notices: list[str] = []
        self.last_turn: Turn | None = previous.last_turn if previous is not None else None
        self._clashes: dict[str, str] = {}
        self._advised: set[tuple[str, ...]] = set()
        home = host.find_notebook()
        folder = (home.path.parent if home.path else Path.cwd()).resolve()
        self.files = ConfigFiles(folder, None if home.headless else FolderTrust())
        self.active: ActiveConversation = ActiveConversation(
            home,
            self.files,
            clock=clock or clock_at(home, self.files),
            notices=self.notices,
            previous=previous.active if previous is not None else None,
        )
        self.document, self.store = self.active.document, self.active.store
        if self.active.made_here and self.files.anything():
            from jp_nb.session.settings import find_odd_rules

            self.notices += find_odd_rules(self.files, self.document.conversation.base_config)
        if self.active.restored and previous is None and os.environ.get(environment.OVERRIDES):
            from jp_nb.session.settings import read_overrides

            self.configure(*read_overrides())
        self.notices += self.files.take_notices()

    # --- what is loaded when it is needed ----------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The configuration of the active conversation, and how it is changed."""
        return self.active.settings

    @property
    def config(self) -> AppConfig:
        """The configuration in force."""
        return self.settings.config

    @cached_property
    def conversations(self) -> ConversationList:
        """The ways to other conversations, and what was said in the active one."""
        from jp_nb.session.conversations import ConversationList

        return ConversationList(self.active)

    @cached_property
    def turns(self) -> TurnRunner:
        """The turns of this session."""
        from jp_nb.session.turns import TurnRunner

        return TurnRunner(
            self.host, self.active, self.conversations.turn_statuses, ended=self._ended
        )

    @cached_property
    def bench(self) -> ToolBench:
        """Tools called outside of the conversation."""
        from jp_nb.session.bench import ToolBench

        return ToolBench(self.host, self.turns, self.active)

    # --- configuration -----------------------------------------------------------------------

    def configure(self, *directives: Directive, model: str | None = None) -> None:
        """Record changes of the configuration: all of them or none.

        Raises:
            ConfigError: If one is malformed, or the result is no valid configuration.
        """
        self.notices += self.settings.change(*directives, model=model)
        self.notices += self.files.take_notices()

    def write_config(self, where: Literal["user", "workspace"], *directives: Directive) -> None:
        """Write values into the file of a layer; they count at once.

        Raises:
            ConfigError: If one is malformed, or the result is no valid configuration.
            StorageError: If the file cannot be read or written.
        """
        from jp_nb.session.settings import write_config_file

        projection = self.settings.projection
        self.notices += write_config_file(where, directives, projection, self.files)
        self.notices += self.files.take_notices()

    def format_status(self) -> str:
        """Return one line: model, conversation, where the record is. Stable from run to run."""
        turns = self.document.conversation.turn_count
        conversation = "new conversation"
        if turns:
            word = "conversation restored" if self.active.restored else "conversation"
            conversation = f"{word} ({turns} turn{'' if turns == 1 else 's'})"
        return f"model {self._model()} · {conversation} · {self.active.location}"

    def _model(self) -> str:
        """Return the name of the model in force, for the person; `settings` only where needed."""
        conversation = self.document.conversation
        if self.active.made_here and not conversation.deltas:
            match conversation.base_config:
                case {"assistant": {"model": {"id": {"provider": provider, "name": name}}}}:
                    return f"{provider}/{name}"
        try:
            return self.settings.model
        except ConfigError:  # whatever needs it says what is wrong
            return "unknown (the configuration is not valid)"

    def pending(self) -> list[Pending]:
        """Return what is ignored of the files around the notebook until the user agrees to it.

        Raises:
            ConfigError: If an answers file is wrong.
        """
        with self.files.unsaid():  # what waits is shown as a table
            self.turns.runner.load_answers(self.config)
            with suppress(ConfigError):  # a cassette that waits, or is wrong: its use says so
                _ = self.active.cassettes.active
            return [*self.files.pending(), *self.active.questions.pending()]

    # --- what the person is told -------------------------------------------------------------

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Show what goes wrong in one line, and afterwards what the person should be told once."""
        try:
            yield
        except (JpNbError, KeyboardInterrupt) as exc:
            self.host.show_in_one_line(exc)
            raise
        finally:
            self.print_notices(*self.store.take_notices())

    def print_notices(self, *more: str) -> None:
        """Print what the person should be told once, and `more`."""
        self._note_clashes()
        self._note_advice()
        self.notices += self.files.take_notices()
        notices = [*self.notices, *more]
        self.notices.clear()
        for notice in notices:
            print(f"jp_nb: {one_line(self.files.relative(notice), limit=2000)}")

    def _note_clashes(self) -> None:
        """Say once of each name that a Python tool shares with another one which of them counts."""
        python = sys.modules.get("jp_nb.tools.python")  # where there is none there is no tool
        if python is None:
            return
        from jp_nb.tools.builtin import BUILTINS

        functions = python.PythonFunctions(python.REGISTRY, BUILTINS)

        try:
            found = functions.clashes(self.config.conversation.tools)
        except ConfigError:  # whatever needs it says what is wrong
            return
        self.notices += [
            f"two tools have the same name: {text}. Rename one of them"
            for name, text in found.items()
            if self._clashes.get(name) != text
        ]
        self._clashes = found

    def _note_advice(self) -> None:
        """Say once of each definition of a Python tool what a model is not told about it."""
        python = sys.modules.get("jp_nb.tools.python")
        for tool in python.REGISTRY.all().values() if python is not None else ():
            if tool.definition in self._advised:
                continue
            from jp_nb.tools.python import suggest_improvements

            self._advised.add(tool.definition)
            self.notices += [
                f"tool {tool.name}: {sentence}" for sentence in suggest_improvements(tool)
            ]

    # --- a turn ------------------------------------------------------------------------------

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
            model: For this and later turns.
            directives: Changes of the configuration, likewise.
            new: Begin a new conversation.
            schema: What the answer has to fit: see `structured.describe`.
            tool_choice: For the first request of the turn, instead of the configured one.
            strict: What nobody can decide ends the turn.
            interpolate: Put the notebook's values in place of each `{{name}}` in `text`.
            compact: Make the conversation shorter before, by the configured rules.

        Raises:
            UsageError: If `text` is empty or names something unknown, `schema` is none or the
                model cannot answer in it, no tool is as `tool_choice` says, or a turn runs
                already; nothing was recorded.
            ConfigError: If an option or the configuration is wrong; nothing was recorded.
            PromptCancelled: If the cell has asked before, and the person wants nothing to be asked
                now; nothing was recorded.
            ProviderError: If the model could not be reached. What arrived is in the record.
            AnswerError: If a structured answer did not come, or does not fit. It is in the record.
            PromptUnavailable: If `strict` and nobody could decide something.
            KeyboardInterrupt: If the turn was interrupted, or the person stopped it where they were
                asked. What arrived is in the record.
        """
        turns = self._ready()
        asked = turns.read_request(text, interpolated=interpolate)
        cell = self.host.cell_run()
        wanted = turns.read_schema(schema)
        other = turns.next_conversation(asked.text, cell, new=new)
        return self._run(
            ChatRequest(content=asked.text, schema=wanted, metadata=cell.metadata()),
            other,
            cell,
            images=asked.images,
            model=model,
            directives=directives,
            tool_choice=tool_choice,
            strict=strict,
            compact=compact,
        )

    def explain(self, question: str = "") -> Turn:
        """Have the model explain the last error of this kernel, and show that in the cell.

        What is sent is made of the failing cell, the traceback and what the names in it are; the
        person sees all of it. `question` is what they want to know besides.

        Raises:
            UsageError: If no cell has failed; or as `run_turn` does.
            JpNbError: As `run_turn` does.
            KeyboardInterrupt: Likewise.
        """
        from jp_nb.record.marks import EXPLAINS_ERROR
        from jp_nb.session.last_error import error_request

        turns = self._ready()
        room = self.config.interpolation.max_chars
        error, names = self.host.last_error(), self.host.namespace
        content = turns.hide_secrets(error_request(error, question, room=room, namespace=names))
        cell = self.host.cell_run()
        other = turns.next_conversation(content, cell, same_text=True)
        return self._run(
            ChatRequest(content=content, metadata={**cell.metadata(), EXPLAINS_ERROR: True}),
            other,
            cell,
            shows_request=True,
        )

    def retry(self, *, model: str | None = None) -> Turn:
        """Ask the last request again, in a branch without its turn, and show it in the cell.

        An explanation of an error is skipped. Settings that the user made since then apply, changes
        by the tools of the turn do not.

        Args:
            model: For this and later turns.

        Raises:
            UsageError: If there is no last turn; or as `run_turn` does.
            JpNbError: As `run_turn` does.
            KeyboardInterrupt: Likewise.
        """
        from jp_nb.record.events import IMAGES
        from jp_nb.record.marks import HOST, TOOL_CHOICE, last_turn_to_repeat
        from jp_nb.session.conversations import branch_before

        self._ready()
        stream = self.document.conversation
        turn = last_turn_to_repeat(stream.turns(), "there is no turn to ask again")
        asked = next(entry for entry in turn.entries if isinstance(entry, ChatRequest))
        made_anew = (IMAGES, TOOL_CHOICE, HOST)
        metadata = {key: each for key, each in asked.metadata.items() if key not in made_anew}
        return self._run(
            ChatRequest(content=asked.content, schema=asked.response_schema, metadata=metadata),
            branch_before(
                self.active,
                turn.number,
                skipped=range(turn.number + 1, stream.turn_count),
                why=f"turn {turn.number} is asked again",
            ),
            self.host.cell_run(),
            model=model,
            tool_choice=self._forced_in(asked),
            images=self.document.conversation.images.shown_by(asked).images,
            shows_request=True,
        )

    def resume(self, conversation: str = "") -> Turn | None:
        """Continue the last turn, which was interrupted, and show that in the cell.

        The user decides about each tool call that may have run already. If the last turn is
        complete, a conversation that a kernel left outside of the notebook becomes the active one;
        then nothing is asked, and None returned.

        Args:
            conversation: The id of a conversation that a kernel left outside of the notebook, which
                becomes the active one.

        Raises:
            UsageError: If there is no such conversation, there is nothing to resume, or the tool of
                a call is not defined; or as `run_turn` does.
            PromptUnavailable: If no user is available to decide about a call; nothing has changed.
            PromptCancelled: If the user decides later; nothing has changed.
            JpNbError: As `run_turn` does.
            KeyboardInterrupt: Likewise.
        """
        from jp_nb.rendering.status import finished_words, skipped_words
        from jp_nb.session.resume import NO_TURN, NOT_LEFT, NOTHING, STRANGE, TurnResumption

        turns = self._ready()
        if conversation:
            if not self.conversations.restore_from_journal(conversation):
                raise UsageError(NOT_LEFT.format(one_line(conversation, limit=60)))
            return None
        resuming = TurnResumption(self.active, self.conversations.turn_statuses)
        found = resuming.find_turn()
        if found is None:
            if self.conversations.restore_from_journal():
                return None
            raise UsageError(NOTHING if self.document.conversation.turn_count else NO_TURN)
        if found.open_calls:
            resuming.refuse_missing_tools(found, self.bench.tools())
        again, skipped = resuming.ask_user(found, turns.ask_action)
        if found.finished:
            self.notices.append(finished_words([call.name for call in found.finished]))
        if skipped:
            self.notices.append(skipped_words([call.request.name for call in skipped]))
        if found.strange:
            self.notices.append(STRANGE)
        with resuming.reapply_options(found):
            prepared = turns.prepare(
                None,
                (),
                text=found.request.content,
                model=None,
                schema=found.request.response_schema,
                tool_choice=self._forced_in(found.request) if found.is_unanswered else None,
            )
        return turns.resume(
            found,
            again,
            resuming.responses(skipped),
            resolved=prepared.resolved,
            recorded=resuming.answers(again),
        )

    def _forced_in(self, asked: ChatRequest) -> ToolChoice | None:
        """Return the tool choice that was made for `asked` alone; None: the configuration said."""
        from jp_nb.record.marks import as_choice, marked_choice

        choice, stream = marked_choice(asked), self.document.conversation
        if choice is None:
            return None
        place = next(place for place, entry in enumerate(stream.entries) if entry is asked)
        then = self.settings.projection.until(stream.until(place)).config()
        return None if choice == as_choice(then.assistant.tool_choice) else choice

    def _ready(self) -> TurnRunner:
        """Return what runs turns, once one may begin."""
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
        """Run `request` as a turn, in `other` if there is one: once all that it needs is there."""
        active, turns = self.active, self.turns
        prepared = turns.prepare(
            other,
            directives,
            text=request.content,
            model=model,
            schema=request.response_schema,
            tool_choice=tool_choice,
        )
        left = self.settings.projection
        if other is not None:
            active.activate(
                other.stream,
                ours=other.trusted,
                made_here=other.is_new,
                settings=prepared.settings,
            )
            self.notices += filter(None, [other.notice])
        turns.first_requests.remember(cell)
        draft = prepared.draft
        draft.record()
        self.notices += [*draft.notices, *self.files.take_notices()]
        if other is not None and other.is_new:
            self.conversations.announce_left_settings(left, asks=True)
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

    def _ended(self, turn: Turn) -> None:
        self.last_turn = self.host.namespace["_jp"] = turn

    # --- the end -----------------------------------------------------------------------------

    def should_reopen(self) -> bool:
        """Return whether loading again is to read what the page has now; this session is closed."""
        if not self.store.can_reload(RELOAD_TIMEOUT):
            return False  # no page answers: what is here goes on
        self.close()
        return True

    def close(self) -> None:
        """Close what runs turns, and the store."""
        try:
            if "turns" in vars(self):
                self.turns.close()
        finally:
            self.active.close()
            self.store.close()
