"""Run a notebook headless: prepare the kernel's environment, run the cells, and write the notebook.

Source: `docs/record.md`, `docs/guide.md`, `docs/ci.md`, `docs/answers.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from jupyter_client.kernelspec import NoSuchKernel
from nbclient.exceptions import CellExecutionError, DeadKernelError
from pydantic import JsonValue

from jp_nb.config.environment_layer import format_variables
from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.files import read_notebook, refuse_unsafe_target
from jp_nb.headless.kernels.cell_ends import CellEnd, CellFailure
from jp_nb.headless.kernels.execution import Execution, NotStartedError
from jp_nb.headless.kernels.kernel_client import KernelBounds
from jp_nb.headless.kernels.run_cells import RunCells
from jp_nb.headless.kernels.time_limits import TimeLimits
from jp_nb.headless.parameter_cell import inject_parameters
from jp_nb.headless.result_writing import INCOMPLETE_RECORD, write_result
from jp_nb.headless.run_events_reading import RunEvents, read_events
from jp_nb.json_values import as_object
from jp_nb.record.documents.carrier import find_unreadable_carriers, lift_carrier, read_carrier
from jp_nb.record.documents.record_shape import RECORD_KEY, count_entries
from jp_nb.record.entries.clock import make_epoch_clock
from jp_nb.session.journals.headless_journals import remove_written
from jp_nb.storage import environment as environment_module
from jp_nb.storage.journals.journal_folder import JournalFolder

RUN_VARIABLES: Final = (
    environment_module.PATH_VARIABLE,
    environment_module.STRICT_VARIABLE,
    environment_module.CONTINUE_VARIABLE,
    environment_module.OVERRIDES_VARIABLE,
    environment_module.ANSWERS_VARIABLE,
    environment_module.RUN_VARIABLE,
    environment_module.PACE_VARIABLE,
    environment_module.CELLS_VARIABLE,
)
"""Environment variables for one run, which the kernel does not inherit from this process."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run.

    Attributes:
        path: The file to which the notebook was written.
        notebook: The notebook with its outputs and its record.
        failure: The failure that ended the run; None if all cells ran.
        cells: The ends of the code cells that are not empty.
        taken_over: Number of entries before the run, by id of the conversation.
        continued: True if the run has continued the conversation of the notebook.
        events: The events that the kernel reported, such as open decisions.
        warnings: Warnings for the user about the kernel's processes and output.
    """

    path: Path
    notebook: Any
    failure: CellFailure | None = None
    cells: tuple[CellEnd, ...] = ()
    taken_over: Mapping[str, int] = field(default_factory=dict)
    continued: bool = False
    events: RunEvents = field(default_factory=RunEvents)
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if no cell failed, the kernel did not die, and the record is complete."""
        return self.failure is None


def run_notebook(
    nb_path: Path | str,
    *,
    out: Path | str | None = None,
    strict: bool = False,
    continue_: bool = False,
    overrides: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    answers: Path | None = None,
    timeout: float | None = None,
    run_timeout: float | None = None,
    run_id: str | None = None,
    parameters: Mapping[str, JsonValue] | None = None,
    bounds: KernelBounds | None = None,
    pace: str = "",
    run_inserted: bool = False,
) -> RunResult:
    """Execute the notebook in its folder, and write it to `out` or back to its file.

    It is written with outputs and `metadata.jp`, also if a cell fails, the kernel dies, or the user
    interrupts a cell.

    Args:
        nb_path: The notebook.
        out: The file to write; None: the notebook itself.
        strict: Fail a turn that needs an unavailable user.
        continue_: Continue the conversation in the notebook.
        overrides: Arguments of `-c`, which are stored in the conversation.
        settings: Settings by path for this run only. They replace environment variables.
        answers: The answers file.
        timeout: Seconds that each cell may take. A cell that exceeds it is the last.
        run_timeout: Seconds that the run may take.
        run_id: Id of the run in its batch, which selects its tables of the answers file.
        parameters: Values that a new cell assigns (`jp_nb/headless/parameter_cell.py`).
        bounds: Bounds of a kernel in a batch.
        pace: Folder of `jp_nb/storage/shared_pace.py`; "" outside of a batch.
        run_inserted: Also run code cells that a tool inserts.

    Raises:
        StorageError: The notebook cannot be read or written. The old file is unchanged.
        UsageError: The kernel is not installed or does not start, or `SOURCE_DATE_EPOCH` is not
            valid. The notebook is unchanged.
        KeyboardInterrupt: The user pressed Ctrl+C. The notebook was written if a cell had started.
    """
    _check_epoch()
    path = Path(nb_path).resolve()
    target = Path(nb_path).absolute()
    if out is not None:
        target = Path(out).absolute()
    refuse_unsafe_target(target)

    notebook = read_notebook(path)
    # A *carrier* is a widget that holds the record where nothing else can write the metadata. If
    # the notebook was run by another program, such as nbconvert, the record is still in there.
    lift_carrier(notebook.metadata)
    taken_over = count_entries(read_carrier(notebook.metadata), with_headless=True)

    if parameters:
        inject_parameters(notebook, parameters)
    _remove_outputs(notebook)

    environment = _make_environment(
        path,
        strict=strict,
        continue_=continue_,
        overrides=overrides,
        answers=answers,
        run_id=run_id,
        pace=pace,
    )
    environment |= format_variables(settings or {})

    with TemporaryDirectory(prefix="jp-nb-") as folder:
        events_file = Path(folder).resolve() / "events.jsonl"
        environment[environment_module.EVENTS_VARIABLE] = str(events_file)

        # The kernel reads the cells from this file, and reports its edits of them as events.
        cells_file = Path(folder).resolve() / "cells.json"
        environment[environment_module.CELLS_VARIABLE] = str(cells_file)
        cells = RunCells(notebook, events_file, run_inserted=run_inserted)
        cells.write(cells_file)

        limits = TimeLimits(timeout, run_timeout)
        execution = Execution(
            notebook, limits=limits, events=events_file, bounds=bounds, cells=cells
        )
        failure = _execute(execution, path, target, environment)
        # `settings` may name a cassette that the run did not use.
        events = read_events(events_file, settings)

    return RunResult(
        target,
        notebook,
        failure,
        cells=execution.finish(),
        taken_over=taken_over,
        continued=continue_,
        events=events,
        warnings=tuple(execution.client.warnings),
    )


def _check_epoch() -> None:
    """Check `SOURCE_DATE_EPOCH`, which IPython reads for its banner.

    Raises:
        UsageError: It is not valid, so no kernel would start.
    """
    epoch = os.environ.get(environment_module.EPOCH_VARIABLE)
    if epoch is not None:
        make_epoch_clock(epoch)


def _make_environment(
    path: Path,
    *,
    strict: bool,
    continue_: bool,
    overrides: Sequence[str],
    answers: Path | None,
    run_id: str | None,
    pace: str,
) -> dict[str, str]:
    """Return the environment of the kernel, with the options of `run_notebook` as variables."""
    environment = {name: value for name, value in os.environ.items() if name not in RUN_VARIABLES}
    environment[environment_module.PATH_VARIABLE] = str(path)

    if strict:
        environment[environment_module.STRICT_VARIABLE] = "1"
    if continue_:
        environment[environment_module.CONTINUE_VARIABLE] = "1"
    if overrides:
        environment[environment_module.OVERRIDES_VARIABLE] = json.dumps(list(overrides))
    if answers:
        environment[environment_module.ANSWERS_VARIABLE] = str(answers.resolve())
    if run_id is not None:
        environment[environment_module.RUN_VARIABLE] = run_id
    if pace:
        environment[environment_module.PACE_VARIABLE] = pace
    return environment


def _remove_outputs(notebook: Any) -> None:
    """Remove the outputs of an older run."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None


def _execute(
    execution: Execution, path: Path, target: Path, environment: Mapping[str, str]
) -> CellFailure | None:
    """Run all cells of the notebook at `path`, and write it to `target`; return its failure.

    Errors of the user, such as a kernel that is not installed, are raised, and nothing is written.
    Ctrl+C interrupts the running cell, and is raised as `KeyboardInterrupt` after the notebook is
    written.
    """
    notebook = execution.client.nb
    failure = None
    damaged_before = find_unreadable_carriers(notebook.metadata)

    with execution.interruptible():
        try:
            execution.run(str(path.parent), environment)
        except NoSuchKernel as exc:
            missing = f"{path.name} needs the kernel {exc.name!r}, which is not installed"
            raise UsageError(f"{missing}: install it") from exc
        except NotStartedError as exc:
            kernel = notebook.metadata.get("kernelspec", {}).get("name", "python3")
            raise UsageError(f"the kernel {kernel!r} of {path.name} does not start: {exc}") from exc
        except CellExecutionError as exc:
            failure = execution.make_cell_failure(exc)
        except DeadKernelError:
            failure = execution.make_kernel_failure()
        except BaseException:  # the outputs so far are not lost, whatever happened
            if execution.began:
                write_result(execution.client, target, path)
            raise

        failure = execution.make_time_failure() or failure

        # An interrupt before the first cell leaves the file unchanged.
        if execution.began or not execution.interrupts:
            write_result(execution.client, target, path)

            # A carrier that the run has left, and that cannot be read, has lost its entries.
            damaged = find_unreadable_carriers(notebook.metadata)
            if failure is None and any(state not in damaged_before for state in damaged):
                failure = CellFailure(None, "StorageError", INCOMPLETE_RECORD)

            # The entries of the journal are in the notebook now. A journal that remains here is
            # recovered when the notebook is opened.
            with suppress(OSError, StorageError):
                written = as_object(notebook.metadata.get(RECORD_KEY))
                remove_written(JournalFolder(), written, notebook=str(path))

    return failure
