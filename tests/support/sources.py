"""The sources of the package as syntax trees, each parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def syntax(path: Path) -> ast.Module:
    """Return the syntax tree of the file at `path`, which nobody changes."""
    return ast.parse(path.read_text(encoding="utf-8"))
