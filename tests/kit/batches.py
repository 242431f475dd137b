"""`jp-nb run` with many runs, without worker processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from jp_nb.batch.batch_command import run_batch
from jp_nb.batch.plans.batch_options import make_request
from jp_nb.batch.plans.parameter_files import ParameterSets
from jp_nb.batch.plans.run_id import make_run_digest, make_run_id
from jp_nb.batch.plans.run_plan import RunPlan
from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.results.run_log import RunLog, read_run_log
from jp_nb.batch.results.run_log_lines import EndedLine
from jp_nb.batch.workers.run_execution import execute_run
from jp_nb.batch.workers.worker_count import choose_worker_count
from jp_nb.batch.workers.worker_process import WorkerDiedError
from jp_nb.cli import parse_arguments
from jp_nb.storage.configuration.answers_file import read_answers_file
from jp_nb.storage.shared_pace import LIMITS_NAME


class _FakeWorker:
    """A worker without a process: `ends` decides how a run ends, by its specification."""

    def __init__(self, ends: Callable[[RunSpec], RunEnd]) -> None:
        self._ends = ends

    async def execute(self, spec: RunSpec) -> RunEnd:
        await asyncio.sleep(0)
        return self._ends(spec)

    def interrupt(self) -> None:
        """Do nothing."""

    def kill(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


class BatchBench:
    """`jp-nb run` in a folder, with workers that only write a file.

    Attributes:
        outcomes: The outcome of each run, by a part of its id; other runs pass.
        fields: Further fields of the end of each run.
        seconds: The duration of each run, by a part of its id.
        ran: The ids of all runs so far, in the order of their starts.
        died: Parts of the ids of runs whose worker dies.
        on_end: Called at the end of each run, such as to remove a file.
        limits: The request limits that the last run shared with the others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outcomes: dict[str, str] = {}
        self.fields: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.fatal = ""
        self.ran: list[str] = []
        self.died: set[str] = set()
        self.on_end: Callable[[], object] = str  # does nothing
        self.limits: Any = None

    def run(self, *arguments: str | Path) -> int:
        """Run `jp-nb run` with `arguments`, and return its exit code."""
        options = parse_arguments(["run", *map(str, arguments)])
        return run_batch(options, make_worker=lambda: _FakeWorker(self._end))

    @staticmethod
    def execute(*arguments: str | Path) -> int:
        """Run `jp-nb run` as `run` does, but execute the notebooks, in this process."""
        options = parse_arguments(["run", *map(str, arguments)])
        return run_batch(options, make_worker=lambda: _FakeWorker(execute_run))

    @staticmethod
    def check_command(words: Sequence[str]) -> None:
        """Exit, as `jp-nb` does, if it does not understand these words of a command line."""
        parse_arguments(words)

    def states(self, out: str = "OUT") -> dict[str, str]:
        """Return the outcomes in the log, by id."""
        return {
            each.run: each.outcome for each in read_run_log(self.folder / out / "runs.jsonl").runs
        }

    # --- the plan --------------------------------------------------------------------------------

    def plan(self, *arguments: str | Path) -> list[dict[str, Any]]:
        """Return the specifications that `jp-nb run` makes of `arguments`."""
        return [spec.model_dump() for spec in self._plan(arguments)]

    def warnings(self, *arguments: str | Path) -> list[str]:
        """Return the warnings of `jp-nb run` with `arguments`."""
        return self._plan(arguments).warnings

    @staticmethod
    def run_id(notebook: str = "walk.ipynb", **changes: Any) -> str:
        """Return the id of a run of `notebook`, with `changes` of its other inputs."""
        parts: dict[str, Any] = {
            "content": "c",
            "parameters": {"city": "Delft"},
            "overrides": {},
            "cassette": "k",
            "answers": "a",
        } | changes
        digest = make_run_digest(notebook, **parts)
        return make_run_id(notebook, parts["parameters"], parts["overrides"], digest)

    @staticmethod
    def read_sets(path: Path) -> list[dict[str, Any]]:
        """Return the sets of parameters in a file with a set a line, after its check."""
        sets = ParameterSets(path)
        sets.check()
        return list(sets)

    @staticmethod
    def read_answers(path: Path) -> Sequence[Any]:
        """Return the prepared answers in the answers file at `path`."""
        return read_answers_file(path).answers

    @staticmethod
    def count_workers(folder: Path, **files: str) -> int:
        """Return the default number of workers of a system with these files."""
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)
        return choose_worker_count(cgroup=folder, memory=folder / "meminfo")

    def _plan(self, arguments: Iterable[str | Path]) -> RunPlan:
        out = self.folder / "OUT"
        options = parse_arguments(["run", "-o", str(out), *map(str, arguments)])
        return RunPlan(make_request(options, RunLog()), out=out)

    def _end(self, spec: RunSpec) -> RunEnd:
        self.ran.append(spec.run)
        self.limits = json.loads(Path(spec.limits, LIMITS_NAME).read_text())
        if any(part in spec.run for part in self.died):
            raise WorkerDiedError("the worker process ended (signal SIGKILL)")
        Path(spec.output).write_text("{}")
        found = [self.outcomes[part] for part in self.outcomes if part in spec.run]
        outcome = found[0] if found else "passed"
        name = Path(spec.output).name
        seconds = sum(self.seconds[part] for part in self.seconds if part in spec.run)
        fields: dict[str, Any] = {
            "run": spec.run,
            "outcome": outcome,
            "notebook": name,
            "seconds": seconds,
            **self.fields,
        }
        self.on_end()
        return RunEnd(line=EndedLine.model_validate(fields), fatal=self.fatal)
