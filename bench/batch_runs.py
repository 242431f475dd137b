"""Benchmark a batch of a small notebook beside other ways to run it with the same parameters.

    python -m bench.batch_runs [--rounds 5] [--copies 2] [--only WAY …] [--json FILE]

The notebook loads `jp_nb`, asks a model once, whose reply is on a cassette, and prints. Each round
runs it with 20 cities times `copies` sets in every way, in an order that changes from round to
round, so that other load of the machine meets all ways alike. Start and end of each program count.

Seconds are medians over the rounds, divided by the number of runs. Ratios are medians of the ratios
within a round. The memory is the largest sum over all processes at one time (proportional set
size), read twice a second. The processor time is that of all processes, read from a control group
if this user may make one. Linux only.

The notebooks of the pool and of the Dask cluster are compared byte by byte.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from jupyter_client.manager import AsyncKernelManager

WAYS: Final = (
    "pool",
    "preload",
    "dask",
    "loop",
    "papermill",
    "xargs papermill",
    "bare kernels",
)
AT_ONCE: Final = 2
"""Runs at the same time, of all ways but the loops."""
CITIES: Final = (
    "Delft",
    "Gouda",
    "Leiden",
    "Utrecht",
    "Zwolle",
    "Edam",
    "Hoorn",
    "Breda",
    "Tiel",
    "Venlo",
    "Assen",
    "Emmen",
    "Sneek",
    "Goes",
    "Kampen",
    "Ede",
    "Weert",
    "Oss",
    "Elburg",
    "Hulst",
)
CELLS: Final = (
    'city = ""\ncopy = 0',
    "%load_ext jp_nb",
    "%%jp -m scripted/guide\nName a walk in {{city}}.",
    "print(city, copy, sum(range(100_000)))",
)
SCRIPT: Final = '[[replies]]\ntext = "Walk along the canal, and cross the old bridge."\n'
EPOCH: Final = "1773835200"
SAMPLE_S: Final = 0.5
COMPARED: Final = ("pool", "preload", "dask")


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one way; `processor_s` is None without a control group."""

    way: str
    runs: int
    seconds: float
    peak_mb: float
    processor_s: float | None


# --- the work ------------------------------------------------------------------------------------


def write_work(folder: Path) -> None:
    """Write the notebook, and the script of its model."""
    cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    cells[0].metadata["tags"] = ["parameters"]

    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "walk.ipynb")
    (folder / "guide.toml").write_text(SCRIPT)


def write_sets(folder: Path, number: int, copies: int) -> list[dict[str, Any]]:
    """Write the sets of parameters of a round, and return them."""
    sets = [
        {"city": city, "copy": number * copies + copy} for copy in range(copies) for city in CITIES
    ]
    (folder / "sets.jsonl").write_text("".join(json.dumps(each) + "\n" for each in sets))
    return sets


def make_environment(folder: Path) -> dict[str, str]:
    """Return the environment of all ways: a home of their own, and the cassette to replay."""
    environment = {
        **os.environ,
        "HOME": str(folder),
        "IPYTHONDIR": str(folder / "ipython"),
        "XDG_DATA_HOME": str(folder / "data"),
        "SOURCE_DATE_EPOCH": EPOCH,
        "JP_CFG_PROVIDERS__CASSETTE__MODE": "replay",
        "JP_CFG_PROVIDERS__CASSETTE__PATH": str(folder / "walk.cassette.jsonl"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled
    return environment


def make_command(way: str, sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the command of `way`, which writes to the folder `OUT`."""
    run = [sys.executable, "-m", "jp_nb.cli", "run", "walk.ipynb"]
    batch = [*run, "--each", "sets.jsonl", "--replay", "-o", "OUT/"]
    papermill = [sys.executable, "-m", "papermill", "--no-progress-bar", "walk.ipynb"]
    workers = str(AT_ONCE)

    match way:
        case "pool":
            return [*batch, "--workers", workers]
        case "preload":
            return [*batch, "--workers", workers, "--preload", "jp_nb"]
        case "dask":
            return [*batch, "--dask", f"local:{workers}"]
        case "loop":
            lines = [
                shlex.join([*run, *_pass(each), "--replay", "-o", f"OUT/{number}/"])
                for number, each in enumerate(sets)
            ]
            return ["sh", "-ec", "\n".join(lines)]
        case "papermill" | "xargs papermill":
            words = [[f"OUT/{number}.ipynb", *_pass(each)] for number, each in enumerate(sets)]
            if way == "papermill":
                lines = [shlex.join([*papermill, *each]) for each in words]
                return ["sh", "-ec", "mkdir OUT\n" + "\n".join(lines)]
            arguments = "\n".join(shlex.join(each) for each in words)
            xargs = shlex.join(["xargs", "-P", workers, "-L", "1", *papermill])
            return ["sh", "-ec", f"mkdir OUT\n{xargs} <<'END'\n{arguments}\nEND"]
        case _:
            return [sys.executable, "-m", "bench.batch_runs", "--bare"]


def _pass(parameters: Mapping[str, Any]) -> list[str]:
    return [word for name, value in parameters.items() for word in ("-p", name, str(value))]


async def run_bare(folder: Path) -> None:
    """Execute the cells of the notebook with each set of parameters, and do nothing else."""
    sets = [json.loads(line) for line in (folder / "sets.jsonl").read_text().splitlines()]
    waiting = iter(sets)

    async def serve() -> None:
        for parameters in waiting:
            assigned = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
            await run_cells([CELLS[0], assigned, *CELLS[1:]], folder)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(serve())


async def run_cells(cells: Sequence[str], folder: Path) -> None:
    """Execute cells in a new kernel."""
    manager = AsyncKernelManager()
    await manager.start_kernel(cwd=str(folder))
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=120)
        for cell in cells:
            reply = await client.execute_interactive(
                cell, allow_stdin=False, output_hook=lambda message: None
            )
            assert reply["content"]["status"] == "ok", reply
    finally:
        client.stop_channels()
        await manager.shutdown_kernel()


# --- measurement ---------------------------------------------------------------------------------


class MemorySampler:
    """Reads the memory of a process and its descendants in a thread, and keeps the largest sum."""

    def __init__(self, pid: int) -> None:
        self.peak_mb = 0.0
        self._pid = pid
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._end.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._end.wait(SAMPLE_S):
            total_kb = sum(map(_read_memory_kb, _list_descendants(self._pid)))
            self.peak_mb = max(self.peak_mb, total_kb / 1024)


def _list_descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.name))

    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _read_memory_kb(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


@contextmanager
def make_control_group() -> Iterator[Path | None]:
    """Make a control group, which counts processor time; None if this user may not."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    roots = [Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"]
    group = None
    for root in roots[:1]:
        with suppress(OSError):
            path = root / f"jp-nb-bench-{os.getpid()}"
            path.mkdir()
            group = path

    try:
        yield group
    finally:
        if group is not None:
            with suppress(OSError):  # a process that a way has left
                group.rmdir()


def _read_processor_s(group: Path | None) -> float | None:
    if group is None:
        return None
    lines = (group / "cpu.stat").read_text().splitlines()
    [microseconds] = [line.split()[1] for line in lines if line.startswith("usage_usec")]
    return int(microseconds) / 1e6


def measure(
    way: str, sets: Sequence[Mapping[str, Any]], folder: Path, group: Path | None
) -> Measured:
    """Run all sets in one way."""
    command = make_command(way, sets)
    if group is not None:
        enter = f'echo $$ > {shlex.quote(str(group))}/cgroup.procs; exec "$@"'
        command = ["sh", "-ec", enter, "sh", *command]
    environment = make_environment(folder)
    environment["PYTHONPATH"] = os.getcwd()

    processor_before = _read_processor_s(group)
    start = time.perf_counter()
    with open(folder / "printed.txt", "wb") as printed:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=printed, stderr=subprocess.STDOUT
        )
        sampler = MemorySampler(process.pid)
        code = process.wait()
    seconds = time.perf_counter() - start
    sampler.stop()
    processor_after = _read_processor_s(group)

    if code:
        sys.exit(f"{way} ended with the code {code}:\n{(folder / 'printed.txt').read_text()}")
    processor_s = None
    if processor_before is not None and processor_after is not None:
        processor_s = processor_after - processor_before
    return Measured(way, len(sets), seconds, sampler.peak_mb, processor_s)


def check(way: str, count: int, folder: Path) -> dict[str, bytes]:
    """Return the notebooks that `way` wrote, by their names: one for each run, with its output."""
    if way == "bare kernels":
        return {}
    written = {path.name: path.read_bytes() for path in (folder / "OUT").rglob("*.ipynb")}
    assert len(written) == count, f"{way} wrote {len(written)} notebooks"
    for text in written.values():
        assert b"4999950000" in text
        assert b"cross the old bridge" in text
    return written


def report(found: Sequence[Measured]) -> None:
    """Print a line for each way."""
    ways = dict.fromkeys(each.way for each in found)
    by_way = {way: [each for each in found if each.way == way] for way in ways}
    bare = by_way.get("bare kernels", [])
    xargs = by_way.get("xargs papermill", [])

    print(
        f"{'way':<18}{'s/run':>8}{'least':>8}{'most':>8}{'cpu s/run':>11}{'peak MB':>9}"
        f"{'to bare':>9}{'cpu to bare':>13}{'xargs to it':>13}"
    )
    for way, rounds in by_way.items():
        seconds = [each.seconds / each.runs for each in rounds]
        processor = [each.processor_s / each.runs for each in rounds if each.processor_s]
        peak = max(each.peak_mb for each in rounds)
        print(
            f"{way:<18}{statistics.median(seconds):>8.3f}{min(seconds):>8.3f}{max(seconds):>8.3f}"
            f"{_format_median(processor):>11}{peak:>9.0f}"
            f"{_format_ratio(rounds, bare, _get_seconds):>9}"
            f"{_format_ratio(rounds, bare, _get_processor):>13}"
            f"{_format_ratio(xargs, rounds, _get_seconds):>13}",
            flush=True,
        )


def _get_seconds(each: Measured) -> float:
    return each.seconds


def _get_processor(each: Measured) -> float:
    return each.processor_s or 0.0


def _format_median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f}" if values else "-"


def _format_ratio(
    one: Sequence[Measured], other: Sequence[Measured], get: Callable[[Measured], float]
) -> str:
    pairs = zip(map(get, one), map(get, other), strict=False)
    ratios = [a / b for a, b in pairs if a and b]
    return f"{statistics.median(ratios):.2f}x" if ratios else "-"


# --- the program ---------------------------------------------------------------------------------


def main() -> int:
    """Measure all ways, and print a table after each round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        asyncio.run(run_bare(Path.cwd()))
        return 0

    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as temporary, make_control_group() as group:
        folder = Path(temporary)
        write_work(folder)
        _record(folder)

        for number in range(options.rounds):
            found += _measure_round(number, options, folder, group)
            print(f"\nround {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}")
            report(found)
            if options.json is not None:
                options.json.write_text(json.dumps([asdict(each) for each in found], indent=1))
    return 0


def _record(folder: Path) -> None:
    """Record the cassette: the warm-up of all ways."""
    write_sets(folder, 0, 1)
    recording = ["--record" if word == "--replay" else word for word in make_command("pool", [])]
    subprocess.run(recording, cwd=folder, env=make_environment(folder), check=True)
    _empty(folder / "OUT")


def _measure_round(
    number: int, options: argparse.Namespace, folder: Path, group: Path | None
) -> list[Measured]:
    sets = write_sets(folder, number, options.copies)
    ways = [*options.only]
    shift = number % len(ways)
    found = []
    compared: dict[str, dict[str, bytes]] = {}
    for way in (*ways[shift:], *ways[:shift]):
        found.append(measure(way, sets, folder, group))
        written = check(way, len(sets), folder)
        if way in COMPARED:
            compared[way] = written
        _empty(folder / "OUT")

    first = next(iter(compared.values()), {})
    same = all(each == first for each in compared.values())
    print(f"\nnotebooks of {', '.join(compared)}: {'byte-equal' if same else 'DIFFERENT'}")
    return found


def _empty(folder: Path) -> None:
    subprocess.run(["rm", "-rf", str(folder)], check=True)


if __name__ == "__main__":
    sys.exit(main())
