"""Benchmark the journal: turns of a notebook with and without it.

python -m bench.journal
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jp_nb as jp
from bench.raw_loop import add
from bench.side_by_side import RUNS, report, server, side_by_side
from jp_nb.config.directives import Directive
from jp_nb.session.session import Session
from tests.support.fake_host import FakeHome, FakeHost

SCENARIOS = (
    ("50 tool cycles, per cycle", "cycles-50-1", 51),
    ("10 cycles of 8 parallel calls, per cycle", "cycles-10-8", 11),
)


def turn(session: Session, base: str, journal: str) -> None:
    options = (f"providers.llm.openai.base_url={base}", f"record.journal={journal}")
    directives = [Directive("cfg", option) for option in options]
    assert session.turns.run("Go.", new=True, model="openai/m", directives=directives).text


def main() -> None:
    tool = jp.tool(add)
    print(f"{'median of ' + str(RUNS):<48} {'with':>12}  {'without':>12}  {'ratio':>7}")
    with tempfile.TemporaryDirectory(prefix="jp-nb-bench-") as folder, server() as url:
        os.environ["XDG_DATA_HOME"] = folder
        kept, plain = (
            Session(FakeHost(home=FakeHome(Path(folder) / f"{name}.ipynb"))) for name in "ab"
        )
        for name, scenario, units in SCENARIOS:
            works: list[Callable[[], None]] = [
                partial(turn, session, f"{url}/{scenario}", journal)
                for session, journal in ((kept, "true"), (plain, "false"))
            ]
            report(name, *side_by_side(works[0], works[1]), 1e3 / units, "ms")
        kept.close()
        plain.close()
    jp.remove_tool(tool.name)


if __name__ == "__main__":
    main()
