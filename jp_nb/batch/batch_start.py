"""The start of a batch: its entry in the log, and the comparison of its plan with earlier runs.

The *log* in the output folder has the runs of all batches with this folder. Runs of changed
notebooks, or of removed parameters, are *dropped*: they are in no report any more. The lines of the
log about this come after the entry of the batch, and before those of its runs.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from jp_nb.batch.notebook_batch import BatchObserver
from jp_nb.batch.plans.plan_review import PlanReview, review_plan
from jp_nb.batch.plans.run_plan import RunPlan
from jp_nb.batch.results.out_folder import OutputFolder
from jp_nb.batch.results.run_log_lines import BatchLine, format_now
from jp_nb.packages import list_versions
from jp_nb.text import MAX_LISTED_LINES, one_line, pluralize


def start_batch(
    folder: OutputFolder,
    plan: RunPlan,
    progress: BatchObserver,
    *,
    is_resumed: bool,
    patterns: Sequence[str],
) -> None:
    """Log the start of the batch, drop outdated runs, and name what the plan does not have.

    Args:
        folder: The output folder, which is open.
        plan: The runs of the batch.
        progress: Shows the warnings.
        is_resumed: True with `--resume`.
        patterns: The patterns of `--rerun`.
    """
    _log_request(folder, plan, is_resumed=is_resumed)

    answered_runs = []
    if plan.answers is not None:
        answered_runs = [each.run for each in plan.answers.answers if each.run is not None]

    review = review_plan(
        plan,
        folder.log,
        base=plan.request.base,
        is_resumed=is_resumed,
        answered_runs=answered_runs,
        patterns=patterns,
    )
    for line in review.make_lines(format_now()):
        folder.writer.append(line)
    _tell_review(review, progress)


def _log_request(folder: OutputFolder, plan: RunPlan, *, is_resumed: bool) -> None:
    """Write the start of the batch into the log, with the request that `--resume` repeats."""
    pairs = (text.partition(" ") for text in list_versions())  # such as `jp_nb 1.2`
    line = BatchLine(
        time=format_now(),
        pid=os.getpid(),
        host=socket.gethostname(),
        versions={name: version for name, _, version in pairs},
        plan=plan.request.model_dump(mode="json"),
        resumed=is_resumed,
    )
    folder.writer.append(line)


def _tell_review(review: PlanReview, progress: BatchObserver) -> None:
    """Tell the user which runs were dropped, and which names of the user fit no run."""
    if review.dropped:
        count = len(review.dropped)
        progress.tell(
            f"{count:,} {pluralize('run', count)} of changed notebooks or removed parameters no "
            "longer count: their notebooks stay in the output folder"
        )
    for pattern in review.unmatched_patterns:
        progress.tell(f"--rerun {one_line(pattern, limit=80)}: no run has such an id or notebook")
    for run in review.unknown_runs[:MAX_LISTED_LINES]:
        progress.tell(f"the answers file has answers for {one_line(run, limit=120)}: no such run")
    if len(review.unknown_runs) > MAX_LISTED_LINES:
        more = len(review.unknown_runs) - MAX_LISTED_LINES
        progress.tell(f"the answers file has answers for {more:,} more runs that do not exist")
