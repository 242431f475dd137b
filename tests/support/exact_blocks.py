"""Parse the exact form of texts and objects back to values."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import JsonValue

SPELLED = re.compile("⟨U\\+([0-9A-F]+)⟩")


def parse_text(count: str, lines: list[str]) -> str:
    """Return the text of `lines`, for the number of lines in words."""
    read = [SPELLED.sub(lambda at: chr(int(at[1], 16)), x.replace("⇥\t", "\t")) for x in lines]
    number = {"empty": 0}.get(count) if count == "empty" else int(count.split()[0])
    assert number == len(lines)
    if count.endswith("no line break at the end") or count in ("1 line", "empty"):
        return "\n".join(read)
    return "\n".join(read) + "\n"


def parse_object(lines: list[str]) -> dict[str, JsonValue]:
    """Return the object of `lines`."""
    found, end = _children(lines, 0, "")
    assert end == len(lines)
    return dict(found)


def _children(lines: list[str], at: int, indent: str) -> tuple[list[tuple[str, Any]], int]:
    found: list[tuple[str, Any]] = []
    while at < len(lines) and lines[at].startswith(indent) and lines[at][len(indent) :][:1] != " ":
        line = lines[at][len(indent) :]
        if line.startswith("│ "):
            break
        key: str
        if line.startswith('"'):
            key, end = json.JSONDecoder().raw_decode(line)
            rest = line[end:]
        else:
            key, _, rest = line.partition(":")
            rest = f":{rest}"
        assert rest.startswith(": ")
        text = rest[2:]
        at = at + 1
        if re.fullmatch("[0-9]+ lines(, no line break at the end)?", text):
            bar = f"{indent}  │ "
            end_of_text = at + int(text.split()[0])
            assert all(line.startswith(bar) for line in lines[at:end_of_text])
            found.append((key, parse_text(text, [x[len(bar) :] for x in lines[at:end_of_text]])))
            at = end_of_text
        elif re.fullmatch("[0-9]+ (key|item)s?", text):
            below, at = _children(lines, at, f"{indent}  ")
            assert len(below) == int(text.split()[0])
            is_list = "item" in text
            if is_list:
                assert [name for name, _ in below] == [f"[{n}]" for n in range(len(below))]
            found.append((key, [x for _, x in below] if is_list else dict(below)))
        else:
            found.append((key, json.loads(text)))
    return found, at


def blocks(shown: list[str]) -> dict[str, list[str]]:
    """Return the lines after bars, by the heading above them."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in shown:
        line = line.replace("\u202d", "").replace("\u202c", "")
        if line.startswith("│ "):
            lines.append(line[2:])
        elif line.startswith("┊ "):
            lines[-1] += line[2:]
        else:
            lines = found.setdefault(line, [])
    return found
