"""Compact the active conversation when the user requests it, and undo compactions.

A compaction is an entry that replaces turns in later requests: by a summary that a model writes, or
by a shorter form of their tool calls. A plan has one step for each compaction.

Source: `docs/guide.md`, `docs/record.md`, `docs/decisions.md` D128, D129.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jp_nb.agent.compacting.compaction_plan import CompactionPlan, CompactionPlanner
from jp_nb.agent.token_estimates import ContextTokens
from jp_nb.agent.usage_counter import UsageCounter
from jp_nb.config.directives import Directive
from jp_nb.config.tree.compaction_settings import CompactionRule
from jp_nb.config.tree.turn_bounds import TurnBound
from jp_nb.record.changes.config_draft import Draft
from jp_nb.record.compactions.compaction import (
    find_last_step,
    list_active_compactions,
    make_revert,
    mark_as_one_step,
)
from jp_nb.record.entries.events import Compaction, ConfigDelta, Entry, is_usage_mark
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.stream import ConversationStream
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.past_turns.summary_job import SummaryJob
from jp_nb.session.turns.turn_runner import TurnRunner


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """Options of a compaction that the user requests.

    Attributes:
        rules: Rules that replace the configured ones; None: the configured ones.
        keep_first: Replaces this bound of each rule: the turns at the beginning that stay.
        keep_last: Replaces this bound of each rule: the turns at the end that stay.
        first: The first turn to compact. It has priority over the bounds of the rules.
        last: The last turn to compact, in the same way.
        directives: Changes of settings for the model that writes summaries.
    """

    rules: tuple[CompactionRule, ...] | None = None
    keep_first: str | None = None
    keep_last: str | None = None
    first: TurnBound | None = None
    last: TurnBound | None = None
    directives: tuple[Directive, ...] = ()


class ManualCompaction:
    """Compacts the active conversation, from the cell's thread, while no turn runs.

    First `make_plan`, then `carry_out` the plan.

    Raises:
        UsageError: A turn runs.
        ConfigError: A configuration file is not valid.
    """

    def __init__(self, active: ActiveConversation, turns: TurnRunner) -> None:
        turns.require_ready()
        self._active = active
        self._turns = turns

    @property
    def stream(self) -> ConversationStream:
        """The active conversation."""
        return self._active.document.conversation

    def make_plan(self, options: CompactionOptions) -> CompactionPlan:
        """Return the plan for `options`. Changes nothing.

        Raises:
            UsageError: A directive is not valid.
            ConfigError: The configuration with the directives is not valid.
        """
        settings = self._active.settings
        config = settings.draft(options.directives).config()
        rules = options.rules or config.conversation.compaction.effective_rules
        planner = CompactionPlanner(self.stream, self._providers, now=self._active.clock())

        bounds = {"keep_first": options.keep_first, "keep_last": options.keep_last}
        update = {name: bound for name, bound in bounds.items() if bound is not None}
        bounded_rules = [rule.model_copy(update=update) for rule in rules]

        steps = planner.make_steps(bounded_rules, first=options.first, last=options.last)
        # Rules of the user's own are carried out even if their summary saves no tokens.
        return planner.make_plan(steps, wants_summary=options.rules is not None)

    @property
    def _providers(self) -> tuple[str, ...]:
        return self._active.settings.projection.providers()

    def estimate_tokens(self) -> int:
        """Return the estimated number of tokens of the current context."""
        return ContextTokens().estimate(build_context(self.stream, self._providers))

    def carry_out(self, plan: CompactionPlan, options: CompactionOptions) -> list[Compaction]:
        """Carry out `plan`; return the recorded compactions.

        Raises:
            ProviderError: A model wrote no summary. Only its usage was recorded.
            ConfigError: The model does not exist. Nothing was recorded.
            KeyboardInterrupt: The kernel was interrupted. Only the usage was recorded.
        """
        # The last turn may be resumed later, so its open calls get no responses.
        self._turns.contexts.repair_conversation(resumes=True)
        if any(step.rule.summary is not None for step in plan.steps):
            return self._write_summaries(plan, options)

        entries = mark_as_one_step([step.make_entry() for step in plan.steps])
        self._record(entries)
        return entries

    def _record(self, entries: Sequence[Entry]) -> None:
        """Append `entries`, and let the next request build its context with them."""
        self.stream.append(*entries)
        self._turns.contexts.clear()

    def _write_summaries(
        self, plan: CompactionPlan, options: CompactionOptions
    ) -> list[Compaction]:
        """Let a model write the summaries of `plan`, and record the compactions."""
        settings = self._active.settings
        draft = settings.draft(options.directives)
        self._select_reply_scripts(draft, options)
        resolved = self._turns.cell_resolver.resolve(settings.snapshot(draft), self.stream.id)

        output = self._turns.runner.output.choose(resolved.basis.config)
        job = SummaryJob(plan, self._turns, resolved, output)
        try:
            compactions = self._run_job(job)
        except BaseException:
            self._record_usage_only(job.usage)
            raise

        recorded = job.usage.attach_usage_to_last(compactions)
        self._record(recorded)
        return recorded

    def _run_job(self, job: SummaryJob) -> list[Compaction]:
        """Run `job` while the cell shows it; raise `KeyboardInterrupt` if it was interrupted."""
        runner = self._turns.runner
        with runner.cell.interrupts.defer(), runner.output.showing_current():
            compactions = runner.run(job.run(self.stream, self._providers), job)

        if compactions is None:  # it was interrupted
            raise KeyboardInterrupt(
                "You stopped the compaction. The conversation is sent as before."
            )
        return compactions

    def _record_usage_only(self, usage: UsageCounter) -> None:
        """Record the tokens of requests that led to no compaction, if there are any.

        An empty `ConfigDelta` carries tokens that no other entry can carry.
        """
        mark = usage.attach_usage(ConfigDelta())
        entries = [mark] if is_usage_mark(mark) else []
        self._record(entries)

    def _select_reply_scripts(self, draft: Draft, options: CompactionOptions) -> None:
        """Select the scripts that the changed settings name.

        A script is a file with prepared replies. The provider `scripted` reads it in place of a
        model.
        """
        scripts = self._turns.resolver.scripts
        scripts.choose_changed(draft.made)
        for rule in options.rules or ():
            if rule.summary is not None:
                scripts.choose(rule.summary.model_dump(mode="json"), {})

    def find_last(self) -> list[Compaction]:
        """Return the newest compactions that were recorded together, which `undo` undoes."""
        active_compactions = list_active_compactions(self.stream.entries)
        return [placed.entry for placed in find_last_step(active_compactions)]

    def undo(self) -> list[Compaction]:
        """Undo the compactions that `find_last` returns, and return them."""
        compactions = self.find_last()
        if compactions:
            self._record([make_revert(entry) for entry in reversed(compactions)])
        return compactions
