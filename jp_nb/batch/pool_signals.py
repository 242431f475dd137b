"""Run the pool of a batch until its runs have ended, or until a signal interrupts it.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jp_nb.batch.notebook_batch import NotebookBatch
    from jp_nb.batch.workers.dask_pool import DaskPool
    from jp_nb.batch.workers.worker_pool import WorkerPool


async def run_pool(pool: WorkerPool | DaskPool, batch: NotebookBatch) -> int | None:
    """Run the pool, and return the number of the first signal that interrupted it; None: no signal.

    Ctrl+C, or a SIGTERM such as that of `docker stop`, ends the running notebooks as an interrupt
    does, and no further one starts. On a Dask cluster, the running ones are waited for. A further
    signal kills them. In either case, `pool.run` returns when all have ended.
    """
    received: list[int] = []
    loop = asyncio.get_running_loop()

    def interrupt(number: int) -> None:
        received.append(number)
        if len(received) > 1:
            pool.kill()
            return

        again = "Ctrl+C" if number == signal.SIGINT else "SIGTERM"
        batch.stop(f"interrupted: the running notebooks end; {again} again kills them")
        pool.interrupt()

    with _handle_signals(lambda number: loop.call_soon_threadsafe(interrupt, number)):
        await pool.run(batch)
    return received[0] if received else None


@contextmanager
def _handle_signals(interrupt: Callable[[int], object]) -> Iterator[None]:
    """Call `interrupt` with the number of a SIGINT or SIGTERM in this block."""
    # Only the main thread may set handlers of signals. In another one, a batch has none.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, _frame: FrameType | None) -> None:
        interrupt(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
