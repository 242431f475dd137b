"""The log of a batch, `OUT/runs.jsonl`, and the state of each run by it.

`run_log_lines.py` has the lines: one for each start and each end of a run.

A *batch* is one `jp-nb run -o OUT/`. A *run* is one notebook with its parameters and overrides. The
log of a folder may contain several batches: those that resumed the first one.

The pool writes the log with `RunLogWriter` (`run_log_writer.py`). Each line is on the disk before
the pool continues, so a killed batch loses at most the line that it was writing: such a torn line
is ignored, and the next writer removes it. The resumed batch, the report, and the inbox read the
log with `read_run_log`, which returns a `RunState` for each run. The last line of a run counts. A
run that later batches do not plan any more is dropped (`plan_review.py`), and not in the report.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.batch.results.run_log_lines import (
    DONE_OUTCOMES,
    NO_TOKENS,
    BatchLine,
    EndedLine,
    FailedCell,
    ReplannedLine,
    RunOutcome,
    SkippedLine,
    StartedLine,
    TokenCounts,
    parse_log_line,
)
from jp_nb.errors import StorageError
from jp_nb.file_reading import open_regular

LOG_NAME: Final = "runs.jsonl"
MAX_LOG_LINE_BYTES: Final = 50_000_000
"""Longest line of a log that is read. A run may have many open decisions."""


@dataclass(frozen=True, slots=True)
class RunState:
    """State of one run by the log: its start, and its end if it has one.

    Fields that are not listed here are those of `StartedLine` and `EndedLine`. They have their
    defaults in a run that has not ended.

    Attributes:
        notebook: The input, relative to the common folder of the batch.
        outcome: How the run ended; `unknown` if it has not ended.
        has_ended: True if the log has its end.
        started: Time of the start; "" for a run that was skipped.
        ended: Time of the end; "" without an end.
        output: The file in `OUT/`, which `EndedLine` calls `notebook`.
        reason: Why the run was skipped; "" for other runs.
        base: The folder to which `notebook` is relative; "" if it is unknown.
    """

    run: str
    notebook: str
    parameters: dict[str, JsonValue]
    overrides: dict[str, str]
    digest: str
    outcome: RunOutcome = "unknown"
    has_ended: bool = False
    worker: int = 0
    started: str = ""
    ended: str = ""
    seconds: float = 0.0
    requests: int = 0
    tokens: TokenCounts = NO_TOKENS
    failed_cells: tuple[FailedCell, ...] = ()
    open_decisions: tuple[dict[str, JsonValue], ...] = ()
    output: str = ""
    used_answers: tuple[tuple[str, ...], ...] = ()
    tried_answers: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str = ""
    base: str = ""

    @property
    def is_done(self) -> bool:
        """True if a resumed batch does not run it again by itself."""
        return self.outcome in DONE_OUTCOMES


@dataclass(frozen=True, slots=True)
class RunLog:
    """Content of a log.

    Attributes:
        batches: The starts of batches, oldest first.
        runs: The state of each run that was not dropped, in starting order.
        tokens: Tokens of all runs, also of those that ran again later.
        dropped: The states of runs that later batches do not plan any more.
        last_runs: Ids of the runs of the last batch, and of those that it has resumed.
    """

    batches: list[BatchLine] = field(default_factory=list)
    runs: list[RunState] = field(default_factory=list)
    tokens: int = 0
    dropped: list[RunState] = field(default_factory=list)
    last_runs: frozenset[str] = frozenset()

    def list_notebooks(self) -> set[str]:
        """Return the names of all notebooks, also of those that no batch has started so far."""
        names = {run.notebook for run in self.runs}
        for batch in self.batches:
            planned = batch.plan.get("inputs")
            if isinstance(planned, dict):
                names.update(planned)
        return names


def read_run_log(path: Path) -> RunLog:
    """Read the log at `path`.

    Raises:
        StorageError: It cannot be read, has a line that is not one of a log, or is of a later
            version of jp_nb.
    """
    batches: list[BatchLine] = []
    tokens = 0
    states: dict[str, RunState] = {}
    dropped: set[str] = set()
    last_runs: set[str] = set()
    base = ""

    for number, text in _read_whole_lines(path):
        match parse_log_line(text, f"line {number} of {path}"):
            case BatchLine() as line:
                batches.append(line)
                base = str(line.plan.get("base", ""))
                if not line.resumed:
                    last_runs.clear()
            case ReplannedLine() as line:
                dropped.update(line.dropped)
                dropped.difference_update(line.restored)
                last_runs.difference_update(line.dropped)
                last_runs.update(line.restored)
            case StartedLine() as line:
                states.pop(line.run, None)  # so that it moves to the end
                states[line.run] = _make_started_state(line, base)
                dropped.discard(line.run)
                last_runs.add(line.run)
            case SkippedLine() as line:
                states[line.run] = _make_skipped_state(line, base)
                dropped.discard(line.run)
                last_runs.add(line.run)
            case EndedLine() as line:
                states[line.run] = _make_ended_state(line, states.get(line.run))
                tokens += line.tokens.input + line.tokens.output

    return RunLog(
        batches,
        [state for state in states.values() if state.run not in dropped],
        tokens,
        dropped=[state for state in states.values() if state.run in dropped],
        last_runs=frozenset(last_runs),
    )


def _make_started_state(line: StartedLine, base: str) -> RunState:
    return RunState(
        run=line.run,
        notebook=line.notebook,
        parameters=line.parameters,
        overrides=line.overrides,
        digest=line.digest,
        worker=line.worker,
        started=line.time,
        base=base,
    )


def _make_skipped_state(line: SkippedLine, base: str) -> RunState:
    return RunState(
        run=line.run,
        notebook=line.notebook,
        parameters=line.parameters,
        overrides=line.overrides,
        digest=line.digest,
        outcome="over_budget",
        has_ended=True,
        ended=line.time,
        reason=line.reason,
        base=base,
    )


def _make_ended_state(line: EndedLine, started: RunState | None) -> RunState:
    if started is None:  # the log was edited
        started = RunState(run=line.run, notebook="", parameters={}, overrides={}, digest="")

    return replace(
        started,
        outcome=line.outcome,
        has_ended=True,
        ended=line.time,
        seconds=line.seconds,
        requests=line.requests,
        tokens=line.tokens,
        failed_cells=line.failed_cells,
        open_decisions=line.open_decisions,
        output=line.notebook,
        used_answers=line.used_answers,
        tried_answers=line.tried_answers,
        warnings=line.warnings,
        reason="",
    )


def _read_whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and text of each line. A last line without its newline was torn by a kill."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            number = 0
            while text := file.readline(MAX_LOG_LINE_BYTES):
                number += 1
                if text.endswith(b"\n"):
                    yield number, text
                elif len(text) == MAX_LOG_LINE_BYTES:
                    bound = f"{MAX_LOG_LINE_BYTES:,} bytes"
                    raise StorageError(f"line {number} of {path} is longer than {bound}")
    except OSError as exc:
        raise StorageError(f"{path} cannot be read: {exc.strerror or exc}") from exc
