"""Tell the output of a turn from the output of its tools.

The output of the turn is *ours*: jp_nb displays it, and no tool or code of the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any


def get_running_request(kernel: Any) -> str | None:
    """Return the id of the request that runs the cell, if there is one."""
    request: str | None = (kernel.get_parent("shell").get("header") or {}).get("msg_id")
    return request


_OURS = local()


@contextmanager
def mark_as_ours() -> Iterator[None]:
    """Mark the output of this thread as output of the turn, which is not captured."""
    outer = is_ours()
    _OURS.inside = True

    try:
        yield
    finally:
        _OURS.inside = outer


def is_ours() -> bool:
    """Return True if this thread displays output of the turn, inside of `mark_as_ours`."""
    return getattr(_OURS, "inside", False)
