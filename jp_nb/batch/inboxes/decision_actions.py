"""The buttons below a decision in the inbox.

    answer          answer the question
    agree, decline  decide about a call, a result, a change, an edit, or a plan; `decline` also
                    declines a question
    each            decide about each run on its own
    open            leave the decision open
    back            return to the list, or end the decisions about single runs

An `Action` has a key for the terminal, the text of the button, and one of these words, which the
dialogue gets (`decision_dialogue.py`).

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from jp_nb.agent.prompting.prompts import Action
from jp_nb.batch.results.decision_groups import DecisionGroup

_CONSENT_LABELS: Final = {
    "permission": ("Run this call", "Skip this call"),
    "result": ("Deliver the result", "Withhold the result"),
    "change": ("Apply the change", "Reject the change"),
    "edit": ("Apply the edit", "Reject the edit"),
    "plan": ("Approve the plan", "Reject the plan"),
}


@dataclass(frozen=True, slots=True)
class DecisionActions:
    """The buttons of a decision about `runs`.

    Attributes:
        group: The decision.
        takes_answers: False if the inbox only shows its decisions.
        is_one_by_one: True while the user decides about the runs one by one.
    """

    group: DecisionGroup
    runs: Sequence[str]
    takes_answers: bool
    is_one_by_one: bool = False

    def make(self) -> tuple[Action, ...]:
        """Return the buttons, of which the first is the default."""
        return tuple(self._list_actions())

    def _list_actions(self) -> Iterator[Action]:
        """Yield the buttons. Their texts name the number of runs, if there are several."""
        if not self.takes_answers:
            yield Action("b", "Back to the list", "back")
            return

        count = len(self.runs)
        for_all = ""
        in_all = ""
        if count > 1:
            for_all = f" for all {count:,} runs"
            in_all = f" in all {count:,} runs"

        if self.group.question is not None:
            yield Action("a", f"Answer{for_all} …", "answer")
        elif self.group.is_answerable:
            agree, decline = _CONSENT_LABELS[self.group.kind]
            yield Action("y", f"{agree}{in_all}", "agree")
            yield Action("n", f"{decline}{in_all}", "decline", is_separated=True)

        if count > 1 and self.group.is_answerable:
            yield Action("o", "One by one …", "each", is_separated=True)
        yield Action("l", "Leave open", "open", is_separated=True)
        if self.group.question is not None:
            yield Action("d", f"Decline it{in_all}", "decline", is_separated=True)
        back = "Stop here" if self.is_one_by_one else "Back to the list"
        yield Action("b", back, "back", is_separated=True)
