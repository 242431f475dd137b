"""The conversations of one notebook: what was said in the active one, and the ways to others.

Source: `docs/decisions.md` D19, D63, `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from jp_nb.errors import ConfigError, StorageError
from jp_nb.record import conversations
from jp_nb.record.fork import fork, undo
from jp_nb.record.turn_view import Turn, read_turn
from jp_nb.rendering.carrying import left_behind
from jp_nb.session.active_conversation import KEPT, ActiveConversation
from jp_nb.session.requested_changes import MODEL

if TYPE_CHECKING:
    from jp_nb.record.document import Document
    from jp_nb.record.projection import Projection
    from jp_nb.record.stream import ConversationStream


ANOTHER = "another conversation in the journal is not restored yet: run `%jp resume` again"


class ConversationList:
    """The conversations of a notebook. `active` is changed; nothing but `drop` takes one away.

    Attributes:
        known: Status of the turns that ran here, by conversation and number.
    """

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self._left: Projection | None = None
        self.known: dict[tuple[str, int], str] = {}

    def log(self, last: int | None = None) -> list[Turn]:
        """Return the `last` turns of the active conversation, or all."""
        stream = self._active.document.conversation
        turns = list(stream.turns())
        found = []
        for turn in turns if last is None else turns[-last:]:
            status = self.known.get((stream.id, turn.number), "")  # another kernel ran it
            found.append(read_turn(turn.number, turn.entries, status=status, images=stream.images))
        return found

    # --- the ways to others ------------------------------------------------------------------

    def new(self, *, keep_config: bool = False) -> None:
        """Make an empty conversation the active one; the old one stays in the notebook.

        Args:
            keep_config: Begin with what the old one had set. If nothing was said in the active
                one yet, that is the one before it.

        Raises:
            ConfigError: If that is no valid configuration any more.
        """
        active = self._active
        active.refuse_while_running()
        before = active.settings
        unused = len(active.document.conversation) == active.begun
        left = self._left if keep_config and unused else None
        left = left or before.projection
        active.install(active.empty(), made_here=True, keeps=(*KEPT, MODEL))
        if keep_config:
            self._left = left
            active.settings.carry_over(active.settings.carried_over(left))
        else:
            self.leave(left, asks=False)

    def leave(self, left: Projection, *, asks: bool) -> None:
        """Have the person told what the conversation that was `left` had set."""
        self._left = left
        with suppress(ConfigError):  # whoever needs the configuration says what is wrong with it
            if change := self._active.settings.carried_over(left):
                self._active.notices.append(left_behind(change, asks=asks))

    def fork(self, last_turn: int | None = None) -> None:
        """Go on from turn `last_turn` (from the end if None) in a conversation of its own.

        Raises:
            UsageError: If there is no such turn.
        """
        self._branch(partial(fork, keep_turns=None if last_turn is None else last_turn + 1))

    def undo(self) -> None:
        """Go on without the last turn; the conversation that has it stays in the notebook.

        Raises:
            UsageError: If there is no turn.
        """
        self._branch(undo)

    def _branch(self, make: Callable[..., ConversationStream]) -> None:
        active = self._active
        active.refuse_while_running()
        document = active.document
        made = make(
            document.conversation, clock=active.clock, made=active.made, not_ids=document.ids()
        )
        active.install(made, ours=active.trust.trusted)

    def switch(self, name: str) -> bool:
        """Make another conversation of the notebook the active one; return whether it was another.

        Raises:
            UsageError: If `name` names none or several.
            StorageError: If it is damaged.
        """
        active = self._active
        active.refuse_while_running()
        trust = active.trust  # before another one is active
        if not conversations.switch(active.document, name, clock=active.clock):
            return False
        trust.follow()
        active.follow()
        return True

    def bring_back(self, name: str = "") -> bool:
        """Make a conversation the active one that a kernel left outside of the notebook.

        Args:
            name: Its id, or the beginning of it; the newest one if it is empty.

        Returns:
            True if there is one.

        Raises:
            StorageError: If it cannot be read.
            UsageError: If several ids begin with `name`.
        """
        active = self._active
        active.refuse_while_running()
        left = active.journal.offered(name)
        if left is None:
            return False
        document, trust = active.document, active.trust
        document.others.insert(0, left.stored)
        try:
            conversations.switch(
                document, conversations.listing(document)[1].id, clock=active.clock
            )
        except StorageError:
            document.others.remove(left.stored)
            raise
        trust.follow()
        active.follow(is_kept=False)
        for call, progress in left.calls.items():
            active.keep_progress(call, progress)
        active.journal.taken(left)
        active.say_interrupted(active.take_up_finished_calls())
        with suppress(StorageError):  # said once it is asked for
            if active.journal.offers_of_notebook and active.journal.offered():
                active.notices.append(ANOTHER)
        return True

    def drop(self, name: str) -> conversations.Listed:
        """Take a conversation out of the notebook for good; return what it was.

        Raises:
            UsageError: If there is none of that whole id, or it is the active one.
        """
        self._active.refuse_while_running()
        active = self._active
        dropped = conversations.drop(active.document, name)
        active.journal.dropped(dropped.id)
        active.replaced()
        return dropped

    def adopt_imported(self, document: Document) -> None:
        """Make the conversation of `document`, somebody else's, the active one.

        Raises:
            StorageError: If the notebook has a conversation of its id already.
        """
        self._active.refuse_while_running()
        identifier = document.conversation.id
        if identifier in self._active.document.ids():
            raise StorageError(
                f"this notebook already has a conversation {identifier}: open it with "
                f"`%jp switch {identifier}`"
            )
        self._active.install(document.conversation, ours=False)
