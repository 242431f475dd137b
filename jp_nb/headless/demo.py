"""Command `jp-nb demo`: copy the tutorials, and open the quickstart in JupyterLab.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import FrameType
from typing import Final

QUICKSTART: Final = "01-quickstart.ipynb"

_NOT_COPIED: Final = (".ipynb_checkpoints", "__pycache__", ".jp")
_PAGES: Final = (".md", ".svg", ".png")  # the parts of `docs/` that links of the tutorials show
_STOPS: Final = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP


def demo(options: argparse.Namespace) -> int:
    """Open a copy of the tutorials in JupyterLab, at the quickstart.

    With `--headless`, or if JupyterLab cannot be opened, execute and print the quickstart instead.
    """
    folder = Path(tempfile.mkdtemp(prefix="jp-nb-demo-"))
    copy_tutorials(folder)
    notebook = folder / QUICKSTART
    problem = "" if options.headless else _explain_no_display()

    if options.headless or problem:
        if problem:
            print(f"{problem} The quickstart runs headless.\n")
        return _run_headless(notebook)

    print(f"Opening {notebook} in JupyterLab; stop it with Ctrl+C.")
    allowed = []
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        print("You are root, so JupyterLab is started with --allow-root.")
        allowed = ["--allow-root"]
    sys.stdout.flush()
    return _open_lab([sys.executable, "-m", "jupyterlab", str(notebook), *allowed])


def copy_tutorials(folder: Path) -> None:
    """Copy the tutorials and the documentation of the checkout, or of the package, to `folder`.

    The documentation is below the tutorials, because JupyterLab opens only files in its folder.
    """
    _copy(_find("notebooks"), folder)
    _copy(_find("docs"), folder / "docs", suffixes=_PAGES)
    for notebook in folder.glob("*.ipynb"):
        text = notebook.read_text(encoding="utf-8")
        notebook.write_text(text.replace("](../docs/", "](docs/"), encoding="utf-8")


def _find(name: str) -> Traversable:
    checkout = Path(__file__).resolve().parents[2] / name
    return checkout if checkout.is_dir() else resources.files("jp_nb") / name


def _copy(source: Traversable, target: Path, *, suffixes: tuple[str, ...] = ("",)) -> None:
    target.mkdir(exist_ok=True)
    for each in source.iterdir():
        if each.name in _NOT_COPIED:
            continue
        if each.is_dir():
            _copy(each, target / each.name, suffixes=suffixes)
        elif each.name.endswith(suffixes):
            (target / each.name).write_bytes(each.read_bytes())


def _run_headless(notebook: Path) -> int:
    # Loads nbclient, which JupyterLab does not need.
    from jp_nb.headless.files import print_transcript
    from jp_nb.headless.runner import run_notebook

    result = run_notebook(notebook)

    print_transcript(result.notebook, sys.stdout)
    if result.failure is not None:
        return 1
    shutil.rmtree(notebook.parent)
    return 0


def _open_lab(command: Sequence[str]) -> int:
    """Run JupyterLab until it ends; return its exit code, or that of the signal that stopped it."""
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
        import psutil  # of ipykernel

        received.append(number)
        for child in psutil.Process().children():
            child.terminate()  # Ctrl+C alone would only make JupyterLab ask for a confirmation

    numbers = [getattr(signal, name) for name in _STOPS if hasattr(signal, name)]
    before = {number: signal.signal(number, stop) for number in numbers}

    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _explain_no_display() -> str:
    if importlib.util.find_spec("jupyterlab") is None:
        return "JupyterLab is not installed (`pip install 'jp-nb[demo]'`)."

    variables = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in variables):
        return "No display is available, so no page can be opened."
    return ""
