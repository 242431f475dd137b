"""Parse paths such as `df.columns[0]` to parts of values, and follow the paths of the user.

The user writes such a path in `{{…}}` or as an attachment. A path of the model leads only through
data (`data_access.py`).

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


class ValuePathError(LookupError):
    """There is no value at a path. The message has the reason."""


class NotAValuePath(ValuePathError):  # noqa: N818
    """An expression is not a name with attributes and subscripts."""


class NoSuchName(ValuePathError):  # noqa: N818
    """The notebook has no variable of that name."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """The name of an attribute, or a subscript: a constant, a slice, or a tuple of these."""

    kind: Literal["attribute", "item"]
    key: Any


@dataclass(frozen=True, slots=True)
class ValuePath:
    """The name of a variable, and the steps to a part of its value."""

    name: str
    steps: tuple[PathStep, ...] = ()

    def follow(self, namespace: Mapping[str, Any]) -> Any:
        """Return the value at the path, or raise a `ValuePathError`.

        Call it in the thread that uses the value.
        """
        value = self.read_variable(namespace)

        for step in self.steps:
            try:
                value = getattr(value, step.key) if step.kind == "attribute" else value[step.key]
            except Exception as exc:  # the value's code may raise anything
                raise ValuePathError(
                    f"cannot read {step.key!r} of it: {type(exc).__name__}: {exc}"
                ) from exc
        return value

    def read_variable(self, namespace: Mapping[str, Any]) -> Any:
        """Return the value of the variable, or raise `NoSuchName` with a similar name."""
        if self.name in namespace:
            return namespace[self.name]
        near = difflib.get_close_matches(self.name, [str(name) for name in namespace], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise NoSuchName(f"no variable {self.name!r} in this notebook{hint}")


def read_value_path(expression: str) -> ValuePath:
    """Parse a path such as `name.attr`, `name["key"]`, or `name[1:5]`, or raise `NotAValuePath`."""
    if len(expression) > 1000:  # a model may send any text
        raise NotAValuePath(f"{expression[:80]}…")

    try:
        node = ast.parse(expression.strip(), mode="eval").body
        steps: list[PathStep] = []
        while not isinstance(node, ast.Name):
            match node:
                case ast.Attribute(value=node, attr=name):
                    steps.append(PathStep("attribute", name))
                case ast.Subscript(value=node, slice=key):
                    steps.append(PathStep("item", _read_key(key)))
                case _:
                    raise NotAValuePath(expression)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotAValuePath(expression) from None

    return ValuePath(node.id, tuple(reversed(steps)))


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
