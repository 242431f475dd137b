"""Ask models outside of a conversation: one prompt, or the prompts of many rows.

Requests run on an event loop of their own thread, which any thread can use: a cell, a tool, a
worker thread, a Dask task, or a script without Jupyter.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, Final, Literal

from jp_nb.errors import UsageError
from jp_nb.session import get_session
from jp_nb.session.rows.completion_cache import CompletionCache
from jp_nb.session.rows.completion_models import ChosenModel
from jp_nb.session.rows.completion_runner import CompletionRunner
from jp_nb.session.rows.completions import Completion, Completions
from jp_nb.session.rows.folder_models import FolderModels
from jp_nb.session.rows.progress_display import (
    NoProgress,
    PlainProgress,
    ProgressDisplay,
    choose_stream_display,
)
from jp_nb.session.rows.prompt_images import read_images
from jp_nb.session.rows.row_run import RunOptions
from jp_nb.session.rows.single_completion import RowPrompt
from jp_nb.session.threads.agent_thread import AgentThread
from jp_nb.storable_json import replace_surrogates

MAX_WORKERS: Final = 1000
"""Requests that one call may run at once."""
MAX_POLL_S: Final = 3600
"""Longest time between two looks at a batch."""


_opening = threading.Lock()
"""Guards `_folder_runners`, so that two threads do not make a runner each."""
_folder_runners: dict[Path, CompletionRunner] = {}
"""The runners of code without a session, by the current folder."""


def open_runner() -> CompletionRunner:
    """Return the runner of the session; without one, that of the current folder."""
    with _opening:
        session = get_session()
        if session is not None:
            return session.completions

        folder = Path.cwd().resolve()
        if folder not in _folder_runners:
            _folder_runners[folder] = CompletionRunner(FolderModels(folder), {})
        return _folder_runners[folder]


def _forget_parent() -> None:
    """Use a new thread and new connections in a forked process: those of the parent end there."""
    global _opening
    _opening = threading.Lock()
    _folder_runners.clear()
    session = get_session()
    if session is not None:
        session.forget_completions()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)


def complete(
    prompt: str,
    *,
    schema: object,
    model: str | None,
    system: str | None,
    cfg: str | Sequence[str],
    images: Any,
) -> Completion:
    """Return the answer to one prompt; see `jp_nb.complete`."""
    _refuse_on_event_loop("complete", instead="await jp.acomplete(…)")
    runner = open_runner()
    choice = make_model_choice(model, system, cfg)
    asked = _read_prompt(prompt, images, runner.folder)
    return runner.complete(runner.make_task(choice, schema, prompt=asked.text), asked)


async def acomplete(
    prompt: str,
    *,
    schema: object,
    model: str | None,
    system: str | None,
    cfg: str | Sequence[str],
    images: Any,
) -> Completion:
    """Return the answer to one prompt; see `jp_nb.acomplete`."""
    runner = open_runner()
    choice = make_model_choice(model, system, cfg)
    asked = _read_prompt(prompt, images, runner.folder)
    return await runner.acomplete(runner.make_task(choice, schema, prompt=asked.text), asked)


def complete_all(
    rows: Any,
    *,
    template: str | None,
    schema: object,
    model: str | None,
    system: str | None,
    cfg: str | Sequence[str],
    images: Any,
    workers: int,
    errors: Literal["values", "raise"],
    max_total_tokens: int | None,
    cache: str | os.PathLike[str] | None,
    max_concurrent: int | None,
    progress: bool,
    mode: Literal["live", "batch"] = "live",
    poll_seconds: float = 60.0,
) -> Completions:
    """Return the answers to the prompts of rows; see `jp_nb.complete_all`."""
    _refuse_on_event_loop("complete_all", instead="await jp.acomplete(…) for each row")
    if errors not in ("values", "raise"):
        raise UsageError(f'`errors` is "values" or "raise", not {errors!r}')
    _check_count("workers", workers, MAX_WORKERS)
    _check_count("max_total_tokens", max_total_tokens, inf)
    _check_count("max_concurrent", max_concurrent, MAX_WORKERS)
    if mode not in ("live", "batch"):
        raise UsageError(f'`mode` is "live" or "batch", not {mode!r}')
    if mode == "batch":
        _check_batch_options(cache, max_total_tokens, max_concurrent, poll_seconds)

    # An error of the model or its settings is raised before the cache file is made.
    runner = open_runner()
    choice = make_model_choice(model, system, cfg)
    limit = inf if max_concurrent is None else max_concurrent
    task = runner.make_task(choice, schema, max_concurrent=limit)
    opened = None if cache is None else CompletionCache(Path(cache))
    display = _choose_display(progress)

    try:
        # With a cassette, the rows are asked one by one: it records and answers single requests, so
        # that a test needs no provider.
        if mode == "batch" and opened is not None and not task.has_cassette:
            return runner.run_batch(
                task,
                rows,
                template=template,
                images=images,
                poll_seconds=poll_seconds,
                raises=errors == "raise",
                cache=opened,
                display=display,
            )
        return runner.run_rows(
            task,
            rows,
            template=template,
            images=images,
            options=RunOptions(workers, errors, max_total_tokens),
            cache=opened,
            display=display,
        )
    finally:
        if opened is not None:
            opened.close()


def cancel_batch(
    cache: str | os.PathLike[str], *, model: str | None, cfg: str | Sequence[str]
) -> int:
    """Cancel the batches that are open in a cache file; see `jp_nb.cancel_batch`."""
    _refuse_on_event_loop("cancel_batch", instead="await asyncio.to_thread(jp.cancel_batch, …)")
    path = Path(cache)
    if not path.exists():
        raise UsageError(f"there is no file {path}. Name the file that `cache=` has written")

    runner = open_runner()
    task = runner.make_task(make_model_choice(model, None, cfg), None)
    opened = CompletionCache(path)
    try:
        return runner.cancel_batches(task, opened)
    finally:
        opened.close()


def make_model_choice(
    model: str | None, system: str | None, cfg: str | Sequence[str]
) -> ChosenModel:
    """Return the model and the settings that a call names."""
    changes = (cfg,) if isinstance(cfg, str) else tuple(cfg)
    return ChosenModel(model, system, changes)


def _read_prompt(prompt: str, images: Any, folder: Path) -> RowPrompt:
    """Return the prompt of one request, or raise `UsageError`."""
    if not isinstance(prompt, str):
        kind = type(prompt).__name__
        raise UsageError(f"the prompt is a {kind}, not a text. For several: `jp.complete_all`")
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    return RowPrompt(replace_surrogates(prompt), read_images(images, folder))


def _choose_display(progress: bool) -> ProgressDisplay:
    """Return the display of the progress: in the page, as lines, or none outside of the cell."""
    is_main = threading.current_thread() is threading.main_thread()
    if not progress or not is_main:
        return NoProgress()
    session = get_session()
    if session is None:
        return choose_stream_display()
    return PlainProgress() if session.active.headless else session.host.make_row_progress()


def _refuse_on_event_loop(name: str, *, instead: str) -> None:
    """Raise `UsageError` in an `async def` tool: turns and their interrupts would wait for it."""
    if AgentThread.is_on_any_loop():
        raise UsageError(
            f"`jp.{name}` would block the turn in an `async def` tool. Use `{instead}`, or a "
            "`def` tool"
        )


def _check_batch_options(
    cache: object, max_total_tokens: object, max_concurrent: object, poll_seconds: object
) -> None:
    """Raise `UsageError` if an option cannot be used with `mode="batch"`."""
    if cache is None:
        raise UsageError(
            '`mode="batch"` needs `cache="answers.jsonl"`: the file keeps the id of the batch, so '
            "that a later call finds the answers"
        )
    if max_total_tokens is not None or max_concurrent is not None:
        raise UsageError(
            "`max_total_tokens` and `max_concurrent` limit single requests. "
            '`mode="batch"` sends all rows at once'
        )
    is_number = isinstance(poll_seconds, int | float) and not isinstance(poll_seconds, bool)
    if not is_number or not 0 < poll_seconds <= MAX_POLL_S:  # type: ignore[operator]
        raise UsageError(
            f"`poll_seconds` is a number of seconds up to {MAX_POLL_S}, not {poll_seconds!r}"
        )


def _check_count(name: str, value: object, at_most: float) -> None:
    """Raise `UsageError` unless `value` is None or a whole number in the range."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if value is None or (is_whole and 1 <= value <= at_most):  # type: ignore[operator]
        return
    limit = "" if at_most == inf else f" up to {at_most}"
    raise UsageError(f"`{name}` is a whole number from 1{limit}, not {value!r}")
