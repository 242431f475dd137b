"""`Session`: the assistant of one kernel.

It has the parts that the commands of a notebook use: the active conversation with its settings, the
other conversations, the turn runner, the tool bench, and the requests outside of the conversation.
`%load_ext` needs few of them: `settings.py` is loaded if something is configured, and
`turn_runner.py` with the first turn.

Source: `docs/architecture.md`, `docs/guide.md`, `docs/record.md`, `docs/decisions.md` D119.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jp_nb.errors import ConfigError, JpNbError
from jp_nb.record.entries.clock import REPRODUCIBLE_CLOCK, Clock, make_epoch_clock
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.session.configuration.tool_notices import ToolNotices
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host, NotebookStorage
from jp_nb.session.threads.shared_property import forget_made, is_made, shared_property
from jp_nb.storage import environment
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.trust import FolderTrust, PendingConsent
from jp_nb.text import one_line

if TYPE_CHECKING:
    from jp_nb.config.directives import Directive
    from jp_nb.config.tree.app import AppConfig
    from jp_nb.record.reading.turn_view import Turn
    from jp_nb.session.configuration.scripts import FolderScripts
    from jp_nb.session.configuration.settings import Settings
    from jp_nb.session.conversations import ConversationList
    from jp_nb.session.past_turns.bench import ToolBench
    from jp_nb.session.rows.completion_runner import CompletionRunner
    from jp_nb.session.turns.turn_runner import TurnRunner


RELOAD_TIMEOUT = 2.0  # seconds to wait for the page's record when the extension is loaded again


def choose_clock(notebook: NotebookStorage, files: ConfigFiles) -> Clock:
    """Return the clock of new entries: a reproducible one in headless runs that are configured so.

    Raises:
        UsageError: `SOURCE_DATE_EPOCH` is not a number of seconds.
    """
    if not notebook.headless:
        return utc_now
    if epoch := os.environ.get(environment.EPOCH_VARIABLE):
        return make_epoch_clock(epoch)
    if files.has_configuration():
        from jp_nb.session.configuration.base_config import is_reproducible

        if is_reproducible(files):
            return REPRODUCIBLE_CLOCK
    return utc_now


class Session:
    """The assistant of one notebook, driven from the cell's thread.

    Each `shared_property` (`threads/shared_property.py`) is made on first use. `is_made` tells if
    that has happened, so that an unused part is not made only to close it.

    Args:
        host: The notebook and its front end.
        clock: The clock of new entries; None: the one that `choose_clock` returns.
        previous: The session before the extension was loaded again.

    Attributes:
        files: The configuration files of the notebook.
        active: The active conversation.
        document: All conversations of the notebook.
        store: The storage backend of the notebook's record.
        notices: Notices for the user, which are printed after a command.
        last_turn: The last turn of this kernel.
    """

    def __init__(
        self, host: Host, *, clock: Clock | None = None, previous: Session | None = None
    ) -> None:
        self.host = host
        self.notices: list[str] = []
        self.last_turn: Turn | None = None
        previous_conversation: ActiveConversation | None = None
        if previous is not None:
            self.last_turn = previous.last_turn
            previous_conversation = previous.active
        self._tool_notices = ToolNotices()

        notebook = host.find_notebook()
        folder = (notebook.path.parent if notebook.path else Path.cwd()).resolve()
        trust = None if notebook.headless else FolderTrust()
        self.files = ConfigFiles(folder, trust)

        self.active: ActiveConversation = ActiveConversation(
            notebook,
            self.files,
            clock=clock or choose_clock(notebook, self.files),
            notices=self.notices,
            previous=previous_conversation,
        )

        self.document = self.active.document
        self.store = self.active.store

        if self.files.has_configuration():
            from jp_nb.session.configuration.rule_warnings import list_rule_warnings_of_base
            from jp_nb.session.configuration.run_overrides import read_overrides

            if self.active.is_local:
                base = self.document.conversation.base_config
                self.notices += list_rule_warnings_of_base(self.files, base)
            # A new conversation already has the `-c` options of `jp-nb run` in its base.
            if self.active.restored and previous is None:
                self.configure(*read_overrides())
        self.notices += self.files.notices.take()

    @property
    def settings(self) -> Settings:
        """The settings of the active conversation."""
        return self.active.settings

    @property
    def config(self) -> AppConfig:
        """The effective configuration."""
        return self.settings.config

    @shared_property
    def conversations(self) -> ConversationList:
        """The conversations of the notebook."""
        from jp_nb.session.conversations import ConversationList

        return ConversationList(self.active)

    @shared_property
    def turns(self) -> TurnRunner:
        """The turn runner."""
        from jp_nb.session.turns.turn_runner import TurnRunner

        return TurnRunner(self.host, self.active, self.conversations, on_end=self._keep_last_turn)

    @shared_property
    def bench(self) -> ToolBench:
        """The runner of tools outside of the conversation."""
        from jp_nb.session.past_turns.bench import ToolBench

        return ToolBench(self.host, self.turns, self.active)

    @shared_property
    def completions(self) -> CompletionRunner:
        """The requests outside of the conversation."""
        from jp_nb.session.rows.completion_runner import CompletionRunner
        from jp_nb.session.rows.session_models import SessionModels

        def get_scripts() -> FolderScripts | None:
            return self.turns.resolver.scripts if is_made(self, "turns") else None

        def hide(text: str) -> str:
            return self.turns.runner.secrets.hide(text) if is_made(self, "turns") else text

        models = SessionModels(self.active, get_scripts, hide)
        return CompletionRunner(models, self.host.namespace)

    @property
    def has_completions(self) -> bool:
        """True after the first request outside of the conversation."""
        return is_made(self, "completions")

    def forget_completions(self) -> None:
        """Forget the requests outside of the conversation, in a forked process.

        Their connections belong to the process from which it was forked.
        """
        forget_made(self, "completions")

    def configure(self, *directives: Directive, model: str | None = None) -> None:
        """Record all of the changes to the configuration, or none and raise `ConfigError`.

        Raises:
            UsageError: A turn runs. A tool proposes changes with its result instead.
        """
        self.active.refuse_while_running()
        self.notices += self.settings.change(*directives, model=model)
        self.notices += self.files.notices.take()

    def format_status(self) -> str:
        """Return one line with model, conversation, and place of the record, equal in each run."""
        conversation = self.document.conversation
        described = "new conversation"
        model = ""

        if turns := conversation.turn_count:
            prefix = "conversation restored" if self.active.restored else "conversation"
            noun = "turn" if turns == 1 else "turns"
            described = f"{prefix} ({turns} {noun})"

        if self.active.has_only_base_config:  # without loading the settings
            match conversation.base_config:
                case {"assistant": {"model": {"id": {"provider": provider, "name": name}}}}:
                    model = f"{provider}/{name}"

        try:
            model = model or self.settings.model
        except ConfigError:  # reported when a command needs the configuration
            model = "unknown (the configuration is not valid)"

        return f"model {model} · {described} · {self.active.journal_use.location}"

    def list_pending_consents(self) -> list[PendingConsent]:
        """Return the content of files that is ignored until the user consents to it.

        Reading a file lists it as pending, if it needs a consent that it does not have. So all
        files that a turn may use are read first.

        Raises:
            ConfigError: The answers file is not valid.
        """
        with self.files.notices.discard():  # the caller shows a table instead of notices
            self.turns.turn_contexts.load_answers(self.config)
            with suppress(ConfigError):  # reported when the cassette is used
                _ = self.active.cassettes.active
            with suppress(ConfigError, OSError):  # reported when the model is used
                self.turns.resolver.look_at_script(self.config)
            self.turns.resolver.look_at_project(self.config)
            return [*self.files.list_pending(), *self.active.questions.reader.list_pending()]

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Let errors and interrupts leave the block without a traceback, then print the notices."""
        try:
            yield
        except (JpNbError, KeyboardInterrupt) as exc:
            self.host.show_in_one_line(exc)
            raise
        finally:
            self.print_notices(*self.store.take_notices())

    def print_notices(self, *more: str) -> None:
        """Print the notices for the user, and `more`."""
        self.notices += self._tool_notices.list_new(lambda: self.config)
        self.notices += self.files.notices.take()
        notices = [*self._take_notices(), *more]
        for notice in notices:
            print(f"jp_nb: {one_line(self.files.workspace.shorten_paths(notice), limit=2000)}")

    def _take_notices(self) -> Iterator[str]:
        with suppress(IndexError):  # several threads may print notices, each one once
            while True:
                yield self.notices.pop(0)

    def interrupt_threads(self) -> None:
        """Interrupt the turns of other threads, because the running cell was interrupted."""
        if is_made(self, "turns"):
            self.turns.interrupt_threads()

    def _keep_last_turn(self, turn: Turn) -> None:
        self.last_turn = turn
        self.host.namespace["_jp"] = turn

    def close_to_reopen(self) -> bool:
        """Close this session if the page replies, so that a new one can read its record again.

        Return False if no page replies: the caller then keeps this session.
        """
        if not self.store.can_reload(RELOAD_TIMEOUT):
            return False

        self.close()
        return True

    def close(self) -> None:
        """Close the turn runner, other requests, the journal, and the storage backend."""
        try:
            if self.has_completions:
                self.completions.close()
            if is_made(self, "turns"):
                self.turns.close()
        finally:
            self.active.journal_use.close()
            self.store.close()
