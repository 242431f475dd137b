"""Interface of the cell's thread for tools.

The agent runs turns in another thread. The cell's thread belongs to the user's code: `def`
tools run there, one at a time. `jp_nb/session/threads/cell_loop.py` implements it.

Source: `docs/architecture.md` (two threads), `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class CellThread(Protocol):
    """The thread of the running cell: the only one for displays, stdin, and `def` tools."""

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` in the cell's thread, and return its result. Calls run one at a time.

        Raises:
            CallInterrupted: An interrupt, or an exception such as `SystemExit`, ended it.
        """
        ...

    def release(self) -> None:
        """Resume the calls that wait since the cell was interrupted.

        No call runs from an interrupt on until the turn has decided how it continues.
        """
        ...


class CallInterrupted(Exception):  # noqa: N818 - names an event
    """A function on the cell's thread was interrupted.

    It replaces a `KeyboardInterrupt` or `SystemExit`, which would end the agent's event loop. The
    original exception is the `__cause__`.
    """


class ControlFlowError(RuntimeError):
    """A tool raised an exception that would end more than its call, such as `StopIteration`.

    A future or a coroutine cannot raise such an exception, so it raises this one instead. The
    original exception is the `__cause__`.
    """


@dataclass(frozen=True, slots=True)
class PendingResult:
    """The awaitable that a `def` tool returned instead of a result.

    The function that calls the tool in the cell's thread returns it to the agent's event loop,
    which awaits it.
    """

    awaitable: Any
