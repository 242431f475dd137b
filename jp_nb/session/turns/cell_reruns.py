"""Detect that a cell runs again, and choose the conversation in which it sends its request.

A notebook is often run from the top, or one cell is run again. Then its request replaces the
earlier turns of the cell in a branch, or starts a new conversation, instead of being appended. The
setting `record.rerun` or the user decides. Headless runs decide that themselves.

Source: `docs/guide.md`, `docs/decisions.md` D18, D63, D98.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from jp_nb.agent.prompting.prompt_ends import Answered, NotAnswered, PromptEnd, Unavailable
from jp_nb.agent.prompting.prompts import Action, ActionPrompt
from jp_nb.errors import PromptCancelled
from jp_nb.record.changes.changes_by_turn import (
    select_changes_before_first_turn,
    select_changes_since_last_turn,
)
from jp_nb.record.entries.events import ChatRequest, ChatResponse, ConfigDelta
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.entries.unanswered_turns import is_unanswered
from jp_nb.record.reading.plan_marks import read_content_without_note
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import CellRun
from jp_nb.session.next_conversation import NextConversation, branch_before
from jp_nb.text import pluralize

RERUN_HELP: Final = "Set `record.rerun` to `replace` or `append` to skip this question"
_RERUN_ACTIONS: Final = (
    Action("r", "Replace: continue from before this turn, in a branch", "replace"),
    Action("a", "Append: ask again as a new turn", "append"),
    Action("c", "Cancel", "cancel"),
)


@dataclass(frozen=True, slots=True)
class _RequestOrigin:
    """The run of a cell that sent a request in this kernel.

    Attributes:
        execution: Id of the run; None if it is unknown.
        option_count: Number of changes of settings by the cell's options. A branch omits them,
            because the cell makes them again.
        earlier_changes: Changes before the first request of a conversation. A new conversation
            begins with them.
    """

    execution: str | None
    option_count: int = 0
    earlier_changes: tuple[ConfigDelta, ...] = ()


class CellReruns:
    """Detects requests of cells that run again in the active conversation."""

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self._origins: dict[str, _RequestOrigin] = {}  # by event id of the request
        self._starts: dict[str, _RequestOrigin] = {}  # origins of first requests, by conversation

    def remember_start(self, cell: CellRun) -> None:
        """Remember `cell` if its request is the first of the active conversation."""
        conversation = self._active.document.conversation
        if not conversation.turn_count:
            changes = tuple(conversation.deltas)
            self._starts[conversation.id] = _RequestOrigin(cell.execution, earlier_changes=changes)

    def remember(self, cell: CellRun, *, turn: int, option_count: int) -> None:
        """Remember that `cell` started `turn`, and the number of changes by its options."""
        stream = self._active.document.conversation
        index = stream.find_request_index(turn)
        if index is not None:
            self._origins[stream.event_id(index)] = _RequestOrigin(cell.execution, option_count)

    def find_next_conversation(
        self,
        text: str,
        cell: CellRun,
        ask: Callable[[ActionPrompt], PromptEnd[Answered]],
        *,
        same_text: bool = False,
    ) -> NextConversation | None:
        """Return the conversation in which `cell` sends `text`; None: the active one.

        It is a new one if the cell began the active one, and a branch if the cell sent a later
        request, unless the user decides to append a turn. Usually the cell counts, whatever text
        it sent before: the user edits a request, and runs its cell again. With `same_text`, an
        earlier request with another text does not count: a cell with `%jp why` may explain another
        error.

        Raises:
            ConfigError: The configuration of a new conversation is not valid.
            PromptCancelled: The user canceled the request.
        """
        if self._active.headless:
            return None
        if self._began_conversation(text, cell, same_text=same_text):
            return self._make_new_conversation()
        first = self._find_repeated(text, cell, same_text=same_text)
        return None if first is None else self._choose_conversation(first, ask)

    def _began_conversation(self, text: str, cell: CellRun, *, same_text: bool) -> bool:
        """Return True if `cell` began the active conversation in an earlier run.

        That run was in another kernel, whose conversation was restored, or it is another run of
        this kernel. A conversation without an answer is continued: the user tries again.
        """
        active = self._active
        start = self._starts.get(active.document.conversation.id)
        is_run_again = start is not None and start.execution not in (None, cell.execution)
        if not (active.restored or is_run_again):
            return False

        entries = active.document.conversation.entries
        first_request = next((entry for entry in entries if isinstance(entry, ChatRequest)), None)
        has_answer = any(isinstance(entry, ChatResponse) for entry in entries)
        if first_request is None or not has_answer:
            return False

        first_text = read_content_without_note(first_request)
        if same_text and first_text != text:
            return False

        # Front ends that give no cell ids: the same text means the same cell.
        cell_id = first_request.metadata.get("cell_id")
        if not (cell_id and cell.cell_id):
            return first_text == text
        return cell_id == cell.cell_id

    def _make_new_conversation(self) -> NextConversation:
        """Return a new conversation, as if all cells ran from the top.

        It has the changes of settings before the first turn, which earlier cells made, and after
        the last one, which the user made just now. Changes in an untrusted record are not taken
        over.
        """
        old = self._active.document.conversation
        new = self._active.create_conversation(with_parent=False)
        if self._active.trust.trusted:
            start = self._starts.get(old.id)
            if start is None:
                earlier_changes = select_changes_before_first_turn(old)
            else:
                earlier_changes = start.earlier_changes
            new.append(*earlier_changes, *select_changes_since_last_turn(old))

        return NextConversation(
            new,
            "new conversation started, because this cell began the previous one. Go "
            f"back: `%jp switch {old.id}`",
        )

    def _find_repeated(self, text: str, cell: CellRun, *, same_text: bool) -> int | None:
        """Return the first turn of the last earlier run of `cell`; None if there is none.

        Return None also in these cases:

        - The cell or its run is unknown, as without a page.
        - The cell began the conversation (turn 0): `_began_conversation` decides about it.
        - The latest request of the cell is from the same run: a run may send several requests.
        - The latest request of the cell has no answer: the user tries again.
        """
        if cell.execution is None or cell.cell_id is None:
            return None

        # A quick check for the usual case: `_list_executions` looks at every entry.
        stream = self._active.document.conversation
        if not any(_may_be_of(entry, text, cell, same_text=same_text) for entry in stream.requests):
            return None

        executions = self._list_executions(text, cell, same_text=same_text)  # by turn
        has_first_turn = 0 in executions
        if not executions or has_first_turn:
            return None

        last = max(executions)
        last_execution = executions[last]
        turns = list(stream.turns())
        if last_execution == cell.execution or is_unanswered(turns[last].entries):
            return None

        # The earlier run of the cell may have sent several requests.
        first = last
        while first - 1 in executions and executions[first - 1] == last_execution:
            first -= 1
        return first

    def _list_executions(
        self, text: str, cell: CellRun, *, same_text: bool
    ) -> dict[int, str | None]:
        """Return the id of the run that sent each turn of `cell`, by turn.

        The id is None if another kernel sent it.
        """
        stream = self._active.document.conversation
        first_requests: dict[int, tuple[str, ChatRequest]] = {}  # with its event id, by turn
        for turn, index, entry in stream.events():
            if isinstance(entry, ChatRequest) and turn not in first_requests:
                first_requests[turn] = stream.event_id(index), entry

        executions: dict[int, str | None] = {}
        for turn, (event_id, request) in first_requests.items():
            if _may_be_of(request, text, cell, same_text=same_text):
                origin = self._origins.get(event_id)
                executions[turn] = None if origin is None else origin.execution
        return executions

    def _choose_conversation(
        self, first: int, ask: Callable[[ActionPrompt], PromptEnd[Answered]]
    ) -> NextConversation | None:
        """Return a branch that ends before turn `first`; None: the turn is appended.

        `record.rerun` decides, or the user if it is `ask`.
        """
        action: str = self._active.settings.config.record.rerun
        if action == "ask":
            action = self._ask_user(first, ask)
        if action == "append":
            return None

        stream = self._active.document.conversation
        index = stream.find_request_index(first)
        origin = None if index is None else self._origins.get(stream.event_id(index))
        option_count = origin.option_count if origin else 0

        number = to_shown_turn(first)
        last = stream.turn_count
        turns = f"turns {number} to {last} are" if last > number else f"turn {number} is"
        why = f"{turns} replaced in a branch"
        return branch_before(self._active, first, option_count=option_count, why=why)

    def _ask_user(self, first: int, ask: Callable[[ActionPrompt], PromptEnd[Answered]]) -> str:
        """Return `replace` or `append`."""
        number = to_shown_turn(first)
        later_count = self._active.document.conversation.turn_count - number
        turns = f"turn {number}"
        if later_count:
            turns += f" and {later_count} later {pluralize('turn', later_count)}"

        text = (
            f"You already ran this cell: {turns}. Nothing is deleted: "
            "replaced turns stay in the notebook as a separate conversation."
        )
        last_line = "What do you want to do?"
        prompt = ActionPrompt(text, _RERUN_ACTIONS, last_line=last_line, help=RERUN_HELP)

        match ask(prompt):
            case Answered(value="replace" | "append" as decided):
                return decided
            case Unavailable() | NotAnswered(end="timed_out"):
                self._active.notices.append(
                    f"turn {number} is from this cell, and no user decided what "
                    f"to do. The request is asked again as a new turn. {RERUN_HELP}"
                )
                return "append"

        raise PromptCancelled("cancelled: no request was sent")


def _may_be_of(request: ChatRequest, text: str, cell: CellRun, *, same_text: bool) -> bool:
    """Return True if an earlier run of `cell` may have sent the recorded `request`.

    `text` is the text that the cell sends now. With `same_text`, the request must have it.
    """
    has_same_text = read_content_without_note(request) == text
    cell_id = request.metadata.get("cell_id")
    if not cell_id:
        return has_same_text  # the same text means the same cell
    if cell_id != cell.cell_id:
        return False
    return has_same_text or not same_text
