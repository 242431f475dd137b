"""Has what was printed sent on: a kernel's streams keep it back for a moment."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

_SENT: WeakKeyDictionary[Any, object] = WeakKeyDictionary()
"""By stream, the buffers that took the place of those whose text was sent."""


def flush_streams() -> None:
    """Send what was printed so far; where nothing was, wait for nobody."""
    for stream in (sys.stdout, sys.stderr):
        if not _holds_nothing(stream):
            with suppress(Exception):  # somebody's own stream
                _flush(stream)


def _flush(stream: Any) -> None:
    def note() -> None:  # in the thread that alone replaces the buffers: what was in them is sent
        _SENT[stream] = stream._buffers

    stream.flush()
    stream.pub_thread.schedule(note)


def _holds_nothing(stream: Any) -> bool:
    """Return True if nothing was printed since the buffers were noted: they are there, and empty.

    Others that are empty may have taken their place while the text is still on its way.
    """
    buffers = getattr(stream, "_buffers", None)
    return buffers is not None and not buffers and _SENT.get(stream) is buffers
