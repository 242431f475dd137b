"""A conversation that becomes the active one: a new one, a branch, or an imported one.

A turn may begin in another conversation than the active one. It is prepared first, with its
settings, and is activated only if the turn can begin.

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D97.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jp_nb.record.changes.changes_by_turn import select_changes_for_rerun
from jp_nb.record.documents.conversation_fork import fork_conversation
from jp_nb.record.stream import ConversationStream
from jp_nb.rendering.transcripts.inherited_settings import list_inherited_notices
from jp_nb.session.configuration.settings import Settings
from jp_nb.session.conversation import INHERITED, ActiveConversation


@dataclass(frozen=True, slots=True)
class NextConversation:
    """A conversation that becomes the active one, at once or with the next turn.

    Attributes:
        stream: The conversation.
        notice: A notice for the user when it becomes active; "" for none.
        is_new: True if it has no entries of another conversation, so that this process made all.
        trusted: True if it is trusted, as the user's own or as a branch of a trusted one.
        untrusted_count: Number of its first changes of settings that are untrusted, if it is not
            trusted; None: all.
        inherits: Paths of settings that it inherits from the active conversation.
    """

    stream: ConversationStream
    notice: str = ""
    is_new: bool = True
    trusted: bool = True
    untrusted_count: int | None = None
    inherits: tuple[str, ...] = INHERITED

    def make_settings(self, active: ActiveConversation) -> Settings:
        """Return its settings on top of the files and tools of `active`."""
        return Settings(
            self.stream,
            active.files,
            active.discovered,
            trusted=self.trusted,
            is_local=self.is_new,
            untrusted_count=self.untrusted_count,
        )

    def activate(self, active: ActiveConversation, settings: Settings | None = None) -> None:
        """Make it the active conversation; the previous one stays in the notebook.

        Without prepared `settings`, it inherits the user's settings from the previous one.
        """
        trust = active.trust  # made before the document changes
        is_empty = not len(self.stream)

        if settings is None:
            settings = self.make_settings(active)
            inherited = settings.inherit(active.settings, self.inherits)  # recorded in `stream`
            active.notices += list_inherited_notices(inherited)

        # A conversation that was empty has only inherited settings, so it counts as unused.
        inherited_entries = len(self.stream) if is_empty else 0
        active.document.archive_active()
        active.document.conversation = self.stream

        # Both continue with the new active conversation. The first one signs it if it is trusted.
        trust.follow(is_trusted=self.trusted)
        active.follow(
            is_local=self.is_new,
            settings=settings,
            is_stored=False,
            inherited_entries=inherited_entries,
        )
        if self.notice:
            active.notices.append(self.notice)


def branch_before(
    active: ActiveConversation,
    turn: int,
    *,
    option_count: int = 0,
    skipped: Iterable[int] = (),
    why: str,
) -> NextConversation:
    """Return a branch of the active conversation that ends before `turn`.

    It has the user's settings for `turn`, for the `skipped` turns, and since the last turn, without
    the last `option_count` changes of `turn`, which the cell's options make again. Nothing is
    deleted: the notice begins with `why` and names the conversation with all turns.

    Raises:
        StorageError: The active conversation is damaged.
    """
    old = active.document.conversation
    untrusted = active.settings.projection.untrusted_count
    branch = fork_conversation(
        old, keep_turns=turn, clock=active.clock, made=active.made, taken_ids=active.document.ids()
    )

    # The changes of the removed turns that the user made, each with its number in `old`.
    again = select_changes_for_rerun(old, turn, option_count=option_count, skipped_turns=skipped)
    # The first `untrusted` changes of `old` are untrusted, and stay untrusted in the branch.
    untrusted_in_branch = min(untrusted, len(branch.deltas))
    untrusted_in_branch += sum(number < untrusted for number, _ in again)
    branch.append(*(delta for _, delta in again))

    way_back = f"go back to the conversation with all turns: `%jp switch {old.id}`"
    if active.headless:  # without an id, so that runs can be compared
        way_back = "the conversation with all turns stays in the notebook, and `%jp log` lists it"

    return NextConversation(
        branch,
        f"{why}; {way_back}",
        is_new=False,
        trusted=active.trust.trusted,
        untrusted_count=untrusted_in_branch,
    )
