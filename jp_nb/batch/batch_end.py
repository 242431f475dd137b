"""The end of a batch: warnings, cassettes, and reports, when its runs have ended.

The runs of this batch, and those of earlier ones in the same output folder, are read from the log.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from pathlib import Path

from jp_nb.batch.inboxes.unused_answers import find_unused_answers
from jp_nb.batch.notebook_batch import BatchObserver, NotebookBatch
from jp_nb.batch.plans.batch_request import BatchRequest
from jp_nb.batch.plans.recording_merge import merge_recordings
from jp_nb.batch.plans.run_plan import RunPlan
from jp_nb.batch.results.batch_junit import format_batch_junit
from jp_nb.batch.results.batch_report import write_reports
from jp_nb.batch.results.run_log import LOG_NAME, RunLog, read_run_log
from jp_nb.headless.files import replace_file_at
from jp_nb.storage.configuration.answers_content import AnswersFile
from jp_nb.text import one_line, pluralize


def finish_batch(
    batch: NotebookBatch,
    plan: RunPlan,
    folder: Path,
    progress: BatchObserver,
    *,
    junit: Path | None,
    is_complete: bool,
) -> None:
    """Warn of what did not run as the user meant, merge recordings, and write the reports.

    Args:
        batch: The batch whose runs have ended.
        plan: Its plan, with the answers and the request.
        folder: The output folder.
        progress: Shows the warnings.
        junit: The path of a JUnit report; None for none.
        is_complete: True if all runs passed or wait for a decision. Otherwise the recordings may
            lack exchanges, so the cassettes keep their old ones.

    Raises:
        StorageError: A file cannot be read or written. The runs are in the log all the same.
    """
    log = read_run_log(folder / LOG_NAME)
    # If the batch was stopped, a run that did not start may need the answers.
    if plan.answers is not None and not batch.stop_reason:
        _tell_unused_answers(plan.answers, batch, log, progress)
    _tell_unfit_runs(batch, folder, progress)

    _merge_recordings(folder, plan.request, log, progress, is_complete=is_complete)

    write_reports(folder, log)
    if junit is not None:
        report = format_batch_junit(log.runs, strict=plan.request.strict)
        replace_file_at(junit, report, folders=True)


def _tell_unused_answers(
    answers: AnswersFile, batch: NotebookBatch, log: RunLog, progress: BatchObserver
) -> None:
    """Warn of answers that no run asked for: a key may have a typo."""
    used_before = {key for state in log.runs for key in state.used_answers}
    for unused in find_unused_answers(answers, batch.used_answers, used_before):
        name = ".".join(one_line(part, limit=80) for part in unused.key)
        progress.tell(f"{answers.format_place(unused)}: {name} was not used: no run asked for it")


def _tell_unfit_runs(batch: NotebookBatch, folder: Path, progress: BatchObserver) -> None:
    """Name the waiting runs that did not run again, because their answers did not fit before."""
    count = len(batch.unfit_runs)
    if not count:
        return

    shown = one_line(batch.unfit_runs[0], limit=120)
    if count > 1:
        shown += f" and {count - 1:,} more"
    path = one_line(str(folder))
    progress.tell(
        f"{count:,} waiting {pluralize('run', count)} did not run again, because the answers did "
        f"not fit and have not changed: {shown}. `jp-nb inbox {path} --list` says why. Correct the "
        "answers, or add `--rerun` with the id"
    )


def _merge_recordings(
    folder: Path,
    request: BatchRequest,
    log: RunLog,
    progress: BatchObserver,
    *,
    is_complete: bool,
) -> None:
    """Merge the recordings of the runs into cassettes, if the batch has recorded."""
    if request.cassette in (None, "replay"):  # nothing was recorded
        return

    lines = merge_recordings(
        folder,
        Path(request.base),
        log.runs,
        file=request.cassette_file,
        keeps_old=request.cassette == "replay-or-record",
        is_complete=is_complete,
    )
    for line in lines:
        progress.tell(line)
