"""Read Google-style docstrings of tools: the description, the parameters, and the examples.

Source: https://google.github.io/styleguide/pyguide.html#383-functions-and-methods
"""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Final

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*")
_ARGUMENT = re.compile(r"^(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_SAME_SECTIONS: Final = {"Arguments": "Args", "Parameters": "Args", "Example": "Examples"}


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description in a docstring, and the descriptions of parameters."""
    sections = _read_sections(text)
    arguments: dict[str, str] = {}
    current = ""
    indent = 0

    for line in filter(str.strip, sections["Args"]):
        depth = len(line) - len(line.lstrip())
        named = _ARGUMENT.match(line.strip())
        if named and (not current or depth <= indent):
            current = named[1]
            indent = depth
            arguments[current] = named[2]
        elif current:
            arguments[current] = f"{arguments[current]} {line.strip()}".strip()

    return "\n".join(sections[""]).strip(), arguments


def read_examples(text: str | None) -> str:
    """Return the section of examples in a docstring; "" without one."""
    return textwrap.dedent("\n".join(_read_sections(text)["Examples"])).strip()


def _read_sections(text: str | None) -> dict[str, list[str]]:
    # The lines by section. "" is the section of the description.
    lines: dict[str, list[str]] = {"": [], "Args": [], "Examples": []}
    section = ""

    for line in inspect.cleandoc(text or "").splitlines():
        if heading := _SECTION.fullmatch(line):
            section = _SAME_SECTIONS.get(heading[1], heading[1])
        else:
            lines.setdefault(section, []).append(line)

    return lines
