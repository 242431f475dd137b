"""References to variables in settings of MCP servers, such as `${TOKEN}`.

| written | replaced by |
|---|---|
| `${VAR}`, `${env:VAR}` | the environment variable; an error if it is not set |
| `${VAR:-x}`, `${env:VAR:-x}` | the environment variable, or `x` if it is unset or empty |
| `${workspaceFolder}`, `${userHome}` | the path of the folder |
| `${input:ID}` | the user's answer, asked once per kernel |
| `$${` | `${` |

The configuration keeps the references. They are replaced when the server starts, and the values
are not searched for references again.

Source: `docs/mcp.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from jp_nb.config.tree.value_errors import shorten_for_error

ReferenceKind = Literal["variable", "input", "workspaceFolder", "userHome"]

REFERENCE_FORMS: Final = (
    "`${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${workspaceFolder}`, `${userHome}`, or "
    "`${input:ID}`; `$${` stands for `${`"
)
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{(?:(?P<body>[^{}]{0,1000})\})?")
"""`$${`, or `${` with its end. Without the limit, many `${` without an end would take long."""
_VARIABLE: Final = re.compile(
    r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL
)
_INPUT: Final = re.compile(r"input:(?P<name>[A-Za-z0-9_.-]+)")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference in a text."""

    kind: ReferenceKind
    name: str = ""
    """The variable, or the id of the input."""
    default: str | None = None
    """The value if the variable is unset or empty."""


def split_references(text: str) -> Iterator[str | Reference]:
    """Yield the literal parts of `text`, with `${` in place of `$${`, and its references.

    Raises:
        ValueError: A reference has an unknown form. The message has the accepted forms.
    """
    end = 0
    for found in _REFERENCE.finditer(text):
        if literal := text[end : found.start()]:
            yield literal
        end = found.end()

        if found[0] == "$${":
            yield "${"
        else:
            yield _read_reference(found["body"])

    if rest := text[end:]:
        yield rest


def _read_reference(body: str | None) -> Reference:
    match body:
        case None:
            raise ValueError(f"a reference begins with `${{` and has no end: {REFERENCE_FORMS}")
        case "workspaceFolder" | "userHome":
            return Reference(body)

    if found := _INPUT.fullmatch(body):
        return Reference("input", found["name"])
    if found := _VARIABLE.fullmatch(body):
        return Reference("variable", found["name"], found["default"])

    shown = shorten_for_error(body)
    raise ValueError(f"`${{{shown}}}` is an unknown reference, expected {REFERENCE_FORMS}")


def list_references(texts: Iterable[str]) -> list[Reference]:
    """Return the references in `texts`, each once.

    Texts with a reference in an unknown form are omitted: the start of the server reports them.
    """
    found: dict[Reference, None] = {}

    for text in texts:
        try:
            parts = list(split_references(text))
        except ValueError:
            continue
        found |= {part: None for part in parts if isinstance(part, Reference)}

    return list(found)


def expand_references(text: str, get_value: Callable[[Reference], str]) -> str:
    """Return `text` with the value of each reference in its place.

    Raises:
        ValueError: A reference has an unknown form.
    """
    values = []
    for part in split_references(text):
        if isinstance(part, str):
            values.append(part)
        else:
            values.append(get_value(part))
    return "".join(values)
