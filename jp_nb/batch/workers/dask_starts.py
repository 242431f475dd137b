"""Decide which runs at a Dask cluster may start.

A run has effects, so it is not repeated once it has started. A task asks before it starts its run
(`dask_task.py`), and waits for the answer of `StartDesk`:

- Yes, when the source has noted the start in its log.
- No, if the run has started before: its Dask worker died, and Dask started the task again.
- No, if the source lets no further run start, such as after too many failures.

The source decides when it knows the ends of all runs that the cluster has ended before. Otherwise,
a failure that is still on its way would not stop the run after it.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jp_nb.batch.plans.run_spec import RunSpec
from jp_nb.batch.workers.dask_cluster import DaskCluster, StartRequest
from jp_nb.batch.workers.worker_pool import RunSource


@dataclass(slots=True)
class SubmittedRun:
    """A run at the cluster.

    Attributes:
        spec: The specification of the run.
        answer_number: Where its task finds the answers of the batch; no other run at the cluster
            has it.
        future: The future of its last submission; None before the first.
        is_handled: Set when the pool has taken the value of `future`, and the source knows the end.
        submissions: Number of submissions so far.
        is_started: True if the source has noted the start, and the run may have effects.
        is_refused: True if the source could not note the start, or lets no further run start.
    """

    spec: RunSpec
    answer_number: int
    future: Any = None
    is_handled: asyncio.Event = field(default_factory=asyncio.Event)
    submissions: int = 0
    is_started: bool = False
    is_refused: bool = False

    @property
    def has_ended(self) -> bool:
        """True if the scheduler has announced the end of the last submission."""
        return self.future is not None and self.future.status == "finished"

    def set_future(self, future: Any) -> None:
        """Note another submission. The one before is handled: tasks that wait for it continue."""
        self.is_handled.set()
        self.is_handled = asyncio.Event()
        self.future = future


class StartDesk:
    """Answers the tasks of a `cluster` that ask if their run may start.

    `submitted` has the runs at the cluster by their id. The pool adds and removes them.
    """

    def __init__(
        self, cluster: DaskCluster, source: RunSource, submitted: Mapping[str, SubmittedRun]
    ) -> None:
        self._cluster = cluster
        self._source = source
        self._submitted = submitted
        self._worker_numbers: dict[str, int] = {}  # for the log, by the address of the Dask worker
        self._answering: set[asyncio.Task[None]] = set()  # referenced until the answer is sent

    def listen(self) -> None:
        """Answer the requests of tasks from now on."""
        self._cluster.listen(self._on_start_request)

    def _on_start_request(self, request: StartRequest) -> None:
        answering = asyncio.create_task(self._answer(request))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    async def _answer(self, request: StartRequest) -> None:
        """Decide about a start when all earlier ends are known, and send the answer."""
        # Ends are announced before later starts, but the value of an end is fetched afterwards.
        ended = [run for run in self._submitted.values() if run.has_ended]
        for event in [run.is_handled for run in ended]:
            await event.wait()

        run = self._submitted.get(request.run)
        if run is None:  # the batch has given it up
            return
        may_start = self._decide(run, request.worker)
        await self._cluster.answer_start_request(request, may_start)

    def _decide(self, run: SubmittedRun, worker: str) -> bool:
        """Return True if `run` may start on the Dask `worker`, and note the decision."""
        if run.is_started or run.is_refused:
            return False

        number = self._worker_numbers.setdefault(worker, len(self._worker_numbers) + 1)
        may_start = self._source.start(run.spec, number)  # writes the start to the log
        run.is_started = may_start
        run.is_refused = not may_start
        return may_start
