"""Cells that are run again: what becomes of a request that the active conversation has already.

Source: `docs/decisions.md` D98, `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jp_nb.agent.prompts import Action, ActionPrompt, Answered, NotAnswered, PromptEnd, Unavailable
from jp_nb.errors import PromptCancelled
from jp_nb.record.events import ChatRequest
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_entries import TurnEntries
from jp_nb.record.unanswered import is_unanswered
from jp_nb.session.active_conversation import ActiveConversation
from jp_nb.session.host import CellRun
from jp_nb.session.next_conversation import NextConversation, branch_before

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
class Repeated:
    """The turns that an earlier run of a cell has asked.

    Attributes:
        first: The number of the first of them.
        turns: How many turns the conversation has from there on.
        options: How many changes the options of the first request made.
    """

    first: int
    turns: int
    options: int = 0


class Reruns:
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

    def found(self, text: str, cell: CellRun, *, same_text: bool = False) -> Repeated | None:
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
    ) -> Repeated | None:
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
        return Repeated(first, len(turns) - first, began.options if began else 0)

    def decided(
        self, found: Repeated, ask: Callable[[ActionPrompt], PromptEnd]
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

    def _said(self, found: Repeated, end: PromptEnd) -> Rerun:
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


def rerun_prompt(found: Repeated) -> ActionPrompt:
    """Return the question what becomes of a cell whose request was `found`."""
    behind = found.turns - 1
    more = f" and {behind} later {'turn' if behind == 1 else 'turns'}" if behind else ""
    text = (
        f"You already ran this cell: turn {found.first}{more}. Nothing is deleted: "
        "replaced turns stay in the notebook as a separate conversation."
    )
    return ActionPrompt(text, _ACTIONS, last_line="What do you want to do?", help=HELP)


def _turns(found: Repeated) -> str:
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
