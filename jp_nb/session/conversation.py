"""The active conversation: its storage backend, settings, and trust.

It is *local* if this process made every entry of it, and then it is trusted. Otherwise the notebook
had it, and someone else may have written it: it is trusted only with the user's signature
(`record_trust.py`). The settings of a trusted conversation apply in full.

New entries also go to the *journal*, a file outside of the notebook (`journals/journal.py`). If the
kernel dies before the notebook is saved, the next kernel *recovers* them from it.

Functions import the modules that `%load_ext` does not need: those that load the schema of the
configuration, or a provider.

Source: `docs/architecture.md`, `docs/record.md`, `docs/decisions.md` D8, D18, D34.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from jp_nb.config.early_constants import DEFAULT_MODEL
from jp_nb.errors import ConfigError, UsageError
from jp_nb.record.documents.entry_notices import list_notices as list_record_notices
from jp_nb.record.documents.record_trust import Trust
from jp_nb.record.entries.clock import Clock, ReproducibleClock
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.session.host import NotebookStorage
from jp_nb.session.interrupted_calls import add_interrupted_notice, append_finished_calls
from jp_nb.session.journals.journal import ConversationJournal
from jp_nb.session.journals.journal_use import JournalUse
from jp_nb.session.questions.ended_questions import EndedQuestions
from jp_nb.session.threads.shared_property import forget_made, is_made, shared_property
from jp_nb.session.threads.turn_line import TurnLine, is_inside_tool
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.journals.journal_folder import JournalFolder
from jp_nb.storage.key_file import KeyFile
from jp_nb.storage.trust import PendingConsent
from jp_nb.text import MAX_FEW_NAMES

if TYPE_CHECKING:
    from jp_nb.agent.approvals.permission_rules import KeptRule
    from jp_nb.session.configuration.discovered_tools import DiscoveredTools
    from jp_nb.session.configuration.settings import Settings
    from jp_nb.session.model_access.cassettes import Cassettes
    from jp_nb.session.questions.question_log import QuestionLog
    from jp_nb.session.signed_here import SignedHere

INHERITED = ("providers",)
"""Settings of the user that a new conversation inherits from the one before, so that its requests
go to the same host with the same key."""


class ActiveConversation:
    """The active conversation of one notebook. Use it on the cell's thread.

    It is opened with the notebook, and follows the document when another conversation becomes
    active (`follow`). A new entry passes `_keep_change`: it is signed, journaled, and given to the
    storage backend.

    `settings`, `trust`, and other `shared_property`s (`threads/shared_property.py`) are made on
    first use, because `%load_ext` needs few of them; `is_made` tells if one was used. When the
    settings no longer apply, `forget_made` drops them, and the next use makes them again.

    Args:
        notebook: The notebook with its storage backend, or its absence.
        files: The configuration files of the notebook.
        clock: The clock of new entries.
        notices: Receives notices for the user.
        previous: The active conversation before the extension was loaded again.

    Attributes:
        document: All conversations of the notebook.
        store: The storage backend.
        without_notebook: True if no notebook keeps the record: its journal is found by folder.
        restored: True if the notebook had the conversation when this process opened it. False after
            the user switched to another one.
        is_local: True if this process made every entry of it. Then it needs no signature to be
            trusted.
        opened_untrusted: True if it was restored, is not signed with the user's key, and was not
            accepted since then.
        inherited_entries: Number of entries that it began with, such as changes of settings from
            the conversation before.
        has_invalid_files: True if the configuration was not valid when it was opened.
        headless: True if a runner executes the notebook without a user.
        running: The turn, or other job of a cell, that runs now or ran last; None before.
        line: The line in which turns of several threads wait.
        journal_use: Writes entries and the progress of tool calls to the journal.
        session_rules: Permission rules that the user made for this kernel.
    """

    def __init__(
        self,
        notebook: NotebookStorage,
        files: ConfigFiles,
        *,
        clock: Clock,
        notices: list[str],
        previous: ActiveConversation | None = None,
    ) -> None:
        self.files = files
        self.clock = clock
        self.headless = notebook.headless
        self.notices = notices
        self.running: Future[Any] | None = None
        self.session_rules: list[KeptRule] = []
        self.line = TurnLine()
        self.journal_use = JournalUse(self)
        self._storage = notebook
        self._notebook_path = notebook.path
        self.has_invalid_files = False
        self.inherited_entries = 0
        self._previous_cassettes: Cassettes | None = None

        if previous is not None:
            self.session_rules = previous.session_rules
            self.line = previous.line
            if is_made(previous, "cassettes"):
                self._previous_cassettes = previous.cassettes

        self._open()
        # Without a signature: made by this process, or trusted before the extension was reloaded.
        # The signature is checked only where `trust` is first used.
        self._is_trusted = self.is_local
        if previous is not None and self.restored:
            self._is_trusted = self._is_trusted_copy(previous)

        # Before `_adopt`, which follows new entries: recovered ones are in the journal already.
        self._recover_journal()
        self._adopt()
        self.opened_untrusted = self.restored and not self.trust.trusted

        if previous is not None and is_made(previous, "settings"):
            # The conversation may be untrusted now, and its own `providers` are then ignored.
            self.settings.inherit(previous.settings, INHERITED)

        # The journal also has results of calls that finished while the kernel died.
        finished_tools = append_finished_calls(self)
        if finished_tools or (self.restored and previous is None):
            add_interrupted_notice(self, finished_tools)

    def _open(self) -> None:
        """Load the conversation of the notebook, or begin one with `base_config`.

        A headless run begins one, unless the setting `record.headless` says `continue`.
        """
        base_config = self._make_base_config(is_loading=True)
        continues = False
        if self.files.has_configuration():
            from jp_nb.session.configuration.base_config import continues_headless

            continues = continues_headless(self.files)

        opened = self._storage.open(clock=self.clock, base_config=base_config, continues=continues)
        self.document = opened.document
        self.store = opened.store
        self.restored: bool = opened.restored
        self.notices += opened.notices
        self.without_notebook = opened.without_notebook
        self.is_local: bool = not self.restored
        self._stored_count = len(self.document.conversation) if self.restored else 0

    def _is_trusted_copy(self, previous: ActiveConversation) -> bool:
        """Return True if it equals the trusted conversation `previous`, in the same workspace."""
        new = self.document.conversation
        old = previous.document.conversation
        is_equal = (new.id, new.raw, new.base_config) == (old.id, old.raw, old.base_config)
        return previous.trust.trusted and is_equal and self.files.root == previous.files.root

    def _recover_journal(self) -> None:
        """Append the entries that an earlier kernel left in its journal.

        A headless run that begins a new conversation, or that has to be reproducible, removes the
        journals of earlier headless runs instead.
        """
        if not JournalFolder().has_journals():
            return

        # A reproducible run has the same record each time, so it takes nothing from a journal.
        is_reproducible = isinstance(self.clock, ReproducibleClock)
        begins_anew = is_reproducible or not self.restored
        if self.headless and begins_anew:
            self.journal.replace_headless()
        elif self.journal.recover():  # it appended entries
            self.store.changed()

    @shared_property
    def journal(self) -> ConversationJournal:
        """The journal of entries that the notebook may not have yet. Write with `journal_use`."""
        # Without a notebook, the next kernel finds the journal by the folder of this one.
        kernel_folder = str(self.files.folder) if self.without_notebook else ""
        return ConversationJournal(
            self.document,
            find_notebook=lambda: self._storage.path,
            stored_count=self._stored_count,
            count_saved_entries=self.store.count_saved_entries,
            notices=self.notices,
            kernel_folder=kernel_folder,
        )

    @shared_property
    def trust(self) -> Trust:
        """The signature of the active conversation."""
        can_sign = not isinstance(self.clock, ReproducibleClock)
        return Trust(
            self.document,
            KeyFile(),
            is_trusted=self._is_trusted,
            can_sign=can_sign,
            workspace=self.signed_here,
        )

    @shared_property
    def signed_here(self) -> SignedHere:
        """The workspace of the notebook: a signature counts only where the user made it."""
        from jp_nb.session.signed_here import SignedHere

        return SignedHere(self)

    @shared_property
    def discovered(self) -> DiscoveredTools:
        """The tools that sources of this kernel have found."""
        from jp_nb.session.configuration.discovered_tools import DiscoveredTools

        return DiscoveredTools()

    @shared_property
    def settings(self) -> Settings:
        """The settings of the active conversation."""
        return self.make_settings(self.files)

    def make_settings(self, files: ConfigFiles) -> Settings:
        """Return the settings of the active conversation with `files`, for another thread."""
        from jp_nb.session.configuration.settings import Settings

        # `trust` reads the key and the signature, which a local conversation does not need.
        trusted = self._is_trusted or self.trust.trusted
        return Settings(
            self.document.conversation,
            files,
            self.discovered,
            trusted=trusted,
            is_local=self.is_local,
        )

    @shared_property
    def questions(self) -> QuestionLog:
        """The history of questions in the record and the workspace."""
        from jp_nb.session.questions.question_log import QuestionLog

        return QuestionLog(self, self._notebook_path)

    @shared_property
    def cassettes(self) -> Cassettes:
        """The cassettes that record or replay model responses."""
        from jp_nb.session.model_access.cassettes import Cassettes

        return Cassettes(self.files, self._notebook_path, self._previous_cassettes)

    @property
    def notebook_path(self) -> Path | None:
        """The notebook's file, if it is known."""
        return self._storage.path

    @property
    def made(self) -> Made:
        """The origin of new conversations: `live` or `headless`."""
        return "headless" if self.headless else "live"

    @property
    def is_running(self) -> bool:
        """True while a turn, or a job of a cell such as `%jp call`, runs."""
        return self.running is not None and not self.running.done()

    def refuse_while_running(self) -> None:
        """Check that no turn is running, in this or another thread.

        Raises:
            UsageError: A turn is running. It may have called this code.
        """
        if not self.is_running and not self.line.is_held_by_other_thread:
            return

        if is_inside_tool():
            raise UsageError(
                "a turn is still running in this kernel, and this code is part of it: its tool "
                "cannot change or repeat what the turn uses. Run this in a separate cell, "
                "after the turn"
            )
        raise UsageError(
            "a turn is still running in this kernel. Wait for it or interrupt "
            "it. If an `async def` tool blocks it, restart the kernel"
        )

    def create_conversation(self, *, with_parent: bool = True) -> ConversationStream:
        """Return a new, inactive conversation.

        Raises:
            ConfigError: The configuration is not valid.
        """
        old = self.document.conversation
        parent: dict[str, JsonValue] | None = {"id": old.id} if with_parent and len(old) else None

        return ConversationStream.new(
            clock=self.clock,
            made=self.made,
            base_config=self._make_base_config(),
            parent=parent,
            taken_ids=self.document.ids(),
        )

    def _make_base_config(self, *, is_loading: bool = False) -> dict[str, JsonValue]:
        """Return the base configuration of a new conversation (D8), with the run's arguments (D34).

        If the files are not valid, it raises a `ConfigError`. But while `%load_ext` `is_loading`,
        it is empty, with a notice, so that the user can repair the files in the notebook.
        """
        if not self.files.has_configuration():
            # Without the schema of the configuration, which loads slowly.
            provider, _, name = DEFAULT_MODEL.partition("/")
            return {"assistant": {"model": {"id": {"provider": provider, "name": name}}}}

        from jp_nb.session.configuration.base_config import make_base_config
        from jp_nb.session.configuration.run_overrides import apply_overrides

        try:
            base = make_base_config(self.files)
        except ConfigError as exc:
            if not is_loading:
                raise
            self.has_invalid_files = True
            self.notices.append(
                f"the configuration is not valid, so no request can be sent: {exc}. "
                "Fix it, and `%%jp` works without a restart. `%jp doctor` and `%jp "
                "config` already work"
            )
            return {}

        return apply_overrides(base, self.files)

    def follow(
        self,
        *,
        is_local: bool = False,
        settings: Settings | None = None,
        is_stored: bool = True,
        inherited_entries: int = 0,
    ) -> None:
        """Continue with the document's new active conversation. Call `trust.follow` first.

        Args:
            is_local: True if this process made every entry.
            settings: The settings of the conversation, if they were prepared; else they are made.
            is_stored: True if the notebook already has the conversation.
            inherited_entries: Number of entries that it begins with.
        """
        self.restored = False
        self.is_local = is_local
        self._is_trusted = self.trust.trusted
        self.inherited_entries = inherited_entries

        self.journal.follow(is_stored=is_stored)
        self._adopt(settings)
        self.sign_and_store_all()

    def sign_and_store_all(self) -> None:
        """Sign and store the whole active conversation: it is another one, or was rearranged."""
        self.trust.sign()
        self.journal_use.write()
        self.store.replaced()

    def _adopt(self, settings: Settings | None = None) -> None:
        """Follow the changes of the document's active conversation, and read its notices."""
        stream = self.document.conversation
        stream.on_change = self._keep_change
        self._ended_questions = EndedQuestions(stream)

        forget_made(self, "settings")
        if settings is not None:
            self.settings = settings

        if not self.is_local:
            self._add_record_notices()

    def _add_record_notices(self) -> None:
        """Tell the user about damage and settings of a record that others may have written."""
        notices = list_record_notices(self.document.conversation)
        self.notices += notices[:MAX_FEW_NAMES]
        omitted_count = len(notices) - MAX_FEW_NAMES
        if omitted_count > 0:
            self.notices.append(f"and {omitted_count} more of this kind")

        try:
            self.notices += self.settings.list_warnings(self.trust.why_not)
        except ConfigError as exc:  # of a file, not of the record
            self.notices.append(str(exc))

    def _keep_change(self) -> None:
        """Sign, journal, and store new entries; log their questions that ended.

        The document calls it after each change of the active conversation.
        """
        properties = self.document.conversation.properties
        if not self.headless and properties.get("made") == "headless":
            properties["made"] = "live"  # else the next headless run would replace it (D18)

        self.trust.sign()
        self.journal_use.write()
        self.store.changed()

        new_start = self._ended_questions.find_new(self.document.conversation)
        if new_start is not None:
            self.questions.keep_ended(self.document.conversation, new_start)

    @property
    def has_only_base_config(self) -> bool:
        """True if nothing has changed the settings with which this process began it."""
        return self.is_local and not self.document.conversation.deltas

    @property
    def is_unused(self) -> bool:
        """True if no entry follows those that the conversation began with."""
        return len(self.document.conversation) == self.inherited_entries

    def accept(self) -> None:
        """Trust the active conversation from now on, and sign it.

        Raises:
            StorageError: There is no key to sign with. Nothing has changed.
        """
        self.trust.accept()
        self.opened_untrusted = False
        self._set_trusted(trusted=True)

    def accept_moved(self) -> None:
        """Trust all conversations of this workspace that the user signed in another one.

        Raises:
            StorageError: This cannot be stored, or there is no key to sign with.
        """
        self.signed_here.accept_all()
        self.accept()

    def revoke(self) -> bool:
        """Stop trusting the active conversation; return True if it was trusted or signed.

        Raises:
            StorageError: The change cannot be stored. Nothing has changed.
        """
        was_trusted = self.trust.revoke()
        self._set_trusted(trusted=False)
        return was_trusted

    def _set_trusted(self, *, trusted: bool) -> None:
        self._is_trusted = trusted
        forget_made(self, "settings")
        self.journal_use.write()
        self.store.changed()

    def consent(self, pending: Sequence[PendingConsent]) -> None:
        """Apply the content of files to which the user consents.

        Raises:
            StorageError: The consent cannot be stored. Nothing has changed.
            ConfigError: The configuration with these files is not valid. The consent is stored.
        """
        self.files.consents.store(pending)

        # A conversation that was not used yet begins with the files that now apply.
        if self.is_local and self.is_unused:
            self.document.conversation.base_config = self._make_base_config()
            if self.inherited_entries:  # only a conversation with entries is stored
                self.sign_and_store_all()

        forget_made(self, "settings")
