"""Benchmark turns against a minimal loop over httpx, with the same loopback server.

    python -m bench

Each figure is a median over alternating runs, and a ratio. A run is a whole turn: session, agent's
thread, provider, record, and live display. The first figures are without kernel and page, the next
ones with both (`kernel_turns`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial

import jp_nb as jp
from bench import kernel_turns
from bench.raw_loop import RawLoop, add
from bench.side_by_side import RUNS, heading, report, server, side_by_side
from jp_nb.config.directives import Directive
from jp_nb.config.tree.app import AppConfig
from jp_nb.notebook.display.turn_display import TurnDisplay
from jp_nb.notebook.front_end import NotebookFrontEnd
from jp_nb.notebook.host import NotebookHost
from jp_nb.rendering.transcripts.transcript import Transcript
from jp_nb.session.session import Session
from jp_nb.session.threads.cell_loop import CellLoop
from jp_nb.toolkit.function_tools.python_tool import PythonTool
from tests.support.sessions import FakeShell

SCENARIOS = (
    ("one request in a new conversation", "text-3", 1),
    ("50 tool cycles, per cycle", "cycles-50-1", 51),
    ("200 tool cycles, per cycle", "cycles-200-1", 201),
    ("10 cycles of 8 parallel calls, per cycle", "cycles-10-8", 11),
    ("one answer of 2,000 deltas, per delta", "text-2000", 2000),
    ("the same in 2,000 chunks of HTTP, per delta", "chunks-2000", 2000),
    ("the same in the Responses API, per delta", "responses-2000", 2000),
    ("the same in the Interactions API, per delta", "interactions-2000", 2000),
)


class LiveFrontEnd(NotebookFrontEnd):
    """Front end with a live display."""

    def _make_display(self, config: AppConfig) -> TurnDisplay:
        return TurnDisplay(Transcript(), self._cell, lambda: lambda bundle, **_: None, live=True)


class LiveHost(NotebookHost):
    """Host of a shell with `LiveFrontEnd`."""

    def front_end(
        self, cell: CellLoop, run_in_agent_loop: Callable[[Callable[[], None]], None]
    ) -> NotebookFrontEnd:
        return LiveFrontEnd(self.shell, cell, run_in_agent_loop)


def turns(url: str) -> None:
    tool: PythonTool = jp.tool(add)
    raw = RawLoop()
    session = Session(LiveHost(FakeShell()))

    def ours(base: str) -> None:
        provider = "google" if "/interactions-" in base else "openai"
        options = ["assistant.instructions:=[]", f"providers.llm.{provider}.base_url={base}"]
        if "/responses-" in base:
            options.append("providers.llm.openai.dialect=responses")
        directives = [Directive("cfg", option) for option in options]
        turn = session.turns.run("Go.", new=True, model=f"{provider}/m", directives=directives)
        assert turn.text, turn

    try:
        for name, scenario, units in SCENARIOS:
            base = f"{url}/{scenario}"
            scale, label = (1e6, "µs") if name.endswith("per delta") else (1e3, "ms")
            taken = side_by_side(partial(ours, base), partial(raw.ask, base, "Go."))
            report(name, *taken, scale / units, label)
    finally:
        session.close()
        raw.close()
        jp.remove_tool(tool.name)


LOAD = """
import time
from IPython.core.interactiveshell import InteractiveShell
import ipykernel.ipkernel
shell = InteractiveShell.instance()
start = time.perf_counter()
{work}
print("seconds", time.perf_counter() - start)
"""


def load() -> None:
    """Compare `%load_ext jp_nb` with its imports, in fresh processes that have loaded ipykernel."""

    def seconds(work: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", LOAD.format(work=work)],
            capture_output=True,
            text=True,
            check=True,
            cwd=tempfile.gettempdir(),
            env={**os.environ, "IPYTHONDIR": tempfile.mkdtemp()},
        )
        return float(done.stdout.rsplit("seconds", 1)[1])

    ours: list[float] = []
    raw: list[float] = []
    for _ in range(RUNS):
        ours.append(seconds("shell.run_line_magic('load_ext', 'jp_nb')"))
        raw.append(seconds("import ipywidgets, pydantic, httpx"))
    report("%load_ext | import ipywidgets, pydantic, httpx", ours, raw, 1e3, "ms")


def main() -> None:
    os.environ.setdefault("OPENAI_API_KEY", "none")
    print(heading())
    with server() as url, tempfile.TemporaryDirectory() as journals:
        os.environ["XDG_DATA_HOME"] = journals
        turns(url)
        kernel_turns.measure(url)
    load()


if __name__ == "__main__":
    main()
