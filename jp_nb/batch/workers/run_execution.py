"""Execute the run of a specification.

The worker calls `execute_run`. It runs the notebook with `jp_nb/headless/runner.py`, as `jp-nb run`
does for one notebook, and never raises for a run that failed: its end (`run_ends.py`) has the
reason.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from jp_nb.batch.plans.batch_cassettes import prepare_recording
from jp_nb.batch.plans.planned_notebook import digest_file
from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.workers.run_ends import (
    find_fatal_cause,
    make_ended_line,
    make_failed_end,
    make_interrupted_line,
)
from jp_nb.errors import JpNbError, StorageError
from jp_nb.headless.kernels.kernel_client import KernelBounds
from jp_nb.headless.runner import run_notebook


def execute_run(spec: RunSpec, bounds: KernelBounds | None = None) -> RunEnd:
    """Execute the run, and write its notebook.

    `bounds` limit the output, the processes, and the time to end of the kernel. Ctrl+C ends the
    run, and is its outcome.
    """
    start = time.monotonic()
    changed_before_ns = _read_change_ns(spec)
    if digest_file(Path(spec.path)) != spec.notebook_digest:
        reason = "the notebook's file has changed since the batch began: resume the batch"
        return make_failed_end(spec, reason, start=start)

    try:
        _prepare_recording(spec)
        result = run_notebook(
            spec.path,
            out=spec.output,
            strict=spec.strict,
            continue_=spec.continues,
            overrides=spec.cfg,
            settings=spec.settings,
            answers=Path(spec.answers) if spec.answers else None,
            timeout=spec.timeout_s,
            run_timeout=spec.run_timeout_s,
            run_id=spec.run,
            parameters=spec.parameters,
            bounds=bounds,
            pace=spec.limits,
        )
        return RunEnd(line=make_ended_line(spec, result, start))
    except JpNbError as exc:
        return make_failed_end(spec, str(exc), start=start, fatal=find_fatal_cause(exc))
    except KeyboardInterrupt:
        is_written = _read_change_ns(spec) != changed_before_ns
        return RunEnd(line=make_interrupted_line(spec, start, is_written=is_written))


def _prepare_recording(spec: RunSpec) -> None:
    """Begin the cassette of a run that records: empty, or as a copy of the one that it extends."""
    if spec.settings.get("providers.cassette.mode") not in ("record", "replay-or-record"):
        return

    # `os.devnull` is no regular file, so nothing is copied and the recording begins empty.
    source = Path(spec.recorded_before) if spec.recorded_before else Path(os.devnull)
    try:
        prepare_recording(source, Path(spec.settings["providers.cassette.path"]))
    except OSError as exc:
        raise StorageError(f"the recording cannot be written: {exc.strerror or exc}") from exc


def _read_change_ns(spec: RunSpec) -> int | None:
    """Return the time of the last change of the run's notebook; None if there is no notebook."""
    try:
        return Path(spec.output).stat().st_mtime_ns
    except OSError:
        return None
