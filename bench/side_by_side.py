"""Tools of the benchmarks: the server, and alternating measurements."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import process_time

RUNS = 7


def heading() -> str:
    """Return the line above the figures."""
    return f"{'median of ' + str(RUNS):<48} {'jp_nb':>12}  {'beside':>12}  {'ratio':>7}"


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Start the server in another process, and yield its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate()


def side_by_side(
    ours: Callable[[], object],
    raw: Callable[[], object],
    *,
    before: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = process_time,
) -> tuple[list[float], list[float]]:
    """Return the seconds of each run. The runs alternate, after one warm-up run each.

    The default `clock` is the processor time of this process. `before` is called before each run of
    `ours`, and is not measured.
    """
    before(), ours(), raw()
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(RUNS):
        before()
        for seconds, work in zip(taken, (ours, raw), strict=True):
            start = clock()
            work()
            seconds.append(clock() - start)
    return taken


def report(name: str, ours: list[float], raw: list[float], unit: float, label: str) -> None:
    """Print the medians, in `unit` of a second, and their ratio."""
    a = statistics.median(ours) * unit
    b = statistics.median(raw) * unit
    print(f"{name:<48} {a:>9.3f} {label}  {b:>9.3f} {label}  {a / b:>6.2f}x", flush=True)
