"""Descriptions of functions."""

from __future__ import annotations

import linecache
import pathlib
from typing import Any

from tests.values.helpers import text


async def work(a: int, *, key: object = None) -> int:
    """Do it."""
    return a


def test_coroutine_function_is_async_def() -> None:
    signature = "work(a: 'int', *, key: 'object' = None) -> 'int', "
    assert text(work).startswith(f"async def tests.values.test_objects.{signature}")


def test_function_of_a_cell_has_its_source(tmp_path: pathlib.Path) -> None:
    source = "def half(x):\n    return x / 2  # exactly\n"
    name = str(tmp_path / "ipykernel_12" / "34.py")
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), space)
    try:
        assert text(space["half"]) == f"function half(x), a cell, line 1\n{source.rstrip()}"
        assert len(text(space["half"], 60)) <= 60
    finally:
        del linecache.cache[name]
