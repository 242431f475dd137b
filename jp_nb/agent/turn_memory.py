"""Answers and decisions that the user gave for the rest of a turn. They are not stored.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.json_values import sorted_json
from jp_nb.toolkit.question import Question

WHOLE_TOOL = ""
"""Key of a decision about all calls of a tool."""


def is_reusable(question: Question) -> bool:
    """Return True if answers to `question` may be reused in the turn."""
    return question.persistence == "turn" and not question.answer_type.has_secret


@dataclass(frozen=True, slots=True)
class _RememberedDecision:
    """A decision about calls of `tool`, as the tool was when the user decided."""

    tool: OfferedTool
    may_run: bool


@dataclass(slots=True)
class TurnMemory:
    """Remembers answers and permissions of one turn.

    Attributes:
        answers: The answers by `<tool>.<question id>`.
    """

    answers: dict[str, JsonValue] = field(default_factory=dict)
    # By the name of the tool, and the calls that a decision covers: `WHOLE_TOOL`, or a rule that
    # asks, or exact arguments, or both.
    _decisions: dict[tuple[str, str], _RememberedDecision] = field(default_factory=dict)

    def find_permission(
        self, tool: OfferedTool, arguments: Mapping[str, JsonValue], asked_by: str = ""
    ) -> bool | None:
        """Return the remembered decision for `tool` with these arguments, if any.

        `asked_by` is the rule that asks about this call; "" without one. A permission for the whole
        tool does not cover a call that a rule asks about. Each permission ends when the server of
        the tool announces changes.
        """
        exact_call = f"{asked_by}{sorted_json(dict(arguments))}"
        for covered in (WHOLE_TOOL, asked_by, exact_call):
            decision = self._decisions.get((tool.name, covered))
            if decision is None or decision.tool != tool:
                continue

            is_for_whole_tool = covered == WHOLE_TOOL
            if decision.may_run and is_for_whole_tool and asked_by:
                continue
            if decision.may_run and tool.executor.is_outdated:
                continue
            return decision.may_run

        return None

    def remember_permission(
        self,
        tool: OfferedTool,
        arguments: Mapping[str, JsonValue],
        *,
        runs: bool,
        asked_by: str = "",
    ) -> None:
        """Reuse a decision about a call for the rest of the turn.

        A permission covers the displayed arguments, or the tool, and the rule `asked_by` which the
        user was asked. A refusal covers the tool.
        """
        covered = WHOLE_TOOL
        if runs:
            covered = asked_by
        if runs and tool.covers == "arguments":
            covered += sorted_json(dict(arguments))
        self._decisions[tool.name, covered] = _RememberedDecision(tool, runs)

    def find_answer(self, tool: str, question: Question) -> JsonValue:
        """Return the remembered answer to `question` of `tool` if it is valid, else None."""
        if not is_reusable(question):
            return None
        answer = self.answers.get(f"{tool}.{question.id}")
        if answer is None or question.misfit(answer):
            return None
        return answer

    def remember_answer(self, tool: str, question: Question, answer: JsonValue) -> None:
        """Reuse `answer` for the rest of the turn, if `question` allows it."""
        if is_reusable(question):
            self.answers[f"{tool}.{question.id}"] = answer
