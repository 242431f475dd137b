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
"""Buffers of each stream after the last flush."""


def flush_streams() -> None:
    """Send the printed text. Return at once if nothing was printed since the last call."""
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        # New buffers are empty too, while the text of the previous ones is not yet sent.
        buffers = getattr(stream, "_buffers", None)
        if buffers is None or buffers or _FLUSHED.get(stream) is not buffers:
            with suppress(Exception):  # the user may have replaced the stream
                stream.flush()
                # The publishing thread replaces the buffers when it has sent their text.
                stream.pub_thread.schedule(partial(_set_flushed, stream))


def _set_flushed(stream: Any) -> None:
    _FLUSHED[stream] = stream._buffers
