"""A worker: the program of a subprocess that executes runs, one at a time.

    python -m jp_nb.batch.workers.worker [MODULE …]

The pool writes a `RunSpec` as one line of JSON to its stdin, and reads a `RunEnd` as one line from
its stdout. The line `interrupt` ends the current run as Ctrl+C does. The worker ends when its stdin
does. Modules stay imported between runs, and each run gets a new kernel. With arguments, kernels
are forks of a process that has imported these modules (`kernel_template.py`).

The worker does not depend on the pool: any program may start it and give it specifications. It
reads keys of providers from its environment, and neither lines nor arguments contain any.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import atexit
import gc
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Final

from jp_nb.jsonschema_import import delay_parsers

with delay_parsers():  # nbformat loads jsonschema
    from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
    from jp_nb.batch.results.run_log_writer import write_all
    from jp_nb.batch.workers.run_ends import make_failed_end, make_interrupted_end
    from jp_nb.batch.workers.run_execution import execute_run
    from jp_nb.headless.kernels.kernel_client import MAX_CELL_OUTPUT_CHARS, KernelBounds
    from jp_nb.headless.kernels.kernel_processes import KernelProcesses
    from jp_nb.headless.kernels.kernel_template import KernelTemplate, KernelTemplateError
    from jp_nb.json_writing import format_storable_line

INTERRUPT: Final = "interrupt"
"""The line that ends the current run."""
TERMINATE_AFTER_S: Final = 5.0
"""Seconds after an interrupt at which a kernel gets SIGTERM. It is killed after 10 seconds."""
ORPHANED_EXIT_CODE: Final = 3
"""Exit code of a worker whose pool ended while a run was under way."""


def main() -> int:
    """Execute runs until stdin ends."""
    atexit.register(gc.freeze)  # no search for garbage at the end: it takes a third of a second
    results = _keep_stdout()
    incoming = _IncomingSpecs(sys.stdin.buffer)
    incoming.start()

    try:
        template = KernelTemplate(sys.argv[1:]) if sys.argv[1:] else None
    except KernelTemplateError as exc:  # a preloaded module is broken, so no run can start
        spec = next(iter(incoming), None)
        if spec is not None:
            _send(results, make_failed_end(spec, str(exc), fatal=str(exc)))
        return 1

    bounds = KernelBounds(
        processes=KernelProcesses(kept=[] if template is None else [template.pid]),
        terminate_after_s=TERMINATE_AFTER_S,
        max_cell_output_chars=MAX_CELL_OUTPUT_CHARS,
        template=template,
    )
    for spec in incoming:
        end = make_interrupted_end(spec)  # Ctrl+C may precede the run
        with suppress(KeyboardInterrupt):
            if incoming.begin():
                end = execute_run(spec, bounds)
            incoming.finish()
        incoming.finish()  # again, if Ctrl+C came in the first call
        _send(results, end)

    if template is not None:
        template.close()
    return 0


def _send(results: int, end: RunEnd) -> None:
    write_all(results, format_storable_line(end.model_dump()) + b"\n")


def _keep_stdout() -> int:
    """Return a descriptor for results. All other output of this process goes to stderr."""
    results = os.dup(1)
    os.dup2(2, 1)
    return results


class _IncomingSpecs:
    """The specifications on stdin, which a thread reads, so that a run can be interrupted.

    The main thread iterates over it, and executes each run. `_is_busy` is set from the arrival of a
    specification until the end of its run. `_lock` guards the others: `_is_running` is True while
    the main thread executes a run, and `_is_interrupted` if the interrupt came before.
    """

    def __init__(self, stdin: IO[bytes]) -> None:
        self._stdin = stdin
        self._specs: queue.SimpleQueue[RunSpec | None] = queue.SimpleQueue()
        self._is_busy = threading.Event()
        self._lock = threading.Lock()
        self._is_running = False
        self._is_interrupted = False

    def start(self) -> None:
        threading.Thread(target=self._read, name="jp-nb-specs", daemon=True).start()

    def __iter__(self) -> Iterator[RunSpec]:
        while (spec := self._specs.get()) is not None:
            yield spec

    def begin(self) -> bool:
        """Note that the run begins. Return False if it was interrupted before."""
        with self._lock:
            self._is_running = not self._is_interrupted
            return self._is_running

    def finish(self) -> None:
        """Note that the run has ended."""
        with self._lock:
            self._is_running = False
            self._is_interrupted = False
        self._is_busy.clear()

    def _read(self) -> None:
        """Read stdin to its end, in the thread. SIGINT interrupts the main thread."""
        for line in self._stdin:
            if line.strip() == INTERRUPT.encode():
                if self._is_busy.is_set():  # an idle worker has no run to interrupt
                    self._interrupt()
                continue
            self._is_busy.set()
            self._specs.put(RunSpec.model_validate_json(line))

        # The pool was killed. Without this process, a guard ends the kernel (`KernelProcesses`).
        if self._is_busy.is_set():
            os._exit(ORPHANED_EXIT_CODE)
        self._specs.put(None)

    def _interrupt(self) -> None:
        """Interrupt the run, or keep it from beginning."""
        with self._lock:
            if self._is_running:
                os.kill(os.getpid(), signal.SIGINT)
            else:
                self._is_interrupted = True


if __name__ == "__main__":
    sys.exit(main())
