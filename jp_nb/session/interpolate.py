"""Puts the notebook's values in place of `{{name}}` in what the user asks.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jp_nb.errors import UsageError

MAX_EXPRESSION = 1000
"""Characters between two braces and two braces: names and keys are shorter."""


def interpolate(text: str, namespace: Mapping[str, Any], *, max_chars: int) -> str:
    r"""Return `text` with the values of names in place of their expressions.

    Those are `{{name}}`, `{{name.attr}}`, `{{name["key"]}}` and `{{name[0]}}`. A text is put in as
    it is, any other value as its `str`; longer than `max_chars` it is cut and says so. `\{{` stands
    for itself, single braces are never touched.

    Raises:
        UsageError: If a name is unknown, a part of it is missing, or it is no such expression.
    """

    def value(expression: str) -> str:
        found = look_up(expression, namespace)
        shown = found if isinstance(found, str) else _text_of(found, expression)
        if len(shown) > max_chars:
            cut = len(shown) - max_chars
            shown = f"{shown[:max_chars]}… ({cut} more characters of {expression} left out)"
        return shown

    return "\n".join("".join(_replaced(line, value)) for line in text.split("\n"))


def _replaced(line: str, value: Callable[[str], str]) -> Iterator[str]:
    """Yield `line` in pieces, each expression replaced; braces that nothing closes stay."""
    at, last = 0, line.rfind("}}")
    while (start := line.find("{{", at)) >= 0:
        if line[at:start].endswith("\\"):
            yield f"{line[at : start - 1]}{{{{"
            at = start + 2
        elif start + 2 > last:
            break
        else:
            end = line.find("}}", start + 2)
            yield line[at:start] + value(line[start + 2 : end].strip())
            at = end + 2
    yield line[at:].replace("\\{{", "{{")


def _text_of(value: Any, expression: str) -> str:
    try:
        return str(value)
    except Exception as exc:  # whatever the value's own code raises
        raise UsageError(
            f"{{{{{expression}}}}}: its text cannot be had: {type(exc).__name__}: {exc}"
        ) from exc


def look_up(expression: str, namespace: Mapping[str, Any]) -> Any:
    """Return the value of a name with attributes and subscripts; nothing is called."""
    if len(expression) > MAX_EXPRESSION:
        raise _not_a_name(f"{expression[:80]}…")
    try:
        node = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _not_a_name(expression) from None
    return _value(node, expression, namespace)


def _value(node: ast.expr, expression: str, namespace: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name(id=name):
            if name in namespace:
                return namespace[name]
            near = difflib.get_close_matches(name, list(namespace), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(
                f"{{{{{expression}}}}}: there is no {name!r} in this notebook{hint} "
                r"(write \{{ for two braces that mean themselves)"
            )
        case ast.Attribute(value=inner, attr=attribute):
            return _part(getattr, inner, attribute, expression, namespace)
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            return _part(_item, inner, key, expression, namespace)
        case ast.Subscript(
            value=inner, slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(key)))
        ):
            return _part(_item, inner, -key, expression, namespace)
        case _:
            raise _not_a_name(expression)


def _item(value: Any, key: Any) -> Any:
    return value[key]


def _part(
    take: Any, inner: ast.expr, key: Any, expression: str, namespace: Mapping[str, Any]
) -> Any:
    value = _value(inner, expression, namespace)
    try:
        return take(value, key)
    except Exception as exc:  # whatever the value's own code raises
        raise UsageError(
            f"{{{{{expression}}}}}: {key!r} cannot be taken of it: {type(exc).__name__}: {exc}"
        ) from exc


def _not_a_name(expression: str) -> UsageError:
    return UsageError(
        f"{{{{{expression}}}}} is not a name: write a name with attributes and subscripts, such as "
        r"{{table.columns}} or {{rows[0]}}; nothing is called; \{{ stands for two braces"
    )
