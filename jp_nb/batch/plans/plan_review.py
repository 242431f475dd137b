"""Compare the plan of a batch with the log of its folder, before anything runs.

A run is *dropped* if the batch does not plan it any more, and another one takes its place: its
notebook, its cassette, or its answers file has changed, or its parameters were removed from a
resumed batch. Dropped runs are in no report and ask for no decision. If the plan has one again, it
is *restored* with its result.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from pydantic import JsonValue

from jp_nb.batch.plans.run_spec import RunSpec
from jp_nb.batch.results.run_log import RunLog, RunState
from jp_nb.batch.results.run_log_lines import ReplannedLine
from jp_nb.json_writing import sorted_json

MAX_REPLANNED_RUNS: Final = 10_000
"""Ids in one line of the log. More have several lines."""


@dataclass(frozen=True, slots=True)
class PlanReview:
    """The runs that the plan of a batch lacks, and those that it has again.

    Attributes:
        dropped: Ids of runs of the log that the batch does not plan any more.
        restored: Ids of runs that an earlier batch had dropped.
        unknown_runs: Ids of the answers file that no run has.
        unmatched_patterns: Patterns of `--rerun` that no run matches.
    """

    dropped: list[str]
    restored: list[str]
    unknown_runs: list[str]
    unmatched_patterns: list[str]

    def make_lines(self, time: str) -> list[ReplannedLine]:
        """Return the lines of the log about dropped and restored runs."""
        lines: list[ReplannedLine] = []
        count = max(len(self.dropped), len(self.restored))
        for begin in range(0, count, MAX_REPLANNED_RUNS):
            part = slice(begin, begin + MAX_REPLANNED_RUNS)
            dropped = tuple(self.dropped[part])
            lines.append(
                ReplannedLine(dropped=dropped, restored=tuple(self.restored[part]), time=time)
            )
        return lines


def review_plan(
    plan: Iterable[RunSpec],
    log: RunLog,
    *,
    base: str,
    is_resumed: bool,
    answered_runs: Iterable[str] = (),
    patterns: Iterable[str] = (),
) -> PlanReview:
    """Compare `plan` with `log`, in one pass and with the memory that the log takes.

    Args:
        plan: The runs of the batch.
        log: The log of earlier batches in the folder.
        base: The folder to which the names of the plan's notebooks are relative.
        is_resumed: True if the batch resumes the last one, whose other runs are then dropped.
        answered_runs: Ids of runs in the answers file.
        patterns: The patterns of `--rerun`.
    """
    current_runs = {state.run: state for state in log.runs}  # without dropped ones
    earlier_versions = _index_by_inputs(log.runs, base)
    dropped_before = {state.run for state in log.dropped}
    dropped: dict[str, None] = {}
    restored: dict[str, None] = {}

    # The plan removes its runs, and what is left at the end has no run in the plan.
    unplanned = set[str]()
    if is_resumed:
        unplanned = set(log.last_runs) & current_runs.keys()
    unknown_runs = dict.fromkeys(answered_runs)
    unmatched = dict.fromkeys(patterns)

    # A new folder needs no pass over a plan that may have a million runs.
    if not current_runs and not dropped_before and not unknown_runs and not unmatched:
        return PlanReview([], [], [], [])

    for spec in plan:
        unplanned.discard(spec.run)
        unknown_runs.pop(spec.run, None)
        for pattern in [each for each in unmatched if matches_run_pattern(spec, each)]:
            del unmatched[pattern]
        if spec.run in dropped_before:
            restored[spec.run] = None
        if not earlier_versions:
            continue

        # A run of the log with the same inputs and another id is of an earlier version of a file.
        inputs = _format_inputs(spec.notebook, spec.parameters, spec.overrides)
        for run in earlier_versions.get(inputs, ()):
            if run != spec.run:
                dropped[run] = None

    dropped.update((state.run, None) for state in log.runs if state.run in unplanned)
    return PlanReview([*dropped], [*restored], [*unknown_runs], [*unmatched])


def matches_run_pattern(spec: RunSpec | RunState, pattern: str) -> bool:
    """Return True if a pattern of `--rerun` fits the id or the notebook of the run."""
    return fnmatchcase(spec.run, pattern) or fnmatchcase(spec.notebook, pattern)


def _index_by_inputs(states: Iterable[RunState], base: str) -> dict[str, list[str]]:
    """Return the ids of runs by notebook, parameters, and overrides.

    Notebooks of other folders may have the same names, so only those relative to `base` count.
    """
    runs: dict[str, list[str]] = {}
    for state in states:
        if state.base == base:
            inputs = _format_inputs(state.notebook, state.parameters, state.overrides)
            runs.setdefault(inputs, []).append(state.run)
    return runs


def _format_inputs(
    notebook: str, parameters: Mapping[str, JsonValue], overrides: Mapping[str, str]
) -> str:
    return sorted_json([notebook, dict(parameters), dict(overrides)])
