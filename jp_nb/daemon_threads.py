"""Run a function in a new daemon thread, whose result is a future.

The thread is a daemon: a call that never returns does not prevent the end of the process.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")


def start_thread(function: Callable[[], _Result], name: str) -> Future[_Result]:
    """Run `function` in a new thread, with a copy of the current context.

    The future has its result or its exception. A `StopIteration` or `GeneratorExit` becomes a
    `RuntimeError`, which a coroutine that awaits the future can raise. A future that is canceled
    before the thread begins does not run the function.
    """
    future: Future[_Result] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = context.run(function)
        except BaseException as exc:
            is_stop = isinstance(exc, (StopIteration, GeneratorExit))
            error = RuntimeError(f"{name} raised {exc!r}") if is_stop else exc
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=work, name=f"jp_nb {name}", daemon=True).start()
    return future
