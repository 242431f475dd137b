"""The conversation that turns run on: its document, its store, its settings and trust in it.

Source: `docs/architecture.md`, `docs/record.md`, `docs/decisions.md` D8, D18, D34.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jp_nb.config.directives import DEFAULT_MODEL
from jp_nb.errors import ConfigError, StorageError, UsageError
from jp_nb.record.clock import Clock, PositionClock
from jp_nb.record.conversations import notices as notices_of
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.session.host import NotebookStorage
from jp_nb.storage import environment
from jp_nb.storage.config_files import ConfigFiles

if TYPE_CHECKING:
    from pydantic import JsonValue

    from jp_nb.record.journal import CallProgress
    from jp_nb.record.signing import Trust
    from jp_nb.session.cassettes import Cassettes
    from jp_nb.session.journal import ConversationJournal
    from jp_nb.session.question_log import QuestionLog
    from jp_nb.session.settings import Settings
    from jp_nb.storage.trust import Pending

INHERITED = ("providers",)
"""The settings of the user that each conversation takes over from the one before: a request must
not be sent to another host, or with another key, because a conversation begins."""

MAX_NOTICES = 5
"""Of a record that is read, about its entries."""


class ActiveConversation:
    """The active conversation of one notebook, driven from the cell's thread.

    `%load_ext` needs little: `settings` and `trust` are loaded where something asks for them.

    Attributes:
        document: The conversations of this notebook.
        store: Where they are kept.
        files: The configuration files around the notebook.
        clock: Gives new conversations their ids.
        headless: True if nobody is there.
        restored: True if the active conversation was in the notebook before.
        made_here: True if this process made all of it.
        inherited_entries: Number of entries that it took over when it began; no more: it is unused.
        without_notebook: True if no notebook keeps the record: its journal is found by the folder.
        running: The turn, or the call on the bench, that runs, or ran last.
        notices: What the person should be told once.
    """

    def __init__(
        self,
        home: NotebookStorage,
        files: ConfigFiles,
        *,
        clock: Clock,
        notices: list[str],
        previous: ActiveConversation | None = None,
    ) -> None:
        self.files = files
        self.clock = clock
        self.headless = home.headless
        self.notices = notices
        self.running: Future[Any] | None = None
        self._home = home
        self._notebook = home.path
        self._cassettes_before = vars(previous).get("cassettes") if previous is not None else None
        self._awaits_files = False
        self.inherited_entries = 0
        self._wants_journal = True
        base_config = self._base_config(loads=True)
        opened = home.open(clock=clock, base_config=base_config, continues=_goes_on(files))
        self.document, self.store = opened.document, opened.store
        self.restored = opened.restored
        self.notices += opened.notices
        self.made_here = not self.restored
        self._ours = self.made_here or (previous is not None and self._continues(previous))
        self.without_notebook = opened.without_notebook
        self._kept = len(self.document.conversation) if self.restored else 0
        self._look_for_journals()
        self._adopt()
        if previous is not None and "settings" in vars(previous):
            self.settings.inherit(previous.settings, INHERITED)  # may be untrusted now
        recovered = self.append_finished_calls()
        if recovered or (self.restored and previous is None):
            self.add_interrupted_notice(recovered)

    @cached_property
    def journal(self) -> ConversationJournal:
        """Keeps what the notebook may not have yet."""
        from jp_nb.session.journal import ConversationJournal

        return ConversationJournal(
            self.document,
            notebook=lambda: self._home.path,
            kept=self._kept,
            saved=self.store.saved_entries,
            notices=self.notices,
            kernel_folder=str(self.files.folder) if self.without_notebook else "",
        )

    @cached_property
    def trust(self) -> Trust:
        """Says whether the active conversation is the user's own, and signs it."""
        from jp_nb.record.signing import Trust
        from jp_nb.storage.trust import KeyFile

        signs = not isinstance(self.clock, PositionClock)
        return Trust(self.document, KeyFile(), ours=self._ours, signs=signs)

    @cached_property
    def settings(self) -> Settings:
        """The configuration of the active conversation."""
        from jp_nb.session.settings import Settings

        trusted = self._ours or self.trust.trusted
        return Settings(
            self.document.conversation, self.files, trusted=trusted, made_here=self.made_here
        )

    @cached_property
    def questions(self) -> QuestionLog:
        """The questions that were answered, here and in the workspace."""
        from jp_nb.session.question_log import QuestionLog

        return QuestionLog(self, self._notebook)

    @cached_property
    def cassettes(self) -> Cassettes:
        """Says whether models are recorded, or answered for, by a file."""
        from jp_nb.session.cassettes import Cassettes

        return Cassettes(self.files, self._notebook, self._cassettes_before)

    @property
    def made(self) -> Made:
        """`live` or `headless`: how conversations are made here."""
        return "headless" if self.headless else "live"

    def refuse_while_running(self) -> None:
        """Raise `UsageError` if a turn is under way."""
        if self.running is not None and not self.running.done():
            raise UsageError(
                "a turn is still running in this kernel. Wait for it or interrupt "
                "it. If an `async def` tool blocks it, restart the kernel"
            )

    # --- what a new one starts from ----------------------------------------------------------

    def create_conversation(self, *, with_parent: bool = True) -> ConversationStream:
        """Return a new conversation that could become the active one.

        Raises:
            ConfigError: If what it starts from is wrong.
        """
        old = self.document.conversation
        parent: dict[str, JsonValue] | None = {"id": old.id} if with_parent and len(old) else None
        return ConversationStream.new(
            clock=self.clock,
            made=self.made,
            base_config=self._base_config(),
            parent=parent,
            not_ids=self.document.ids(),
        )

    def _base_config(self, *, loads: bool = False) -> dict[str, JsonValue]:
        """Return what a new conversation starts from (D8), arguments of the run included (D34).

        Nothing while files or variables are wrong and the extension `loads`: the person is told.

        Raises:
            ConfigError: If something of it is wrong.
        """
        if not self.files.anything() and not os.environ.get(environment.OVERRIDES):
            provider, _, name = DEFAULT_MODEL.partition("/")
            return {"assistant": {"model": {"id": {"provider": provider, "name": name}}}}
        from jp_nb.session.settings import apply_overrides, base_config

        try:
            base = base_config(self.files)
        except ConfigError as exc:
            if not loads:
                raise
            self._awaits_files = True
            self.notices.append(
                f"the configuration is not valid, so no request can be sent: {exc}. "
                "Fix it, and `%%jp` works without a restart. `%jp doctor` and `%jp "
                "config` already work"
            )
            return {}
        return apply_overrides(base, self.files)

    def reload_files(self) -> None:
        """Have a conversation that was opened while files were wrong begin with them now.

        Raises:
            ConfigError: If they still are.
        """
        if not self._awaits_files:
            return
        if self.made_here and not len(self.document.conversation):
            self.activate(self.create_conversation(with_parent=False), made_here=True)
        self._awaits_files = False

    # --- another one -------------------------------------------------------------------------

    def activate(
        self,
        stream: ConversationStream,
        *,
        ours: bool = True,
        made_here: bool = False,
        settings: Settings | None = None,
        keeps: Collection[str] = INHERITED,
    ) -> None:
        """Make `stream` the active conversation; the old one stays in the notebook.

        Args:
            stream: The conversation.
            ours: True if it is trusted.
            made_here: True if this process made all of it.
            settings: Its configuration, if that was prepared.
            keeps: The settings of the user that it takes over from the old one otherwise.
        """
        from jp_nb.rendering.tables import kept_notices
        from jp_nb.session.settings import Settings

        trust, is_empty = self.trust, not len(stream)
        if settings is None:
            settings = Settings(stream, self.files, trusted=ours, made_here=made_here)
            self.notices += kept_notices(settings.inherit(self.settings, keeps))
        self.document.shelve()
        self.document.conversation = stream
        trust.follow(ours=ours)
        self.follow(
            made_here=made_here,
            settings=settings,
            is_kept=False,
            begun=len(stream) if is_empty else 0,
        )

    def follow(
        self,
        *,
        made_here: bool = False,
        settings: Settings | None = None,
        is_kept: bool = True,
        begun: int = 0,
    ) -> None:
        """Continue with the document's active conversation, which `trust` follows already.

        Args:
            made_here: True if this process made all of it.
            settings: Its configuration; None: it is read.
            is_kept: True if the notebook has it already.
            begun: Number of entries that it took over.
        """
        self.restored, self.made_here, self._ours = False, made_here, self.trust.trusted
        self.inherited_entries = begun
        self.journal.follow(is_kept=is_kept)
        self._adopt(settings)
        self.replaced()

    def replaced(self) -> None:
        """Hand the whole of the active conversation on: it is another one, or was rearranged."""
        self.trust.sign()
        self.write_journal()
        self.store.replaced()

    def _adopt(self, settings: Settings | None = None) -> None:
        """Watch the document's active conversation, and note what is odd in one that was read."""
        self.document.conversation.on_change = self._changed
        self._heard = self.document.conversation.raw, len(self.document.conversation)
        self._read_settings_anew()
        if settings is not None:
            self.settings = settings
        if self.made_here:
            return
        found = notices_of(self.document.conversation)
        if more := found[MAX_NOTICES:]:
            found[MAX_NOTICES:] = [f"and {len(more)} more of this kind"]
        self.notices += found
        try:
            self.notices += self.settings.warnings(self.trust.why_not)
        except ConfigError as exc:  # of a file: the record is what it is
            self.notices.append(str(exc))

    def _look_for_journals(self) -> None:
        """Bring back what an earlier kernel of this notebook left outside of it."""
        from jp_nb.storage.journal import has_journals

        if not has_journals():
            return
        same_each_time = isinstance(self.clock, PositionClock)  # whatever lies elsewhere
        if self.headless and (same_each_time or not self.restored):
            self.journal.replace_headless()
        elif self.journal.recover():
            self.store.changed()

    @property
    def call_progress(self) -> Mapping[str, CallProgress]:
        """The progress of tool calls without a response that the journal has, by event id."""
        return self.journal.calls if "journal" in vars(self) else {}

    def append_finished_calls(self) -> list[str]:
        """Append the results that only the journal has; return the names of the tools."""
        calls = self.document.conversation.unanswered()
        if not calls or not self.call_progress:
            return []
        from jp_nb.record.journal import finished_entries, open_calls

        stream = self.document.conversation
        try:
            entries = finished_entries(stream, self.call_progress)
            if entries:
                _ = self.trust  # it looks at the signature before the record grows
                stream.append(*entries)
        except StorageError as exc:
            self.notices.append(f"the results of finished tool calls cannot be read: {exc}")
            return []
        still_open = open_calls(stream, self.call_progress)
        for call in still_open if entries else ():  # the journal told it before the results
            if (known := self.call_progress.get(call.event_id)) is not None:
                self.keep_progress(call.event_id, known)
        requests = [call.request for call in still_open]
        return [call.name for call in calls if not any(call is other for other in requests)]

    def add_interrupted_notice(self, recovered: Sequence[str] = ()) -> None:
        """Note that the last turn can be continued, and the state of its tool calls.

        Args:
            recovered: Names of the tools whose results just came from the journal.
        """
        from jp_nb.record.turns import cut_short

        found = cut_short(self.document.conversation, progress=self.call_progress)
        if found is not None:
            from jp_nb.rendering.status import interrupted_turn

            self.notices.append(interrupted_turn(found, recovered))

    def _changed(self) -> None:
        """Sign what appended entries configure, then hand them to the store."""
        head = self.document.conversation.head
        if not self.headless and head.get("made") == "headless":
            head["made"] = "live"  # a headless run would replace it, and a person spoke now (D18)
        self.trust.sign()
        self.write_journal()
        self.store.changed()
        self._keep_questions()

    def keep_progress(self, call: str, progress: CallProgress) -> None:
        """Have the journal hold the progress of the call with the event id `call`.

        If its tool starts, everything so far is on the disk when this returns.
        """
        if "journal" in vars(self):
            self.journal.keep_progress(call, progress)
            if progress.stage == "started":
                self.journal.sync()

    @property
    def wants_journal(self) -> bool:
        """Return whether the configuration wants a journal; as before, while that is not valid."""
        if not self.made_here or self.files.anything() or self.document.conversation.deltas:
            with suppress(ConfigError):
                self._wants_journal = self.settings.projection.config().record.journal
        return self._wants_journal

    @property
    def location(self) -> str:
        """The place of the record in words: the notebook, else the journal or memory, and why."""
        why = self.store.unsaved_reason
        if why is None:
            return self.store.location
        if not self.wants_journal:
            return f"kept in memory only (`record.journal` is off): {why}"
        if self.journal.is_failing:
            return f"kept in memory only (the journal cannot be written): {why}"
        return f"kept in your journal, not in a notebook: {why}"

    def write_journal(self) -> None:
        """Have the journal hold what happened, before any home is offered it."""
        if not self.inherited_entries == len(self.document.conversation) > 0:  # it is used
            self.journal.write(wanted=self.wants_journal)

    def _keep_questions(self) -> None:
        """Have the questions kept that ended in what was appended."""
        stream = self.document.conversation
        raw, (heard, start) = stream.raw, self._heard
        self._heard = raw, len(raw)
        if raw is not heard:  # a repair, which only the next turn follows
            start = len(raw) - len(stream.current_turn())
        if any(entry.get("type") == "inquiry_response" for entry in raw[start:]):
            self.questions.keep_ended(stream, start)

    def _read_settings_anew(self) -> None:
        vars(self).pop("settings", None)

    # --- trust -------------------------------------------------------------------------------

    def _continues(self, previous: ActiveConversation) -> bool:
        """Return whether what was read is what this kernel itself had made."""
        mine, theirs = self.document.conversation, previous.document.conversation
        same = (mine.id, mine.raw, mine.base_config) == (theirs.id, theirs.raw, theirs.base_config)
        return previous.trust.trusted and same

    def accept(self) -> None:
        """Trust what the active conversation configures, from here on, and sign it.

        Raises:
            StorageError: If there is no key to sign with; nothing changed.
        """
        self.trust.accept()
        self._ours = True
        self._read_settings_anew()
        self.write_journal()
        self.store.changed()

    def revoke(self) -> bool:
        """Trust it no longer; return whether it was trusted or signed."""
        had = self.trust.revoke()
        self._ours = False
        self._read_settings_anew()
        self.write_journal()
        self.store.changed()
        return had

    def consent(self, found: Sequence[Pending]) -> None:
        """Have what was `found` in the files of the folder count from here on.

        Raises:
            StorageError: If that cannot be kept; nothing changed.
        """
        self.files.agree(found)
        if self.made_here and len(self.document.conversation) == self.inherited_entries:
            self.document.conversation.base_config = self._base_config()  # it begins with them
            if self.inherited_entries:
                self.replaced()
        self._read_settings_anew()

    def close(self) -> None:
        """Let the next kernel have the journal."""
        if "journal" in vars(self):
            self.journal.close()


def _goes_on(files: ConfigFiles) -> bool:
    """Return whether `record.headless` says that a headless run continues."""
    if not files.anything():
        return False
    from jp_nb.session.settings import continues_headless

    return continues_headless(files)
