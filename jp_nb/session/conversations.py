"""The conversations of a notebook: start, fork, switch, restore, and drop them.

One of them is active, and gets the next turn. Others stay in the notebook. `%jp new`, `%jp fork`,
`%jp undo`, `%jp switch`, `%jp resume`, and `%jp drop` use this module. A conversation that is not
in the notebook yet becomes active through `NextConversation` (`next_conversation.py`). Otherwise,
`trust.follow` and then `active.follow` continue with the document's new active conversation: its
signature, its journal, and its settings. `active.trust` is made from the document on first use, so
it is read before the document changes.

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D97.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from jp_nb.config.aliases import MODEL_PATH
from jp_nb.errors import ConfigError, StorageError, UsageError
from jp_nb.record.documents.conversation_fork import fork_conversation
from jp_nb.record.documents.conversation_info import ConversationInfo
from jp_nb.record.documents.conversation_list import (
    drop_conversation,
    list_conversations,
    switch_conversation,
)
from jp_nb.record.reading.turn_reader import read_turn
from jp_nb.record.reading.turn_view import Turn
from jp_nb.rendering.transcripts.inherited_settings import format_dropped_settings
from jp_nb.session.conversation import INHERITED, ActiveConversation
from jp_nb.session.interrupted_calls import add_interrupted_notice, append_finished_calls
from jp_nb.session.next_conversation import NextConversation

if TYPE_CHECKING:
    from jp_nb.record.changes.config_history import Projection
    from jp_nb.record.documents.document import Document


class ConversationList:
    """The conversations of a notebook. Only `drop` removes one.

    Attributes:
        turn_statuses: Statuses of the turns of this kernel, by conversation and turn. Turns add
            theirs when they end (`turn_execution.py`).
    """

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        # The settings of the conversation before the active one. `%jp new --keep-config` copies
        # them if the active one is unused.
        self._previous: Projection | None = None
        self.turn_statuses: dict[tuple[str, int], str] = {}

    def log(self, last: int | None = None) -> list[Turn]:
        """Return the `last` turns of the active conversation, or all."""
        stream = self._active.document.conversation
        turns = list(stream.turns())
        if last is not None:
            turns = turns[-last:]

        log: list[Turn] = []
        for turn in turns:
            # The status of another kernel's turn is unknown.
            status = self.turn_statuses.get((stream.id, turn.number), "")
            log.append(read_turn(turn.number, turn.entries, status=status, images=stream.images))

        return log

    def new(self, *, keep_config: bool = False) -> None:
        """Make an empty conversation the active one; the old one stays in the notebook.

        With `keep_config`, copy the settings of the conversation that was active. Without it, a
        notice proposes that.

        For example, `%jp new` in conversation A makes B, and the notice proposes
        `%jp new --keep-config`. This makes C. As B is still unused, C gets the settings of A.

        Raises:
            ConfigError: The copied settings are not valid any more. The new conversation stays.
        """
        active = self._active
        active.refuse_while_running()

        previous = active.settings.projection
        if keep_config and active.is_unused and self._previous is not None:
            previous = self._previous

        # Each new conversation inherits `INHERITED`. One of `%jp new` also inherits the model.
        stream = active.create_conversation()
        NextConversation(stream, inherits=(*INHERITED, MODEL_PATH)).activate(active)

        if keep_config:
            self._previous = previous
            active.settings.record_change(active.settings.find_carried_over(previous))
        else:
            self.announce_left_settings(previous, asks=False)

    def announce_left_settings(self, previous: Projection, *, asks: bool) -> None:
        """Add a notice about settings of the `previous` conversation that do not apply now.

        `asks` is True if the new conversation began with a request: then `%jp new --keep-config`
        comes too late, and the notice names another way.
        """
        self._previous = previous
        with suppress(ConfigError):  # reported when a command needs the configuration
            change = self._active.settings.find_carried_over(previous)
            if change:
                toolsets = self._active.settings.config.conversation.tools_by_toolset()
                dropped = format_dropped_settings(change, asks=asks, toolsets=toolsets)
                self._active.notices.append(dropped)

    def fork(self, last_turn: int | None = None) -> None:
        """Continue in a fork that ends with turn `last_turn`, or with the last one if None.

        Raises:
            UsageError: There is no such turn.
        """
        active = self._active
        active.refuse_while_running()
        keep_turns = None if last_turn is None else last_turn + 1
        branch = fork_conversation(
            active.document.conversation,
            keep_turns=keep_turns,
            clock=active.clock,
            made=active.made,
            taken_ids=active.document.ids(),
        )

        NextConversation(branch, is_new=False, trusted=active.trust.trusted).activate(active)

    def undo(self) -> None:
        """Continue without the last turn; the conversation with it stays in the notebook.

        Raises:
            UsageError: There is no turn.
        """
        self._active.refuse_while_running()
        count = self._active.document.conversation.turn_count
        if not count:
            raise UsageError("there is no turn to undo: this conversation has none yet")
        self.fork(count - 2)  # turns count from 0; -1 keeps none

    def switch(self, name: str) -> bool:
        """Make another conversation of the notebook active; return False if it already is.

        Raises:
            UsageError: No conversation has this name, or several have.
            StorageError: It is damaged.
        """
        active = self._active
        active.refuse_while_running()
        trust = active.trust  # made from the document, so before that changes

        if not switch_conversation(active.document, name, clock=active.clock):
            return False
        trust.follow()
        active.follow()
        return True

    def restore_from_journal(self, name: str = "") -> bool:
        """Make a conversation of an earlier kernel's journal active; return False without one.

        `name` is its id, or the beginning of it; "" for the newest one.

        Raises:
            StorageError: It cannot be read.
            UsageError: Several ids begin with `name`.
        """
        active = self._active
        active.refuse_while_running()
        recovered = active.journal.restorable.find(name)
        if recovered is None:
            return False

        document = active.document
        trust = active.trust
        document.others.insert(0, recovered.stored)

        try:
            # The active one is listed first, and `others` follow: [1] is the inserted one.
            identifier = list_conversations(document)[1].id
            switch_conversation(document, identifier, clock=active.clock)
        except StorageError:
            document.others.remove(recovered.stored)
            raise

        trust.follow()
        active.follow(is_stored=False)
        # The progress of its tool calls, in the new journal.
        active.journal_use.keep_progress(recovered.calls)
        active.journal.restorable.remove_restored(recovered)
        finished_tools = append_finished_calls(active)
        add_interrupted_notice(active, finished_tools)

        self._announce_next_restorable()
        return True

    def _announce_next_restorable(self) -> None:
        restorable = self._active.journal.restorable
        with suppress(StorageError):  # reported by the next `%jp resume`
            if restorable.has_notebook_journals and restorable.find():
                self._active.notices.append(
                    "another conversation in the journal is not restored yet: run `%jp resume` "
                    "again"
                )

    def drop(self, name: str) -> ConversationInfo:
        """Delete a conversation from the notebook and return it.

        Raises:
            UsageError: No conversation has this whole id, or it is the active one.
        """
        active = self._active
        active.refuse_while_running()

        dropped = drop_conversation(active.document, name)
        active.journal.remove_dropped(dropped.id)
        active.sign_and_store_all()
        return dropped

    def adopt_imported(self, document: Document) -> None:
        """Make the conversation of an imported `document` the active one, without trust.

        Raises:
            StorageError: The notebook already has a conversation with its id.
        """
        self._active.refuse_while_running()
        identifier = document.conversation.id
        if identifier in self._active.document.list_stored_ids():
            raise StorageError(
                f"this notebook already has a conversation {identifier}: open it with "
                f"`%jp switch {identifier}`"
            )

        stream = document.conversation
        NextConversation(stream, is_new=False, trusted=False).activate(self._active)
