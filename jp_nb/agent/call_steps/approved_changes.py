"""The approved configuration changes of a batch, which wait for its end.

When the batch ends, they become one entry of the record (`ConfigDelta`), which sets and unsets
paths. Its *claims* name the source that each changed path belongs to: none, because a tool set it.
Until then, no tool sees the changes, and an interrupt may discard them.

Source: `docs/turns.md`, `docs/decisions.md` D6, D29.
"""

from __future__ import annotations

from dataclasses import dataclass

from jp_nb.agent.calls.call import Call
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.partials.change_squash import squash_changes
from jp_nb.config.proposal import Proposal
from jp_nb.record.entries.events import ConfigDelta
from jp_nb.record.entries.proposed_by import ProposedBy, make_proposal_metadata


@dataclass(frozen=True, slots=True, eq=False)
class ApprovedChange:
    """A change that `call` proposed, with the tool and the decision for the record (`author`)."""

    call: Call
    proposal: Proposal
    author: ProposedBy


class ApprovedChanges:
    """Collects the approved changes of the configuration `basis` until the batch ends."""

    def __init__(self, basis: ConfigSnapshot) -> None:
        self._basis = basis
        self._changes: list[ApprovedChange] = []

    @property
    def are_waiting(self) -> bool:
        """True if an approved change waits for the end of the batch."""
        return bool(self._changes)

    def has_change_of(self, call: Call) -> bool:
        """Return True if a change of `call` waits for the end of the batch."""
        return any(change.call is call for change in self._changes)

    def add(self, change: ApprovedChange) -> None:
        """Keep `change` until the batch ends."""
        self._changes.append(change)

    def discard(self) -> list[Call]:
        """Discard the approved changes; return the calls that proposed them."""
        calls = [change.call for change in self._changes]
        self._changes.clear()
        return calls

    def take(self) -> ConfigDelta | None:
        """Remove the approved changes and return them as one entry, in call order; or None."""
        if not self._changes:
            return None

        # They were approved in any order. A later call has precedence over an earlier one.
        self._changes.sort(key=lambda change: change.call.index)
        proposals = [change.proposal for change in self._changes]
        parts = [proposal.change for proposal in proposals]
        # One change with the effect of all, in which no path is both set and unset.
        squashed = squash_changes(parts, self._basis.partial, self._basis.defaults)

        claims: dict[str, None] = {}  # None: no source
        for proposal in proposals:
            claims |= dict.fromkeys(proposal.paths)
        authors = make_proposal_metadata([change.author for change in self._changes])

        self._changes.clear()
        return ConfigDelta(
            delta=self._basis.complete_model_ids(squashed.delta),
            unsets=squashed.unsets,
            claims=claims,
            metadata=authors,
        )
