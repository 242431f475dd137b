"""Runs a notebook with nobody there and writes its outputs and its record.

Source: `docs/record.md`, `docs/guide.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jupyter_client.kernelspec import NoSuchKernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from pydantic import JsonValue

from jp_nb.config.layers import as_variables
from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.cell_ends import CellEnds, lengths
from jp_nb.headless.execution import Execution, NotStartedError, OnCell
from jp_nb.headless.files import read_notebook, refuse_unsafe_link, write_notebook
from jp_nb.headless.notebook_text import print_cell, print_transcript
from jp_nb.json_values import as_object
from jp_nb.record import segments
from jp_nb.record.by_position import position_clock
from jp_nb.record.carrier import lift, unreadable
from jp_nb.record.jp_object import KEY
from jp_nb.session.left_journals import completed, remove_written
from jp_nb.workspace import variables
from jp_nb.workspace.journal_files import JournalFolder

NOT_WHOLE = (
    "the notebook did not receive the whole record of this run; metadata.widgets keeps the part "
    "that arrived. Run the notebook again, with fewer tool calls in one cell"
)


NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
NO_ENDS: Final = CellEnds()
OF_A_RUN: Final = frozenset(
    {
        variables.PATH,
        variables.STRICT,
        variables.CONTINUE,
        variables.OVERRIDES,
        variables.ANSWERS,
        variables.DECISIONS,
    }
)
"""Environment variables that say what a runner wants of one run; another one's do not count."""


@dataclass(frozen=True, slots=True)
class CellFailure:
    """The cell that ended the run: its number from 0, or None if the kernel did; and why."""

    cell: int | None
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left: the notebook as it was written to `path`, and how its cells ended."""

    path: Path
    notebook: Any
    failure: CellFailure | None = None
    ends: CellEnds = NO_ENDS

    @property
    def ok(self) -> bool:
        """True if every cell ran."""
        return self.failure is None


def run_notebook(
    nb_path: Path | str,
    *,
    out: Path | str | None = None,
    strict: bool = False,
    continue_: bool = False,
    overrides: Sequence[str] = (),
    settings: Mapping[str, str] = NOTHING,
    answers: Path | None = None,
    decisions: Path | None = None,
    timeout: float | None = None,
    on_cell: OnCell | None = None,
) -> RunResult:
    """Execute the notebook in its folder and write it to `out`, or back to where it was.

    It is written with outputs and `metadata.jp` also when a cell fails, the kernel dies or the
    run is interrupted. `timeout` is for each cell, in seconds. `overrides` are `-c` arguments,
    which become part of the conversation; `settings`, texts by path, are of this run alone: they
    count as environment variables do, instead of those. The file `answers` answers in a person's
    place, whatever `prompt.answers` is; `decisions` gets what nobody decided
    (`jp_nb.headless.open_decisions`).

    Raises:
        StorageError: If the notebook cannot be read or written: then the old file is untouched.
        UsageError: If its kernel is not installed or does not start, or `SOURCE_DATE_EPOCH` is no
            number of seconds: then the notebook is as it was.
        KeyboardInterrupt: If Ctrl+C was pressed. What was there by then is written.
    """
    _check_epoch()
    path = Path(nb_path).resolve()
    target = Path(out if out is not None else nb_path).absolute()
    refuse_unsafe_link(target)
    notebook = read_notebook(path)
    lift(notebook.metadata)
    before, taken_over = unreadable(notebook.metadata), lengths(notebook.metadata)
    for cell in notebook.cells:
        if cell.cell_type == "code":  # outputs of an older run would look like this one's
            cell.outputs, cell.execution_count = [], None
    execution = Execution(notebook, timeout=timeout, on_cell=on_cell)
    environment = _environment(path, strict, continue_, overrides)
    environment |= _files(answers, decisions)
    environment |= as_variables(settings)
    failure: CellFailure | None = None
    with execution.interruptible():
        try:
            execution.run(str(path.parent), environment)
        except (NoSuchKernel, NotStartedError) as exc:
            raise UsageError(_without_kernel(path.name, notebook, exc)) from exc
        except CellExecutionError as exc:
            failure = CellFailure(_last_executed(notebook), exc.ename, exc.evalue)
        except CellTimeoutError as exc:
            failure = CellFailure(_last_executed(notebook), "TimeoutError", str(exc))
        except DeadKernelError as exc:
            failure = CellFailure(None, "DeadKernelError", str(exc))
        except BaseException:
            if execution.began:
                _finish(execution.client, target, before, path)
            raise
        if execution.began or not execution.interrupts:
            lost = _finish(execution.client, target, before, path)
            failure = failure or lost
            _forget_journals(path, notebook.metadata.get(KEY))
    ends = execution.watch.of(notebook.cells, taken_over, continued=continue_)
    return RunResult(target, notebook, failure, ends)


def _without_kernel(name: str, notebook: Any, exc: NoSuchKernel | NotStartedError) -> str:
    if isinstance(exc, NoSuchKernel):
        return f"{name} needs the kernel {exc.name!r}, which is not installed: install it"
    kernel = notebook.metadata.get("kernelspec", {}).get("name", "python3")
    return f"the kernel {kernel!r} of {name} does not start: {exc}"


def _check_epoch() -> None:
    """Raise `UsageError` if no kernel would start: IPython reads the epoch, for its banner."""
    if (epoch := os.environ.get(variables.EPOCH)) is not None:
        position_clock(epoch)


def _environment(
    path: Path,
    strict: bool,
    continue_: bool,
    overrides: Sequence[str],
) -> dict[str, str]:
    ours = {variables.PATH: str(path)}
    if strict:
        ours[variables.STRICT] = "1"
    if continue_:
        ours[variables.CONTINUE] = "1"
    if overrides:
        ours[variables.OVERRIDES] = json.dumps(list(overrides))
    return {key: value for key, value in os.environ.items() if key not in OF_A_RUN} | ours


def _files(answers: Path | None, decisions: Path | None) -> dict[str, str]:
    named = {variables.ANSWERS: answers, variables.DECISIONS: decisions}
    return {name: str(file.resolve()) for name, file in named.items() if file is not None}


def _last_executed(notebook: Any) -> int | None:
    numbers = [
        (cell.get("execution_count") or 0, index) for index, cell in enumerate(notebook.cells)
    ]
    return max(numbers)[1] if numbers else None


def _finish(
    client: NotebookClient, target: Path, before: Sequence[JsonValue], path: Path
) -> CellFailure | None:
    """Write what there is, and return what is wrong with the record of this run, if something is.

    What could not be read `before` is not of this run. The notebook at `path` was run.
    """
    lift_from(client)
    _take_journals(path, client.nb.metadata)
    join_streams(client.nb)
    write_notebook(client.nb, target)
    if any(state not in before for state in unreadable(client.nb.metadata)):
        return CellFailure(None, "StorageError", NOT_WHOLE)
    return None


def join_streams(notebook: Any) -> None:
    """Join adjacent outputs of the same stream: only the time of a flush separated them."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = list(_joined(cell.outputs))


def _joined(outputs: Iterable[Any]) -> Iterator[Any]:
    for stream, found in groupby(outputs, lambda each: each.get("name")):
        pieces = list(found)
        if stream is not None:
            pieces[0].text = "".join(piece.text for piece in pieces)
            del pieces[1:]
        yield from pieces


def _take_journals(path: Path, metadata: Any) -> None:
    """Add what the kernel kept of the record outside of the notebook, and could not send."""
    written = segments.read(metadata) if KEY in metadata else None
    if isinstance(written, dict):
        with suppress(OSError, StorageError):  # it is found when the notebook is opened
            whole = completed(JournalFolder(), written, notebook=str(path))
            if whole != written:
                segments.store(metadata, whole)


def _forget_journals(path: Path, written: JsonValue) -> None:
    """Remove what the kernel kept of this run outside of the notebook: that is `written` now."""
    with suppress(OSError, StorageError):  # what stays is found when the notebook is opened
        remove_written(JournalFolder(), as_object(written), notebook=str(path))


def lift_from(client: NotebookClient) -> None:
    """Move the record that `client` has collected so far to its notebook's `metadata.jp`."""
    client.set_widgets_metadata()  # nbclient itself does so only when no cell failed
    lift(client.nb.metadata)


__all__ = [
    "CellFailure",
    "RunResult",
    "join_streams",
    "lift_from",
    "print_cell",
    "print_transcript",
    "run_notebook",
]
