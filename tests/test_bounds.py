"""`docs/bounds.md` lists each bound of the code, with its value."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \| `(jp_nb/[\w/]+\.py)` \|$", re.MULTILINE)


def bounds_of(file: Path) -> list[str]:
    targets = [
        each.target if isinstance(each, ast.AnnAssign) else each.targets[0]
        for each in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(each, ast.Assign | ast.AnnAssign)
    ]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if name.startswith(("MAX_", "_MAX_"))]


def format_value(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else "by name"


def test_page_lists_each_bound_with_its_value() -> None:
    expected = set()
    for file in (ROOT / "jp_nb").rglob("*.py"):
        path = file.relative_to(ROOT).as_posix()
        for name in bounds_of(file):
            module = importlib.import_module(
                path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            )
            expected.add((name, format_value(getattr(module, name)), path))
    rows = ROW.findall((ROOT / "docs" / "bounds.md").read_text(encoding="utf-8"))
    assert len(rows) == len(set(rows))
    assert set(rows) == expected
