"""Answers and decisions that the user gave for the rest of a turn. They are not stored.

A decision *covers* all calls of a tool, those that a rule of the configuration asks about, or those
with the same arguments.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.json_writing import sorted_json
from jp_nb.toolkit.question import Question


class _Covered(NamedTuple):
    """The calls of a tool that a decision covers: all, if it has neither a rule nor arguments.

    Attributes:
        rule: Only calls about which this rule asks; "" for any call.
        arguments: Only calls with exactly these arguments, as JSON; None for any arguments.
    """

    rule: str = ""
    arguments: str | None = None


_WHOLE_TOOL: Final = _Covered()


def is_reusable(question: Question) -> bool:
    """Return True if answers to `question` may be reused in the turn."""
    return question.persistence == "turn" and not question.answer_type.has_secret


@dataclass(frozen=True, slots=True)
class _RememberedDecision:
    """A decision about calls of `tool`, as the tool was when the user decided."""

    tool: OfferedTool
    may_run: bool


def _is_valid(decision: _RememberedDecision, tool: OfferedTool) -> bool:
    """Return True if `tool` is still as it was when the user decided."""
    if decision.tool != tool:
        return False
    return not (decision.may_run and tool.executor.is_outdated)


@dataclass(slots=True)
class TurnMemory:
    """Remembers answers and permissions of one turn.

    Attributes:
        answers: The answers by `<tool>.<question id>`.
    """

    answers: dict[str, JsonValue] = field(default_factory=dict)
    # By the name of the tool, and the calls that a decision covers.
    _decisions: dict[tuple[str, _Covered], _RememberedDecision] = field(default_factory=dict)

    def find_permission(
        self, tool: OfferedTool, arguments: Mapping[str, JsonValue], asked_by: str = ""
    ) -> bool | None:
        """Return the remembered decision for `tool` with these arguments, if any.

        `asked_by` is the rule that asks about this call; "" without one. A permission for the whole
        tool does not cover a call that a rule asks about. Each permission ends when the server of
        the tool announces changes.
        """
        of_rule = _Covered(asked_by)
        exact_call = _Covered(asked_by, sorted_json(dict(arguments)))
        for covered in (_WHOLE_TOOL, of_rule, exact_call):
            decision = self._decisions.get((tool.name, covered))
            if decision is None or not _is_valid(decision, tool):
                continue

            needs_permission_of_rule = covered == _WHOLE_TOOL and asked_by != ""
            if decision.may_run and needs_permission_of_rule:
                continue
            return decision.may_run

        return None

    def remember_permission(
        self,
        tool: OfferedTool,
        arguments: Mapping[str, JsonValue],
        *,
        may_run: bool,
        asked_by: str = "",
    ) -> None:
        """Reuse a decision about a call for the rest of the turn.

        A permission covers the displayed arguments, or the tool, and the rule `asked_by` which the
        user was asked. A refusal covers the tool.
        """
        covered = _WHOLE_TOOL
        if may_run:
            has_exact_arguments = tool.covers == "arguments"
            exact = sorted_json(dict(arguments)) if has_exact_arguments else None
            covered = _Covered(asked_by, exact)
        self._decisions[tool.name, covered] = _RememberedDecision(tool, may_run)

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
