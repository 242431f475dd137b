"""Command `jp-nb demo`: copy the tutorials, and open the quickstart in JupyterLab.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from jp_nb.headless.commands.lab import explain_no_display, open_in_lab

QUICKSTART: Final = "01-quickstart.ipynb"

_NOT_COPIED: Final = (".ipynb_checkpoints", "__pycache__", ".jp")
_PAGES: Final = (".md", ".svg", ".png")  # the parts of `docs/` that links of the tutorials show


def demo(options: argparse.Namespace) -> int:
    """Open a copy of the tutorials in JupyterLab, at the quickstart.

    With `--headless`, or if JupyterLab cannot be opened, execute and print the quickstart instead.
    """
    folder = Path(tempfile.mkdtemp(prefix="jp-nb-demo-"))
    copy_tutorials(folder)
    notebook = folder / QUICKSTART
    problem = "" if options.headless else explain_no_display()

    if options.headless or problem:
        if problem:
            print(f"{problem} The quickstart runs headless.\n")
        return _run_headless(notebook)

    return open_in_lab(notebook)


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
    """Return a folder of the checkout; of the package, which has a copy, if it is installed."""
    checkout = Path(__file__).resolve().parents[3] / name
    return checkout if checkout.is_dir() else resources.files("jp_nb") / name


def _copy(source: Traversable, target: Path, *, suffixes: tuple[str, ...] = ("",)) -> None:
    """Copy the files with one of the `suffixes`, with their folders."""
    target.mkdir(exist_ok=True)
    for entry in source.iterdir():
        if entry.name in _NOT_COPIED:
            continue
        if entry.is_dir():
            _copy(entry, target / entry.name, suffixes=suffixes)
        elif entry.name.endswith(suffixes):
            (target / entry.name).write_bytes(entry.read_bytes())


def _run_headless(notebook: Path) -> int:
    """Run and print the quickstart. Return 1 if it failed; else remove the copy, and return 0."""
    # Loads nbclient, which JupyterLab does not need.
    from jp_nb.headless.cell_printing import print_transcript
    from jp_nb.headless.runner import run_notebook

    result = run_notebook(notebook)

    print_transcript(result.notebook, sys.stdout)
    if result.failure is not None:
        return 1
    shutil.rmtree(notebook.parent)
    return 0
