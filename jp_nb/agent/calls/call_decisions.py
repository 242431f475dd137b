"""Decisions about a call without a prompt: from the answers file, or because no user is available.

They are about the permission of a call, the delivery of its result to the model, and the plan that
it submits. If the answers file has no decision, the user is asked (`permissions.py`,
`result_delivery.py`, `plan_approval.py`).

Source: `docs/answers.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.agent.calls.call import CallEnded, CallState
from jp_nb.agent.display import Notice
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prepared_answers import (
    DecisionKind,
    GivenAnswer,
    OpenDecision,
)
from jp_nb.agent.prompting.prompt_ends import Answered, NotAnswered, PromptEnd, Unavailable
from jp_nb.agent.turn_state import TurnContext
from jp_nb.exact_form import spell_invisible
from jp_nb.record.reading.outcome_words import NOT_IN_TIME

INTERRUPT_FIRST_REASON = "an interrupt came first"
_UNDECIDED: Mapping[str, str] = {"timed_out": NOT_IN_TIME, "interrupted": INTERRUPT_FIRST_REASON}
"""Reasons by the `end` of a prompt without a decision. A prompt that the user closed is none."""

_EFFECTS_AND_REMEDIES: Mapping[DecisionKind, tuple[str, str]] = {
    "permission": (
        "did not run: it needs the user's permission",
        'set conversation.tools.{}.run = "unattended"',
    ),
    "result": (
        "ran, but its result is not delivered: that needs the user's approval",
        'set conversation.tools.{}.result = "unattended"',
    ),
    "plan": (
        "submitted a plan: the user has to approve it before anything may change",
        'write {} = "approve" into the table [plan] of an answers file',
    ),
}
"""The effect of a missing user on the call, and the remedy for the user, by kind of decision."""
_FILE_NOTICES: Mapping[tuple[DecisionKind, bool], str] = {
    ("permission", True): "▸ {} allows {} to run",
    ("permission", False): "▸ {} does not allow {} to run",
    ("result", True): "▸ {} allows the model to read the result of {}",
    ("result", False): "▸ {} withholds the result of {} from the model",
    ("plan", True): "▸ {} approves the plan ({})",
    ("plan", False): "▸ {} rejects the plan ({})",
}
"""Notices about decisions of an answers file."""


def describe_missing_decision(end: PromptEnd[Answered]) -> str | None:
    """Return why the user did not decide: no user was there, or no answer came in time.

    None for any other end: closing the prompt is a decision.
    """
    match end:
        case Unavailable(reason=reason):
            return f"no user is available: {reason}"
        case NotAnswered():
            return _UNDECIDED.get(end.end)
        case _:
            return None


class CallDecisions:
    """Makes the decisions about calls that need no prompt."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn

    def decide_without_prompt(
        self, kind: DecisionKind, tool: OfferedTool, call: CallState
    ) -> bool | None:
        """Return and display the decision in the answers file; None: a user may be available.

        `kind` is `permission`, `result`, or `plan`.

        Raises:
            CallEnded: The file has no decision, and no user is available.
        """
        decided = self._turn.prepared.find_decision(kind, tool.name, call.arguments)
        if decided is not None:
            agrees = isinstance(decided, GivenAnswer)
            text = _FILE_NOTICES[kind, agrees].format(decided.place, spell_invisible(tool.name))
            self._turn.display(Notice(text))
            return agrees

        unavailable = self._turn.prompter.unavailable()
        if unavailable is not None:
            raise self.make_end_without_user(
                tool,
                kind,
                unavailable.reason,
                arguments=call.arguments,
                result=call.result.delivered,
            )
        return None

    def make_end_without_user(
        self,
        tool: OfferedTool,
        kind: DecisionKind,
        reason: str,
        *,
        arguments: Mapping[str, JsonValue],
        result: str | None = None,
    ) -> CallEnded:
        """Note a decision that needs a user, and return the end of the call, which has none.

        The decision is about the call with these `arguments`, or about its `result`.
        """
        self._turn.unavailable_reason = reason
        decision = OpenDecision(kind, tool.name, reason, arguments=arguments, result=result)
        self._turn.note_open(decision)

        effect, remedy = _EFFECTS_AND_REMEDIES[kind]
        return CallEnded(
            f"{tool.name} {effect}, and no user is available: {reason}. The user can "
            f"{remedy.format(tool.name)}. Do not retry this tool call in this turn.",
            is_error=True,
        )
