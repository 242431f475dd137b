"""Start, continue and switch conversations, and detect cells that run again.

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D63, D97, D98.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jp_nb.agent.prompts import Action, ActionPrompt, Answered, NotAnswered, PromptEnd, Unavailable
from jp_nb.config.aliases import MODEL_PATH
from jp_nb.errors import ConfigError, PromptCancelled, StorageError, UsageError
from jp_nb.record.change_marks import is_unanswered
from jp_nb.record.config_changes import (
    select_changes_before_first_turn,
    select_changes_for_rerun,
    select_changes_since_last_turn,
)
from jp_nb.record.conversation_fork import fork_conversation
from jp_nb.record.conversation_list import (
    ConversationInfo,
    drop_conversation,
    list_conversations,
    switch_conversation,
)
from jp_nb.record.events import ChatRequest, ChatResponse, ConfigDelta
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_numbers import to_shown_turn
from jp_nb.record.turn_view import Turn, read_turn
from jp_nb.rendering.status import format_dropped_settings, list_inherited_notices
from jp_nb.session.conversation import INHERITED, ActiveConversation
from jp_nb.session.host import CellRun
from jp_nb.session.settings import Settings

if TYPE_CHECKING:
    from jp_nb.record.config_history import Projection
    from jp_nb.record.document import Document


class ConversationList:
    """The conversations of a notebook. Only `drop` removes one."""

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self._previous: Projection | None = None
        self.turn_statuses: dict[tuple[str, int], str] = {}  # by conversation and turn

    def log(self, last: int | None = None) -> list[Turn]:
        """Return the `last` turns of the active conversation, or all."""
        stream = self._active.document.conversation
        turns = list(stream.turns())
        log = []

        for turn in turns if last is None else turns[-last:]:
            # The status of another kernel's turn is unknown.
            status = self.turn_statuses.get((stream.id, turn.number), "")
            log.append(read_turn(turn.number, turn.entries, status=status, images=stream.images))

        return log

    def new(self, *, keep_config: bool = False) -> None:
        """Make an empty conversation the active one; the old one stays in the notebook.

        With `keep_config`, copy the settings of the old one, or of the one before an unused one.

        Raises:
            ConfigError: The copied settings are not valid any more.
        """
        active = self._active
        active.refuse_while_running()

        before = active.settings
        unused = len(active.document.conversation) == active.inherited_entries
        previous = before.projection
        if keep_config and unused and self._previous is not None:
            previous = self._previous

        new = NextConversation(active.create_conversation(), inherits=(*INHERITED, MODEL_PATH))
        new.activate(active)

        if keep_config:
            self._previous = previous
            active.settings.record_change(active.settings.find_carried_over(previous))
        else:
            self.announce_left_settings(previous, asks=False)

    def announce_left_settings(self, previous: Projection, *, asks: bool) -> None:
        """Add a notice about settings of the `previous` conversation that do not apply now."""
        self._previous = previous
        with suppress(ConfigError):  # reported when a command needs the configuration
            if change := self._active.settings.find_carried_over(previous):
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
        self.fork(count - 2)

    def switch(self, name: str) -> bool:
        """Make another conversation of the notebook active; return False if it already is.

        Raises:
            UsageError: No conversation has this name, or several have.
            StorageError: It is damaged.
        """
        active = self._active
        active.refuse_while_running()
        trust = active.trust  # loaded before the switch

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
            identifier = list_conversations(document)[1].id
            switch_conversation(document, identifier, clock=active.clock)
        except StorageError:
            document.others.remove(recovered.stored)
            raise

        trust.follow()
        active.follow(is_stored=False)
        active.keep_progress(recovered.calls)
        active.journal.restorable.remove_restored(recovered)
        active.add_interrupted_notice(active.append_finished_calls())

        with suppress(StorageError):  # reported by the next `%jp resume`
            restorable = active.journal.restorable
            if restorable.has_notebook_journals and restorable.find():
                active.notices.append(
                    "another conversation in the journal is not restored yet: run `%jp resume` "
                    "again"
                )

        return True

    def drop(self, name: str) -> ConversationInfo:
        """Delete a conversation from the notebook and return it.

        Raises:
            UsageError: No conversation has this whole id, or it is the active one.
        """
        active = self._active
        active.refuse_while_running()

        dropped = drop_conversation(active.document, name)
        active.journal.remove_dropped(dropped.id)
        active.replaced()
        return dropped

    def adopt_imported(self, document: Document) -> None:
        """Make the conversation of an imported `document` the active one, without trust.

        Raises:
            StorageError: The notebook already has a conversation with its id.
        """
        self._active.refuse_while_running()
        identifier = document.conversation.id
        if identifier in self._active.document.ids():
            raise StorageError(
                f"this notebook already has a conversation {identifier}: open it with "
                f"`%jp switch {identifier}`"
            )

        stream = document.conversation
        NextConversation(stream, is_new=False, trusted=False).activate(self._active)


@dataclass(frozen=True, slots=True)
class NextConversation:
    """A conversation that becomes the active one, at once or with the next turn."""

    stream: ConversationStream
    notice: str = ""
    is_new: bool = True
    trusted: bool = True
    untrusted_count: int | None = None  # of its first changes, if it is not trusted; None: all
    inherits: tuple[str, ...] = INHERITED  # paths of settings of the active conversation

    def settings(self, active: ActiveConversation) -> Settings:
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
        trust = active.trust
        is_empty = not len(self.stream)

        if settings is None:
            settings = self.settings(active)
            active.notices += list_inherited_notices(
                settings.inherit(active.settings, self.inherits)
            )

        inherited_entries = len(self.stream) if is_empty else 0
        active.document.archive_active()
        active.document.conversation = self.stream
        trust.follow(is_local=self.trusted)
        active.follow(
            is_local=self.is_new,
            settings=settings,
            is_stored=False,
            inherited_entries=inherited_entries,
        )
        active.notices += filter(None, [self.notice])


def branch_before(
    active: ActiveConversation,
    turn: int,
    *,
    options: int = 0,
    skipped: Iterable[int] = (),
    why: str,
) -> NextConversation:
    """Return a branch of the active conversation that ends before `turn`.

    It has the user's settings for `turn`, for the `skipped` turns, and since the last turn. It does
    not have the last `options` changes of `turn`, which the cell's options make again. Nothing is
    deleted: the notice begins with `why` and names the conversation with all turns.

    Raises:
        StorageError: The active conversation is damaged.
    """
    old = active.document.conversation
    untrusted = active.settings.projection.untrusted_count
    branch = fork_conversation(
        old, keep_turns=turn, clock=active.clock, made=active.made, taken_ids=active.document.ids()
    )

    again = select_changes_for_rerun(old, turn, options=options, skipped=skipped)
    kept = min(untrusted, len(branch.deltas)) + sum(number < untrusted for number, _ in again)
    branch.append(*(delta for _, delta in again))

    way_back = f"go back to the conversation with all turns: `%jp switch {old.id}`"
    if active.headless:  # without an id, so that runs can be compared
        way_back = "the conversation with all turns stays in the notebook, and `%jp log` lists it"

    return NextConversation(
        branch,
        f"{why}; {way_back}",
        is_new=False,
        trusted=active.trust.trusted,
        untrusted_count=kept,
    )


_ACTIONS = (
    Action("r", "Replace: continue from before this turn, in a branch", "replace"),
    Action("a", "Append: ask again as a new turn", "append"),
    Action("c", "Cancel", "cancel"),
)
RERUN_HELP = "Set `record.rerun` to `replace` or `append` to skip this question"


@dataclass(frozen=True, slots=True)
class _RequestOrigin:
    """The run of a cell that sent a request in this kernel."""

    execution: str | None
    options: int = 0  # number of changes by the cell's options
    before: tuple[ConfigDelta, ...] = ()  # changes before the first request of a conversation


class CellReruns:
    """Detects requests of cells that run again in the active conversation."""

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self._origins: dict[str, _RequestOrigin] = {}  # by event id of the request
        self._starts: dict[str, _RequestOrigin] = {}  # of first requests, by conversation

    def remember_start(self, cell: CellRun) -> None:
        """Remember `cell` if its request is the first of the active conversation."""
        conversation = self._active.document.conversation
        if not conversation.turn_count:
            before = tuple(conversation.deltas)
            self._starts[conversation.id] = _RequestOrigin(cell.execution, before=before)

    def remember(self, cell: CellRun, *, turn: int, options: int) -> None:
        """Remember that `cell` started `turn`, and that its options made `options` changes."""
        stream = self._active.document.conversation
        place = stream.request_index(turn)
        if place is not None:
            self._origins[stream.event_id(place)] = _RequestOrigin(cell.execution, options)

    def next_conversation(
        self,
        text: str,
        cell: CellRun,
        ask: Callable[[ActionPrompt], PromptEnd[Answered]],
        *,
        same_text: bool = False,
    ) -> NextConversation | None:
        """Return the conversation in which `cell` sends `text`; None: the active one.

        It is a new one if the cell began the active one, and a branch if the cell sent a later
        request, unless the user decides to append a turn. With `same_text`, a cell with another
        earlier request does not count as run again. Headless runs decide that themselves.

        Raises:
            ConfigError: The configuration of a new conversation is not valid.
            PromptCancelled: The user canceled the request.
        """
        if self._active.headless:
            return None
        if self._began_conversation(text, cell, same_text=same_text):
            return self._restart()
        first = self._find_repeated(text, cell, same_text=same_text)
        return None if first is None else self._choose_conversation(first, ask)

    def _began_conversation(self, text: str, cell: CellRun, *, same_text: bool) -> bool:
        """Return True if `cell` began the active conversation in an earlier run."""
        active = self._active
        start = self._starts.get(active.document.conversation.id)
        is_run_again = start is not None and start.execution not in (None, cell.execution)
        if not (active.restored or is_run_again):
            return False

        entries = active.document.conversation.entries
        first = next((e for e in entries if isinstance(e, ChatRequest)), None)
        if first is None or not any(isinstance(e, ChatResponse) for e in entries):
            return False
        if same_text and first.content != text:
            return False

        cell_id = first.metadata.get("cell_id")
        if cell_id and cell.cell_id:
            return cell_id == cell.cell_id
        return first.content == text

    def _restart(self) -> NextConversation:
        # As if all cells ran from the top: with the changes before the first turn and after the
        # last one, without those of an untrusted record.
        old = self._active.document.conversation
        fresh = self._active.create_conversation(with_parent=False)
        if self._active.trust.trusted:
            start = self._starts.get(old.id)
            before = select_changes_before_first_turn(old) if start is None else start.before
            fresh.append(*before, *select_changes_since_last_turn(old))
        return NextConversation(
            fresh,
            "new conversation started, because this cell began the previous one. Go "
            f"back: `%jp switch {old.id}`",
        )

    def _find_repeated(self, text: str, cell: CellRun, *, same_text: bool) -> int | None:
        """Return the first turn of an earlier run of `cell`; None if there is none.

        Return None also if the latest request of the cell has no answer, or is from the same run,
        which may send several requests. The first turn is not found: see `_began_conversation`.
        """
        if cell.execution is None or cell.cell_id is None:
            return None

        stream = self._active.document.conversation
        if not any(_may_be_of(entry, text, cell, same_text=same_text) for entry in stream.requests):
            return None

        requests: dict[int, tuple[str, ChatRequest]] = {}  # the first one of each turn
        for number, place, entry in stream.events():
            if isinstance(entry, ChatRequest) and number not in requests:
                requests[number] = stream.event_id(place), entry

        origins = {
            number: self._origins.get(name)
            for number, (name, request) in requests.items()
            if _may_be_of(request, text, cell, same_text=same_text)
        }

        turns = list(stream.turns())
        if not origins or 0 in origins or is_unanswered(turns[max(origins)].entries):
            return None

        runs = {number: origin and origin.execution for number, origin in origins.items()}
        first = max(runs)
        execution = runs[first]
        if execution == cell.execution:
            return None

        while first - 1 in runs and runs[first - 1] == execution:
            first -= 1

        return first

    def _choose_conversation(
        self, first: int, ask: Callable[[ActionPrompt], PromptEnd[Answered]]
    ) -> NextConversation | None:
        stream = self._active.document.conversation
        action: str = self._active.settings.config.record.rerun
        later = stream.turn_count - first - 1
        number = to_shown_turn(first)

        if action == "ask":
            turns = f"turn {number}"
            if later:
                noun = "turn" if later == 1 else "turns"
                turns += f" and {later} later {noun}"
            text = (
                f"You already ran this cell: {turns}. Nothing is deleted: "
                "replaced turns stay in the notebook as a separate conversation."
            )
            last_line = "What do you want to do?"
            match ask(ActionPrompt(text, _ACTIONS, last_line=last_line, help=RERUN_HELP)):
                case Answered(value="replace" | "append" as decided):
                    action = decided
                case Unavailable() | NotAnswered(end="timed_out"):
                    self._active.notices.append(
                        f"turn {number} is from this cell, and no user decided what "
                        f"to do. The request is asked again as a new turn. {RERUN_HELP}"
                    )
                    action = "append"
                case _:
                    raise PromptCancelled("cancelled: no request was sent")

        if action == "append":
            return None

        turns = f"turns {number} to {number + later} are" if later else f"turn {number} is"
        place = stream.request_index(first)
        start = None if place is None else self._origins.get(stream.event_id(place))
        options = start.options if start else 0
        why = f"{turns} replaced in a branch"
        return branch_before(self._active, first, options=options, why=why)


def _may_be_of(entry: ChatRequest, text: str, cell: CellRun, *, same_text: bool) -> bool:
    # If a recorded request has no cell id, the same text means the same cell.
    cell_id = entry.metadata.get("cell_id")
    has_same_text = entry.content == text
    if cell_id and cell_id != cell.cell_id:
        return False
    return has_same_text or (bool(cell_id) and not same_text)
