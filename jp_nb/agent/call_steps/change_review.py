"""Review the configuration changes that a batch's tools propose.

A change is checked against the access rules of its tool. Then the user approves or rejects it,
unless a rule grants it. After a rejection, the tool runs again and gets the reason, at most three
times. Approved changes wait for the end of the batch (`approved_changes.py`).

Source: `docs/turns.md`, `docs/decisions.md` D6, D29, D38.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, assert_never

from jp_nb.agent.call_steps.approved_changes import ApprovedChange, ApprovedChanges
from jp_nb.agent.call_steps.proposed_changes import has_no_effect, iter_proposed_changes
from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.display import ChangeEnds, Notice, Waits
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prepared_answers import (
    ANSWERS_CHANNEL,
    GivenAnswer,
    OpenDecision,
)
from jp_nb.agent.prompting.prompt_ends import Answered, NotAnswered, Unavailable
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, ProposedChange
from jp_nb.agent.turn_state import TurnContext
from jp_nb.config.access_rules import Grants
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.proposal import Proposal, review_proposal
from jp_nb.config.refusal import Refusal, refuse_malformed
from jp_nb.config.tree.value_errors import shorten_for_error
from jp_nb.exact_form import spell_invisible
from jp_nb.record.entries.proposed_by import ProposedBy
from jp_nb.record.reading.outcome_words import NOT_IN_TIME
from jp_nb.toolkit.outcome import Success
from jp_nb.toolkit.tool_context import DeltaRejection

MAX_REJECTIONS: Final = 3
"""Maximum number of rejected proposals of a call. The next rejection ends the call."""
NAMED_PATHS: Final = 10
"""Number of paths that the message about the last rejection names."""

NOTHING_TO_CHANGE_NOTICE = "⟳ {} proposed settings that are already set. Nothing to apply."
RETRIES_EXHAUSTED_NOTICE = "⚠ Tool '{}' exceeded delta retry limit. Aborting tool call."
# The words of JP, the command-line program whose conversations the record is compatible with. Its
# number is that of the retries, although one more proposal was rejected.
RETRIES_EXHAUSTED_TEXT = (
    "Tool '{}' failed to produce a valid config delta after {} attempts.\nLast error: {}{}."
)
REJECTED_BY_USER_NOTICE = "Config delta rejected. Tool re-invoked."
NOT_APPLIED_NOTICE = "Change not applied, tool re-invoked."
NOTICE_HEADINGS = {
    "invalid_config": "⚠ Tool '{}' proposed an invalid config change:",
    "unauthorized_paths": "⚠ Tool '{}' proposed a config change beyond its access rules:",
}


APPROVAL_ACTIONS = (Action("y", "Apply changes", "apply"), Action("n", "Reject changes", "reject"))
APPROVAL_HELP = "Either all of the changes are applied or none. The tool gets your decision."


def make_approval_prompt(tool: str, changes: tuple[ProposedChange, ...]) -> ActionPrompt:
    """Return the prompt about the `changes` that `tool` proposed.

    It has the name of the tool, even if the settings hide the tool's calls.
    """
    return ActionPrompt(
        text=f"⟳ Configuration delta proposed by tool '{spell_invisible(tool)}'",
        actions=APPROVAL_ACTIONS,
        changes=changes,
        last_line="Apply delta?",
        help=APPROVAL_HELP,
        only_buttons=True,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Proposed:
    """A change that a tool proposed within its access rules, with its `lines` for the user."""

    call: Call
    tool: OfferedTool
    proposal: Proposal
    lines: tuple[ProposedChange, ...]


@dataclass(frozen=True, slots=True)
class _Decision:
    """The decision about a proposed change.

    Attributes:
        is_approved: False if the user rejects the change.
        by: `person` for the user, `grant` for an access rule that needs no approval.
        channel: Source of the user's decision, such as `form`; None for a rule.
        person: Name of the user in a shared notebook.
    """

    is_approved: bool
    by: Literal["person", "grant"]
    channel: str | None = None
    person: str | None = None


class ChangeReview:
    """Reviews the changes of the configuration `basis` that a batch proposes."""

    def __init__(
        self,
        turn: TurnContext,
        basis: ConfigSnapshot,
        approved: ApprovedChanges,
        screen: ScreenQueue,
    ) -> None:
        self._turn = turn
        self._basis = basis
        self._approved = approved
        self._screen = screen

    async def review(self, call: Call, tool: OfferedTool, outcome: Success) -> bool:
        """Return True if the changes that a run of `tool` proposed are approved or have no effect.

        False if they are rejected: the tool runs again, with the reason in `CallState.rejection`.

        Raises:
            CallEnded: Too many proposals were rejected.
        """
        if outcome.malformed is not None:
            return self._reject(call, tool, refuse_malformed(outcome.malformed))

        grants = tool.grants or Grants(())  # a tool without grants may change nothing
        reviewed = review_proposal(outcome.config, outcome.unset, grants, self._basis)
        match reviewed:
            case None:  # an empty change
                return True
            case Refusal():
                return self._reject(call, tool, reviewed)
            case Proposal():
                return await self._decide_about(call, tool, reviewed)
            case _:
                assert_never(reviewed)

    async def _decide_about(self, call: Call, tool: OfferedTool, proposal: Proposal) -> bool:
        """Get and carry out the decision about an allowed change: True if the call continues."""
        if proposal.needs_approval and has_no_effect(proposal):  # the user is not asked about it
            notice = NOTHING_TO_CHANGE_NOTICE.format(spell_invisible(tool.name))
            self._turn.display(Notice(notice))
            return True

        proposed = _Proposed(call, tool, proposal, tuple(iter_proposed_changes(proposal)))
        if not proposal.needs_approval:
            return self._carry_out(proposed, _Decision(is_approved=True, by="grant"))

        decision: _Decision | Unavailable | None = self._find_prepared_decision(proposed)
        if decision is None:
            decision = await self._ask_user(proposed)
        if isinstance(decision, Unavailable):
            return self._reject_without_user(proposed, decision.reason)
        return self._carry_out(proposed, decision)

    def _find_prepared_decision(self, proposed: _Proposed) -> _Decision | None:
        """Return the decision in the answers file; None if it has none."""
        arguments = proposed.call.state.arguments
        prepared = self._turn.prepared.find_decision("change", proposed.tool.name, arguments)
        if prepared is None:
            return None

        is_approved = isinstance(prepared, GivenAnswer)
        return _Decision(is_approved, by="person", channel=ANSWERS_CHANNEL)

    async def _ask_user(self, proposed: _Proposed) -> _Decision | Unavailable:
        """Return the user's decision, or the reason why there is none."""
        unavailable = self._turn.prompter.unavailable()
        if unavailable is not None:
            return unavailable

        text = f"your decision on a change that {proposed.call.title} proposes"
        waits = Waits(proposed.call.key, text, person=True)
        prompt = make_approval_prompt(proposed.tool.name, proposed.lines)
        self._turn.display(waits)

        async with self._screen.take_screen(after_run=True) as ask:
            end = await ask(prompt)
            # An interrupt closes the prompt without a decision. Its menu takes the screen, and if
            # the turn continues, the prompt is displayed again.
            while isinstance(end, NotAnswered) and end.end == "interrupted":
                self._turn.display(waits)
                await self._screen.wait_again()
                end = await ask(prompt)

        if isinstance(end, Unavailable):
            return end
        if isinstance(end, NotAnswered) and end.end == "timed_out":
            return Unavailable(NOT_IN_TIME)

        is_approved = isinstance(end, Answered) and end.value == "apply"
        return _Decision(is_approved, by="person", channel=end.channel, person=end.by)

    def _carry_out(self, proposed: _Proposed, decision: _Decision) -> bool:
        """Show the decision; keep an approved change, and reject another one."""
        call = proposed.call
        tool = proposed.tool
        paths = proposed.proposal.paths
        self._show(
            proposed,
            applied=decision.is_approved,
            by=decision.by,
            channel=decision.channel,
            person=decision.person,
        )

        if not decision.is_approved:
            detail = "the user declined the change"
            summary = "declined by the user"
            return self._reject(call, tool, Refusal("user_rejected", paths, detail, summary))

        author = ProposedBy(
            tool=tool.name,
            call_id=call.request.id,
            paths=paths,
            applied_by=decision.by,
            channel=decision.channel,
            by=decision.person,
        )
        self._approved.add(ApprovedChange(call, proposed.proposal, author))
        return True

    def _reject_without_user(self, proposed: _Proposed, reason: str) -> Literal[False]:
        """Reject a change that needs the user, and note the open decision for the next run."""
        self._turn.unavailable_reason = reason
        decision = OpenDecision(
            "change",
            proposed.tool.name,
            reason,
            detail=tuple(map(str, proposed.lines)),
            arguments=proposed.call.state.arguments,
        )
        self._turn.note_open(decision)

        if proposed.call.state.rejections < MAX_REJECTIONS:  # the last rejection has its own notice
            self._show(proposed, applied=False, by="nobody", reason=reason)

        detail = f"the change needs the user's confirmation, and no user is available: {reason}"
        paths = proposed.proposal.paths
        summary = "confirmation unavailable"
        refusal = Refusal("confirmation_unavailable", paths, detail, summary)
        return self._reject(proposed.call, proposed.tool, refusal)

    def _reject(self, call: Call, tool: OfferedTool, refusal: Refusal) -> Literal[False]:
        """Note the reason for the next run of `tool`. Too many rejections end its call."""
        shown_name = spell_invisible(tool.name)
        call.state.rejections += 1
        if call.state.rejections > MAX_REJECTIONS:
            self._turn.display(Notice(RETRIES_EXHAUSTED_NOTICE.format(shown_name)))
            places = _format_places(refusal.paths)
            text = RETRIES_EXHAUSTED_TEXT.format(tool.name, MAX_REJECTIONS, refusal.summary, places)
            raise CallEnded(text, is_error=True)

        self._turn.display(Notice(_format_rejection(shown_name, refusal)))
        call.state.rejection = DeltaRejection(refusal.reason, refusal.paths, refusal.detail)
        return False

    def _show(
        self,
        proposed: _Proposed,
        *,
        applied: bool,
        by: Literal["person", "grant", "nobody"],
        channel: str | None = None,
        reason: str | None = None,
        person: str | None = None,
    ) -> None:
        """Show the decision about a change, and keep it for `jp.call`.

        The arguments are the fields of `ChangeEnds` with these names.
        """
        end = ChangeEnds(
            call_id=proposed.call.key,
            tool=proposed.tool.name,
            changes=proposed.lines,
            applied=applied,
            by=by,
            channel=channel,
            reason=reason,
            person=person,
            takes_effect=self._turn.applies_changes,
        )
        proposed.call.config_changes.append(end)
        self._turn.display(end)


def _format_places(paths: Sequence[str]) -> str:
    """Return the end of the message for the model: ` at user.name, style.color, 3 more`."""
    fields = [shorten_for_error(path) for path in paths[:NAMED_PATHS]]
    more = len(paths) - len(fields)
    if more:
        fields.append(f"{more} more")
    return f" at {', '.join(fields)}" if fields else ""


def _format_rejection(name: str, refusal: Refusal) -> str:
    """Return the notice for a rejection after which the tool of this `name` runs again."""
    match refusal.reason:
        case "user_rejected":
            return REJECTED_BY_USER_NOTICE
        case "confirmation_unavailable":  # the change itself was just displayed
            return NOT_APPLIED_NOTICE
        case _:
            lines = [f"  {line}" for line in refusal.lines or (refusal.detail,)]
            heading = NOTICE_HEADINGS[refusal.reason].format(name)
            return "\n".join([heading, *lines, NOT_APPLIED_NOTICE])
