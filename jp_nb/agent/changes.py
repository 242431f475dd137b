"""Configuration changes that tools propose: reviewed, confirmed, kept until the batch is done.

A proposal that is not applied has its tool run again and told why, three times at most. What is
approved is provisional: it waits in a plain list, outside of everything that stores itself, and
becomes one entry of the record when the batch ends well.

Source: `spec/tools-and-turn-loop.md` sections 8 and 10, `design/architecture.md` D6, D29, D38.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Final, Literal, Protocol, assert_never

from pydantic import JsonValue

from jp_nb.agent.calls import Call
from jp_nb.agent.change_lines import proposed_changes
from jp_nb.agent.decisions import Approval, approval
from jp_nb.agent.offer import OfferedTool
from jp_nb.agent.ports import (
    ChangeEnds,
    Channel,
    Display,
    NobodyThere,
    Notice,
    Prompter,
)
from jp_nb.agent.prompt_queue import PromptQueue
from jp_nb.config.folding import folded
from jp_nb.config.proposal import Basis, Proposal, Refusal, malformed, not_confirmed, review
from jp_nb.record.events import ConfigDelta
from jp_nb.record.proposals import ProposedBy, metadata_of
from jp_nb.tools.context import DeltaRejection
from jp_nb.tools.outcome import Success

MAX_REJECTIONS: Final = 3
"""So many proposals of one call may be rejected; the next rejection ends the call (8.8)."""

EXHAUSTED = "⚠ Tool '{}' exceeded delta retry limit. Aborting tool call."
FALLBACK = "Tool '{}' failed to produce a valid config delta after {} attempts.\nLast error: {}{}."
REJECTED_BY_USER = "Config delta rejected. Tool re-invoked."
NOT_APPLIED = "Change not applied, tool re-invoked."
HEADS = {
    "invalid_config": "⚠ Tool '{}' proposed an invalid config change:",
    "unauthorized_paths": "⚠ Tool '{}' proposed a config change that it is not granted:",
}


class Proposers(Protocol):
    """What becomes of the calls that propose something."""

    def config_settled(self, call: Call, tool: OfferedTool, content: str) -> None:
        """Its change is decided: what the model reads is next."""
        ...

    def run_again(self, call: Call, tool: OfferedTool) -> None:
        """Run `tool` once more: why is in `call.rejection`."""
        ...

    def finish(
        self, call: Call, content: str, *, is_error: bool = False, skipped: bool = False
    ) -> None:
        """`call` ends with that response."""
        ...

    def nobody_decides(self, nobody: NobodyThere) -> None:
        """A person was needed, and nobody is there."""
        ...


@dataclass(frozen=True, slots=True)
class _Approved:
    """A change that waits for the end of its batch."""

    call: Call
    proposal: Proposal
    by: ProposedBy


class Changes:
    """The configuration changes of one turn's batches. All of it in the coordinator's loop.

    Args:
        calls: What becomes of the calls that propose something.
        display: Shows what happens.
        prompter: Says whether somebody is there.
        prompts: Where prompts wait.
    """

    def __init__(
        self,
        calls: Proposers,
        *,
        display: Display,
        prompter: Prompter,
        prompts: PromptQueue,
    ) -> None:
        self._calls = calls
        self._display = display
        self._prompter = prompter
        self._prompts = prompts
        self._basis = Basis()
        self._visible: dict[str, JsonValue] = {}
        self._approved: list[_Approved] = []

    # --- the buffer --------------------------------------------------------------------------

    def begin(self, basis: Basis) -> None:
        """A batch begins: nothing is approved, and every tool sees the configuration as it is."""
        if basis is not self._basis:
            self._visible.clear()
        self._basis = basis
        self._approved.clear()

    def visible(self, tool: OfferedTool) -> JsonValue:
        """What `tool` may see of the configuration with which the batch began; None if nothing.

        The same for every run in the batch, whatever was approved since.
        """
        if tool.grants is None:
            return None
        if tool.name not in self._visible:
            self._visible[tool.name] = tool.grants.visible(self._basis.config)
        return copy.deepcopy(self._visible[tool.name])

    def discard(self) -> list[Call]:
        """Forget what was approved; the calls whose change that was."""
        calls = [approved.call for approved in self._approved]
        self._approved.clear()
        return calls

    def take(self) -> ConfigDelta | None:
        """Everything approved as one entry, folded in call order; None if that is nothing."""
        approved = sorted(self._approved, key=lambda one: one.call.index)
        self._approved.clear()
        if not approved:
            return None
        change = folded(
            [one.proposal.change for one in approved], self._basis.partial, self._basis.below
        )
        paths = dict.fromkeys(path for one in approved for path in one.proposal.paths)
        return ConfigDelta(
            delta=change.delta,
            unsets=change.unsets,
            claims=dict.fromkeys(paths, None),
            metadata=metadata_of([one.by for one in approved]),
        )

    # --- one proposal ------------------------------------------------------------------------

    def propose(self, call: Call, tool: OfferedTool, outcome: Success) -> None:
        """See through what a run of `tool` proposes, and then have its content delivered."""
        if outcome.malformed is not None:
            self._reject(call, tool, malformed(outcome.malformed))
            return
        found = review(outcome.config, outcome.unset, tool.rights, self._basis)
        match found:
            case None:
                self._calls.config_settled(call, tool, outcome.content)
            case Refusal():
                self._reject(call, tool, found)
            case Proposal(asks=True):
                self._confirm(call, tool, outcome.content, found)
            case Proposal():
                self._approve(call, tool, outcome.content, found, "grant")
            case _:
                assert_never(found)

    def _confirm(self, call: Call, tool: OfferedTool, content: str, proposal: Proposal) -> None:
        nobody = self._prompter.nobody()
        if nobody is not None:
            self._not_confirmed(call, tool, proposal, nobody.reason)
            return
        shown = list(proposed_changes(proposal, self._basis))

        def settle(decided: Approval) -> None:
            match decided.decision:
                case "applied":
                    self._approve(call, tool, content, proposal, "person", decided.channel)
                case "rejected":
                    self._declined(call, tool, proposal, decided.channel)
                case "interrupted":  # that decides nothing: it is asked again if the batch goes on
                    self._confirm(call, tool, content, proposal)
                case "nobody":
                    self._not_confirmed(call, tool, proposal, decided.reason)
                case _:
                    assert_never(decided.decision)

        self._prompts.add(lambda ask: approval(ask, tool.name, shown), settle=settle)

    def _approve(
        self,
        call: Call,
        tool: OfferedTool,
        content: str,
        proposal: Proposal,
        by: Literal["person", "grant"],
        channel: Channel | None = None,
    ) -> None:
        proposed_by = ProposedBy(tool.name, call.request.id, proposal.paths, by, channel)
        self._approved.append(_Approved(call, proposal, proposed_by))
        self._show(call, tool, proposal, applied=True, by=by, channel=channel)
        self._calls.config_settled(call, tool, content)

    def _declined(
        self, call: Call, tool: OfferedTool, proposal: Proposal, channel: Channel | None
    ) -> None:
        self._show(call, tool, proposal, applied=False, by="person", channel=channel)
        detail = "the user declined the change"
        self._reject(
            call,
            tool,
            not_confirmed(proposal, "user_rejected", detail, "declined by the user"),
        )

    def _not_confirmed(
        self, call: Call, tool: OfferedTool, proposal: Proposal, reason: str
    ) -> None:
        self._calls.nobody_decides(NobodyThere(reason))
        if call.rejections < MAX_REJECTIONS:  # the last time says so itself
            self._show(call, tool, proposal, applied=False, by="nobody", reason=reason)
        detail = f"the change needs a person's confirmation and nobody can be asked: {reason}"
        self._reject(
            call,
            tool,
            not_confirmed(proposal, "confirmation_unavailable", detail, "confirmation unavailable"),
        )

    def _reject(self, call: Call, tool: OfferedTool, refusal: Refusal) -> None:
        """Have `tool` run again, told why; or end its call, if that was one time too often."""
        call.rejections += 1
        if call.rejections > MAX_REJECTIONS:
            self._display(Notice(EXHAUSTED.format(tool.name)))
            place = f" at {', '.join(refusal.fields)}" if refusal.fields else ""
            text = FALLBACK.format(tool.name, MAX_REJECTIONS, refusal.short, place)
            self._calls.finish(call, text, is_error=True)
            return
        self._display(Notice(_notice(tool.name, refusal)))
        call.rejection = DeltaRejection(refusal.reason, refusal.fields, refusal.detail)
        self._calls.run_again(call, tool)

    def _show(
        self,
        call: Call,
        tool: OfferedTool,
        proposal: Proposal,
        *,
        applied: bool,
        by: Literal["person", "grant", "nobody"],
        channel: Channel | None = None,
        reason: str | None = None,
    ) -> None:
        changes = tuple(proposed_changes(proposal, self._basis))
        self._display(ChangeEnds(call.key, tool.name, changes, applied, by, channel, reason))


def _notice(name: str, refusal: Refusal) -> str:
    """What the person is told about a rejection after which the tool runs again (8.9)."""
    match refusal.reason:
        case "user_rejected":
            return REJECTED_BY_USER
        case "confirmation_unavailable":  # what it is about has just been shown
            return NOT_APPLIED
        case _:
            shown = refusal.lines or (refusal.detail,)
            return "\n".join(
                [HEADS[refusal.reason].format(name), *(f"  {x}" for x in shown), NOT_APPLIED]
            )
