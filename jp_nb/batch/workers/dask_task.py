"""The task that a Dask worker executes: one run of a batch.

`dask_pool.py` submits `run_parcel` for each run. The run itself is executed by a worker process, as
in a pool of one machine (`worker_process.py`), so that a dead kernel does not end the Dask worker.
The processes stay for later runs (`dask_processes.py`).

A task asks the batch before it starts its run, and waits until the batch has noted the start in its
log, or has decided that the run must not start. Dask may start a task again whose Dask worker died.
A run has effects, so the batch refuses the second start.

The task never raises for a run that failed: Dask would log its arguments.

The scheduler's metadata of a batch has its notes for the tasks: the answers to their questions, by
the number of the answer, and the order to end all runs:

    {BATCH: {"noted": {0: ["TOKEN of the task", True]}, "stop": True}}

Source: `docs/many-notebooks.md`, https://distributed.dask.org/en/stable/resilience.html.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from jp_nb.batch.plans.planned_notebook import digest_file
from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.results.run_log_lines import EndedLine, FailedCell, RunOutcome
from jp_nb.batch.workers.dask_processes import PROCESSES
from jp_nb.batch.workers.run_parcel import RunParcel, collect, unpack
from jp_nb.batch.workers.worker_process import WorkerDiedError
from jp_nb.file_reading import read_regular
from jp_nb.headless.terminal_text import format_text
from jp_nb.storage.shared_pace import write_limits

MAX_PROBE_BYTES: Final = 100
"""Size limit of the file by which a worker recognizes the output folder of the batch."""
STOP: Final = "stop"
"""Key of the scheduler's metadata that ends all runs of a batch."""
STOP_PAUSE_S: Final = 1.0
"""Seconds between two looks at this key."""
NOTED: Final = "noted"
"""Key of the scheduler's metadata with the answers of the batch, by their numbers."""
NOTED_PAUSE_S: Final = 0.01
"""Seconds between two looks at this key."""
NOTED_WAIT_S: Final = 60.0
"""Seconds that a task waits for the answer of its batch, which may be gone."""


@dataclass(frozen=True, slots=True)
class RunReturn:
    """Return value of a task.

    Attributes:
        end: The end of the run; None if it did not start.
        files: Files that the run wrote, by the field of the specification.
        needs_files: True if it did not start because the worker does not see its files. The batch
            then submits the run again with these.
    """

    end: RunEnd | None
    files: dict[str, bytes] = field(default_factory=dict)
    needs_files: bool = False

    def __repr__(self) -> str:
        return "<end of a run>"


def run_parcel(parcel: RunParcel) -> RunReturn:
    """Execute a run on this Dask worker."""
    from distributed import get_client  # only Dask workers execute this

    if parcel.files is None and not _shares_folders(parcel):
        return RunReturn(None, needs_files=True)

    client: Any = get_client()
    if not _may_start(client, parcel):
        return RunReturn(None)

    if parcel.files is not None:
        with tempfile.TemporaryDirectory(prefix="jp-nb-run-") as folder:
            return _execute_in_folder(client, parcel, Path(folder))

    spec = parcel.spec
    if not Path(spec.limits).is_dir():  # the folder of another machine
        spec = _use_pace_of_machine(parcel, spec)
    return RunReturn(_execute(client, parcel, spec))


def end_idle_processes() -> None:
    """End the worker processes of this Dask worker that execute no run: the batch has ended."""
    PROCESSES.end_idle()


def _make_end(run: str, outcome: RunOutcome, reason: str) -> RunEnd:
    cell = FailedCell(error=format_text(reason))
    return RunEnd(line=EndedLine(run=run, outcome=outcome, failed_cells=(cell,)))


def _shares_folders(parcel: RunParcel) -> bool:
    """Return True if this machine has the notebook and the output folder at the same paths."""
    try:
        probe = read_regular(Path(parcel.probe), max_bytes=MAX_PROBE_BYTES)
        digest = digest_file(Path(parcel.spec.path))
    except OSError:
        return False
    return probe == parcel.batch.encode() and digest == parcel.spec.notebook_digest


def _may_start(client: Any, parcel: RunParcel) -> bool:
    """Ask the batch if the run may start, and wait until it has noted the start.

    An answer without the token of this task is for an earlier task with the same number. Without
    any answer, the batch has ended, and the run does not start.
    """
    from distributed import get_worker

    token = uuid4().hex
    worker = get_worker()  # the Dask worker that executes this task
    request = {  # a `StartRequest` (`dask_cluster.py`)
        "run": parcel.spec.run,
        "worker": worker.address,
        "number": parcel.answer_number,
        "token": token,
    }
    worker.log_event(parcel.batch, request)  # `DaskCluster.listen` gets it

    until = time.monotonic() + NOTED_WAIT_S
    while time.monotonic() < until:
        answer = client.get_metadata([parcel.batch, NOTED, parcel.answer_number], default=None)
        if answer is not None and answer[0] == token:
            return bool(answer[1])
        time.sleep(NOTED_PAUSE_S)
    return False


def _execute_in_folder(client: Any, parcel: RunParcel, folder: Path) -> RunReturn:
    """Execute a run whose files have traveled with it, in an empty `folder` of this machine."""
    spec = _use_pace_of_machine(parcel, unpack(parcel, folder))
    end = _execute(client, parcel, spec)
    try:
        return RunReturn(end, collect(spec))
    except OSError as exc:
        reason = f"the result cannot travel back: {exc.strerror or exc}"
        return RunReturn(_make_end(spec.run, "failed", reason))


def _use_pace_of_machine(parcel: RunParcel, spec: RunSpec) -> RunSpec:
    """Return `spec` with a folder of request limits that all runs on this machine share."""
    folder = Path(tempfile.gettempdir(), f"jp-nb-pace-{parcel.batch}")
    if not folder.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_limits(folder, parcel.limits)
    return spec.model_copy(update={"limits": str(folder)})


def _execute(client: Any, parcel: RunParcel, spec: RunSpec) -> RunEnd:
    """Execute a run on a worker process, and kill the process if the batch was killed.

    The future `running.end` then raises `WorkerDiedError`.
    """
    running = PROCESSES.start(spec)
    while True:
        try:
            return running.end.result(STOP_PAUSE_S)
        except TimeoutError:
            if _is_stopped(client, parcel):
                running.process.kill()
        except WorkerDiedError as exc:
            return _make_end(spec.run, "unknown", str(exc))


def _is_stopped(client: Any, parcel: RunParcel) -> bool:
    """Return True if the batch was killed, or if its scheduler is lost."""
    try:
        return bool(client.get_metadata([parcel.batch, STOP], default=False))
    except (OSError, TimeoutError):
        return True
