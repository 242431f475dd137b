"""A worker of a batch that executes nothing: each run ends at once.

`bench/many_specs.py` uses it instead of `jp_nb/batch/workers/worker.py`, with the same lines. As a
module that a Dask worker preloads, it replaces the worker processes of that Dask worker.

Each tenth run waits for the answer to one of 50 questions, and each hundredth has failed.
"""

from __future__ import annotations

import sys
import zlib
from functools import partial
from typing import Any

from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.results.run_log_lines import EndedLine, FailedCell, RunOutcome, TokenCounts
from jp_nb.batch.workers.worker_process import WorkerProcess

QUESTIONS = 50
PROGRAM = "bench.no_op_worker"


def end_run(spec: RunSpec) -> RunEnd:
    """Return the end of a run, which depends only on its id."""
    number = zlib.crc32(spec.run.encode())
    outcome: RunOutcome = "passed"
    failed: tuple[FailedCell, ...] = ()
    decisions: tuple[dict[str, Any], ...] = ()
    if number % 100 == 7:
        outcome = "failed"
        failed = (FailedCell(index=3, error=f"ValueError: no walk in {spec.parameters['n']}"),)
    elif number % 10 == 3:
        outcome = "waiting"
        decisions = (ask(number // 10 % QUESTIONS),)

    line = EndedLine(
        run=spec.run,
        outcome=outcome,
        seconds=number % 1000 / 100,
        requests=1,
        tokens=TokenCounts(input=number % 900, output=number % 200),
        failed_cells=failed,
        open_decisions=decisions,
    )
    return RunEnd(line=line)


def ask(number: int) -> dict[str, Any]:
    """Return an open question as the log has it."""
    question = {"id": "to", "text": f"To team {number}?", "answer_type": {"type": "text"}}
    place = {"cell": 2, "cell_id": "c", "turn": 0, "words": "I publish it."}
    return {"kind": "question", "tool": "publish", "question": question, "asked": [place]}


def main() -> None:
    """End each run of stdin."""
    for line in sys.stdin.buffer:
        spec = RunSpec.model_validate_json(line)
        sys.stdout.write(end_run(spec).model_dump_json() + "\n")
        sys.stdout.flush()


def dask_setup(worker: Any) -> None:
    """Replace the worker processes; Dask calls it in each Dask worker that preloads this module."""
    from jp_nb.batch.workers import dask_processes

    vars(dask_processes)["WorkerProcess"] = partial(WorkerProcess, program=PROGRAM)


if __name__ == "__main__":
    main()
