"""How conversations of this kernel began: running their first cell again begins another one.

Source: `docs/decisions.md` D18.
"""

from __future__ import annotations

from dataclasses import dataclass

from jp_nb.record.carried_changes import set_before_first_request, set_since_last_turn
from jp_nb.record.events import ChatRequest, ChatResponse, ConfigDelta
from jp_nb.session.active_conversation import ActiveConversation
from jp_nb.session.host import CellRun
from jp_nb.session.next_conversation import NextConversation


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The beginning of a conversation of this kernel.

    Attributes:
        execution: The run of a cell that asked first.
        deltas: What was configured ahead of that request.
    """

    execution: str | None
    deltas: tuple[ConfigDelta, ...]


class Beginnings:
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

    def again(
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
        old, fresh = self._active.document.conversation, self._active.empty(with_parent=False)
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
