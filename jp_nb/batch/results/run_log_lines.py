"""The lines in the log of a batch, `OUT/runs.jsonl`: one for each start and each end of a run.

    {"type": "batch", "version": 1, "time": "…", "pid": 4711, "host": "ada", "versions": {…},
     "plan": {…}}
    {"type": "started", "run": ID, "notebook": "walk.ipynb", "parameters": {…}, "overrides": {…},
     "digest": "…", "time": "…", "worker": 1}
    {"type": "ended", "run": ID, "outcome": "passed", "seconds": 2.5, "requests": 3, "tokens": {…},
     "failed_cells": [], "open_decisions": [], "notebook": "ID.ipynb", "time": "…"}
    {"type": "skipped", "run": ID, "notebook": "walk.ipynb", …, "reason": "…", "time": "…"}
    {"type": "replanned", "dropped": [ID, …], "restored": [], "time": "…"}

`RunLogWriter` (`run_log_writer.py`) writes them, and `read_run_log` (`run_log.py`) reads them.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from jp_nb.errors import StorageError
from jp_nb.json_reading import read_json
from jp_nb.text import one_line

LOG_VERSION: Final = 1
RunOutcome = Literal["passed", "failed", "waiting", "interrupted", "unknown", "over_budget"]
"""How a run ended.

passed: all cells ran. failed: a cell failed, a limit was exceeded, or the kernel died.
waiting: a decision needs the user. interrupted: the user pressed Ctrl+C.
unknown: the run started, and its end was not written: its worker or its batch was killed.
over_budget: the run did not start, because the batch had reached its budget.
"""
DONE_OUTCOMES: Final[frozenset[RunOutcome]] = frozenset({"passed", "failed", "waiting"})
"""Outcomes of runs that a resumed batch does not run again unless the user asks for it."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class BatchLine(_Line):
    """The start of a batch.

    Attributes:
        version: The version of this form of a log.
        time: Time of the start, in UTC.
        pid: Number of the process of `jp-nb run`.
        host: The name of its computer.
        versions: Versions of jp_nb and of the libraries that matter, by name.
        plan: The `BatchRequest` as JSON, which `jp-nb run --resume OUT/` repeats.
        resumed: True if it continues the batch before.
    """

    type: Literal["batch"] = "batch"
    version: int = LOG_VERSION
    time: str
    pid: int
    host: str
    versions: dict[str, str] = {}
    plan: dict[str, JsonValue] = {}
    resumed: bool = False


class ReplannedLine(_Line):
    """Runs that the batch does not plan any more, and dropped ones that it plans again, by id."""

    type: Literal["replanned"] = "replanned"
    dropped: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    time: str


class StartedLine(_Line):
    """The start of a run.

    Attributes:
        run: Id of the run.
        notebook: The input, relative to the common folder of the batch.
        parameters: Values for the cell tagged `parameters`.
        overrides: Settings of the run, by path.
        digest: Digest of all inputs of the run (`make_run_digest`).
        time: Time of the start, in UTC.
        worker: Number of the worker that executes it, from 1; 0 if it failed before it got one.
    """

    type: Literal["started"] = "started"
    run: str
    notebook: str
    parameters: dict[str, JsonValue] = {}
    overrides: dict[str, str] = {}
    digest: str = ""
    time: str
    worker: int = 0


class SkippedLine(_Line):
    """A run that did not start, because the batch had reached its budget.

    `reason` says how many tokens the batch has used. The other fields are as in `StartedLine`.
    """

    type: Literal["skipped"] = "skipped"
    run: str
    notebook: str
    parameters: dict[str, JsonValue] = {}
    overrides: dict[str, str] = {}
    digest: str = ""
    reason: str = ""
    time: str


class TokenCounts(_Line):
    """Numbers of tokens of all requests of a run."""

    input: int = 0
    output: int = 0


NO_TOKENS: Final = TokenCounts()


class FailedCell(_Line):
    """A failed cell, or another cause of a failed run.

    Attributes:
        cell: Id of the cell; None if it has none, or if no cell is the cause.
        index: Its position, from 0; None if no cell is the cause.
        error: Type and text of the error, or the cause.
    """

    cell: str | None = None
    index: int | None = None
    error: str = ""


class EndedLine(_Line):
    """The end of a run.

    Attributes:
        run: Id of the run.
        outcome: How it ended.
        seconds: Time from the start of the run to its end.
        requests: Number of requests to models.
        tokens: Tokens of these requests and of their answers.
        failed_cells: The failed cells, or one entry with another cause.
        open_decisions: The decisions that needed the user, as `ReportedDecision.to_json` returns
            them. `open_decisions.py` reads them.
        used_answers: Identities of the entries of the answers file that the run used
            (`PreparedAnswer.identity`).
        tried_answers: Digests of these entries (`PreparedAnswer.digest`), if a decision is open.
        notebook: Name of the file in `OUT/`; "" if none was written.
        warnings: Warnings for the user, such as about processes that the notebook has left.
        time: Time of the end, in UTC.
    """

    type: Literal["ended"] = "ended"
    run: str
    outcome: RunOutcome
    seconds: float = 0.0
    requests: int = 0
    tokens: TokenCounts = NO_TOKENS
    failed_cells: tuple[FailedCell, ...] = ()
    # Not `JsonValue`: the line was read as JSON, and a check of many decisions would take seconds.
    open_decisions: tuple[dict[str, Any], ...] = ()
    used_answers: tuple[tuple[str, ...], ...] = ()
    tried_answers: tuple[str, ...] = ()
    notebook: str = ""
    warnings: tuple[str, ...] = ()
    time: str = ""


LogLine = BatchLine | ReplannedLine | StartedLine | SkippedLine | EndedLine
_LINES: Final = TypeAdapter[LogLine](Annotated[LogLine, Field(discriminator="type")])


def format_now() -> str:
    """Return the current time as the log stores it, such as `2026-03-04T05:06:07.890Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_log_line(text: bytes, place: str) -> LogLine:
    """Return the line of a log that `text` contains, which is at `place`.

    Raises:
        StorageError: It is not such a line, or was written by a later version of jp_nb.
    """
    try:
        value = read_json(text.decode("utf-8"))
    except ValueError as exc:
        raise StorageError(f"{place} is damaged: it is not JSON ({one_line(str(exc))})") from exc

    if isinstance(value, dict) and value.get("type") == "batch":
        _refuse_later_version(value.get("version"), place)

    try:
        return _LINES.validate_python(value)
    except ValidationError as exc:
        problem = exc.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        message = one_line(f"{where}: {problem['msg']}")
        raise StorageError(f"{place} is not a line of a batch log ({message})") from exc


def _refuse_later_version(version: JsonValue, place: str) -> None:
    if isinstance(version, int) and version > LOG_VERSION:
        raise StorageError(
            f"{place} was written by a later version of jp_nb (format {version}, this one reads "
            f"{LOG_VERSION}): update jp_nb, or use another output folder"
        )
