"""Read values by expressions such as `df.columns[0]`, and format locations in the user's code.

Properties and `__getitem__` of the value's class run, so this happens in the cell's thread.

Source: `docs/notebook-tools.md`, `docs/values.md`.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

MAX_EXPRESSION = 1000
"""Maximum number of characters of an expression."""


class ValuePathError(LookupError):
    """There is no value at a path. The message has the reason."""


class NotAValuePath(ValuePathError):  # noqa: N818
    """An expression is not a name with attributes and subscripts."""


class NoSuchName(ValuePathError):  # noqa: N818
    """The notebook has no variable of that name."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of a path.

    Attributes:
        key: Name of the attribute, or the subscript: a constant, a slice, or a tuple of these.
    """

    kind: Literal["attribute", "item"]
    key: Any

    def take(self, value: Any) -> Any:
        """Return this part of `value`.

        Raises:
            ValuePathError: The value has no such part, or its code failed.
        """
        try:
            return getattr(value, self.key) if self.kind == "attribute" else value[self.key]
        except Exception as exc:  # the value's code may raise anything
            raise ValuePathError(
                f"cannot read {self.key!r} of it: {type(exc).__name__}: {exc}"
            ) from exc


@dataclass(frozen=True, slots=True)
class ValuePath:
    """The name of a variable, and the steps to a part of its value."""

    name: str
    steps: tuple[PathStep, ...] = ()

    def follow(self, namespace: Mapping[str, Any]) -> Any:
        """Return the value at the path. Call it in the thread that uses the value.

        Raises:
            ValuePathError: There is no value at the path.
        """
        value = self.begin(namespace)
        for step in self.steps:
            value = step.take(value)
        return value

    def begin(self, namespace: Mapping[str, Any]) -> Any:
        """Return the value of the variable.

        Raises:
            NoSuchName: There is no such variable. The message suggests a similar name.
        """
        if self.name in namespace:
            return namespace[self.name]
        near = difflib.get_close_matches(self.name, [str(name) for name in namespace], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise NoSuchName(f"no variable {self.name!r} in this notebook{hint}")


def read_value_path(expression: str) -> ValuePath:
    """Parse a path such as `name`, `name.attr`, `name["key"]`, or `name[1:5]`.

    Raises:
        NotAValuePath: The expression is not a path.
    """
    if len(expression) > MAX_EXPRESSION:
        raise NotAValuePath(f"{expression[:80]}…")
    try:
        node = ast.parse(expression.strip(), mode="eval").body
        steps: list[PathStep] = []
        while not isinstance(node, ast.Name):
            step, node = _split_last_step(node)
            steps.append(step)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotAValuePath(expression) from None
    return ValuePath(node.id, tuple(reversed(steps)))


def _split_last_step(node: ast.expr) -> tuple[PathStep, ast.expr]:
    match node:
        case ast.Attribute(value=inner, attr=name):
            return PathStep("attribute", name), inner
        case ast.Subscript(value=inner, slice=key):
            return PathStep("item", _read_key(key)), inner
    raise ValueError("neither an attribute nor a subscript")


def _read_key(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(_read_bound(lower), _read_bound(upper), _read_bound(step))
        case ast.Tuple(elts=parts):
            return tuple(map(_read_key, parts))
    raise ValueError("not a constant")


def _read_bound(node: ast.expr | None) -> int | None:
    bound = None if node is None else _read_key(node)
    if bound is None or isinstance(bound, int):
        return bound
    raise ValueError("slices need whole numbers")


_CELL: Final = re.compile(r"<ipython-input-.*>|<stdin>|.*[/\\]ipykernel_\d+[/\\]\d+\.py")


def is_cell_file(path: str) -> bool:
    """Return True if `path` is the file name of a cell's code."""
    return _CELL.fullmatch(path) is not None


def is_own_code(path: str) -> bool:
    """Return True for a cell, or a file outside of Python, installed packages, and `jp_nb`."""
    if is_cell_file(path):
        return True
    if path.startswith("<"):
        return False
    if not os.path.isabs(path) and not os.path.exists(path):
        return False  # for example the source of a compiled extension module
    return not os.path.abspath(path).startswith(_package_folders())


@cache
def _package_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    folders.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple(os.path.join(folder, "") for folder in folders)


def format_location(path: str, line: int) -> str:
    """Return cell and line, or file and line. Paths in the working directory are relative."""
    if is_cell_file(path):
        return f"{_format_cell(path)}, line {line}"
    if path.startswith("<"):
        return f"line {line}"
    folder = os.path.join(os.getcwd(), "")
    full = os.path.abspath(path)
    name = full.removeprefix(folder) if full.startswith(folder) else os.path.basename(path)
    return f"{name}, line {line}"


def _format_cell(path: str) -> str:
    # `Cell In[N]`, as in IPython's tracebacks.
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    number = numbers.get(path) if isinstance(numbers, dict) else None
    return "a cell" if number is None else f"Cell In[{number}]"
