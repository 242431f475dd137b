"""Count the pages of a PDF.

A PDF is a list of numbered objects: `12 0 obj << /Type /Pages /Count 3 >> endobj`. The pages are a
tree, whose root has the number of all pages. Objects may also be compressed, which this module does
not read.

Source: `docs/providers.md` (images and PDFs), ISO 32000-1 (7.7.3.2, page tree nodes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MAX_PDF_PAGES: Final = 10_000_000
"""A larger number of pages is damage."""

_MARK: Final = re.compile(
    rb"\b(?P<number>[0-9]{1,10})[\0\t\n\f\r ]{1,9}[0-9]{1,5}[\0\t\n\f\r ]{1,9}obj(?![A-Za-z])"
    rb"|(?P<data>>>[\0\t\n\f\r ]{0,9}stream\r?\n)"
    rb"|(?P<end>endobj|endstream)"
)
"""The beginning of an object, the beginning of the data of its stream, or the end of either."""
_TOKEN: Final = re.compile(
    rb"%[^\r\n]*"  # a comment
    rb"|\((?:\\.|[^\\()])*\)"  # a text
    rb"|<<|>>"
    rb"|/[^\0\t\n\f\r ()<>\[\]{}/%]*"  # a name, such as `/Type`
    rb"|[^\0\t\n\f\r ()<>\[\]{}/%]+"  # a number or a word
    rb"|[\[\]]",
    re.DOTALL,
)


def count_pdf_pages(content: bytes) -> int | None:
    """Return the number of pages that the page tree of a PDF names; None if it is unknown.

    It is unknown if the root of the page tree is compressed, or if several objects may be the root.
    """
    roots: dict[bytes, int | None] = {}  # by object number; a later object replaces an earlier one
    for number, fields in _iter_objects(content):
        if b"/Pages" not in fields:
            continue

        values = _read_dictionary(fields)
        if values.get(b"/Type") == b"/Pages" and b"/Parent" not in values:
            roots[number] = _parse_page_count(values.get(b"/Count", b""))

    was_changed = content.count(b"%%EOF") > 1
    if was_changed and b"/ObjStm" in content:
        return None  # a compressed root may have replaced this one
    counts = set(roots.values())
    return counts.pop() if len(counts) == 1 else None


def _iter_objects(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield number and content of each object, without the data of its stream."""
    number = b""
    start = 0
    in_data = False
    for mark in _MARK.finditer(content):
        if in_data:
            in_data = mark["end"] != b"endstream"
            continue

        if number:
            # The mark of a stream begins with the `>>` of the object's dictionary.
            end = mark.start() + 2 if mark["data"] else mark.start()
            yield number, content[start:end]
        in_data = mark["data"] is not None
        number = mark["number"] or b""
        start = mark.end()


def _parse_page_count(count: bytes) -> int | None:
    """Return the number of pages; None if the value is not a number, or is damage."""
    if not count.isdigit() or len(count) > 10 or int(count) > MAX_PDF_PAGES:
        return None
    return int(count)


def _read_dictionary(fields: bytes) -> dict[bytes, bytes]:
    """Return the simple values of the outer dictionary by key.

    The value is `reference` for a reference such as `5 0 R`, and "" for a list or a dictionary.
    """
    values: dict[bytes, bytes] = {}
    depth = 0
    key = b""

    for match in _TOKEN.finditer(fields):
        token = match[0]

        if token in (b"<<", b"["):
            depth += 1
        elif token in (b">>", b"]"):
            depth -= 1
            if depth <= 1:  # a nested value has ended, and with it the value of the key
                key = b""
        elif depth != 1 or token.startswith(b"%"):
            continue
        elif key and not values[key]:  # the first token after a key is its value, also a name
            values[key] = token
        elif token.startswith(b"/"):
            key = token
            values[key] = b""
        elif key:
            values[key] = b"reference"  # the value has several tokens

    return values
