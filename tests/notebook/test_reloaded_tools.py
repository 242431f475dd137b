"""Tests of tools in modules that `%autoreload` or `importlib.reload` loads again."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.ipython_shell import IPythonShell
from tests.support.ipython import ipython

__all__ = ["ipython"]

FIRST = '''
import jp_nb as jp

def helper() -> str:
    return "old helper"

@jp.tool
def reloaded(city: str) -> str:
    """Forecast."""
    return f"old {city} {helper()}"

def plain(city: str) -> str:
    """Plain."""
    return f"old plain {city}"
'''
SECOND = (
    FIRST.replace("old", "new")
    .replace("reloaded(city: str)", "reloaded(city: str, days: int = 2)")
    .replace("plain(city: str)", "plain(city: str, hours=3)")
)


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Path]:
    sys.path.insert(0, str(tmp_path))
    path = tmp_path / "reloaded_module.py"
    path.write_text(FIRST, encoding="utf-8")
    yield path
    sys.path.remove(str(tmp_path))
    sys.modules.pop("reloaded_module", None)
    for name in registered():
        jp.remove_tool(name)


def registered() -> dict[str, Any]:
    """Return the registered tools of the module by name."""
    tools = {tool.name: tool for tool in jp.tools()}
    return {name: tools[name] for name in ("reloaded", "plain") if name in tools}


def edit(path: Path) -> None:
    before = path.stat().st_mtime
    path.write_text(SECOND, encoding="utf-8")
    os.utime(path, (before + 10, before + 10))


@pytest.mark.parametrize("how", ["%autoreload 2", "importlib.reload"])
def test_imported_name_and_tool_are_the_same_function(
    how: str, module: Path, ipython: IPythonShell
) -> None:
    if how.startswith("%"):
        ipython.run("%load_ext autoreload")
        ipython.run(how)
    ipython.run(
        "import importlib, reloaded_module, jp_nb as jp\n"
        "from reloaded_module import reloaded, plain, helper\n"
        "registered = jp.tool(plain)"
    )
    edit(module)
    if how.startswith("%"):
        ipython.run("pass")
    else:
        ipython.run("importlib.reload(reloaded_module)")
    ipython.run("direct = reloaded('Delft')")

    space = ipython.shell.user_ns
    assert space["direct"].startswith("new Delft")
    assert space["reloaded"] is registered()["reloaded"]
    assert "days" in str(space["reloaded"].schema)
    assert jp.call(space["reloaded"], city="Delft").content.startswith("new Delft")
    if how.startswith("%"):
        assert jp.call("plain", city="Delft").content == "new plain Delft"
        assert "hours" in str(registered()["plain"].schema)
