"""Read values by expressions such as `df.columns[0]`, and find the cell that assigned a name.

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
"""Characters of an expression: names and keys are shorter."""
_SHOWN = 80


class ValuePathError(LookupError):
    """A path leads nowhere; the message says which part of it, and why."""


class NotAValuePath(ValuePathError):  # noqa: N818 - what it is, not what is wrong
    """An expression is more than a name with attributes and subscripts."""


class NoSuchName(ValuePathError):  # noqa: N818
    """The notebook has no variable of that name."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of a path.

    Attributes:
        kind: An attribute, or what stands in brackets.
        key: A name; or a constant, a slice of integers, or a tuple of those.
    """

    kind: Literal["attribute", "item"]
    key: Any

    def take(self, value: Any) -> Any:
        """Return this part of `value`.

        Raises:
            ValuePathError: If it cannot be had, for whatever reason the value's own code has.
        """
        try:
            return getattr(value, self.key) if self.kind == "attribute" else value[self.key]
        except Exception as exc:  # whatever the value's own code raises
            raise ValuePathError(
                f"cannot read {self.key!r} of it: {type(exc).__name__}: {exc}"
            ) from exc


@dataclass(frozen=True, slots=True)
class ValuePath:
    """A name and the steps from its value on."""

    name: str
    steps: tuple[PathStep, ...] = ()

    def follow(self, namespace: Mapping[str, Any]) -> Any:
        """Return the value that the path leads to; on the thread on which it lives.

        Raises:
            ValuePathError: If there is none.
        """
        value = self.begin(namespace)
        for step in self.steps:
            value = step.take(value)
        return value

    def begin(self, namespace: Mapping[str, Any]) -> Any:
        """Return the value of the name alone.

        Raises:
            NoSuchName: If there is none; the message offers the nearest.
        """
        if self.name in namespace:
            return namespace[self.name]
        near = difflib.get_close_matches(self.name, [str(name) for name in namespace], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise NoSuchName(f"no variable {self.name!r} in this notebook{hint}")


def read_value_path(expression: str) -> ValuePath:
    """Return the path that `expression` writes: `name`, `name.attr`, `name["key"]`, `name[1:5]`.

    Raises:
        NotAValuePath: If it is anything else.
    """
    if len(expression) > MAX_EXPRESSION:
        raise NotAValuePath(f"{expression[:_SHOWN]}…")
    try:
        node = ast.parse(expression.strip(), mode="eval").body
        steps: list[PathStep] = []
        while not isinstance(node, ast.Name):
            step, node = _last_step(node)
            steps.append(step)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotAValuePath(expression) from None
    return ValuePath(node.id, tuple(reversed(steps)))


def _last_step(node: ast.expr) -> tuple[PathStep, ast.expr]:
    match node:
        case ast.Attribute(value=inner, attr=name):
            return PathStep("attribute", name), inner
        case ast.Subscript(value=inner, slice=key):
            return PathStep("item", _key(key)), inner
    raise ValueError("neither an attribute nor a subscript")


def _key(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(_bound(lower), _bound(upper), _bound(step))
        case ast.Tuple(elts=parts):
            return tuple(map(_key, parts))
    raise ValueError("not a constant")


def _bound(node: ast.expr | None) -> int | None:
    bound = None if node is None else _key(node)
    if bound is None or isinstance(bound, int):
        return bound
    raise ValueError("slices need whole numbers")


_CELL: Final = re.compile(r"<ipython-input-.*>|<stdin>|.*[/\\]ipykernel_\d+[/\\]\d+\.py")


def is_cell_file(path: str) -> bool:
    """Return True if `path` is what a cell's code is compiled under."""
    return _CELL.fullmatch(path) is not None


def is_own_code(path: str) -> bool:
    """Return True for code of the user: not of Python, an installed package or this one."""
    if is_cell_file(path):
        return True
    if path.startswith("<"):
        return False
    if not os.path.isabs(path) and not os.path.exists(path):
        return False  # as what compiled modules were made of
    return not os.path.abspath(path).startswith(_foreign_folders())


@cache
def _foreign_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    folders.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple(os.path.join(folder, "") for folder in folders)


def format_location(path: str, line: int) -> str:
    """Return a line of code by its cell, or its file: its path from here, else its name."""
    if is_cell_file(path):
        return f"{_cell_name(path)}, line {line}"
    if path.startswith("<"):
        return f"line {line}"
    folder = os.path.join(os.getcwd(), "")
    full = os.path.abspath(path)
    name = full.removeprefix(folder) if full.startswith(folder) else os.path.basename(path)
    return f"{name}, line {line}"


def _cell_name(path: str) -> str:
    """Return `Cell In[N]`, as tracebacks do, if IPython knows that number, else `a cell`."""
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    number = numbers.get(path) if isinstance(numbers, dict) else None
    return "a cell" if number is None else f"Cell In[{number}]"
