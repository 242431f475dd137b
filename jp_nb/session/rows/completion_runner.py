"""Ask models outside of a conversation, on an event loop in a separate thread.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

from jp_nb.agent.model_requests.model_batches import ModelBatches, UnknownBatchError
from jp_nb.errors import UsageError
from jp_nb.record.entries.token_usage import Usage
from jp_nb.session.rows.batch_run import BatchRun
from jp_nb.session.rows.completion_cache import CompletionCache
from jp_nb.session.rows.completion_models import ChosenModel, CompletionModels
from jp_nb.session.rows.completions import Completion, Completions
from jp_nb.session.rows.progress_display import ProgressDisplay
from jp_nb.session.rows.request_pace import RequestPace
from jp_nb.session.rows.row_prompts import read_rows
from jp_nb.session.rows.row_run import RowRun, RunOptions
from jp_nb.session.rows.single_completion import CompletionTask, RowPrompt, request_completion
from jp_nb.session.threads.agent_thread import AgentThread
from jp_nb.session.turns.structured import read_answer_form


class CompletionRunner:
    """Asks models outside of a conversation. Safe from any thread.

    Args:
        models: Opens the models.
        namespace: The user's variables, in which a schema may be found by its name.

    Attributes:
        usage: Tokens of all requests, by the name of the model.
        requests: Number of requests, by the name of the model.
    """

    def __init__(
        self,
        models: CompletionModels,
        namespace: Mapping[str, Any],
    ) -> None:
        self._models = models
        self._namespace = namespace
        self._thread = AgentThread("jp_nb rows")
        self._paces: dict[str, RequestPace] = {}  # by provider
        self._conversation_id = uuid4().hex  # all requests share it, for the caches of providers
        self.usage: dict[str, Usage] = {}
        self.requests: dict[str, int] = {}

    @property
    def folder(self) -> Path:
        """The workspace, in which images may be."""
        return self._models.files.root

    def make_task(
        self,
        choice: ChosenModel,
        schema: object,
        *,
        prompt: str = "",
        max_concurrent: float = inf,
    ) -> CompletionTask:
        """Return how to ask the chosen model. Sends nothing.

        `prompt` is an example of the prompts, because the check of some providers needs one.

        Raises:
            ConfigError: A setting is not valid, or there is no such model.
            ProviderError: The key of the provider is missing.
            UsageError: The schema is not valid, or the model does not support it.
        """
        opened = self._models.open(choice)
        model = opened.model
        form = None if schema is None else read_answer_form(schema, self._namespace)
        if form is not None:
            model.provider.check_schema(form.schema)
        opened.check_ready(prompt)

        pace = self._paces.setdefault(model.provider_name, RequestPace())
        return CompletionTask(
            model, pace, form, self._conversation_id, max_concurrent, opened.has_cassette
        )

    def complete(self, task: CompletionTask, prompt: RowPrompt) -> Completion:
        """Return the answer; an interrupt cancels the request."""
        return self._thread.wait_for(request_completion(task, prompt, self.count_usage))

    async def acomplete(self, task: CompletionTask, prompt: RowPrompt) -> Completion:
        """Return the answer; canceling the task cancels the request."""
        work = request_completion(task, prompt, self.count_usage)
        return await asyncio.wrap_future(self._thread.submit(work))

    def count_usage(self, model: str, usage: Usage) -> None:
        """Count the tokens of a request; on the thread of the requests."""
        self.usage[model] = self.usage.get(model, Usage()) + usage
        self.requests[model] = self.requests.get(model, 0) + 1

    def run_rows(
        self,
        task: CompletionTask,
        rows: Any,
        *,
        template: str | None,
        images: Any,
        options: RunOptions,
        cache: CompletionCache | None,
        display: ProgressDisplay,
    ) -> Completions:
        """Return the answers to the prompts of `rows`.

        Raises:
            UsageError: The rows cannot be read. Nothing was sent.
        """
        prompts = read_rows(rows, template, images, self.folder)
        run = RowRun(
            task,
            prompts,
            options,
            submit=self._thread.submit,
            count_usage=self.count_usage,
            display=display,
            cache=cache,
        )
        return run.run()

    def run_batch(
        self,
        task: CompletionTask,
        rows: Any,
        *,
        template: str | None,
        images: Any,
        poll_seconds: float,
        raises: bool,
        cache: CompletionCache,
        display: ProgressDisplay,
    ) -> Completions:
        """Return the answers to the prompts of `rows`, by the batch API of the provider.

        Raises:
            UsageError: The rows cannot be read, or the provider has no batch API.
            ProviderError: The server does not accept a batch.
        """
        run = BatchRun(
            task,
            read_rows(rows, template, images, self.folder),
            _open_batches(task),
            cache,
            poll_seconds=poll_seconds,
            start=self._thread.submit,
            count_usage=self.count_usage,
            display=display,
        )
        return run.run(raises=raises)

    def cancel_batches(self, task: CompletionTask, cache: CompletionCache) -> int:
        """Cancel the batches of the task's provider that are open in `cache`; return their number.

        Raises:
            UsageError: The provider has no batch API.
            ProviderError: The server does not cancel a batch.
        """
        batches = _open_batches(task)
        cancelled = 0
        for batch in cache.list_open_batches(batches.address):
            try:
                self._thread.wait_for(batches.cancel(batch.id))
            except UnknownBatchError:  # the others still cost money
                cache.end_batch(batch)
            else:
                # It stays open in the cache: the next run fetches the answers that it has.
                cancelled += 1
        return cancelled

    def close(self) -> None:
        """Close the connections, and end the thread."""
        self._thread.close(*(provider.aclose() for provider in self._models.take_providers()))


def _open_batches(task: CompletionTask) -> ModelBatches:
    """Return the batch API of the task's provider, or raise `UsageError`.

    Only some providers have the method `open_batches`, which may return None.
    """
    open_batches = getattr(task.model.provider, "open_batches", None)
    batches: ModelBatches | None = None if open_batches is None else open_batches()
    if batches is None:
        name = task.model.provider_name
        raise UsageError(f'{name} has no batch API that jp_nb knows. Omit `mode="batch"`')
    return batches
