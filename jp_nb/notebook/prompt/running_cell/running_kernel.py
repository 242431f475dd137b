"""The kernel in whose process the code runs."""

from __future__ import annotations

import sys
from typing import Any


def get_running_kernel() -> Any:
    """Return the IPython kernel of this process; None without a kernel, as in a terminal."""
    # An unloaded IPython has no kernel, and loading it would take long.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None)
