"""Open a notebook in JupyterLab, and run JupyterLab until the user stops it.

`jp-nb demo` and `jp-nb inbox` use it.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

_STOPS: Final = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP


def open_in_lab(notebook: Path) -> int:
    """Open `notebook` in JupyterLab, wait until it ends, and return an exit code.

    It is that of JupyterLab. If a signal stopped JupyterLab, it is 0 for Ctrl+C, and otherwise
    the code that a shell gives for the signal.
    """
    print(f"Opening {notebook} in JupyterLab; stop it with Ctrl+C.")
    allowed = []
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        print("You are root, so JupyterLab is started with --allow-root.")
        allowed = ["--allow-root"]
    sys.stdout.flush()
    return _run_lab([sys.executable, "-m", "jupyterlab", str(notebook), *allowed])


def _run_lab(command: Sequence[str]) -> int:
    with _forward_signals() as received:
        code = subprocess.call(command)

    if not received:
        return code
    return 0 if received[0] == signal.SIGINT else 128 + received[0]


@contextmanager
def _forward_signals() -> Iterator[list[int]]:
    """Let signals that stop this process stop JupyterLab, which then stops its kernels.

    Collect the numbers of the received signals.
    """
    received: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        """Note the signal, and stop JupyterLab."""
        import psutil  # of ipykernel

        received.append(number)
        for child in psutil.Process().children():
            child.terminate()  # Ctrl+C alone would only make JupyterLab ask for a confirmation

    numbers = [getattr(signal, name) for name in _STOPS if hasattr(signal, name)]
    earlier_handlers = {number: signal.signal(number, stop) for number in numbers}

    try:
        yield received
    finally:
        for number, handler in earlier_handlers.items():
            signal.signal(number, handler)


def explain_no_display() -> str:
    """Return why JupyterLab cannot be opened; "" if it can."""
    if importlib.util.find_spec("jupyterlab") is None:
        return "JupyterLab is not installed (`pip install 'jp-nb[demo]'`)."

    variables = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in variables):
        return "No display is available, so no page can be opened."
    return ""
