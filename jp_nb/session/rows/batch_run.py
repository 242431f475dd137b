"""Ask a model the prompts of many rows through the batch API of its provider.

The rows that the cache file does not answer are submitted as batches, and the file keeps the ids of
the batches. So an interrupt, or the end of the kernel, loses nothing: a later call with the same
file finds the batches, waits for them, and submits only what is in none.

`BatchRows` (`batch_rows.py`) has the prompts and the results by key, the digest of a prompt.
`ModelBatches` (`agent/model_requests/model_batches.py`) is the batch API: it submits a batch of
request bodies by key, reads the state of a batch, and yields the answers of an ended one by key.
The `rows` of a `SubmittedBatch` are such keys.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any, Final

from jp_nb.agent.model_requests.complete_responses import receive_entries
from jp_nb.agent.model_requests.model_batches import BatchState, ModelBatches, UnknownBatchError
from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import ProviderEvent, Retry
from jp_nb.errors import JpNbError, ProtocolError, ProviderError, StorageError
from jp_nb.json_writing import compact_json
from jp_nb.record.entries.token_usage import Usage
from jp_nb.rendering.reports.row_progress import RowProgress
from jp_nb.session.rows.batch_rows import INTERRUPTED, BatchRows
from jp_nb.session.rows.completion_cache import CompletionCache, SubmittedBatch
from jp_nb.session.rows.completions import Completion, Completions, Failure
from jp_nb.session.rows.progress_display import ProgressDisplay
from jp_nb.session.rows.row_prompts import RowPrompts
from jp_nb.session.rows.single_completion import CompletionTask, read_completion
from jp_nb.storable_json import encode_utf8

Start = Callable[[Coroutine[Any, Any, Any]], Future[Any]]
"""Starts a coroutine on the event loop of the requests."""

PASSING_FAILURES: Final = ("connect", "timeout", "transient", "rate_limit")
"""Kinds of errors after which a later request may succeed."""


class BatchRun:
    """One run over the rows.

    The methods with `async` run on the event loop of the requests, while the calling thread waits
    for them. So both use the state below without a lock.

    Args:
        task: The model with its settings, and the schema of the answers.
        rows: The rows, which `run` reads.
        batches: The batch API of the provider.
        cache: The cache file.
        poll_seconds: Time between two looks at the open batches.
        start: Starts a coroutine on the event loop of the requests.
        count_usage: Receives the model and the tokens of each answer, for the session.
        display: Shows the progress.
    """

    def __init__(
        self,
        task: CompletionTask,
        rows: RowPrompts,
        batches: ModelBatches,
        cache: CompletionCache,
        *,
        poll_seconds: float,
        start: Start,
        count_usage: Callable[[str, Usage], None],
        display: ProgressDisplay,
    ) -> None:
        self._task = task
        self._row_prompts = rows
        self._batches = batches
        self._cache = cache
        self._poll_seconds = poll_seconds
        self._start = start
        self._count_for_session = count_usage
        self._display = display

        self._rows = BatchRows()
        self._open_batches: list[SubmittedBatch] = []
        self._answered_counts: dict[str, int] = {}  # answered requests by the id of an open batch
        self._poll_problem = ""  # why the last request about a batch failed
        self._progress = RowProgress(rows.total)
        self._usage = Usage()

    def run(self, *, raises: bool = False) -> Completions:
        """Submit the rows, wait for the answers, and return them in the order of the rows.

        An interrupt ends the wait, and the answers so far are returned. With `raises`, the first
        row without an answer ends the run with its exception.

        Raises:
            ProviderError: The server does not accept a batch, or has no batch API.
            StorageError: The cache file cannot be written.
        """
        is_partial = False
        try:
            self._rows.read(self._row_prompts, self._task, self._cache)
            self._rows.set_counts(self._progress)
            self._find_batches()
            self._submit_rows()
            self._wait_for_batches()
        except KeyboardInterrupt:
            is_partial = True
            self._progress.stopped = INTERRUPTED
        except BaseException:
            self._progress.stopped = "an error ended the wait"
            raise
        finally:
            self._progress.batches = ""
            self._display.finish(self._progress)

        results = self._rows.list_results()
        if raises:
            _raise_first(results)
        source = self._row_prompts.source
        return Completions(results, partial=is_partial, usage=self._usage, source=source)

    def _find_batches(self) -> None:
        """Find the batches of earlier calls that have rows of this one."""
        for batch in self._cache.list_open_batches(self._batches.address):
            if any(key in self._rows.prompts for key in batch.rows):
                self._open_batches.append(batch)

    def _submit_rows(self) -> None:
        """Submit the rows that are in no batch."""
        submitted = {key for batch in self._open_batches for key in batch.rows}
        missing = [key for key in self._rows.prompts if key not in submitted]

        for bodies in self._divide_into_batches(missing):
            submitting = self._start(self._submit_batch(bodies))
            try:
                submitting.result()
            except KeyboardInterrupt:
                submitting.result()  # otherwise the batch is paid, and its id is not known
                raise

        # Requests that are too large for a batch have failed.
        self._rows.set_counts(self._progress)

    async def _submit_batch(self, bodies: dict[str, Any]) -> None:
        """Submit a batch, and write its id to the cache file."""
        batch_id = await self._batches.submit(bodies)
        batch = SubmittedBatch(batch_id, self._batches.address, tuple(bodies))
        self._open_batches.append(batch)
        try:
            self._cache.add_batch(batch)
        except StorageError as exc:
            exc.add_note(
                f"The batch {batch_id} was submitted. The console of the provider lists it."
            )
            raise

    def _divide_into_batches(self, keys: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the bodies of the requests by key, as many as one batch may have.

        A request that is too large for any batch fails.
        """
        bodies: dict[str, Any] = {}
        batch_bytes = 0

        for key in keys:
            body = self._batches.encode(self._make_request(key))
            body_bytes = len(encode_utf8(compact_json(body)))
            if body_bytes > self._batches.max_bytes:
                message = f"the request is too large for a batch: {body_bytes:,} bytes"
                error = ProviderError(message, kind="too_long")
                self._rows.set_result(key, error)
                continue

            has_max_requests = len(bodies) == self._batches.max_requests
            has_max_bytes = batch_bytes + body_bytes > self._batches.max_bytes
            if bodies and (has_max_requests or has_max_bytes):
                yield bodies
                bodies = {}
                batch_bytes = 0

            bodies[key] = body
            batch_bytes += body_bytes

        if bodies:
            yield bodies

    def _make_request(self, key: str) -> ModelRequest:
        return self._task.make_request(self._rows.prompts[key])

    def _wait_for_batches(self) -> None:
        """Look at the open batches at intervals, until none is open."""
        while self._open_batches:
            for batch in list(self._open_batches):
                self._check_batch(batch)

            self._show()
            if self._open_batches:
                time.sleep(self._poll_seconds)

    def _check_batch(self, batch: SubmittedBatch) -> None:
        """Read the state of a batch, and its answers if it has ended.

        After an error that may pass, the batch stays open, and the next look may succeed.
        """
        try:
            state: BatchState = self._wait_for(self._batches.read_state(batch.id))
            if state.is_ended:
                self._wait_for(self._read_answers(batch, state))
        except UnknownBatchError as exc:
            self._handle_unknown(batch, exc)
        except ProtocolError as exc:
            # The other answers are paid: the batch stays open for a later call.
            self._leave_batch(batch, f"the batch {batch.id} cannot be read now: {exc}")
        except ProviderError as exc:
            if exc.kind not in PASSING_FAILURES:
                raise
            self._poll_problem = str(exc)  # the next poll may succeed
        else:
            self._poll_problem = ""
            self._answered_counts[batch.id] = state.done
            if state.is_ended:
                problem = state.problem or "the provider has no answer for it in the batch"
                self._end_batch(batch, problem)

    def _handle_unknown(self, batch: SubmittedBatch, error: UnknownBatchError) -> None:
        """Give up a batch that the server does not know; keep it in the file if it may be paid."""
        reason = f"the server does not know the batch {batch.id}: {error}"
        if error.status != HTTPStatus.NOT_FOUND:
            # The server has deleted the answers (410), or the id in the file is not valid (None).
            self._end_batch(batch, reason)
            return

        # The API key may be that of another project, and the batch may be paid.
        self._leave_batch(
            batch,
            f"{reason}. If the key is one of another project, use that of the project that has "
            "submitted the batch. If the batch was deleted, jp.cancel_batch(cache) forgets it",
        )

    def _wait_for(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of `work`; an interrupt cancels it."""
        future = self._start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _read_answers(self, batch: SubmittedBatch, state: BatchState) -> None:
        """Read the answers of an ended batch that this run needs, and write them to the cache."""
        needed = {key: self._make_request(key) for key in batch.rows if key in self._rows.prompts}

        async for key, answer in self._batches.read_answers(state, needed):
            if self._rows.has_result(key):  # an earlier look has failed halfway
                continue
            result = self._read_answer(answer)
            self._rows.set_result(key, result)
            if isinstance(result, Completion):
                self._cache.add(key, self._rows.prompts[key], result)

    def _read_answer(self, answer: list[ProviderEvent] | ProviderError) -> Completion | JpNbError:
        """Return the answer of a row, or the error because of which it has none.

        Tokens count also without an answer, because the provider charges for them.
        """
        if isinstance(answer, ProviderError):
            return answer

        usage = Usage()

        def add(more: Usage) -> None:
            nonlocal usage
            usage += more
            self._add_usage(more)

        try:
            entries = receive_entries(answer, add)
            if isinstance(entries, Retry):  # no request of a batch is sent again
                raise ProviderError(f"the provider asks for another request: {entries.reason}")
            return read_completion(self._task, entries, usage)
        except JpNbError as exc:
            return exc

    def _add_usage(self, usage: Usage) -> None:
        self._usage += usage
        tokens = (self._usage.input_tokens or 0) + (self._usage.output_tokens or 0)
        self._progress.tokens = tokens
        self._count_for_session(self._task.model.full_name, usage)

    def _end_batch(self, batch: SubmittedBatch, reason: str) -> None:
        """Close a batch; its rows without an answer have this `reason`."""
        self._leave_batch(batch, reason)
        self._cache.end_batch(batch)

    def _leave_batch(self, batch: SubmittedBatch, reason: str) -> None:
        """Wait no longer for a batch; its rows without an answer have this `reason`."""
        for key in batch.rows:
            if key in self._rows.prompts and not self._rows.has_result(key):
                self._rows.set_result(key, ProviderError(reason))

        self._open_batches.remove(batch)
        self._answered_counts.pop(batch.id, None)
        self._rows.set_counts(self._progress)

    def _show(self) -> None:
        count = len(self._open_batches)
        answered = sum(self._answered_counts.values())
        noun = "batch" if count == 1 else "batches"
        provider = self._task.model.provider_name
        shown = f"{count} {noun} at {provider}, {answered:,} answers so far"
        if self._poll_problem:
            shown += f" ({self._poll_problem})"
        self._progress.batches = shown
        self._display.show(self._progress)


def _raise_first(results: list[Completion | Failure]) -> None:
    """Raise the exception of the first row that has one."""
    for result in results:
        if isinstance(result, Failure) and result.error is not None:
            result.error.add_note(f"This is row {result.index}, counted from 0.")
            raise result.error
