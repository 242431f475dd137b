"""`jp-nb demo`: the quickstart in JupyterLab, or headless where there is none.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

QUICKSTART = "01-quickstart.ipynb"


def demo(options: argparse.Namespace) -> int:
    """Open the quickstart in a page; where none can be opened, execute it and print it."""
    folder = Path(tempfile.mkdtemp(prefix="jp-nb-demo-"))
    notebook = folder / QUICKSTART
    notebook.write_bytes(quickstart())
    why_not = "" if options.headless else _no_page()
    if options.headless or why_not:
        if why_not:
            print(f"{why_not} The quickstart runs headless.\n")
        return _demo_headless(notebook)
    print(f"Opening {notebook} in JupyterLab; stop it with Ctrl+C.")
    if _is_root():
        print("You are root, so JupyterLab is started with --allow-root.")
    sys.stdout.flush()
    allowed = ["--allow-root"] if _is_root() else []
    try:
        return subprocess.call([sys.executable, "-m", "jupyterlab", str(notebook), *allowed])
    except KeyboardInterrupt:
        return 0


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def quickstart() -> bytes:
    """Return the quickstart notebook: from the checkout, or as it ships with the package."""
    checkout = Path(__file__).resolve().parents[2] / "notebooks" / QUICKSTART
    if checkout.is_file():
        return checkout.read_bytes()
    return (resources.files("jp_nb") / "notebooks" / QUICKSTART).read_bytes()


def _no_page() -> str:
    """Return why no page can be opened here; "" if one can."""
    if importlib.util.find_spec("jupyterlab") is None:
        return "JupyterLab is not installed (`pip install 'jp-nb[demo]'`)."
    shown = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in shown):
        return "No display is available, so no page can be opened."
    return ""


def _demo_headless(notebook: Path) -> int:
    # With it nbclient is loaded, which a page does not need.
    from jp_nb.headless.runner import print_transcript, run_notebook

    result = run_notebook(notebook)
    print_transcript(result.notebook, sys.stdout)
    if result.failure is not None:
        return 1
    shutil.rmtree(notebook.parent)
    return 0
