"""Command `jp-nb run` with several notebooks, parameter sets, or models: start or resume a batch.

`run` is the entry of the command line. One notebook without the options of a batch is run by
`jp_nb/headless/commands/run.py`. Otherwise `run_batch` makes a plan of the options, and runs it in
a pool: in processes of this machine, or on a Dask cluster. The *log* in the output folder has the
runs of all batches with this folder. `batch_start.py` compares the plan with the log before the
runs, and `batch_end.py` writes the reports afterwards.

Functions import the modules that they need, because a run of one notebook needs few of them.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import gc
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jp_nb.batch.plans.notebook_search import names_several
from jp_nb.batch.pool_signals import run_pool
from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.early_interrupts import exit_on_interrupt
from jp_nb.jsonschema_import import delay_parsers

if TYPE_CHECKING:
    from jp_nb.batch.notebook_batch import BatchObserver, NotebookBatch
    from jp_nb.batch.plans.run_plan import RunPlan
    from jp_nb.batch.plans.run_selection import RunSelection
    from jp_nb.batch.plans.run_spec import RunSpec
    from jp_nb.batch.results.out_folder import OutputFolder
    from jp_nb.batch.workers.dask_pool import DaskPool
    from jp_nb.batch.workers.worker_pool import WorkerPool
    from jp_nb.batch.workers.worker_process import Worker
    from jp_nb.storage.configuration.answers_content import (
        AnswersFile,
    )
    from jp_nb.storage.shared_pace import RequestLimits

BATCH_OPTIONS: Final = (
    "parameters",
    "params",
    "each",
    "models",
    "workers",
    "preload",
    "dask",
    "order",
    "first_failure",
    "max_failures",
    "resume",
    "failed",
    "rerun",
    "max_total_tokens",
    "per_minute",
    "concurrent",
)
"""Options that make a batch of `jp-nb run`, by their names in the namespace."""


def run(options: argparse.Namespace) -> int:
    """Run one notebook, or a batch, and return the exit code."""
    # The end of the process then searches no garbage, which takes a third of a second.
    atexit.register(gc.freeze)

    if is_batch(options):
        return run_batch(options)

    from jp_nb.headless.commands.run import run as run_one

    [name] = options.notebooks
    options.notebook = Path(name)
    options.out = None if options.out is None else Path(options.out)
    return run_one(options)


def is_batch(options: argparse.Namespace) -> bool:
    """Return True if the options are those of a batch: more than one run, or a folder of results.

    Raises:
        UsageError: No notebook is named, and no option of a batch is given.
    """
    if any(getattr(options, name) for name in BATCH_OPTIONS):
        return True
    if not options.notebooks:
        raise UsageError("name a notebook, a folder, or a pattern")

    # `-o OUT/` asks for a folder, also for one notebook.
    if options.out is not None and (options.out.endswith(os.sep) or os.path.isdir(options.out)):
        return True
    return names_several(options.notebooks)


def run_batch(
    options: argparse.Namespace, *, make_worker: Callable[[], Worker] | None = None
) -> int:
    """Run the notebooks of a batch, and return the exit code.

    `make_worker` replaces the worker processes of this machine in tests.

    Raises:
        UsageError: The options are wrong. Nothing was run.
        KeyboardInterrupt: The user pressed Ctrl+C. The output folder has the results so far.
    """
    # Ctrl+C while the modules load ends the process at once. nbformat imports `jsonschema`, here
    # without its slow parsers.
    with exit_on_interrupt(), delay_parsers():
        from jp_nb.batch.batch_progress import make_progress
        from jp_nb.batch.batch_start import start_batch
        from jp_nb.batch.plans.batch_options import (
            find_output_folder,
            make_request,
            read_modules,
            refuse_single_run_options,
        )
        from jp_nb.batch.plans.limited_providers import check_limited_providers
        from jp_nb.batch.plans.run_plan import RunPlan
        from jp_nb.batch.results.out_folder import OutputFolder
        from jp_nb.storage.shared_pace import RequestLimits, make_pace_folder

    refuse_single_run_options(options)
    _refuse_local_options(options)
    preloaded = read_modules(options.preload)
    limits = RequestLimits(dict(options.per_minute), dict(options.concurrent))
    folder = OutputFolder(find_output_folder(options))

    with ExitStack() as stack:
        # The runs of this machine share the limits of requests through this folder.
        pace = stack.enter_context(make_pace_folder(limits))

        # Opening the folder reads its log. `--resume` repeats the last request in the log, so this
        # comes before the plan. A folder without a log is made later: a wrong plan makes none.
        if folder.has_log:
            stack.enter_context(folder)

        plan = RunPlan(make_request(options, folder.log), out=folder.path, limits=pace)
        check_limited_providers(
            (*limits.per_minute, *limits.concurrent),
            folders={notebook.path.parent for notebook in plan.notebooks},
            cfg=plan.request.cfg,
        )
        if not folder.is_open:
            stack.enter_context(folder)

        progress = make_progress(plan.count)
        for warning in plan.warnings:
            progress.tell(warning)

        start_batch(
            folder, plan, progress, is_resumed=options.resume is not None, patterns=options.rerun
        )
        batch = _make_batch(options, folder, plan, progress)
        pool: WorkerPool | DaskPool
        if options.dask is None:
            pool = _make_local_pool(options, plan, preloaded, make_worker)
        else:
            pool = _make_dask_pool(options, folder, limits, progress)

        signal_number = asyncio.run(run_pool(pool, batch))
        progress.close(batch.counts)

        from jp_nb.batch.batch_end import finish_batch  # the first runs need not wait for it

        is_complete = signal_number is None and batch.find_exit_code(strict=False) == 0
        try:
            finish_batch(
                batch,
                plan,
                folder.path,
                progress,
                junit=options.junit,
                is_complete=is_complete,
            )
        except StorageError as exc:
            # The runs are in the log all the same. This tells the user, and the exit code is 1.
            batch.stop(str(exc))

    if signal_number == signal.SIGINT:
        raise KeyboardInterrupt
    if signal_number is not None:
        return 128 + signal_number  # as a shell names the end of a program by a signal
    return batch.find_exit_code(strict=plan.request.strict)


def _refuse_local_options(options: argparse.Namespace) -> None:
    """Refuse options for the pool of one machine if the batch runs on a cluster.

    Raises:
        UsageError: There is such an option, or the cluster has no valid address.
    """
    if options.dask is None:
        return

    from jp_nb.batch.workers.dask_address import read_address

    read_address(options.dask)
    if options.workers:
        raise UsageError("`--workers` is for one machine: write `--dask local:N`, or omit it")
    if options.preload is not None:
        raise UsageError("`--preload` is for one machine: omit it with `--dask`")


def _make_batch(
    options: argparse.Namespace,
    folder: OutputFolder,
    plan: RunPlan,
    progress: BatchObserver,
) -> NotebookBatch:
    """Return the source of the runs for a pool: the plan in its order, with the rules to stop."""
    from jp_nb.batch.notebook_batch import NotebookBatch, StopRules
    from jp_nb.batch.plans.run_order import sort_longest_first

    max_failures = 1 if options.first_failure else options.max_failures
    tokens_before = folder.log.tokens if options.resume else 0
    specs: Iterable[RunSpec] = plan
    # The log has how long a run took before; runs that are not planned any more count as well.
    if options.order == "longest-first":
        specs = sort_longest_first(plan, [*folder.log.runs, *folder.log.dropped])

    return NotebookBatch(
        specs,
        folder.writer,
        selection=_make_selection(options, folder, plan.answers),
        rules=StopRules(max_failures, options.max_total_tokens, tokens_before),
        observer=progress,
    )


def _make_local_pool(
    options: argparse.Namespace,
    plan: RunPlan,
    preloaded: Sequence[str],
    make_worker: Callable[[], Worker] | None,
) -> WorkerPool:
    """Return the pool of this machine, with no more workers than runs."""
    from jp_nb.batch.workers.worker_count import choose_worker_count
    from jp_nb.batch.workers.worker_pool import WorkerPool
    from jp_nb.batch.workers.worker_process import WorkerProcess

    workers = options.workers or choose_worker_count()
    if make_worker is None:
        make_worker = partial(WorkerProcess, preloaded)
    return WorkerPool(min(workers, plan.count), make_worker)


def _make_dask_pool(
    options: argparse.Namespace,
    folder: OutputFolder,
    limits: RequestLimits,
    progress: BatchObserver,
) -> DaskPool:
    """Return the pool on the cluster that `--dask` names."""
    from jp_nb.batch.workers.dask_address import read_address
    from jp_nb.batch.workers.dask_pool import DaskPool
    from jp_nb.batch.workers.worker_count import choose_worker_count

    return DaskPool(
        read_address(options.dask),
        out=folder.path,
        workers=choose_worker_count(),
        limits=limits,
        tell=progress.tell,
    )


def _make_selection(
    options: argparse.Namespace, folder: OutputFolder, answers: AnswersFile | None
) -> RunSelection | None:
    """Return the runs of the plan that a resumed batch starts; None for a new one: all runs."""
    from jp_nb.batch.plans.run_selection import RunSelection

    if not options.resume:
        return None
    return RunSelection(
        [*folder.log.runs, *folder.log.dropped],
        folder.path,
        failed=options.failed,
        rerun=options.rerun,
        answers=answers,
    )
