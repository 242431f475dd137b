"""Insert values of the notebook into the text of a request: `{{name}}`.

The cell's thread does it, as the values are the user's objects.

Source: `docs/guide.md`, `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jp_nb.errors import UsageError
from jp_nb.images import Image
from jp_nb.values.base import Description, ValueBudget
from jp_nb.values.describe import describe
from jp_nb.values.value_path import NoSuchName, NotAValuePath, ValuePathError, read_value_path


def interpolate(text: str, namespace: Mapping[str, Any], budget: ValueBudget) -> Description:
    r"""Return `text` with values in place of their expressions, and the images of the values.

    The expressions are `{{name}}`, `{{name.attr}}`, `{{name["key"]}}`, `{{name[0]}}` and
    `{{name[1:5]}}`. A string is inserted as it is, other values are described within `budget`.
    `\{{` is literal, and single braces are unchanged. An expression does not continue in the next
    line.

    Raises:
        UsageError: A name or a part of it does not exist, or an expression is not valid.
    """
    images: list[Image] = []

    def describe_expression(expression: str) -> str:
        description = describe(evaluate(expression, namespace), budget, name=expression)
        images.extend(image for image in description.images if image not in images)
        return description.text

    lines: list[str] = []
    for line in text.split("\n"):
        lines.append("".join(_replace_expressions(line, describe_expression)))
    return Description("\n".join(lines), tuple(images))


def _replace_expressions(line: str, replace: Callable[[str], str]) -> Iterator[str]:
    """Yield the parts of `line` with expressions replaced; unclosed braces stay."""
    position = 0  # the beginning of the part that is not yet yielded
    while (start := line.find("{{", position)) >= 0:
        if line[position:start].endswith("\\"):
            yield line[position : start - 1] + "{{"
            position = start + 2
            continue

        end = line.find("}}", start + 2)
        if end < 0:
            break

        expression = line[start + 2 : end].strip()
        yield line[position:start] + replace(expression)
        position = end + 2

    # After unclosed braces, others may still be literal.
    yield line[position:].replace("\\{{", "{{")


def evaluate(expression: str, namespace: Mapping[str, Any]) -> Any:
    """Return the value of a name with attributes and subscripts, without calls."""
    try:
        return read_value_path(expression).follow(namespace)
    except NotAValuePath as exc:  # its text is the expression
        raise UsageError(
            f"{{{{{exc}}}}} is not a name. Write a name with attributes and subscripts, such as "
            r"{{table.columns}} or {{rows[0]}}. Function calls are not possible. Write \{{ for "
            "literal braces"
        ) from None
    except NoSuchName as exc:
        raise UsageError(f"{{{{{expression}}}}}: {exc} (write \\{{{{ for literal braces)") from None
    except ValuePathError as exc:
        raise UsageError(f"{{{{{expression}}}}}: {exc}") from exc
