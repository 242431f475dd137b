"""Tell a task that is being cancelled from one that only awaits a cancelled future.

Both raise `CancelledError` at the await. A cancelled task must end. The other one continues: its
tool or provider cancelled itself, which is a failure like any other.
"""

from __future__ import annotations

import asyncio


def is_cancelled() -> bool:
    """True if the current task is being cancelled, and not only the future that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def raise_if_cancelled() -> None:
    """Raise `CancelledError` if a tool or a prompt ignored the cancellation of the current task."""
    if is_cancelled():
        raise asyncio.CancelledError
