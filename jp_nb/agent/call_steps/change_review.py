"""Review the configuration changes that a batch's tools propose, and collect the approved ones.

A change is checked against the access rules of its tool. Then the user approves or rejects it,
unless a rule grants it. After a rejection, the tool runs again and gets the reason, at most three
times. When the batch ends, its approved changes become one entry of the record.

Source: `docs/turns.md`, `docs/decisions.md` D6, D29, D38.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.call_steps.proposed_changes import has_no_effect, iter_proposed_changes
from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.prompt_line import PromptLine
from jp_nb.agent.display import ChangeEnds, Notice, Waits
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prepared_answers import (
    ANSWERS_CHANNEL,
    DeclinedByFile,
    GivenAnswer,
    OpenDecision,
)
from jp_nb.agent.prompting.prompt_ends import Answered, NotAnswered, Unavailable
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, ProposedChange
from jp_nb.agent.turn_state import TurnContext
from jp_nb.config.access_rules import Grants
from jp_nb.config.config_snapshot import ConfigSnapshot, complete_model_ids
from jp_nb.config.partials.change_squash import squash_changes
from jp_nb.config.proposal import Proposal, review_proposal
from jp_nb.config.refusal import Refusal, refuse_malformed
from jp_nb.config.tree.base import shorten_for_error
from jp_nb.record.entries.events import ConfigDelta
from jp_nb.record.entries.outcomes import NOT_IN_TIME
from jp_nb.record.entries.proposed_by import ProposedBy, make_proposal_metadata
from jp_nb.text import spell_invisible
from jp_nb.toolkit.outcome import Success
from jp_nb.toolkit.tool_context import DeltaRejection

MAX_REJECTIONS: Final = 3
"""Maximum number of rejected proposals of a call. The next rejection ends the call."""


NOTHING_TO_CHANGE_NOTICE = "⟳ {} proposed settings that are already set. Nothing to apply."
RETRIES_EXHAUSTED_NOTICE = "⚠ Tool '{}' exceeded delta retry limit. Aborting tool call."
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
    """Return the prompt about the `changes` that `tool` proposed. It names also hidden tools."""
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


class ConfigChanges:
    """Reviews and collects the changes of the configuration `basis` that a batch proposes."""

    def __init__(self, turn: TurnContext, basis: ConfigSnapshot, line: PromptLine) -> None:
        self._turn = turn
        self._basis = basis
        self._line = line
        self._visible: dict[str, JsonValue] = {}
        self._approved: list[tuple[_Proposed, ProposedBy]] = []

    def read_visible_config(self, tool: OfferedTool) -> JsonValue:
        """Return a copy of the settings that `tool` may read; None if it may read none.

        Changes that are approved during the batch are not visible before its end.
        """
        if tool.grants is None:
            return None
        if tool.name not in self._visible:
            self._visible[tool.name] = tool.grants.select_readable(self._basis.values)
        return copy.deepcopy(self._visible[tool.name])  # tools may modify what they get

    @property
    def has_approved(self) -> bool:
        """True if an approved change waits for the end of the batch."""
        return bool(self._approved)

    def is_approved(self, call: Call) -> bool:
        """Return True if a change of `call` waits for the end of the batch."""
        return any(approved.call is call for approved, _ in self._approved)

    def discard(self) -> list[Call]:
        """Discard the approved changes; return the calls that proposed them."""
        calls = [approved.call for approved, _ in self._approved]
        self._approved.clear()
        return calls

    def take(self) -> ConfigDelta | None:
        """Remove the approved changes and return them as one entry, in call order; or None."""
        if not self._approved:
            return None

        self._approved.sort(key=lambda approved: approved[0].call.index)
        proposals = [approved.proposal for approved, _ in self._approved]
        changes = [proposal.change for proposal in proposals]
        change = squash_changes(changes, self._basis.partial, self._basis.defaults)
        paths: dict[str, None] = {}
        for proposal in proposals:
            paths |= dict.fromkeys(proposal.paths)
        authors = make_proposal_metadata([author for _, author in self._approved])

        self._approved.clear()
        return ConfigDelta(
            delta=complete_model_ids(change.delta, self._basis),
            unsets=change.unsets,
            claims=paths,
            metadata=authors,
        )

    async def review(self, call: Call, tool: OfferedTool, outcome: Success) -> bool:
        """Return True if the changes that a run of `tool` proposed are approved or have no effect.

        False if they are rejected: the tool runs again, with the reason in `CallState.rejection`.

        Raises:
            CallEnded: Too many proposals were rejected.
        """
        if outcome.malformed is not None:
            return self._reject(call, tool, refuse_malformed(outcome.malformed))

        grants = tool.grants or Grants(())
        reviewed = review_proposal(outcome.config, outcome.unset, grants, self._basis)
        match reviewed:
            case None:
                return True
            case Refusal():
                return self._reject(call, tool, reviewed)
            case Proposal():
                if reviewed.needs_approval and has_no_effect(reviewed):
                    self._turn.display(
                        Notice(NOTHING_TO_CHANGE_NOTICE.format(spell_invisible(tool.name)))
                    )
                    return True
                proposed = _Proposed(call, tool, reviewed, tuple(iter_proposed_changes(reviewed)))
                if reviewed.needs_approval:
                    return await self._get_approval(proposed)
                return self._decide(proposed, approved=True, by="grant")
            case _:
                assert_never(reviewed)

    async def _get_approval(self, proposed: _Proposed) -> bool:
        prepared = self._turn.prepared.find_decision(
            "change", proposed.tool.name, proposed.call.state.arguments
        )
        if isinstance(prepared, GivenAnswer | DeclinedByFile):
            is_approved = isinstance(prepared, GivenAnswer)
            return self._decide(
                proposed, approved=is_approved, by="person", channel=ANSWERS_CHANNEL
            )

        unavailable = self._turn.prompter.unavailable()
        if unavailable is not None:
            return self._reject_without_user(proposed, unavailable.reason)

        text = f"your decision on a change that {proposed.call.title} proposes"
        waits = Waits(proposed.call.key, text, person=True)
        prompt = make_approval_prompt(proposed.tool.name, proposed.lines)
        self._turn.display(waits)

        async with self._line.take_screen(after_run=True) as ask:
            end = await ask(prompt)
            while isinstance(end, NotAnswered) and end.end == "interrupted":  # no decision
                self._turn.display(waits)
                await self._line.wait_again()
                end = await ask(prompt)

        if isinstance(end, Unavailable):
            return self._reject_without_user(proposed, end.reason)
        if isinstance(end, NotAnswered) and end.end == "timed_out":
            return self._reject_without_user(proposed, NOT_IN_TIME)

        approved = isinstance(end, Answered) and end.value == "apply"
        return self._decide(
            proposed, approved=approved, by="person", channel=end.channel, person=end.by
        )

    def _decide(
        self,
        proposed: _Proposed,
        *,
        approved: bool,
        by: Literal["person", "grant"],
        channel: str | None = None,
        person: str | None = None,
    ) -> bool:
        """Show the decision; keep an approved change, and reject another one."""
        call = proposed.call
        tool = proposed.tool
        paths = proposed.proposal.paths
        self._show(proposed, applied=approved, by=by, channel=channel, person=person)

        if approved:
            author = ProposedBy(tool.name, call.request.id, paths, by, channel, person)
            self._approved.append((proposed, author))
            return True

        detail = "the user declined the change"
        summary = "declined by the user"
        return self._reject(call, tool, Refusal("user_rejected", paths, detail, summary))

    def _reject_without_user(self, proposed: _Proposed, reason: str) -> Literal[False]:
        self._turn.unavailable_reason = reason
        lines = tuple(map(str, proposed.lines))
        arguments = proposed.call.state.arguments
        decision = OpenDecision(
            "change", proposed.tool.name, reason, detail=lines, arguments=arguments
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
        call.state.rejections += 1
        if call.state.rejections > MAX_REJECTIONS:
            self._turn.display(Notice(RETRIES_EXHAUSTED_NOTICE.format(tool.name)))
            places = _format_places(refusal.paths)
            text = RETRIES_EXHAUSTED_TEXT.format(tool.name, MAX_REJECTIONS, refusal.summary, places)
            raise CallEnded(text, is_error=True)

        self._turn.display(Notice(_format_rejection(tool.name, refusal)))
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
        key = proposed.call.key
        name = proposed.tool.name
        counts = self._turn.applies_changes
        end = ChangeEnds(key, name, proposed.lines, applied, by, channel, reason, person, counts)
        proposed.call.changes.append(end)
        self._turn.display(end)


def _format_places(paths: Sequence[str]) -> str:
    """Return the end of the message for the model, which lists at most 10 paths."""
    fields = [shorten_for_error(path) for path in paths[:10]]
    more = len(paths) - len(fields)
    if more:
        fields.append(f"{more} more")
    return f" at {', '.join(fields)}" if fields else ""


def _format_rejection(name: str, refusal: Refusal) -> str:
    """Return the notice for a rejection after which the tool runs again."""
    match refusal.reason:
        case "user_rejected":
            return REJECTED_BY_USER_NOTICE
        case "confirmation_unavailable":  # the change itself was just displayed
            return NOT_APPLIED_NOTICE
        case _:
            lines = [f"  {line}" for line in refusal.lines or (refusal.detail,)]
            heading = NOTICE_HEADINGS[refusal.reason].format(name)
            return "\n".join([heading, *lines, NOT_APPLIED_NOTICE])
