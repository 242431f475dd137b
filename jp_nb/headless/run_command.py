"""`jp-nb run`: executes a notebook with nobody there.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import sys

from jp_nb.headless.files import existing_notebook
from jp_nb.headless.runner import run_notebook
from jp_nb.safe_text import plain


def run(options: argparse.Namespace) -> int:
    """Execute the notebook; say which cell failed, if one did."""
    result = run_notebook(
        existing_notebook(options.notebook),
        out=options.out,
        strict=options.strict,
        continue_=options.go_on,
        overrides=options.cfg,
    )
    if result.failure is not None:
        place = "" if result.failure.cell is None else f" in cell {result.failure.cell}"
        message = plain(f"{result.failure.name}{place}: {result.failure.message}")
        print(f"jp-nb: {message}", file=sys.stderr)
        return 1
    return 0
