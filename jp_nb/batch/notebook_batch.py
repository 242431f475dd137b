"""A batch: the runs of a plan, the log of their starts and ends, and the reasons to stop.

`NotebookBatch` is the source of runs for a pool (`worker_pool.py`). It takes runs of a plan, skips
those that are done or repeated, and writes each start and end to the log. It gives out no further
run after too many failures, a full disk, an interrupt, or a reached budget. The exit code follows
from its counts.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from jp_nb.batch.plans.run_selection import RunSelection
from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.results.run_log import RunState
from jp_nb.batch.results.run_log_lines import (
    EndedLine,
    LogLine,
    RunOutcome,
    SkippedLine,
    StartedLine,
    format_now,
)
from jp_nb.batch.results.run_log_writer import RunLogWriter
from jp_nb.errors import StorageError


@dataclass(frozen=True, slots=True)
class StopRules:
    """Limits after which a batch starts no further run; None for no limit.

    Attributes:
        max_failures: Number of runs that failed, or whose end is unknown.
        max_total_tokens: Number of tokens, with those of earlier batches that it resumes.
        tokens_before: Number of tokens that the batch used before it was resumed.
    """

    max_failures: int | None = None
    max_total_tokens: int | None = None
    tokens_before: int = 0


@dataclass(slots=True)
class BatchCounts:
    """Counts of a batch so far.

    Attributes:
        outcomes: Number of ended runs by their outcome.
        done_before: Number of runs that earlier batches have done, by their outcome.
        requests: Number of requests to models.
        tokens: Number of tokens of these requests and their answers.
        repeated: Number of runs with the same digest as an earlier one, which do not start.
        waiting_with_failed_cell: Number of waiting runs with a failed cell, also of earlier
            batches. It may have failed for another reason than the open decision.
    """

    outcomes: Counter[RunOutcome] = field(default_factory=Counter)
    done_before: Counter[RunOutcome] = field(default_factory=Counter)
    requests: int = 0
    tokens: int = 0
    repeated: int = 0
    waiting_with_failed_cell: int = 0

    def note_failed_cells(self, run: RunState | EndedLine) -> None:
        """Count `run` if it waits and has a failed cell."""
        if run.outcome == "waiting" and run.failed_cells:
            self.waiting_with_failed_cell += 1


class BatchObserver(Protocol):
    """Shows the progress of a batch."""

    def start(self, spec: RunSpec) -> None:
        """Show that a run starts."""

    def end(self, spec: RunSpec, line: EndedLine, counts: BatchCounts) -> None:
        """Show the end of a run."""

    def tell(self, text: str) -> None:
        """Show a message to the user."""


class NotebookBatch:
    """The source of the runs of a batch: a `RunSource` (`worker_pool.py`).

    A pool calls `take`, `start`, and `end` on its event loop.

    Attributes:
        counts: The counts so far.
        stop_reason: Why no further run starts; "" if further runs may start.
        used_answers: Identities of the answers that each run used, by its id.
        unfit_runs: Ids of runs that wait, and do not run again: the answers for them did not fit,
            and have not changed.
    """

    def __init__(
        self,
        plan: Iterable[RunSpec],
        log: RunLogWriter,
        *,
        selection: RunSelection | None = None,
        rules: StopRules = StopRules(),
        observer: BatchObserver,
    ) -> None:
        self.counts = BatchCounts()
        self.stop_reason = ""
        self.used_answers: dict[str, tuple[tuple[str, ...], ...]] = {}
        self.unfit_runs: list[str] = []
        self._log = log
        self._selection = selection
        self._rules = rules
        self._observer = observer
        self._has_told_budget = False  # True once the user knows that the budget is reached
        self._seen_digests: set[int] = set()
        self._specs = self._select(plan)

    def _select(self, plan: Iterable[RunSpec]) -> Iterator[RunSpec]:
        """Yield the runs that have to start, and count the others."""
        for spec in plan:
            # 64 bits as a number, because there may be a million runs. By chance, two different
            # ones of a million have the same number in one of 30 million batches.
            key = int(spec.digest[:16], 16)
            if key in self._seen_digests:
                self.counts.repeated += 1
                continue
            self._seen_digests.add(key)

            if self._selection is None or self._selection.includes(spec):
                yield spec
            elif (state := self._selection.find(spec.run)) is not None:
                self.counts.done_before[state.outcome] += 1
                self.counts.note_failed_cells(state)
                if state.outcome == "waiting" and self._selection.has_only_tried_answers(state):
                    self.unfit_runs.append(state.run)

    def take(self) -> RunSpec | None:
        """Return the next run; None at the end of the plan, and if there is a `stop_reason`.

        A run that the budget does not allow is skipped, with a line in the log.
        """
        while not self.stop_reason:
            spec = next(self._specs, None)
            if spec is None or not self._is_over_budget():
                return spec
            self._skip(spec)
        return None

    def _is_over_budget(self) -> bool:
        budget = self._rules.max_total_tokens
        return budget is not None and self._count_used_tokens() >= budget

    def _count_used_tokens(self) -> int:
        return self._rules.tokens_before + self.counts.tokens

    def _skip(self, spec: RunSpec) -> None:
        """Note in the log that a run does not start, and tell the user of the first one."""
        used = f"{self._count_used_tokens():,} of {self._rules.max_total_tokens:,} tokens"
        reason = f"the batch has used {used}"
        if not self._has_told_budget:
            self._has_told_budget = True
            self._observer.tell(
                f"{reason}: no further run starts. To continue, resume it with a higher "
                "`--max-total-tokens`"
            )

        self.counts.outcomes["over_budget"] += 1
        self._append(
            SkippedLine(
                run=spec.run,
                notebook=spec.notebook,
                parameters=spec.parameters,
                overrides=spec.overrides,
                digest=spec.digest,
                reason=reason,
                time=format_now(),
            )
        )

    def start(self, spec: RunSpec, worker: int) -> bool:
        """Note in the log that a run starts; see `RunSource`.

        A pool on other machines takes runs before they start, and the batch may have ended since.
        """
        if self.stop_reason:
            return False
        if self._is_over_budget():
            self._skip(spec)
            return False

        is_noted = self._append(
            StartedLine(
                run=spec.run,
                notebook=spec.notebook,
                parameters=spec.parameters,
                overrides=spec.overrides,
                digest=spec.digest,
                time=format_now(),
                worker=worker,
            )
        )
        if is_noted:
            self._observer.start(spec)
        return is_noted

    def end(self, spec: RunSpec, end: RunEnd) -> None:
        """Note in the log how a run ended, and decide if further runs start."""
        line = end.line.model_copy(update={"time": format_now()})
        self._append(line)

        if spec.answers:
            self.used_answers[line.run] = line.used_answers
        counts = self.counts
        counts.outcomes[line.outcome] += 1
        counts.note_failed_cells(line)
        counts.requests += line.requests
        counts.tokens += line.tokens.input + line.tokens.output
        self._observer.end(spec, line, counts)

        if end.fatal:
            self.stop(f"{end.fatal}: no further run starts")

        failures = counts.outcomes["failed"] + counts.outcomes["unknown"]
        limit = self._rules.max_failures
        if limit is not None and failures >= limit:
            self.stop(f"{failures} failed: no further run starts")

    def stop(self, reason: str) -> None:
        """Start no further run."""
        if not self.stop_reason:
            self.stop_reason = reason
            self._observer.tell(reason)

    def _append(self, line: LogLine) -> bool:
        """Append `line` to the log. Return False if that fails, and start no further run then."""
        try:
            self._log.append(line)
        except StorageError as exc:
            self.stop(f"{exc}: no further run starts")
            return False
        return True

    def find_exit_code(self, *, strict: bool) -> int:
        """Return 0 if all runs of the batch passed, also earlier ones, and 1 if not."""
        ended = self.counts.outcomes + self.counts.done_before
        accepted: set[RunOutcome] = {"passed"} if strict else {"passed", "waiting"}
        has_failed = any(outcome not in accepted for outcome in ended)
        return 1 if has_failed or self.stop_reason else 0
