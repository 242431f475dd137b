"""Ask a model the prompts of many rows, some of them at once.

The calling thread reads the rows, shows the progress, and gives each prompt to the event loop of
the requests. So the user's iterator runs on the user's thread, and an interrupt reaches it.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, Literal

from jp_nb.agent.model_requests.complete_responses import RefusalError
from jp_nb.errors import JpNbError, ProviderError, StorageError
from jp_nb.record.entries.token_usage import Usage
from jp_nb.rendering.reports.row_progress import RowProgress
from jp_nb.session.rows.cached_answers import find_cached, make_cache_key
from jp_nb.session.rows.completion_cache import CompletionCache
from jp_nb.session.rows.completions import Completion, Completions, Failure, make_failure
from jp_nb.session.rows.progress_display import ProgressDisplay
from jp_nb.session.rows.prompt_images import PromptError
from jp_nb.session.rows.row_prompts import RowPrompts
from jp_nb.session.rows.single_completion import CompletionTask, RowPrompt, request_completion

log = logging.getLogger(__name__)

_NO_INDEX: Final = -1
"""Index of the failure that stops a run: `_fill_unasked` makes one for each row that is left."""
UPDATE_S: Final = 0.2
"""Seconds between two updates of the progress."""
MAX_EQUAL_FAILURES: Final = 20
"""Requests in a row that may fail alike, with none answered, before the others are not sent."""
FAILURES_OF_ROWS: Final = ("too_long", "output_limit")
"""Kinds of errors that the content of one row causes."""
_NOT_OF_USER: Final = ("jp_nb", "IPython")
"""Packages whose lines a warning for the user does not name."""

Submit = Callable[[Coroutine[Any, Any, Completion]], Future[Completion]]
"""Starts a coroutine on the event loop of the requests."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run.

    Attributes:
        workers: Requests that run at once.
        errors: `raise` to end the run with the first failure.
        max_total_tokens: Tokens after which no further row is asked; None for no limit.
    """

    workers: int = 8
    errors: Literal["values", "raise"] = "values"
    max_total_tokens: int | None = None


class RowRun:
    """One run over the rows.

    `_answer` and `_count_tokens` run on the event loop of the requests, all else on the calling
    thread. The event loop only adds to `_usage` and the tokens of the progress, and sets
    `_cache_problem`. So there is no lock.

    Args:
        submit: Starts a coroutine on the event loop of the requests.
        count_usage: Receives the model and the tokens of each request, for the session.
        display: Shows the progress.
        cache: The cache file, if there is one.
    """

    def __init__(
        self,
        task: CompletionTask,
        rows: RowPrompts,
        options: RunOptions,
        *,
        submit: Submit,
        count_usage: Callable[[str, Usage], None],
        display: ProgressDisplay,
        cache: CompletionCache | None = None,
    ) -> None:
        self._task = task
        self._rows = rows
        self._options = options
        self._submit = submit
        self._count_for_session = count_usage
        self._display = display
        self._cache = cache

        self._results: list[Completion | Failure | None] = []  # by row; None while it is asked
        self._open: dict[int, Future[Completion]] = {}  # the requests that run, by row
        self._done: SimpleQueue[int] = SimpleQueue()  # rows whose requests have ended
        self._progress = RowProgress(rows.total)
        self._usage = Usage()
        self._has_rows = True  # False after the last row, or if no further row is asked
        self._stopped: Failure | None = None  # the reason why no further row is asked
        self._equal_failure_count = 0  # failures in a row that are alike
        self._last_failure = ""  # kind and status of the last failure
        self._cache_problem = ""  # why later answers are not in the cache file

    def run(self) -> Completions:
        """Ask the model, and return the answers in the order of the rows.

        An interrupt ends the requests, and the answers so far are returned.

        Raises:
            JpNbError: A row failed, and `errors` is `raise`.
        """
        shown_at = monotonic()
        try:
            while self._has_rows or self._open:
                self._start_rows()
                if not self._open:  # all rows so far were in the cache, or had no prompt
                    continue
                self._receive()
                if monotonic() - shown_at >= UPDATE_S:
                    shown_at = monotonic()
                    self._show()
        except KeyboardInterrupt:
            self._stop("interrupted", "you interrupted the requests")
        except BaseException:
            self._progress.stopped = "an error ended the requests"
            raise
        finally:
            self._cancel_open()
            self._fill_unasked()
            self._display.finish(self._progress)

        if self._cache_problem:
            warnings.warn(self._cache_problem, stacklevel=_find_user_level())

        results = [result for result in self._results if result is not None]
        is_partial = self._stopped is not None
        return Completions(results, partial=is_partial, usage=self._usage, source=self._rows.source)

    def _show(self) -> None:
        self._progress.paused_until = self._task.pace.resume_at
        self._display.show(self._progress)

    def _start_rows(self) -> None:
        """Read rows until enough requests run."""
        while self._has_rows and len(self._open) < self._options.workers:
            if self._stopped is None:
                self._check_budget()
            if self._stopped is not None:
                self._has_rows = False
                return

            prompt = next(self._rows.prompts, None)
            if prompt is None:
                self._has_rows = False
                return

            index = len(self._results)
            self._results.append(None)
            if isinstance(prompt, PromptError):
                self._end_row(index, Failure(index, "prompt", str(prompt), prompt))
            else:
                self._start_row(index, prompt)

    def _start_row(self, index: int, prompt: RowPrompt) -> None:
        """Take the answer of a row from the cache, or start its request."""
        key = "" if self._cache is None else make_cache_key(self._task, prompt)
        cached = None
        if self._cache is not None:
            cached = find_cached(self._cache, key, self._task.form)
        if cached is not None:
            self._progress.cached += 1
            self._end_row(index, cached)
            return

        future = self._submit(self._answer(prompt, key))
        self._open[index] = future
        future.add_done_callback(lambda _: self._done.put(index))

    # --- on the thread of the requests ---------------------------------------------------------

    async def _answer(self, prompt: RowPrompt, key: str) -> Completion:
        """Return the answer; it is in the cache file before this returns."""
        completion = await request_completion(self._task, prompt, self._count_tokens)
        if self._cache is not None and not self._cache_problem:
            try:
                self._cache.add(key, prompt, completion)
            except StorageError as exc:
                self._cache_problem = f"later answers are not in the cache: {exc}"
        return completion

    def _count_tokens(self, model: str, usage: Usage) -> None:
        self._usage += usage
        self._progress.tokens = (self._usage.input_tokens or 0) + (self._usage.output_tokens or 0)
        self._count_for_session(model, usage)

    # --- on the calling thread -----------------------------------------------------------------

    def _receive(self) -> None:
        """Wait for rows that are done, for at most `UPDATE_S`."""
        try:
            index = self._done.get(timeout=UPDATE_S)
        except Empty:
            return

        while True:
            self._end_request(index)
            if self._done.empty():
                return
            index = self._done.get()

    def _end_request(self, index: int) -> None:
        """Take the result of a request that has ended."""
        future = self._open[index]
        try:
            result: Completion | Failure = future.result()
        except CancelledError:  # by the provider: an interrupt of the user ends the loop before
            result = make_failure(index, ProviderError("the request was canceled"))
        except Exception as exc:
            if not isinstance(exc, JpNbError):
                log.debug("the request of a row failed", exc_info=True)
            result = make_failure(index, exc)
            self._note_failure(exc)
        else:
            self._equal_failure_count = 0

        self._end_row(index, result)  # before it is forgotten: an interrupt may follow
        del self._open[index]

    def _end_row(self, index: int, result: Completion | Failure) -> None:
        """Keep and count the result of a row. Raise its exception if `errors` is `raise`."""
        self._results[index] = result
        self._progress.done += 1
        if not isinstance(result, Failure):
            return

        self._progress.failed += 1
        if self._options.errors == "raise" and result.error is not None:
            result.error.add_note(f"This is row {index}, counted from 0.")
            raise result.error

    def _note_failure(self, error: Exception) -> None:
        """Stop after many failures that are alike: the next row would fail in the same way.

        Failures because of the row's own content, such as a refusal, tell nothing about the next.
        """
        if not isinstance(error, ProviderError) or _is_of_row(error):
            self._equal_failure_count = 0
            return

        failure = f"{error.kind} {error.status}"
        if failure != self._last_failure:
            self._equal_failure_count = 0
        self._equal_failure_count += 1
        self._last_failure = failure

        count = self._equal_failure_count
        if count >= MAX_EQUAL_FAILURES:
            self._stop("error", f"not asked, because {count} requests in a row failed: {error}")

    def _check_budget(self) -> None:
        limit = self._options.max_total_tokens
        if limit is not None and self._progress.tokens >= limit:
            used = f"{self._progress.tokens:,} of {limit:,} tokens"
            self._stop("budget", f"not asked, because of `max_total_tokens`: {used}")

    def _stop(self, reason: Literal["interrupted", "budget", "error"], message: str) -> None:
        """Ask no further row. The first reason counts."""
        self._stopped = self._stopped or Failure(_NO_INDEX, reason, message)

    def _cancel_open(self) -> None:
        """Cancel the requests that still run; keep the answers that arrived meanwhile."""
        for future in self._open.values():
            future.cancel()
        for index, future in self._open.items():
            has_ended = future.done() and not future.cancelled()
            if has_ended and self._results[index] is None:
                self._keep_result(index, future)
        self._open.clear()

    def _keep_result(self, index: int, future: Future[Completion]) -> None:
        """Keep the result of a request that ended while the run was stopped."""
        error = future.exception()
        result: Completion | Failure
        if error is None:
            result = future.result()
        elif isinstance(error, Exception):
            result = make_failure(index, error)
        else:
            return
        self._results[index] = result
        self._progress.done += 1
        self._progress.failed += isinstance(result, Failure)

    def _fill_unasked(self) -> None:
        """Give each row without a result the reason why no further row was asked."""
        stopped = self._stopped
        if stopped is None:
            return

        total = self._rows.total
        if total is not None:
            self._results += [None] * (total - len(self._results))

        for index, result in enumerate(self._results):
            if result is None:
                self._results[index] = Failure(index, stopped.reason, stopped.message)
        self._progress.stopped = stopped.message


def _find_user_level() -> int:
    """Return the number of frames up to the user's line, counted from the caller as 1.

    A warning with this `stacklevel` names that line. `jp.complete_all` is called there, or a cell
    that has `%%jp --each` begins there, with frames of IPython between. `skip_file_prefixes` of
    `warnings.warn` would do, but Python 3.11 lacks it.
    """
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package not in _NOT_OF_USER:
            break
        frame = frame.f_back
        level += 1
    return level


def _is_of_row(error: ProviderError) -> bool:
    return isinstance(error, RefusalError) or error.kind in FAILURES_OF_ROWS
