"""Decide if the active conversation has a journal, and write its entries there.

It has one if the setting `record.journal` is on. A conversation that has only inherited entries
gets none yet. The journal itself (`journal.py`) is made on first use, because `%load_ext`
and most short sessions need none.

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from jp_nb.errors import ConfigError
from jp_nb.record.documents.document import Document
from jp_nb.record.unfinished_calls import CallProgress
from jp_nb.session.host import RecordStore
from jp_nb.session.journals.journal import ConversationJournal
from jp_nb.session.threads.shared_property import is_made
from jp_nb.storage.configuration.config_files import ConfigFiles

if TYPE_CHECKING:  # it loads the schema of the configuration
    from jp_nb.session.configuration.settings import Settings


class JournaledConversation(Protocol):
    """The part of the active conversation that decides about its journal."""

    document: Document
    store: RecordStore

    @property
    def files(self) -> ConfigFiles:
        """The configuration files of the notebook."""

    @property
    def journal(self) -> ConversationJournal:
        """The journal, which is made on first use."""

    @property
    def settings(self) -> Settings:
        """The settings, which are made on first use."""

    @property
    def has_only_base_config(self) -> bool:
        """True if this process began the conversation, and nothing has changed its settings."""

    @property
    def is_unused(self) -> bool:
        """True if no entry follows those that the conversation began with."""


class JournalUse:
    """Writes the entries of `active`, and the progress of its tool calls, to its journal."""

    def __init__(self, active: JournaledConversation) -> None:
        self._active = active
        self._was_wanted = True  # by the last valid configuration

    @property
    def is_wanted(self) -> bool:
        """True if the settings want a journal; the last valid configuration counts.

        The settings are not made only for this, because that takes time: files and the base
        configuration tell the same if nothing else has changed the settings.
        """
        active = self._active
        with suppress(ConfigError):
            if is_made(active, "settings") or not active.has_only_base_config:
                self._was_wanted = active.settings.projection.config().record.journal
            elif active.files.has_configuration():
                from jp_nb.session.configuration.base_config import keeps_journal

                base = active.document.conversation.base_config
                self._was_wanted = keeps_journal(active.files, base)
        return self._was_wanted

    def write(self) -> None:
        """Write new entries to the journal, before the storage backend gets them.

        A conversation that has only inherited entries needs no journal.
        """
        active = self._active
        has_entries = len(active.document.conversation) > 0
        if has_entries and active.is_unused:
            return

        if self.is_wanted:
            active.journal.write()
        else:
            active.journal.discard()

    @property
    def call_progress(self) -> Mapping[str, CallProgress]:
        """The progress of tool calls without a response that the journal has, by event id."""
        return self._active.journal.calls if is_made(self._active, "journal") else {}

    def keep_progress(self, progress: Mapping[str, CallProgress]) -> None:
        """Write the progress of calls, by their event ids, to the journal.

        A tool call starts after its request was recorded, so a wanted journal is made by then.
        """
        if is_made(self._active, "journal"):
            self._active.journal.keep_progress(progress)

    @property
    def location(self) -> str:
        """The place of the record in words: the notebook, the journal, or memory, with a reason."""
        active = self._active
        reason = active.store.unsaved_reason
        if reason is None:
            return active.store.location
        if not self.is_wanted:
            return f"kept in memory only (`record.journal` is off): {reason}"
        if active.journal.has_failed:
            return f"kept in memory only (the journal cannot be written): {reason}"
        return f"kept in your journal, not in a notebook: {reason}"

    def close(self) -> None:
        """Close the journal, for the next kernel."""
        if is_made(self._active, "journal"):
            self._active.journal.close()
