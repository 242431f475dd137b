"""Flush printed text and open figures, so that they reach the cell before later output."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary


def list_open_figures() -> frozenset[int]:
    """Return the numbers of matplotlib's open figures if the inline backend is active."""
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if inline is None or pyplot is None or "inline" not in str(pyplot.get_backend()):
        return frozenset()
    return frozenset(pyplot.get_fignums())


def show_figures() -> None:
    """Show the open figures now."""
    if list_open_figures():
        sys.modules["matplotlib_inline.backend_inline"].flush_figures()


_FLUSHED: WeakKeyDictionary[Any, object] = WeakKeyDictionary()
"""Buffers of each stream when the text of the last flush was sent.

An `OutStream` of ipykernel collects printed text in `_buffers`. Its publishing thread replaces them
by new ones when it sends their text. So a stream has nothing to send only if its buffers are empty,
and are still those that were there when the last flush had ended.
"""


def flush_streams() -> None:
    """Send the printed text. Return at once if nothing was printed since the last call."""
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        buffers = getattr(stream, "_buffers", None)
        if buffers is None or buffers or _FLUSHED.get(stream) is not buffers:
            with suppress(Exception):  # the user may have replaced the stream
                stream.flush()
                # After the flush, on the thread that sends the text.
                stream.pub_thread.schedule(partial(_set_flushed, stream))


def _set_flushed(stream: Any) -> None:
    _FLUSHED[stream] = stream._buffers
