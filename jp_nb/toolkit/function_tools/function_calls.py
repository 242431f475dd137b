"""Call a Python function as a tool, await its result, and convert it to an outcome.

A function runs in the cell's thread, or in one of its own (`python_tool.py`). If it returns an
awaitable, such as the coroutine of a decorated `async def` function, the agent's event loop awaits
it.

Source: `docs/tools.md`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import CoroutineType, GeneratorType
from typing import Any, Final, cast

from jp_nb.toolkit.cell_thread import ControlFlowError, PendingResult
from jp_nb.toolkit.function_tools.blocked_loop import get_loop_of_thread
from jp_nb.toolkit.outcome import NeedsInput, Outcome, Success, ToolFailure
from jp_nb.values.base import Description, ValueBudget
from jp_nb.values.describe import describe_result
from jp_nb.values.json_results import as_json

_LOOP_RUNS: Final = (
    "cannot be called from a running event loop",  # asyncio.run
    "event loop is already running",  # loop.run_until_complete
    "while another loop is running",
    "Already running asyncio in this thread",  # anyio.run
    "call run() from inside a run()",  # trio.run
)
_USE_THREAD: Final = (
    "The thread of the cell already runs an event loop. Make the tool an `async def` function that "
    "awaits, or use `@jp.tool(thread=True)`"
)
_USE_AWAIT: Final = "An `async def` tool already runs in an event loop. Use `await`"
_CELL_FUTURE: Final = (
    "the tool returned a {} of the cell's event loop, which waits until the cell ends. It was "
    "cancelled. Return the coroutine itself, or make the tool an `async def` function that awaits"
)
_OTHER_FUTURE: Final = (
    "the tool returned a {} of an event loop that does not run. Return the coroutine itself, or "
    "make the tool an `async def` function that awaits"
)


def as_outcome(result: object, budget: ValueBudget | None = None) -> Outcome:
    """Convert the result of a function to an outcome.

    An outcome is returned unchanged. A text is the content of a `Success`. Plain data becomes JSON,
    with sorted sets. Other values, iterators, and containers of them are described within `budget`.
    """
    kind = type(result)  # `__class__` may be wrong or raise
    if issubclass(kind, (Success, ToolFailure, NeedsInput)):
        return cast(Outcome, result)
    if issubclass(kind, str):
        return Success(cast(str, result))
    if issubclass(kind, Description):
        return _make_success(cast(Description, result))

    text = as_json(result)  # None for a value that is not plain data
    if text is not None:
        return Success(text)
    return _make_success(describe_result(result, budget or ValueBudget()))


def _make_success(description: Description) -> Success:
    return Success(description.text, images=description.images)


def call_function(
    function: Callable[..., Any], arguments: Mapping[str, Any], budget: ValueBudget
) -> Outcome | PendingResult:
    """Call a `def` function, and describe its result in the same thread.

    A description may run code of the value. An awaitable is returned as a `PendingResult`.

    Raises:
        ControlFlowError: The function raised an exception that a future cannot hold.
    """
    try:
        result = function(**arguments)
        if not _is_awaitable(result):
            return as_outcome(result, budget)
        return PendingResult(_release_from_running_loop(result))
    except (StopIteration, GeneratorExit, RuntimeError) as exc:
        _raise_if_control_flow(exc)
        _add_loop_advice(exc, _USE_THREAD)
        raise


async def await_result(result: object, budget: ValueBudget) -> Outcome:
    """Await `result`, and the awaitables that it returns, on the running loop.

    Raises:
        ControlFlowError: Awaited code raised an exception that a future cannot hold.
    """
    try:
        while _is_awaitable(result):
            result = await _await(result)
        return as_outcome(result, budget)
    except (StopIteration, GeneratorExit, RuntimeError) as exc:
        _raise_if_control_flow(exc)
        _add_loop_advice(exc, _USE_AWAIT)
        raise


def _raise_if_control_flow(exc: BaseException) -> None:
    """Raise `ControlFlowError` in place of an exception that a future cannot hold."""
    original: BaseException | None = exc
    if isinstance(exc, RuntimeError) and "raised StopIteration" in str(exc):
        original = exc.__cause__  # Python replaced it: "coroutine raised StopIteration"
    if isinstance(original, StopIteration | GeneratorExit):
        raise ControlFlowError(repr(original)) from original


def _add_loop_advice(exc: BaseException, advice: str) -> None:
    """Add `advice` to an error that says that an event loop already runs."""
    if any(text in str(exc) for text in _LOOP_RUNS):
        exc.add_note(advice)


# --- awaitables ----------------------------------------------------------------------------------


def _is_awaitable(value: object) -> bool:
    """Return True if the agent's event loop can await `value`, futures of threads included."""
    kind = type(value)  # `__class__` may be wrong or raise
    if issubclass(kind, GeneratorType):  # of `types.coroutine`
        return bool(cast(Any, value).gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE)
    return issubclass(kind, Awaitable | concurrent.futures.Future)


def _release_from_running_loop(value: Any) -> Any:
    """Return an awaitable for another loop than the running one, which the cell blocks.

    Raises:
        RuntimeError: The result cannot be awaited in another loop.
    """
    if not isinstance(value, asyncio.Future) or value.done():
        return value
    if value.get_loop() is not get_loop_of_thread():  # it does not belong to the blocked loop
        return value

    coroutine = value.get_coro() if isinstance(value, asyncio.Task) else None
    value.cancel()
    if not inspect.iscoroutine(coroutine) or not _is_new(coroutine):
        raise RuntimeError(_CELL_FUTURE.format(type(value).__name__))

    # The task has not started: its coroutine runs in the agent's loop, and the task only ends.
    value.add_done_callback(_ignore_exception)
    return coroutine


def _is_new(coroutine: CoroutineType[Any, Any, Any]) -> bool:
    """Return True if the coroutine has not started, so that another loop can run it."""
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


def _ignore_exception(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()  # asyncio logs an exception that is never retrieved


async def _await(value: Any) -> object:
    """Await `value` on the running loop, also a future of another thread or of another loop."""
    if isinstance(value, concurrent.futures.Future):
        return await asyncio.wrap_future(value)
    if not isinstance(value, asyncio.Future) or value.get_loop() is get_loop_of_thread():
        return await value
    if value.done():
        return value.result()

    loop = value.get_loop()
    if not loop.is_running():
        raise RuntimeError(_OTHER_FUTURE.format(type(value).__name__))

    async def wait() -> object:
        return await value

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait(), loop))
