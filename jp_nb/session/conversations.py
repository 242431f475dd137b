"""Start, continue and switch conversations, and detect cells that run again.

Source: `docs/decisions.md` D19, D63, `docs/guide.md`, `docs/decisions.md` D18, D97, D98,
`docs/decisions.md` D98.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from jp_nb.agent.prompts import Action, ActionPrompt, Answered, NotAnswered, PromptEnd, Unavailable
from jp_nb.errors import ConfigError, PromptCancelled, StorageError
from jp_nb.record import conversations
from jp_nb.record.config_changes import (
    set_before_first_request,
    set_for_turn_again,
    set_since_last_turn,
)
from jp_nb.record.conversations import fork, undo
from jp_nb.record.events import ChatRequest, ChatResponse, ConfigDelta
from jp_nb.record.stream import ConversationStream, TurnEntries, is_unanswered
from jp_nb.record.turns import Turn, read_turn
from jp_nb.rendering.tables import left_behind
from jp_nb.session.conversation import INHERITED, ActiveConversation
from jp_nb.session.host import CellRun
from jp_nb.session.settings import MODEL, Settings
from jp_nb.storage.config_files import ConfigFiles

if TYPE_CHECKING:
    from jp_nb.record.config_history import Projection
    from jp_nb.record.document import Document

ANOTHER = "another conversation in the journal is not restored yet: run `%jp resume` again"


class ConversationList:
    """The conversations of a notebook. `active` is changed; nothing but `drop` takes one away.

    Attributes:
        turn_statuses: Status of the turns that ran here, by conversation and number.
    """

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self._left: Projection | None = None
        self.turn_statuses: dict[tuple[str, int], str] = {}

    def log(self, last: int | None = None) -> list[Turn]:
        """Return the `last` turns of the active conversation, or all."""
        stream = self._active.document.conversation
        turns = list(stream.turns())
        found = []
        for turn in turns if last is None else turns[-last:]:
            status = self.turn_statuses.get((stream.id, turn.number), "")  # another kernel ran it
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
        unused = len(active.document.conversation) == active.inherited_entries
        left = self._left if keep_config and unused else None
        left = left or before.projection
        active.activate(active.create_conversation(), made_here=True, keeps=(*INHERITED, MODEL))
        if keep_config:
            self._left = left
            active.settings.record_change(active.settings.find_carried_over(left))
        else:
            self.announce_left_settings(left, asks=False)

    def announce_left_settings(self, left: Projection, *, asks: bool) -> None:
        """Have the person told what the conversation that was `left` had set."""
        self._left = left
        with suppress(ConfigError):  # whoever needs the configuration says what is wrong with it
            if change := self._active.settings.find_carried_over(left):
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
        active.activate(made, ours=active.trust.trusted)

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

    def restore_from_journal(self, name: str = "") -> bool:
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
        left = active.journal.find_candidate(name)
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
        active.journal.remove_restored(left)
        active.add_interrupted_notice(active.append_finished_calls())
        with suppress(StorageError):  # said once it is asked for
            if active.journal.has_notebook_candidates and active.journal.find_candidate():
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
        active.journal.remove_dropped(dropped.id)
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
        self._active.activate(document.conversation, ours=False)


@dataclass(frozen=True, slots=True)
class NextConversation:
    """A conversation that becomes the active one with the turn to come.

    Attributes:
        stream: The conversation.
        notice: What the person is told then; "" if there is nothing to say.
        is_new: Whether it begins anew, and is no branch of another one.
        trusted: Whether what it holds counts in full.
        foreign: If not, so many of its first changes are a stranger's.
        inherits: Settings of the user that it takes over from the active conversation.
    """

    stream: ConversationStream
    notice: str = ""
    is_new: bool = True
    trusted: bool = True
    foreign: int = 0
    inherits: tuple[str, ...] = INHERITED

    def settings(self, files: ConfigFiles) -> Settings:
        """Return its configuration over `files`."""
        return Settings(
            self.stream,
            files,
            trusted=self.trusted,
            made_here=self.is_new,
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
        is_new=False,
        trusted=active.trust.trusted,
        foreign=kept,
    )


def _way_back(active: ActiveConversation) -> str:
    """Return how to get at the conversation with all turns; no id where runs are compared."""
    if active.headless:
        return "the conversation with all turns stays in the notebook, and `%jp log` lists it"
    identifier = active.document.conversation.id
    return f"go back to the conversation with all turns: `%jp switch {identifier}`"


Rerun = Literal["replace", "append"]
_ACTIONS = (
    Action("r", "Replace: continue from before this turn, in a branch", "replace"),
    Action("a", "Append: ask again as a new turn", "append"),
    Action("c", "Cancel", "cancel"),
)
HELP = "Set `record.rerun` to `replace` or `append` to skip this question"


@dataclass(frozen=True, slots=True)
class _AskedBy:
    """A request of this kernel: the run of a cell that asked it, and its options' changes."""

    execution: str | None
    options: int


@dataclass(frozen=True, slots=True)
class RepeatedTurns:
    """The turns that an earlier run of a cell has asked.

    Attributes:
        first: The number of the first of them.
        turns: How many turns the conversation has from there on.
        options: How many changes the options of the first request made.
    """

    first: int
    turns: int
    options: int = 0


class CellReruns:
    """Knows which run of which cell asked what in the active conversation."""

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self._asked: dict[str, _AskedBy] = {}

    def remember(self, cell: CellRun, *, turn: int, options: int) -> None:
        """Keep that `cell` asked turn number `turn`, for which `options` changes were made."""
        stream = self._active.document.conversation
        place = stream.opened_at(turn)
        if place is not None:
            self._asked[stream.event_id(place)] = _AskedBy(cell.execution, options)

    def find_repeated(
        self, text: str, cell: CellRun, *, same_text: bool = False
    ) -> RepeatedTurns | None:
        """Return the turns of an earlier run of `cell`, which asks `text`; None if there are none.

        One run may ask several times. A turn that got no answer is not sent again, so that there
        is nothing to decide. Where the record has no id of the cell, the same text is the same
        cell; with `same_text`, only the same text is the same request. A front end that names no
        cells, such as a console, runs none again: whoever types a text twice means it.
        """
        if self._active.headless or cell.execution is None or cell.cell_id is None:
            return None
        stream = self._active.document.conversation
        if not any(_is_of(entry, text, cell, same_text=same_text) for entry in stream.requests):
            return None
        requests, turns = _requests(stream), list(stream.turns())
        mine = {
            number: self._asked.get(name)
            for number, (name, request) in requests.items()
            if _is_of(request, text, cell, same_text=same_text)
        }
        # What becomes of the cell that began the conversation is known: docs/decisions.md D18.
        if not mine or 0 in mine or is_unanswered(turns[max(mine)].entries):
            return None
        return self._latest_run(mine, turns, cell)

    @staticmethod
    def _latest_run(
        mine: dict[int, _AskedBy | None], turns: list[TurnEntries], cell: CellRun
    ) -> RepeatedTurns | None:
        first = last = max(mine)
        execution = asked.execution if (asked := mine[last]) else None
        if execution == cell.execution:
            return None
        while first - 1 in mine:
            before = mine[first - 1]
            if (before.execution if before else None) != execution:
                break
            first -= 1
        began = mine[first]
        return RepeatedTurns(first, len(turns) - first, began.options if began else 0)

    def choose_conversation(
        self, found: RepeatedTurns, ask: Callable[[ActionPrompt], PromptEnd]
    ) -> NextConversation | None:
        """Return the branch in which the cell asks; None: as one more turn of this conversation.

        Raises:
            PromptCancelled: If the person wants nothing to be asked.
        """
        how = self._active.settings.config.record.rerun
        if how == "ask":
            how = self._said(found, ask(rerun_prompt(found)))
        if how == "append":
            return None
        why = f"{_turns(found)} replaced in a branch"
        return branch_before(self._active, found.first, options=found.options, why=why)

    def _said(self, found: RepeatedTurns, end: PromptEnd) -> Rerun:
        match end:
            case Answered(value="replace"):
                return "replace"
            case Answered(value="append"):
                return "append"
            case Unavailable() | NotAnswered(end="timed_out"):
                self._active.notices.append(
                    f"turn {found.first} is from this cell, and no user decided what "
                    f"to do. The request is asked again as a new turn. {HELP}"
                )
                return "append"
        raise PromptCancelled("cancelled: no request was sent")


def rerun_prompt(found: RepeatedTurns) -> ActionPrompt:
    """Return the question what becomes of a cell whose request was `found`."""
    behind = found.turns - 1
    more = f" and {behind} later {'turn' if behind == 1 else 'turns'}" if behind else ""
    text = (
        f"You already ran this cell: turn {found.first}{more}. Nothing is deleted: "
        "replaced turns stay in the notebook as a separate conversation."
    )
    return ActionPrompt(text, _ACTIONS, last_line="What do you want to do?", help=HELP)


def _turns(found: RepeatedTurns) -> str:
    if found.turns == 1:
        return f"turn {found.first} is"
    return f"turns {found.first} to {found.first + found.turns - 1} are"


def _requests(stream: ConversationStream) -> dict[int, tuple[str, ChatRequest]]:
    """Return the request that opened each turn, by its number, with its id."""
    found: dict[int, tuple[str, ChatRequest]] = {}
    for number, place, entry in stream.events():
        if isinstance(entry, ChatRequest) and number not in found:
            found[number] = stream.event_id(place), entry
    return found


def _is_of(entry: ChatRequest, text: str, cell: CellRun, *, same_text: bool) -> bool:
    """Return whether `cell`, which asks `text`, may have asked `entry` before."""
    asked = entry.metadata.get("cell_id")
    if asked and asked != cell.cell_id:
        return False
    alike = entry.content == text
    return alike if same_text else alike or bool(asked)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The beginning of a conversation of this kernel.

    Attributes:
        execution: The run of a cell that asked first.
        deltas: What was configured ahead of that request.
    """

    execution: str | None
    deltas: tuple[ConfigDelta, ...]


class FirstRequests:
    """The beginnings of the conversations that were active in this kernel."""

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self._begun: dict[str, _Beginning] = {}

    def remember(self, cell: CellRun) -> None:
        """Keep how the active conversation begins, if the request of `cell` is its first."""
        conversation = self._active.document.conversation
        if not conversation.turn_count:
            deltas = tuple(conversation.deltas)
            self._begun[conversation.id] = _Beginning(cell.execution, deltas)

    def restart_conversation(
        self, text: str, cell: CellRun, *, same_text: bool = False
    ) -> NextConversation | None:
        """Return a new conversation if `cell`, which asks `text`, began the active one.

        It has what was set ahead of the active one's first request, and since its last turn: that
        is what running the notebook's cells from the top comes to. A stranger's changes stay with
        the stranger. With `same_text` the cell has to ask the same as then.

        Raises:
            ConfigError: If what it starts from is wrong.
        """
        if not self._is_begun_by(text, cell, same_text=same_text):
            return None
        old, fresh = (
            self._active.document.conversation,
            self._active.create_conversation(with_parent=False),
        )
        if self._active.trust.trusted:
            began = self._begun.get(old.id)
            before = set_before_first_request(old) if began is None else began.deltas
            fresh.append(*before, *set_since_last_turn(old))
        return NextConversation(
            fresh,
            "new conversation started, because this cell began the previous one. Go "
            f"back: `%jp switch {old.id}`",
        )

    def _is_begun_by(self, text: str, cell: CellRun, *, same_text: bool) -> bool:
        """Return whether `cell` is the one that began the active conversation.

        A cell may ask several times while it runs. One that got no answer yet goes on. Headless, a
        run that continues a conversation says so itself.
        """
        active = self._active
        if active.headless or not (active.restored or self._is_run_again(cell)):
            return False
        entries = active.document.conversation.entries
        first = next((e for e in entries if isinstance(e, ChatRequest)), None)
        if first is None or not any(isinstance(e, ChatResponse) for e in entries):
            return False
        if same_text and first.content != text:
            return False
        began = first.metadata.get("cell_id")
        return began == cell.cell_id if began and cell.cell_id else first.content == text

    def _is_run_again(self, cell: CellRun) -> bool:
        """Return whether an earlier run of some cell of this kernel began the conversation."""
        began = self._begun.get(self._active.document.conversation.id)
        return began is not None and began.execution not in (None, cell.execution)
