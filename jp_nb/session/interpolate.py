"""Puts the notebook's values in place of `{{name}}` in what the user asks.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jp_nb.errors import UsageError
from jp_nb.image import Image
from jp_nb.values.describing import describe
from jp_nb.values.description import Description, ValueBudget
from jp_nb.values.value_path import (
    NoSuchName,
    NotAValuePath,
    ValuePathError,
    read_value_path,
)


def interpolate(text: str, namespace: Mapping[str, Any], budget: ValueBudget) -> Description:
    r"""Return `text` with the values of names in place of their expressions, and their images.

    Those are `{{name}}`, `{{name.attr}}`, `{{name["key"]}}`, `{{name[0]}}` and `{{name[1:5]}}`. A
    text is put in as it is, any other value as `describe` has it, each within `budget`. `\{{`
    stands for itself, single braces are never touched.

    Raises:
        UsageError: If a name is unknown, a part of it is missing, or it is no such expression.
    """
    images: list[Image] = []

    def value(expression: str) -> str:
        said = describe(look_up(expression, namespace), budget, name=expression)
        images.extend(image for image in said.images if image not in images)
        return said.text

    lines = ["".join(_replaced(line, value)) for line in text.split("\n")]
    return Description("\n".join(lines), tuple(images))


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


def look_up(expression: str, namespace: Mapping[str, Any]) -> Any:
    """Return the value of a name with attributes and subscripts; nothing is called."""
    try:
        return read_value_path(expression).follow(namespace)
    except NotAValuePath as exc:
        raise _not_a_name(str(exc)) from None
    except NoSuchName as exc:
        raise UsageError(f"{{{{{expression}}}}}: {exc} (write \\{{{{ for literal braces)") from None
    except ValuePathError as exc:
        raise UsageError(f"{{{{{expression}}}}}: {exc}") from exc


def _not_a_name(expression: str) -> UsageError:
    return UsageError(
        f"{{{{{expression}}}}} is not a name. Write a name with attributes and subscripts, such as "
        r"{{table.columns}} or {{rows[0]}}. Function calls are not possible. Write \{{ for literal "
        "braces"
    )
