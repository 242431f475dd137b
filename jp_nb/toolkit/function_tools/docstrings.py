"""Read Google-style docstrings of tools: the description, the parameters, and the examples.

Source: https://google.github.io/styleguide/pyguide.html#383-functions-and-methods
"""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Final

_HEADING: Final = re.compile(r"(\w+(?: \w+)?):\s*")
_NAME: Final = r"\\?\*{0,2}(?P<name>\w+)"  # `*args` and `**kwargs`, in Sphinx also `\*args`
_TYPE: Final = r"\((?:[^()]|\([^()]*\))*+\)"  # such as `(int | Callable[[], str], optional)`
_ARGUMENT: Final = re.compile(rf"{_NAME}\s*+(?:{_TYPE}\s*+)?:\s*(?P<text>.*)")

_DESCRIPTION: Final = ""
_ARGUMENTS: Final = "Args"
_EXAMPLES: Final = "Examples"
_OMITTED: Final = "omitted"
_HEADINGS: Final = {
    _DESCRIPTION: (
        "Attention, Attributes, Caution, Danger, Error, Hint, Important, Methods, References, "
        "See Also, Tip, Todo, Warning, Warnings"
    ),
    _ARGUMENTS: "Args, Arguments, Parameters, Keyword Args, Keyword Arguments, Other Parameters",
    _EXAMPLES: "Example, Examples",
    _OMITTED: "Note, Notes, Raise, Raises, Return, Returns, Warn, Warns, Yield, Yields",
}
"""Headings by the part of the docstring to which they belong.

Some are from NumPy's style, but count only with a colon: `Other Parameters:`. A section that may
tell the model about the use of the tool, such as `Warning`, belongs to the description.
"""
_PARTS: Final = {
    heading: part for part, headings in _HEADINGS.items() for heading in headings.split(", ")
}


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description in a docstring, and the descriptions of parameters."""
    parts = _split_parts(text)
    description = "\n".join(parts[_DESCRIPTION]).strip()

    arguments: dict[str, str] = {}
    current_name = ""
    current_indentation = 0
    for line in filter(str.strip, parts[_ARGUMENTS]):
        indentation = _count_indentation(line)
        match = _ARGUMENT.fullmatch(line.strip())
        is_continued = bool(current_name) and indentation > current_indentation

        if match and not is_continued:
            current_name = match["name"]
            current_indentation = indentation
            arguments[current_name] = match["text"]
        elif current_name:
            arguments[current_name] = f"{arguments[current_name]} {line.strip()}".strip()

    return description, arguments


def read_examples(text: str | None) -> str:
    """Return the section of examples in a docstring; "" without one."""
    return textwrap.dedent("\n".join(_split_parts(text)[_EXAMPLES])).strip()


def _split_parts(text: str | None) -> dict[str, list[str]]:
    """Return the lines of each part of a docstring, by the keys of `_HEADINGS`.

    A section ends at the next heading, or at a line that is not indented. If its own lines are not
    indented, it ends at a blank line.
    """
    lines: dict[str, list[str]] = {part: [] for part in _HEADINGS}
    part = _DESCRIPTION
    is_indented: bool | None = None  # None: the section has no line yet

    for line in inspect.cleandoc(text or "").splitlines():
        heading = _HEADING.fullmatch(line)
        if heading and heading[1] in _PARTS:
            part = _PARTS[heading[1]]
            is_indented = None
            if part != _DESCRIPTION:
                continue  # the heading itself is omitted
        elif _ends_section(line, is_indented):
            part = _DESCRIPTION
        elif line.strip() and is_indented is None:
            is_indented = _count_indentation(line) > 0

        lines[part].append(line)

    return lines


def _ends_section(line: str, is_indented: bool | None) -> bool:
    """Return True if a section, whose own lines are indented or not, ends before `line`."""
    if not line.strip():
        return is_indented is False
    return is_indented is True and _count_indentation(line) == 0


def _count_indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
