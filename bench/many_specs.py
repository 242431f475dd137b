"""Benchmark a batch with many runs that execute nothing: its memory, time, and reports.

    python -m bench.many_specs [--counts 10000 100000] [--ways pool dask cluster] [--folder DIR]

Worker processes of the project are replaced by one that ends each run at once (`no_op_worker`), so
the figures are those of the batch itself: its plan, its log, the hand-over of each run, and the
reports. Each row is a fresh process with two workers.

- `MB at 10 %`, `50 %`, `100 %`: memory of the batch's process once so many runs have ended. With
  `dask`, the scheduler is a part of this process. With `cluster`, the scheduler and the workers are
  processes of their own, as on a cluster that exists already.
- `MB peak`: with the reports, which read the whole log.
- `first s/1000`, `last s/1000`: seconds for 1,000 runs in the first and the last quarter. They are
  equal if the time is linear, and nothing else uses the machine.
- `CPU q1` to `q4`: processor time of the batch's process for 1,000 runs, in each quarter, in
  seconds. Other programs change it little, so it shows on a busy machine, too, if a run costs more
  after many runs. With `pool` and `cluster`, workers are not in it.
- `fsync`: share of the time in which the log was flushed to the disk.

A batch with `--one` also prints the figures so far to stderr after each tenth of its runs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import nbformat

from bench.no_op_worker import PROGRAM
from jp_nb.batch.batch_command import run_batch
from jp_nb.batch.results.open_decisions import group_open_decisions
from jp_nb.batch.results.run_log import LOG_NAME, read_run_log
from jp_nb.batch.workers.worker_process import WorkerProcess
from jp_nb.cli import parse_arguments

WAYS: Final = ("pool", "dask", "cluster")
WORKERS: Final = 2
SAMPLE_S: Final = 0.25
PRINTED_PERCENT: Final = 10
QUARTERS: Final = (1, 25, 50, 75, 99)
"""Percentages of ended runs between which the quarters are measured."""
COLUMNS: Final = (
    "way",
    "runs",
    "seconds",
    "first s/1000",
    "last s/1000",
    "CPU q1",
    "CPU q2",
    "CPU q3",
    "CPU q4",
    "fsync",
    "MB at 10 %",
    "MB at 50 %",
    "MB at 100 %",
    "MB peak",
    "log MB",
    "html MB",
    "json MB",
    "grouping s",
    "groups",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of this process at one moment: wall clock and processor time in seconds, memory."""

    time: float
    cpu: float
    memory_mb: float


class Sampler:
    """Takes a sample of this process in a thread, each time that another percent of runs has ended.

    Attributes:
        samples: The samples by the percentage of ended runs. Several have the same sample if their
            runs ended within `SAMPLE_S`.
    """

    def __init__(self, log: Path, count: int) -> None:
        self.samples: dict[int, Sample] = {}
        self._log = log
        self._count = count
        self._offset = 0
        self._ended = 0
        self._start = time.perf_counter()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._end.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._end.wait(SAMPLE_S):
            if not self._log.exists():
                continue
            with open(self._log, "rb") as file:
                file.seek(self._offset)
                added = file.read()
            self._offset += len(added)
            self._ended += added.count(b'"type":"ended"')

            percentage = 100 * self._ended // self._count
            if percentage not in self.samples:
                self._add_sample(percentage)

    def _add_sample(self, percentage: int) -> None:
        """Take a sample for `percentage`, and for those below that have none."""
        sample = Sample(time.perf_counter(), time.process_time(), read_memory_mb())
        for each in range(len(self.samples), percentage + 1):
            self.samples[each] = sample
            if each % PRINTED_PERCENT == 0:
                seconds = sample.time - self._start
                figures = f"{sample.memory_mb:.0f} MB, {seconds:.0f} s, {sample.cpu:.1f} s of CPU"
                print(f"\nbench: {each} %: {figures}", file=sys.stderr, flush=True)

    def measure_quarter(self, quarter: int) -> tuple[float, float]:
        """Return the wall clock and the processor time for 1,000 runs in a quarter, from 1.

        The first and the last percent do not count: there the batch starts and ends.
        """
        first = self.samples[QUARTERS[quarter - 1]]
        last = self.samples[QUARTERS[quarter]]
        percent = QUARTERS[quarter] - QUARTERS[quarter - 1]
        thousands = self._count * percent / 100 / 1000
        return (last.time - first.time) / thousands, (last.cpu - first.cpu) / thousands


def read_memory_mb() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_one(way: str, count: int, folder: Path, cluster: str | None) -> dict[str, Any]:
    """Run one batch in this process, and return its row.

    Args:
        way: `pool`, `dask`, or `cluster`.
        count: Number of runs.
        folder: An empty folder for the notebook, the parameters, and the results.
        cluster: The address of the scheduler, for the way `cluster`.
    """
    write_work(folder, count)
    out = folder / "OUT"
    arguments = ["run", str(folder / "walk.ipynb"), "--each", str(folder / "n.jsonl")]
    arguments += ["-o", str(out)]
    if way == "pool":
        arguments += ["--workers", str(WORKERS)]
    elif way == "dask":
        os.environ["DASK_DISTRIBUTED__WORKER__PRELOAD"] = PROGRAM
        arguments += ["--dask", f"local:{WORKERS}"]
    else:
        arguments += ["--dask", str(cluster)]

    fsync_s = 0.0
    fsync = os.fsync

    def timed_fsync(fd: Any) -> None:
        nonlocal fsync_s
        start = time.perf_counter()
        fsync(fd)
        fsync_s += time.perf_counter() - start

    os.fsync = timed_fsync
    sampler = Sampler(out / LOG_NAME, count)
    start = time.perf_counter()
    code = run_batch(
        parse_arguments(arguments), make_worker=partial(WorkerProcess, program=PROGRAM)
    )
    seconds = time.perf_counter() - start
    sampler.stop()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert code == 1, "some runs have failed"

    runs = read_run_log(out / LOG_NAME).runs
    assert len(runs) == count
    start = time.perf_counter()
    groups = len(group_open_decisions(runs).groups)
    grouping_s = time.perf_counter() - start

    last = max(sampler.samples)
    quarters = [sampler.measure_quarter(number) for number in (1, 2, 3, 4)]
    sizes = [path.stat().st_size / 1e6 for path in (out / LOG_NAME, *report_paths(out))]
    values = [
        way,
        count,
        round(seconds, 1),
        round(quarters[0][0], 2),
        round(quarters[-1][0], 2),
        *(round(cpu, 3) for _, cpu in quarters),
        f"{fsync_s / seconds:.0%}",
        *(round(sampler.samples[each].memory_mb) for each in (10, 50, last)),
        round(peak_mb),
        *(round(size, 1) for size in sizes),
        round(grouping_s, 2),
        groups,
    ]
    return dict(zip(COLUMNS, values, strict=True))


@contextmanager
def start_cluster(folder: Path) -> Iterator[str]:
    """Start a Dask scheduler and one worker process for each run at a time; yield the address."""
    address_file = folder / "scheduler.json"
    commands = [
        ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"],
        ["worker", "--nworkers", str(WORKERS), "--nthreads", "1", "--no-dashboard"],
    ]
    commands[1] += ["--preload", PROGRAM]
    with ExitStack() as processes:
        for command in commands:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *command, "--scheduler-file", str(address_file)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            processes.enter_context(process)
            processes.callback(process.terminate)

        while not address_file.exists() or not address_file.read_text():
            time.sleep(0.1)
        yield str(json.loads(address_file.read_text())["address"])


def report_paths(out: Path) -> tuple[Path, Path]:
    """Return the paths of the reports."""
    return out / "report.html", out / "report.json"


def write_work(folder: Path, count: int) -> None:
    """Write a notebook, and its sets of parameters."""
    cell = nbformat.v4.new_code_cell("n = 0")
    cell["id"] = "cell-0"
    cell.metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "walk.ipynb")
    with open(folder / "n.jsonl", "w", encoding="utf-8") as file:
        for number in range(count):
            file.write(f'{{"n": {number}}}\n')


def main() -> None:
    """Measure each way and number of runs in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["pool", "dask"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()

    if options.one:
        way = options.ways[0]
        with tempfile.TemporaryDirectory(dir=options.folder) as folder, ExitStack() as started:
            cluster = None
            if way == "cluster":
                cluster = started.enter_context(start_cluster(Path(folder)))
            row = measure_one(way, options.counts[0], Path(folder), cluster)
        print(f"\n{json.dumps(row)}")
        return

    for way in options.ways:
        for count in options.counts:
            print(measure_in_process(way, count, options.folder), flush=True)


def measure_in_process(way: str, count: int, folder: Path | None) -> str:
    """Return the row of one batch as text."""
    command = [sys.executable, "-m", "bench.many_specs", "--one"]
    command += ["--ways", way, "--counts", str(count)]
    if folder is not None:
        command += ["--folder", str(folder)]
    with tempfile.TemporaryFile() as printed:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=printed, check=False)
        if done.returncode:
            printed.seek(0)
            sys.exit(printed.read()[-3000:].decode(errors="replace"))
    row = json.loads(done.stdout.splitlines()[-1])
    return ", ".join(f"{name}: {value}" for name, value in row.items())


if __name__ == "__main__":
    main()
