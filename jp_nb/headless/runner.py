"""Execute a notebook with nbclient, and read the result of each cell.

nbclient would kill the kernel on Ctrl+C, and lose the running turn. Here Ctrl+C interrupts the
kernel, and the cell ends as in a live session. A second Ctrl+C, or a cell that does not end, kills
it.

Source: `docs/record.md`, `docs/guide.md`, `docs/ci.md`.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, Final, Literal

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from pydantic import JsonValue
from traitlets import TraitError
from traitlets.config import Config

from jp_nb.config.layers import format_variables
from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.files import (
    print_cell,
    print_transcript,
    read_notebook,
    refuse_unsafe_link,
    write_notebook,
)
from jp_nb.json_values import as_object
from jp_nb.record import merge
from jp_nb.record.clock import clock_from_epoch
from jp_nb.record.document import KEY, conversation_id, events_of, others_of
from jp_nb.record.merge import MODULE, lift_carrier, read_carrier, unreadable_carrier
from jp_nb.session.journal import complete_document, remove_written
from jp_nb.storage import environment as environment_module
from jp_nb.storage.journal import JournalFolder

CellStatus = Literal["passed", "failed", "not run"]
RAISES: Final = "raises-exception"
"""The tag of a cell that may fail, as Jupyter's runners have it."""


@dataclass(frozen=True, slots=True)
class CellEnd:
    """How one cell of code ended.

    Attributes:
        cell: Its number among all cells, from 0.
        status: `failed` is also said of a cell in which the kernel died, or which took too long.
        seconds: How long it ran.
        conversation: The id of the active conversation when it ended; "" if there was none.
        entries: How many entries that had.
    """

    cell: int
    status: CellStatus
    seconds: float = 0.0
    conversation: str = ""
    entries: int = 0


@dataclass(frozen=True, slots=True)
class CellEnds:
    """The ends of all cells of code that are not blank.

    Attributes:
        cells: In the notebook's order, which is that of the run.
        taken_over: How many entries each conversation had in the notebook before, by id.
        continued: Whether the run was to go on with the conversation that it found there.
    """

    cells: tuple[CellEnd, ...] = ()
    taken_over: Mapping[str, int] = field(default_factory=dict)
    continued: bool = False


@dataclass(slots=True)
class CellWatch:
    """Follows a run by `client`, which collects the states of widgets."""

    client: NotebookClient
    _ends: dict[int, CellEnd] = field(default_factory=dict)
    _running: int | None = None
    _since: float = 0.0

    def begins(self, number: int) -> None:
        """Take note that the cell begins to run."""
        self._running, self._since = number, time.monotonic()

    def ends(self, cell: Any, reply: Mapping[str, Any]) -> None:
        """Take note of the end of the running cell; `reply` is the kernel's."""
        # Not by its outputs: what cannot be written as UTF-8 fails without one.
        is_error = reply["content"]["status"] == "error"
        self._end("failed" if is_error and not _may_fail(cell) else "passed")

    def of(self, cells: list[Any], taken_over: Mapping[str, int], *, continued: bool) -> CellEnds:
        """Return the ends of all `cells`, once the run is over; one that still runs has failed."""
        self._end("failed")
        numbers = [n for n, cell in enumerate(cells) if is_run(cell)]
        ends = tuple(self._ends.get(n) or CellEnd(n, "not run") for n in numbers)
        return CellEnds(ends, taken_over, continued)

    def _end(self, status: CellStatus) -> None:
        if self._running is None:
            return
        number, self._running = self._running, None
        state = self._state()
        entries = state.get("length")
        self._ends[number] = CellEnd(
            number,
            status,
            time.monotonic() - self._since,
            conversation_id(state.get("jp")),
            entries if isinstance(entries, int) else 0,
        )

    def _state(self) -> Mapping[str, Any]:
        """Return what the widget that was opened last to carry the record says; {} without any."""
        states: Iterable[Mapping[str, Any]] = reversed(self.client.widget_state.values())
        return next((each for each in states if each.get("_model_module") == MODULE), {})


def lengths(metadata: Mapping[str, Any]) -> dict[str, int]:
    """Return how many entries each conversation in a notebook's `metadata` has, by id."""
    stored = read_carrier(metadata)
    found = [stored, *others_of(stored)]
    return {identifier: len(events_of(x)) for x in found if (identifier := conversation_id(x))}


def is_run(cell: Any) -> bool:
    """Return True if `cell` is code, and not blank."""
    return cell.cell_type == "code" and bool(cell.source.strip())


def _may_fail(cell: Any) -> bool:
    tags = cell.metadata.get("tags", [])
    return isinstance(tags, list) and RAISES in tags


KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
PATIENCE = 10.0
"""Seconds that an interrupted cell has to end."""
WAKES_S = 0.5
"""Seconds after which the thread that waits for a run handles signals."""

STARTS = 2
"""Times a kernel is started: who starts beside it may take a port before it does."""

ENCRYPTION: Final = "transport_encryption"
"""A setting of newer managers of kernels; kernels warn of its lack in each run."""

OnCell = Callable[[int, Any], None]
"""Called with number and node of each cell that was executed, its outputs included."""


class NotStartedError(DeadKernelError):
    """The kernel ended before it was ready; nothing ran."""


class Execution:
    """One run of a notebook. The cells run in a thread of their own, this one waits.

    Args:
        notebook: The notebook; its cells get their outputs.
        timeout: For each cell, in seconds.
        on_cell: What to tell of each cell that was executed.

    Attributes:
        client: What runs the cells.
        interrupts: How often somebody pressed Ctrl+C.
        began: Whether a cell was run.
        watch: What follows how the cells end.
    """

    def __init__(self, notebook: Any, *, timeout: float | None, on_cell: OnCell | None) -> None:
        def executed(cell: Any, cell_index: int, execute_reply: Any, **_: Any) -> None:
            self.watch.ends(cell, execute_reply)
            if on_cell is not None:
                on_cell(cell_index, cell)

        self.client = NotebookClient(
            notebook,
            timeout=timeout,
            record_timing=False,  # times would make every run another file
            config=_encryption(),
            on_cell_execute=self._cell_begins,
            on_cell_executed=executed,
        )
        self.watch = CellWatch(self.client)
        self.interrupts = 0
        self.began = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._sent: asyncio.Task[None] | None = None

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Hear Ctrl+C meanwhile without being cut off by it; at the end it is raised.

        Raises:
            KeyboardInterrupt: If it was pressed.
        """
        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if not ours or threading.current_thread() is not threading.main_thread():
            yield
            return
        signal.signal(signal.SIGINT, self._heard)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.interrupts:
            raise KeyboardInterrupt

    def run(self, cwd: str, environment: Mapping[str, str]) -> None:
        """Run all cells, or until one fails.

        Raises:
            CellExecutionError: If a cell failed.
            CellTimeoutError: If one took too long.
            DeadKernelError: If the kernel died, or was cut off.
            NotStartedError: If no kernel could be started.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="jp-nb-run") as pool:
            running = pool.submit(asyncio.run, self._run(cwd, environment))
            # Handlers of signals run in this thread, but Ctrl+C may wake another one.
            while not wait([running], timeout=WAKES_S).done:
                pass
            running.result()

    async def _run(self, cwd: str, environment: Mapping[str, str]) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            if not self.interrupts:  # it may have come before there was a loop
                await self._execute(cwd, environment)
        except asyncio.CancelledError as exc:
            raise DeadKernelError("interrupted") from exc
        finally:
            self._loop = None
            await self._clean_up()

    async def _execute(self, cwd: str, environment: Mapping[str, str]) -> None:
        for left in reversed(range(STARTS)):
            try:
                await self.client.async_execute(cwd=cwd, env=dict(environment))
            except RuntimeError as exc:  # of a kernel that ended before it was ready, too
                if self.began or self.interrupts:
                    raise
                if not left:
                    raise NotStartedError(str(exc)) from exc
            else:
                return

    async def _clean_up(self) -> None:
        """Leave no kernel behind that was cut off while it started."""
        if (manager := self.client.km) is not None and self.client.owns_km:
            if not self.began and manager.has_kernel:
                # To shut it down begins with an interrupt: one that starts prints a traceback then.
                await ensure_async(manager.signal_kernel(KILL))
            await self.client._async_cleanup_kernel()
        atexit.unregister(self.client._cleanup_kernel)

    # --- interrupts ----------------------------------------------------------------------------

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        self.interrupts += 1
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        """End the run; in the loop that executes it."""
        assert self._task is not None
        manager = self.client.km
        if self.interrupts > 1 or not self.began or manager is None:
            self._task.cancel()
            return
        loop = asyncio.get_running_loop()
        self._sent = loop.create_task(_sent(manager))
        loop.call_later(PATIENCE, self._task.cancel)

    def _cell_begins(self, cell_index: int, **_: Any) -> None:
        if self.interrupts:  # the cell before went on all the same
            raise asyncio.CancelledError
        self.began = True
        self.watch.begins(cell_index)


def _encryption() -> Config:
    """Have what goes to and from the kernel encrypted where both sides can: other users listen."""
    config = Config()
    if ENCRYPTION in KernelManager.class_trait_names():
        with suppress(TraitError):  # sockets were built without it
            KernelManager(**{ENCRYPTION: "auto"})
            config.KernelManager[ENCRYPTION] = "auto"
    return config


async def _sent(manager: Any) -> None:
    """Interrupt the kernel of `manager`."""
    await ensure_async(manager.interrupt_kernel())


NOT_WHOLE = (
    "the notebook did not receive the whole record of this run; metadata.widgets keeps the part "
    "that arrived. Run the notebook again, with fewer tool calls in one cell"
)


NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
NO_ENDS: Final = CellEnds()
OF_A_RUN: Final = frozenset(
    {
        environment_module.PATH,
        environment_module.STRICT,
        environment_module.CONTINUE,
        environment_module.OVERRIDES,
        environment_module.ANSWERS,
        environment_module.DECISIONS,
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
    (`jp_nb.headless.options`).

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
    lift_carrier(notebook.metadata)
    before, taken_over = unreadable_carrier(notebook.metadata), lengths(notebook.metadata)
    for cell in notebook.cells:
        if cell.cell_type == "code":  # outputs of an older run would look like this one's
            cell.outputs, cell.execution_count = [], None
    execution = Execution(notebook, timeout=timeout, on_cell=on_cell)
    environment = _environment(path, strict, continue_, overrides)
    environment |= _files(answers, decisions)
    environment |= format_variables(settings)
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
    if (epoch := os.environ.get(environment_module.EPOCH)) is not None:
        clock_from_epoch(epoch)


def _environment(
    path: Path,
    strict: bool,
    continue_: bool,
    overrides: Sequence[str],
) -> dict[str, str]:
    ours = {environment_module.PATH: str(path)}
    if strict:
        ours[environment_module.STRICT] = "1"
    if continue_:
        ours[environment_module.CONTINUE] = "1"
    if overrides:
        ours[environment_module.OVERRIDES] = json.dumps(list(overrides))
    return {key: value for key, value in os.environ.items() if key not in OF_A_RUN} | ours


def _files(answers: Path | None, decisions: Path | None) -> dict[str, str]:
    named = {environment_module.ANSWERS: answers, environment_module.DECISIONS: decisions}
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
    if any(state not in before for state in unreadable_carrier(client.nb.metadata)):
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
    written = merge.read_segments(metadata) if KEY in metadata else None
    if isinstance(written, dict):
        with suppress(OSError, StorageError):  # it is found when the notebook is opened
            whole = complete_document(JournalFolder(), written, notebook=str(path))
            if whole != written:
                merge.store_segments(metadata, whole)


def _forget_journals(path: Path, written: JsonValue) -> None:
    """Remove what the kernel kept of this run outside of the notebook: that is `written` now."""
    with suppress(OSError, StorageError):  # what stays is found when the notebook is opened
        remove_written(JournalFolder(), as_object(written), notebook=str(path))


def lift_from(client: NotebookClient) -> None:
    """Move the record that `client` has collected so far to its notebook's `metadata.jp`."""
    client.set_widgets_metadata()  # nbclient itself does so only when no cell failed
    lift_carrier(client.nb.metadata)


__all__ = [
    "CellFailure",
    "RunResult",
    "join_streams",
    "lift_from",
    "print_cell",
    "print_transcript",
    "run_notebook",
]
