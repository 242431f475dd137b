"""Logs and specifications of batches, as plain data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jp_nb.batch.run_log import LogLine, RunLogWriter, RunState, parse_log_line, read_run_log
from jp_nb.batch.run_spec import make_run_digest, make_run_id

BATCH: dict[str, Any] = {"type": "batch", "time": "2026-01-31", "pid": 4711, "host": "ada"}


def write_log(path: Path, *lines: dict[str, Any]) -> None:
    """Append the `lines` to the log at `path`, as a batch does."""
    log = RunLogWriter(path)
    for line in lines:
        log.append(log_line(line))
    log.close()


def log_line(line: dict[str, Any]) -> LogLine:
    """Return a line of a log from its fields."""
    return parse_log_line(json.dumps(line).encode(), "the line")


def started(run: str, notebook: str = "walk.ipynb", **fields: Any) -> dict[str, Any]:
    """Return the line of the start of a run."""
    return {"type": "started", "run": run, "notebook": notebook, "time": "", **fields}


def ended(run: str, outcome: str = "passed", **fields: Any) -> dict[str, Any]:
    """Return the line of the end of a run."""
    return {"type": "ended", "run": run, "outcome": outcome, **fields}


def read_runs(path: Path) -> list[RunState]:
    """Return the state of each run in the log at `path`."""
    return read_run_log(path).runs


def read_batches(path: Path) -> list[dict[str, Any]]:
    """Return the first line of each batch in the log at `path`."""
    return [line.model_dump() for line in read_run_log(path).batches]


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
