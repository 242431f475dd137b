"""A conversation that becomes the active one with the turn to come, once that can be asked.

Source: `docs/decisions.md` D18, D97, D98.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jp_nb.record.carried_changes import set_for_turn_again
from jp_nb.record.fork import fork
from jp_nb.record.stream import ConversationStream
from jp_nb.session.active_conversation import KEPT, ActiveConversation
from jp_nb.session.settings import Settings
from jp_nb.workspace.config_files import ConfigFiles


@dataclass(frozen=True, slots=True)
class NextConversation:
    """A conversation that becomes the active one with the turn to come.

    Attributes:
        stream: The conversation.
        notice: What the person is told then; "" if there is nothing to say.
        begins: Whether it begins anew, and is no branch of another one.
        trusted: Whether what it holds counts in full.
        foreign: If not, so many of its first changes are a stranger's.
        keeps: Settings of the user that it takes over from the active conversation.
    """

    stream: ConversationStream
    notice: str = ""
    begins: bool = True
    trusted: bool = True
    foreign: int = 0
    keeps: tuple[str, ...] = KEPT

    def settings(self, files: ConfigFiles) -> Settings:
        """Return its configuration over `files`."""
        return Settings(
            self.stream,
            files,
            trusted=self.trusted,
            made_here=self.begins,
            foreign=self.foreign,
        )


def branch_before(
    active: ActiveConversation,
    turn: int,
    *,
    options: int = 0,
    skipped: Iterable[int] = (),
    why: str,
) -> NextConversation:
    """Return a branch of the active conversation in which `turn` can be asked again.

    It has the turns before that one, and the settings that the user made for it and since the last
    turn, without its last `options` changes: its request makes them again. Settings that the user
    made ahead of the `skipped` turns apply as well. Nothing is deleted: the notice begins with
    `why` and names the conversation that has all turns.

    Raises:
        StorageError: If the active conversation is damaged.
    """
    old, foreign = active.document.conversation, active.settings.projection.foreign
    made = fork(
        old, keep_turns=turn, clock=active.clock, made=active.made, not_ids=active.document.ids()
    )
    again = set_for_turn_again(old, turn, options=options, skipped=skipped)
    kept = min(foreign, len(made.deltas)) + sum(number < foreign for number, _ in again)
    made.append(*(delta for _, delta in again))
    return NextConversation(
        made,
        f"{why}; {_way_back(active)}",
        begins=False,
        trusted=active.trust.trusted,
        foreign=kept,
    )


def _way_back(active: ActiveConversation) -> str:
    """Return how to get at the conversation with all turns; no id where runs are compared."""
    if active.headless:
        return "the conversation with all turns stays in the notebook, and `%jp log` lists it"
    identifier = active.document.conversation.id
    return f"go back to the conversation with all turns: `%jp switch {identifier}`"
