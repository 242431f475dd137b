"""Benchmark cells in a kernel with displays, and with a page that acknowledges the record.

    python -m bench.kernel_turns

The figure is the processor time of all threads of the kernel, from the execute request to the end
of the cell. `%%jp` cells and the minimal loop alternate in one kernel, and this process is its
page. An empty cell takes several milliseconds in both cases.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import clock_gettime

from bench.side_by_side import heading, report, server, side_by_side
from tests.support.scripted_page import ROOT, PageFrontEnd, kernel

SCENARIOS = (
    ("kernel: 50 tool cycles, per cycle", "cycles-50-1", 51),
    ("kernel: 10 cycles of 8 calls, per cycle", "cycles-10-8", 11),
    ("kernel: one answer of 2,000 deltas, per delta", "text-2000", 2000),
)
SETTLES_S = 0.1
"""Time for the kernel's work after a cell, such as its history."""
BEGIN = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
%load_ext jp_nb
from bench.raw_loop import add, turn
import jp_nb as jp
jp.tool(add)
import httpx
client = httpx.AsyncClient(timeout=60, verify=False)
"""
TURN = """%%jp -m openai/m -c assistant.instructions:=[] -c providers.llm.openai.base_url={base}
Go."""


def timed_cell(page: PageFrontEnd, code: str) -> str:
    """Run a cell as a page does, and return what it printed."""
    printed = page.run_in_notebook(code)
    assert "Traceback" not in printed, printed
    page.messages.clear()
    return printed


def turns(page: PageFrontEnd, base: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a `%%jp` cell in a conversation that begins, and the raw loop, awaited in a cell."""
    ours = partial(timed_cell, page, TURN.format(base=base))
    raw = partial(timed_cell, page, f"await turn(client, {base!r}, 'Go.')")
    return ours, raw


@contextmanager
def own_kernel(folder: str) -> Iterator[PageFrontEnd]:
    """A kernel whose key and journals are in `folder`."""
    os.environ["XDG_DATA_HOME"] = folder
    with kernel(Path(folder)) as page:
        yield page


def kernel_clock(page: PageFrontEnd) -> Callable[[], float]:
    """Return what tells how long the processor worked for the kernel of `page`; on Linux alone.

    Source: https://man7.org/linux/man-pages/man3/clock_getcpuclockid.3.html
    """
    process = int(timed_cell(page, "import os; print(os.getpid())"))

    def seconds() -> float:
        page.pause(SETTLES_S)
        return clock_gettime(~process << 3 | 2)  # the id of the clock, as in glibc

    return seconds


def measure(url: str) -> None:
    """Print a line for each scenario."""
    for name, scenario, units in SCENARIOS:
        with tempfile.TemporaryDirectory() as folder, own_kernel(folder) as page:
            timed_cell(page, BEGIN)
            ours, raw = turns(page, f"{url}/{scenario}")
            fresh = partial(timed_cell, page, "%jp new")
            scale, label = (1e6, "µs") if scenario.startswith("text") else (1e3, "ms")
            taken = side_by_side(ours, raw, before=fresh, clock=kernel_clock(page))
            report(name, *taken, scale / units, label)


def main() -> None:
    """Measure the ways of a cell alone."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    print(heading())
    with server() as url:
        measure(url)


if __name__ == "__main__":
    main()
