"""Figures that the running cell has drawn, and that matplotlib would show at its end."""

from __future__ import annotations

import sys


def open_figures() -> frozenset[int]:
    """Return the numbers of the figures that are open; none if nothing draws inline."""
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if inline is None or pyplot is None or "inline" not in str(pyplot.get_backend()):
        return frozenset()
    return frozenset(pyplot.get_fignums())


def show_figures() -> None:
    """Show them now."""
    if open_figures():
        sys.modules["matplotlib_inline.backend_inline"].flush_figures()
