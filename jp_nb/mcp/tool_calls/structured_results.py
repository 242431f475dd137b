"""The structured content of a result: leave out its copy as text, and check it by the schema.

Many servers send the same data twice, as structured content and as JSON text. The model gets only
one of both, and a note if the content does not fit the output schema of the tool.

Source: `docs/mcp.md`, Results.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.json_writing import compact_json
from jp_nb.text import one_line
from jp_nb.toolkit.question_types.server_schema_checks import (
    find_property_problems,
    find_schema_problem,
    format_problems,
)

_BREAKS_SCHEMA: Final = "[The structured content does not fit the output schema of the tool: {}]"


def merge_structured(lines: list[str], texts: list[str], structured: JsonValue) -> list[str]:
    """Return the `lines` of a result, in which structured content is sent once.

    `texts` are the lines from text blocks. Without a text, the structured content is the text. A
    text that is no copy stays, and the structured content is only for programs.
    """
    if structured is None:
        return lines

    compact = compact_json(structured)
    if not texts:
        return [*lines, compact]
    if not _is_copy(texts, structured):
        return lines

    # The texts are a copy. The shorter one of both stays, in the place of the first text.
    first = lines.index(texts[0])
    if len(texts) == 1:
        if len(texts[0]) <= len(compact):
            return lines
        return [*lines[:first], compact, *lines[first + 1 :]]

    copies = set(texts)
    others = [line for line in lines if line not in copies]
    return [*others[:first], compact, *others[first:]]


def _is_copy(texts: list[str], structured: JsonValue) -> bool:
    """Return True if the texts of a result are its structured content as JSON."""
    values = [_parse(text) for text in texts]

    # The library for Python wraps a value that is not an object: `{"result": [1, 2]}`.
    content = structured
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        content = structured["result"]

    if len(texts) == 1 and values[0] in (structured, content):
        return True

    # A list may be sent as one text for each item.
    return isinstance(content, list) and (values == content or texts == content)


def _parse(text: str) -> JsonValue:
    """Return the value of a JSON text, or the text itself if it is none."""
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def find_schema_notes(structured: JsonValue, schema: Mapping[str, JsonValue] | None) -> list[str]:
    """Return a note for the model if `structured` does not fit the output `schema` of the tool."""
    if schema is None or find_schema_problem(schema) is not None:
        return []
    if not isinstance(structured, dict):
        return []

    problems = find_property_problems(structured, schema)
    lines = format_problems(problems)
    return [_BREAKS_SCHEMA.format(one_line("; ".join(lines), limit=1_000))] if lines else []
