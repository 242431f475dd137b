"""Execute a notebook with nbclient, and read the result of each cell and the kernel's events.

nbclient would kill the kernel on Ctrl+C, and lose the running turn. Here, Ctrl+C interrupts the
kernel, and the cell ends as in a live session. A second Ctrl+C, or a cell that does not end, kills
the kernel.

`jp_nb/storage/run_events.py` writes the events, and describes their shape.

Source: `docs/record.md`, `docs/guide.md`, `docs/ci.md`, `docs/answers.md`.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final, Literal

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from pydantic import JsonValue
from traitlets import TraitError
from traitlets.config import Config

from jp_nb.config.layers import format_variables
from jp_nb.errors import StorageError, UsageError
from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.headless.files import (
    format_one_line,
    read_notebook,
    refuse_unsafe_target,
    write_notebook,
)
from jp_nb.headless.time_limits import Overrun, TimeLimits, format_running_tools
from jp_nb.json_values import as_object
from jp_nb.record import merge
from jp_nb.record.clock import make_epoch_clock
from jp_nb.record.document import RECORD_KEY, count_entries, get_conversation_id
from jp_nb.record.merge import CARRIER_MODULE, find_unreadable_carriers, lift_carrier, read_carrier
from jp_nb.session.journal import complete_document, remove_written
from jp_nb.storage import environment as environment_module
from jp_nb.storage.answers_file import AnswerKey, AnswersSection
from jp_nb.storage.journal_file import JournalFolder
from jp_nb.text import one_line
from jp_nb.toolkit.question import Question

MAX_DECISIONS: Final = 1000  # maximum number that is read, because a tool may ask without end
DECISION_SECTIONS: Final[Mapping[str, AnswersSection]] = {
    "question": "questions",
    "permission": "permissions",
    "result": "results",
    "change": "changes",
}
"""Sections of an answers file by kind of decision."""
DECISION_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "permission": "permission to run {}",
    "result": "approval of the result of {}",
    "change": "approval of a configuration change proposed by {}",
}


@dataclass(frozen=True, slots=True)
class ReportedDecision:
    """A decision that needed the user and was not prepared, with its `key` in an answers file."""

    key: AnswerKey
    kind: str
    why: str
    detail: tuple[str, ...] = ()
    question: Question | None = None
    times: int = 1

    @property
    def description(self) -> str:
        """Description in one line."""
        tool = one_line(self.key[1], limit=80)
        if self.question is None:
            return DECISION_DESCRIPTIONS[self.kind].format(tool)

        name = one_line(self.question.id, limit=80)
        return f"question {name} of {tool}: {format_one_line(self.question.text)}"


@dataclass(slots=True)
class CassetteUse:
    """Use of one cassette in a run."""

    used: set[int] = field(default_factory=set)
    added: int = 0
    is_new: bool = False


@dataclass(slots=True)
class RunEvents:
    """Events of a run."""

    undecided: dict[AnswerKey, ReportedDecision] = field(default_factory=dict)
    used_answers: set[AnswerKey] = field(default_factory=set)
    cassettes: dict[Path, CassetteUse] = field(default_factory=dict)
    running_tools: dict[str, str] = field(default_factory=dict)
    """The name of the tool of each call without an end, by the key of the call."""


def read_events(path: Path, settings: Mapping[str, str] | None = None) -> RunEvents:
    """Read the file of the variable `JP_NB_EVENTS`. Incomplete lines are skipped.

    A cassette in the `settings` of the run is included even if the file does not name it.
    """
    events = RunEvents()
    if settings and (file := settings.get("providers.cassette.path")):
        is_new = settings.get("providers.cassette.mode") == "record"
        events.cassettes[Path(file)] = CassetteUse(is_new=is_new)

    for line in _read_lines(path):
        event: Any = None
        with suppress(ValueError):  # the kernel died while it wrote the line
            event = json.loads(line)
        match event:
            case {"answer": list(key)}:
                events.used_answers.add(tuple(map(str, key)))
            case {"open": str(kind), **entry} if kind in DECISION_SECTIONS:
                _add_decision(events.undecided, kind, entry)
            case {"cassette": str(file)} as entry:
                use = events.cassettes.setdefault(Path(file), CassetteUse())
                use.used.update(entry.get("used", ()))
                use.added += entry.get("added", 0)
                use.is_new |= entry.get("anew", False)
            case {"call": str(call), "tool": str(name)}:
                events.running_tools[call] = name
            case {"call": str(call)}:
                events.running_tools.pop(call, None)
    return events


def _read_lines(path: Path) -> list[bytes]:
    try:
        return read_regular(path, max_bytes=MAX_NOTEBOOK_BYTES).splitlines()
    except FileNotFoundError:
        return []


def _add_decision(
    undecided: dict[AnswerKey, ReportedDecision], kind: str, entry: Mapping[Any, Any]
) -> None:
    if len(undecided) >= MAX_DECISIONS:
        return

    question = entry.get("question")
    asked: Question | None = None
    key: AnswerKey = (DECISION_SECTIONS[kind], str(entry.get("tool")))
    if question is not None:
        asked = Question.model_validate(question)
        key = (*key, asked.id)

    if (earlier := undecided.get(key)) is not None:
        undecided[key] = replace(earlier, times=earlier.times + 1)
        return

    detail = entry.get("detail")
    lines = tuple(map(str, detail)) if isinstance(detail, list) else ()
    undecided[key] = ReportedDecision(key, kind, str(entry.get("why")), lines, asked)


CellStatus = Literal["passed", "failed", "not run"]
RAISES: Final = "raises-exception"  # tag of a cell that may fail, as in Jupyter's runners


@dataclass(frozen=True, slots=True)
class CellEnd:
    """The end of one code cell.

    `conversation` is the id of the conversation that was active then, or "", and `entries` the
    number of its entries. The status is also `failed` if the kernel died or the time was over.
    """

    cell: int
    status: CellStatus
    seconds: float = 0.0
    conversation: str = ""
    entries: int = 0


KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
PATIENCE_S = 10.0  # seconds that an interrupted cell has to end
WAKE_INTERVAL_S = 0.5  # interval, in seconds, at which the waiting thread handles signals
ENCRYPTION: Final = "transport_encryption"  # setting of newer kernel managers


class NotStartedError(DeadKernelError):
    """The kernel ended before it was ready. No cell ran."""


class Execution:
    """One run of a notebook. The cells run in another thread."""

    def __init__(self, notebook: Any, *, limits: TimeLimits, events: Path) -> None:
        self.client = NotebookClient(
            notebook,
            timeout=None,
            record_timing=False,  # times would change the file in each run
            config=make_kernel_config(),
            on_cell_execute=self._on_cell_start,
            on_cell_executed=self._on_cell_end,
        )
        self._ends: dict[int, CellEnd] = {}
        self._running: tuple[int, float] | None = None  # number of the cell, and start
        self.interrupts = 0
        self.began = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._sent: asyncio.Task[None] | None = None
        self._limits = limits
        self._events = events
        self._cell_timer: asyncio.TimerHandle | None = None
        self.overrun: Overrun | None = None
        self.failed_cell: int | None = None  # the cell that ran when the run failed

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Handle Ctrl+C in this block, and raise `KeyboardInterrupt` only at its end.

        It has no effect outside of the main thread, or if the program has its own SIGINT handler.

        Raises:
            KeyboardInterrupt: The user pressed Ctrl+C.
        """
        is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if not is_default or threading.current_thread() is not threading.main_thread():
            yield
            return

        signal.signal(signal.SIGINT, self._on_sigint)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

        if self.interrupts:
            raise KeyboardInterrupt

    def run(self, cwd: str, environment: Mapping[str, str]) -> None:
        """Run all cells, up to the first that fails.

        Raises:
            CellExecutionError: A cell failed.
            DeadKernelError: The kernel died or was killed, perhaps after an `overrun`.
            NoSuchKernel: The kernel is not installed.
            NotStartedError: The kernel could not be started.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="jp-nb-run") as pool:
            running = pool.submit(asyncio.run, self._run(cwd, environment))
            # Signal handlers run in this thread, but Ctrl+C may wake another one.
            while not wait([running], timeout=WAKE_INTERVAL_S).done:
                pass
            running.result()

    async def _run(self, cwd: str, environment: Mapping[str, str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        run_timer = self._start_timer("run", self._limits.run_s)
        try:
            if not self.interrupts:  # Ctrl+C may precede the loop
                await self._execute(cwd, environment)
        except asyncio.CancelledError as exc:
            if self.overrun is not None and not self.began:
                raise NotStartedError(str(self.overrun)) from exc
            raise DeadKernelError("interrupted") from exc
        finally:
            self._loop = None
            if run_timer is not None:
                run_timer.cancel()
            if (manager := self.client.km) is not None and self.client.owns_km:
                if not self.began and manager.has_kernel:
                    # A shutdown interrupts first, and a starting kernel would print a traceback.
                    await ensure_async(manager.signal_kernel(KILL))
                await self.client._async_cleanup_kernel()
            atexit.unregister(self.client._cleanup_kernel)

    async def _execute(self, cwd: str, environment: Mapping[str, str]) -> None:
        for attempts_left in reversed(range(2)):  # another process may take a port
            try:
                await self.client.async_execute(cwd=cwd, env=dict(environment))
            except RuntimeError as exc:  # also if the kernel ends before it is ready
                if self.began or self.interrupts:
                    raise
                if not attempts_left:
                    raise NotStartedError(str(exc)) from exc
            else:
                return

    def _on_sigint(self, _number: int, _frame: FrameType | None) -> None:
        self.interrupts += 1
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._interrupt)

    def _start_timer(
        self, limit: Literal["cell", "run"], seconds: float | None
    ) -> asyncio.TimerHandle | None:
        if seconds is None:
            return None
        return asyncio.get_running_loop().call_later(seconds, self._on_limit, limit, seconds)

    def _on_limit(self, limit: Literal["cell", "run"], seconds: float) -> None:
        """End the run as Ctrl+C does, so that the cell's outputs and the record are complete."""
        if self.overrun is not None or self.interrupts:
            return
        tools = tuple(read_events(self._events).running_tools.values())
        self.overrun = Overrun(limit, seconds, tools)
        self._note_failed_cell()
        self._interrupt()

    def _note_failed_cell(self) -> None:
        if self._running is not None:
            self.failed_cell = self._running[0]

    def _interrupt(self) -> None:
        """End the run. Called in the event loop that executes it."""
        assert self._task is not None
        manager = self.client.km
        if self.interrupts > 1 or not self.began or manager is None:
            self._task.cancel()
            return

        loop = asyncio.get_running_loop()
        self._sent = loop.create_task(ensure_async(manager.interrupt_kernel()))
        loop.call_later(PATIENCE_S, self._task.cancel)

    def _on_cell_start(self, cell_index: int, **_: Any) -> None:
        if self.interrupts or self.overrun:  # the previous cell ignored the interrupt
            raise asyncio.CancelledError

        self.began = True
        self._running = cell_index, time.monotonic()
        self._cell_timer = self._start_timer("cell", self._limits.cell_s)

    def _on_cell_end(self, cell: Any, execute_reply: Any, **_: Any) -> None:
        # An error with text that is not UTF-8 leaves no output, so use the reply.
        is_error = execute_reply["content"]["status"] == "error"
        tags = cell.metadata.get("tags", [])
        may_fail = isinstance(tags, list) and RAISES in tags
        is_failed = (is_error and not may_fail) or self.overrun is not None
        status: CellStatus = "failed" if is_failed else "passed"
        self._record_end(status)

    def _record_end(self, status: CellStatus) -> None:
        if self._running is None:
            return

        if self._cell_timer is not None:
            self._cell_timer.cancel()

        number, start = self._running
        self._running = None
        states: Iterable[Mapping[str, Any]] = reversed(self.client.widget_state.values())
        state = next((each for each in states if each.get("_model_module") == CARRIER_MODULE), {})
        length = state.get("length")
        entries = length if isinstance(length, int) else 0

        seconds = time.monotonic() - start
        conversation = get_conversation_id(state.get("jp"))
        self._ends[number] = CellEnd(number, status, seconds, conversation, entries)

    def failure_of_time(self) -> CellFailure | None:
        """Return the failure of a run that exceeded a limit; None if it did not."""
        if self.overrun is None:
            return None
        return CellFailure(self.failed_cell, "TimeoutError", str(self.overrun))

    def failure_of_kernel(self) -> CellFailure:
        """Return the failure of a run whose kernel died."""
        self._note_failed_cell()
        tools = format_running_tools(read_events(self._events).running_tools.values())
        return CellFailure(self.failed_cell, "DeadKernelError", f"Kernel died{tools}")

    def finish(self) -> tuple[CellEnd, ...]:
        """Return the ends of the code cells that are not empty. A running cell has failed."""
        self._record_end("failed")
        return tuple(
            self._ends.get(number) or CellEnd(number, "not run")
            for number, cell in enumerate(self.client.nb.cells)
            if cell.cell_type == "code" and cell.source.strip()
        )


def make_kernel_config() -> Config:
    """Return the configuration of kernels: encrypted messages, where the libraries can do that."""
    # Other users of the computer could read unencrypted messages, and kernels warn of them.
    config = Config()
    if ENCRYPTION in KernelManager.class_trait_names():
        with suppress(TraitError):  # the sockets library does not support it
            KernelManager(**{ENCRYPTION: "auto"})
            config.KernelManager[ENCRYPTION] = "auto"
    return config


INCOMPLETE_RECORD = (
    "the notebook did not receive the whole record of this run; metadata.widgets keeps the part "
    "that arrived. Run the notebook again, with fewer tool calls in one cell"
)
RUN_VARIABLES: Final = (
    *(
        environment_module.PATH_VARIABLE,
        environment_module.STRICT_VARIABLE,
        environment_module.CONTINUE_VARIABLE,
    ),
    *(environment_module.OVERRIDES_VARIABLE, environment_module.ANSWERS_VARIABLE),
)
"""Environment variables for one run, which the kernel does not inherit from this process."""


@dataclass(frozen=True, slots=True)
class CellFailure:
    """The failure of a run. `cell` is its index from 0, or None if no cell caused the failure."""

    cell: int | None
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run, whose `notebook` was written to `path`.

    `taken_over` has the number of entries before the run, by id of the conversation.
    """

    path: Path
    notebook: Any
    failure: CellFailure | None = None
    cells: tuple[CellEnd, ...] = ()
    taken_over: Mapping[str, int] = field(default_factory=dict)
    continued: bool = False
    events: RunEvents = field(default_factory=RunEvents)

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
) -> RunResult:
    """Execute the notebook in its folder, and write it to `out` or back to its file.

    It is written with outputs and `metadata.jp`, also if a cell fails, the kernel dies, or the user
    interrupts a cell.

    `overrides` are arguments of `-c`, which are stored in the conversation. `settings` by path are
    for this run only, and replace environment variables. Each cell may take `timeout`
    seconds, and the run `run_timeout`: a cell that exceeds a limit is interrupted, and is the last.

    Raises:
        StorageError: The notebook cannot be read or written. The old file is unchanged.
        UsageError: The kernel is not installed or does not start, or `SOURCE_DATE_EPOCH` is not
            valid. The notebook is unchanged.
        KeyboardInterrupt: The user pressed Ctrl+C. The notebook was written if a cell had started.
    """
    # IPython reads the variable for its banner, so no kernel starts with an invalid value.
    if (epoch := os.environ.get(environment_module.EPOCH_VARIABLE)) is not None:
        make_epoch_clock(epoch)

    path = Path(nb_path).resolve()
    target = Path(nb_path).absolute()
    if out is not None:
        target = Path(out).absolute()
    refuse_unsafe_target(target)

    notebook = read_notebook(path)
    lift_carrier(notebook.metadata)
    taken_over = count_entries(read_carrier(notebook.metadata), with_headless=True)

    for cell in notebook.cells:
        if cell.cell_type == "code":  # remove outputs of an older run
            cell.outputs = []
            cell.execution_count = None

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
    environment |= format_variables(settings or {})

    with TemporaryDirectory(prefix="jp-nb-") as folder:
        file = Path(folder).resolve() / "events.jsonl"
        environment[environment_module.EVENTS_VARIABLE] = str(file)
        execution = Execution(notebook, limits=TimeLimits(timeout, run_timeout), events=file)
        failure = _execute(execution, path, target, environment)
        events = read_events(file, settings)

    cells = execution.finish()
    return RunResult(target, notebook, failure, cells, taken_over, continue_, events)


def _execute(
    execution: Execution, path: Path, target: Path, environment: Mapping[str, str]
) -> CellFailure | None:
    """Run all cells of the notebook at `path`, and write it to `target`; return its failure."""
    notebook = execution.client.nb
    failure = None
    unreadable = find_unreadable_carriers(notebook.metadata)  # from before the run

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
            failure = CellFailure(_find_last_executed(notebook), exc.ename, exc.evalue)
        except DeadKernelError:
            failure = execution.failure_of_kernel()
        except BaseException:
            if execution.began:
                _finish(execution.client, target, unreadable, path)
            raise

        failure = execution.failure_of_time() or failure
        if execution.began or not execution.interrupts:
            record_failure = _finish(execution.client, target, unreadable, path)
            failure = failure or record_failure
            with suppress(OSError, StorageError):  # recovered when the notebook is opened
                written = as_object(notebook.metadata.get(RECORD_KEY))
                remove_written(JournalFolder(), written, notebook=str(path))
    return failure


def _find_last_executed(notebook: Any) -> int | None:
    counts = [cell.get("execution_count") or 0 for cell in notebook.cells]
    return max(zip(counts, range(len(counts)), strict=True))[1] if counts else None


def _finish(
    client: NotebookClient, target: Path, unreadable: Sequence[JsonValue], path: Path
) -> CellFailure | None:
    """Write the notebook, and return the failure of an incomplete record."""
    lift_record(client)
    metadata = client.nb.metadata

    written = merge.read_segments(metadata) if RECORD_KEY in metadata else None
    if isinstance(written, dict):
        with suppress(OSError, StorageError):  # recovered when the notebook is opened
            whole = complete_document(JournalFolder(), written, notebook=str(path))
            if whole != written:
                merge.store_segments(metadata, whole)

    join_streams(client.nb)
    write_notebook(client.nb, target)

    if any(state not in unreadable for state in find_unreadable_carriers(client.nb.metadata)):
        return CellFailure(None, "StorageError", INCOMPLETE_RECORD)
    return None


def join_streams(notebook: Any) -> None:
    """Join adjacent outputs of the same stream, which depend on the times of flushes."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue

        outputs = []
        for stream, found in groupby(cell.outputs, lambda each: each.get("name")):
            pieces = list(found)
            if stream is not None:
                pieces[0].text = "".join(piece.text for piece in pieces)
                del pieces[1:]
            outputs += pieces
        cell.outputs = outputs


def lift_record(client: NotebookClient) -> None:
    """Move the record that `client` has collected to `metadata.jp` of its notebook."""
    client.set_widgets_metadata()  # nbclient does this only if no cell failed
    lift_carrier(client.nb.metadata)
