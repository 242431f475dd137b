"""Results of MCP servers as outcomes of a tool: texts, images, links, structured content.

A content block or a text of a server never becomes markup, a link that opens by itself, or a
request: the outcome is text, checked images, and a JSON value for programs. Content whose only
audience is the user is shown in the cell, and not sent to the model.

Source: `docs/mcp.md`, Results;
https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.image_headers import MEDIA_TYPES, PDF
from jp_nb.images import Image, find_image_problem
from jp_nb.json_values import as_object
from jp_nb.json_writing import compact_json
from jp_nb.mcp.exchange import ServerResult
from jp_nb.mcp.tool_calls.structured_results import find_schema_notes, merge_structured
from jp_nb.storable_json import make_storable, replace_surrogates
from jp_nb.text import format_bytes, one_line
from jp_nb.toolkit.outcome import Success, ToolFailure

MAX_STRUCTURED_RESULT_CHARS: Final = 50_000
"""Maximum length of structured content as JSON in the record. Longer content is omitted."""
MAX_BLOCKS: Final = 1_000
"""Maximum number of content blocks of a result. Further ones are counted."""
_MAX_URI_CHARS: Final = 2_000
_NO_TEXT: Final = "The tool returned no content."
_NO_CONTENTS: Final = "The resource is empty."
_TOO_LONG: Final = (
    "The structured content of the result is too long for the record: only its text is kept."
)
_FOR_USER: Final = "[A part of the result was shown to the user only.]"


@dataclass(frozen=True, slots=True)
class ReadResult:
    """A result as the program uses it.

    Attributes:
        outcome: The outcome for the model and the record.
        for_user: Texts for the user only, to be shown in the cell.
    """

    outcome: Success | ToolFailure
    for_user: tuple[str, ...] = ()


@dataclass(slots=True)
class _Parts:
    """The parts of a result so far.

    Attributes:
        lines: The text for the model, with a line about each block that is no text.
        texts: The texts of text blocks only.
        images: The images and PDFs for the model.
        for_user: Texts for the user only.
    """

    lines: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    for_user: list[str] = field(default_factory=list)


def read_result(
    result: ServerResult,
    output_schema: Mapping[str, JsonValue] | None = None,
    notes: Iterable[str] = (),
) -> ReadResult:
    """Return the outcome of a call. The `notes` of the program go to the model below the text."""
    parts = _Parts()
    for block in result.content[:MAX_BLOCKS]:
        _add_block(parts, block)

    omitted_count = len(result.content) - MAX_BLOCKS
    if omitted_count > 0:
        parts.lines.append(f"[{omitted_count} more content blocks are omitted]")

    structured = make_storable(result.structured)
    parts.lines = merge_structured(parts.lines, parts.texts, structured)
    if structured is not None and not result.is_error:
        parts.lines += find_schema_notes(structured, output_schema)
    if parts.for_user:
        parts.lines.append(_FOR_USER)
    parts.lines += [f"[{note}]" for note in notes]

    for_user = parts.for_user
    if structured is not None and len(compact_json(structured)) > MAX_STRUCTURED_RESULT_CHARS:
        structured = None
        for_user.append(_TOO_LONG)
    return ReadResult(_make_outcome(parts, structured, is_error=result.is_error), tuple(for_user))


def read_contents(contents: Iterable[Mapping[str, JsonValue]]) -> Success:
    """Return the contents of a resource, as the embedded resources of a result."""
    parts = _Parts()
    for number, resource in enumerate(contents):
        if number == MAX_BLOCKS:
            parts.lines.append(f"[only the first {MAX_BLOCKS} parts are shown]")
            break
        _add_resource(parts, resource)

    return Success("\n".join(parts.lines) or _NO_CONTENTS, images=tuple(parts.images))


def _make_outcome(parts: _Parts, structured: JsonValue, *, is_error: bool) -> Success | ToolFailure:
    text = "\n".join(parts.lines) or _NO_TEXT
    if not is_error:
        return Success(text, structured=structured, images=tuple(parts.images))

    lines = [text, *(f"[{image.words_with_size}: omitted in an error]" for image in parts.images)]
    return ToolFailure("\n".join(lines), structured=structured)


def _add_block(parts: _Parts, block: Mapping[str, JsonValue]) -> None:
    """Add a content block: to the text for the model, or to that for the user alone."""
    audience = as_object(block.get("annotations")).get("audience")
    if audience == ["user"]:
        shown = _Parts()
        _add_content(shown, block)
        images = [f"[{image.words_with_size}]" for image in shown.images]
        parts.for_user += [*shown.lines, *images]
    else:
        _add_content(parts, block)


def _add_content(parts: _Parts, block: Mapping[str, JsonValue]) -> None:
    match block.get("type"):
        case "text":
            text = _read_text(block.get("text"))
            if text.strip():
                parts.lines.append(text)
                parts.texts.append(text)
        case "image":
            _add_file(parts, "image", block.get("data"), block.get("mimeType"), "")
        case "audio":
            _add_file(parts, "audio", block.get("data"), block.get("mimeType"), "")
        case "resource_link":
            parts.lines.append(_format_link(block))
        case "resource":
            _add_resource(parts, as_object(block.get("resource")))
        case kind:
            parts.lines.append(f"[content of an unknown kind: {one_line(str(kind), limit=80)}]")


def _read_text(value: JsonValue) -> str:
    """Return a text of the server that can be encoded; "" for another value."""
    return replace_surrogates(value) if isinstance(value, str) else ""


def _read_name(value: JsonValue, limit: int = 200) -> str:
    return one_line(_read_text(value), limit=limit)


def _format_link(block: Mapping[str, JsonValue]) -> str:
    """Return a link as text: `[link: Report: file:///r.pdf (application/pdf, 2 MB)]`."""
    name = _read_name(block.get("title")) or _read_name(block.get("name"))
    uri = _read_name(block.get("uri"), limit=_MAX_URI_CHARS)

    details = [_read_name(block.get("mimeType"), limit=80)]
    size = block.get("size")
    if type(size) is int and 0 <= size < 2**63:  # no bool, and no number that is absurd
        details.append(format_bytes(size))
    known_details = ", ".join(filter(None, details))
    suffix = f" ({known_details})" if known_details else ""

    line = f"[link: {name}: {uri}{suffix}]"
    description = _read_name(block.get("description"), limit=500)
    return f"{line} {description}" if description else line


def _add_resource(parts: _Parts, resource: Mapping[str, JsonValue]) -> None:
    uri = _read_name(resource.get("uri"), limit=_MAX_URI_CHARS)
    if isinstance(resource.get("text"), str):
        parts.lines += [f"[resource: {uri}]", _read_text(resource["text"])]
    else:
        _add_file(parts, "resource", resource.get("blob"), resource.get("mimeType"), uri)


def _add_file(parts: _Parts, noun: str, data: JsonValue, mime_type: JsonValue, uri: str) -> None:
    """Add a file in Base64: an image or a PDF for models, or else a line about it."""
    kind = _read_name(mime_type, limit=80).lower() or "unknown type"
    name = f"{noun}: {uri}" if uri else noun

    content = _decode_base64(data)
    if content is None:
        parts.lines.append(f"[{name}, {kind}: its data is not Base64]")
        return

    size = format_bytes(len(content))
    if kind not in (*MEDIA_TYPES, PDF):
        parts.lines.append(f"[{name}, {kind}, {size}: not sent]")
        return

    image = Image(kind, content, uri)
    problem = find_image_problem(image)
    if problem is None:
        parts.images.append(image)
        parts.lines.append(f"[{image.noun} {len(parts.images)}: {image.words}]")
    else:  # too large, or damaged
        parts.lines.append(image.left_out(problem))


def _decode_base64(data: JsonValue) -> bytes | None:
    if not isinstance(data, str):
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
