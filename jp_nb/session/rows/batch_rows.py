"""The rows of a run that asks a model through batches, and their results.

A *key* is the digest of a prompt and its settings (`cached_answers.py`). Equal rows have the same
key, so one request answers all of them. Requests and results therefore go by key, and become those
of rows at the end.

Source: `docs/rows.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.rendering.reports.row_progress import RowProgress
from jp_nb.session.rows.cached_answers import find_cached, make_cache_key
from jp_nb.session.rows.completion_cache import CompletionCache
from jp_nb.session.rows.completions import Completion, Failure, make_failure
from jp_nb.session.rows.prompt_images import PromptError
from jp_nb.session.rows.row_prompts import RowPrompts
from jp_nb.session.rows.single_completion import CompletionTask, RowPrompt

_NO_INDEX: Final = -1
"""Index of a failure that is kept by key: several rows may have it. `_get_result` sets theirs."""
INTERRUPTED: Final = (
    "you interrupted the wait; the provider still answers. Call again with the same cache file to "
    "get the answers, or `jp.cancel_batch` to cancel"
)


class BatchRows:
    """The prompts and results of all rows.

    Attributes:
        prompts: The prompts that the cache file does not answer, by key. They stay here when they
            get a result, because an answer is written to the file with its prompt.
    """

    def __init__(self) -> None:
        self.prompts: dict[str, RowPrompt] = {}
        self._keys: list[str] = []  # the key of each row; "" if it has no prompt
        self._results: dict[str, Completion | Failure] = {}  # by key
        self._unusable: dict[int, Failure] = {}  # rows without a prompt, by index

    def read(self, rows: RowPrompts, task: CompletionTask, cache: CompletionCache) -> None:
        """Read all rows, and take the answers that the cache file has."""
        for index, prompt in enumerate(rows.prompts):
            if isinstance(prompt, PromptError):
                self._keys.append("")
                self._unusable[index] = Failure(index, "prompt", str(prompt), prompt)
                continue

            key = make_cache_key(task, prompt)
            self._keys.append(key)
            cached = find_cached(cache, key, task.form)
            if cached is None:
                self.prompts[key] = prompt
            else:
                self._results[key] = cached

    def has_result(self, key: str) -> bool:
        """Return True if the rows with this key have an answer or a failure."""
        return key in self._results

    def set_result(self, key: str, result: Completion | Exception) -> None:
        """Set the answer of the rows with this key, or the error in place of one."""
        if isinstance(result, Exception):
            self._results[key] = make_failure(_NO_INDEX, result)
        else:
            self._results[key] = result

    def set_counts(self, progress: RowProgress) -> None:
        """Set the counts of `progress` from the results so far."""
        results = [self._results.get(key) for key in self._keys if key]
        completions = [result for result in results if isinstance(result, Completion)]
        failed_count = sum(isinstance(result, Failure) for result in results)
        unusable_count = len(self._unusable)

        progress.total = len(self._keys)
        progress.done = len(completions) + failed_count + unusable_count
        progress.failed = failed_count + unusable_count
        progress.cached = sum(completion.cached for completion in completions)

    def list_results(self) -> list[Completion | Failure]:
        """Return the results in the order of the rows. A row without one was interrupted."""
        return [self._get_result(index) for index in range(len(self._keys))]

    def _get_result(self, index: int) -> Completion | Failure:
        """Return the result of the row with this index; a failure gets the index."""
        key = self._keys[index]
        if not key:
            return self._unusable[index]

        result = self._results.get(key)
        if result is None:
            return Failure(index, "interrupted", INTERRUPTED)
        if isinstance(result, Failure):
            return Failure(index, result.reason, result.message, result.error)
        return result
