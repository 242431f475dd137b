"""Read the format of an image or a PDF, and the size of an image, from the first bytes of its file.

Source: https://www.w3.org/TR/png/#11IHDR, https://www.w3.org/Graphics/GIF/spec-gif89a.txt,
https://www.w3.org/Graphics/JPEG/itu-t81.pdf (B.2.2),
https://developers.google.com/speed/webp/docs/riff_container
"""

from __future__ import annotations

from typing import Final, Literal

MEDIA_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Image formats that every provider with image input accepts."""
PDF: Final = "application/pdf"
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)
_UNSIZED_JPEG_MARKERS: Final = frozenset({0xC4, 0xC8, 0xCC})
"""Markers between 0xC0 and 0xCF of segments without width and height."""
_MAX_SEGMENTS: Final = 10_000
"""Limit of the segments of a JPEG that are read. A damaged file may have millions of them."""


def detect_media_type(content: bytes) -> str | None:
    """Return the format of `content`, one of `MEDIA_TYPES` or `application/pdf`, or None."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if content.startswith(start)), None)


def read_image_size(content: bytes) -> tuple[int, int] | None:
    """Return width and height from the header of an image; None if it has none."""
    match detect_media_type(content):
        case "image/png" if content[12:16] == b"IHDR":
            size = _read_number(content[16:20], "big"), _read_number(content[20:24], "big")
        case "image/gif":
            size = _read_number(content[6:8], "little"), _read_number(content[8:10], "little")
        case "image/jpeg":
            size = _read_jpeg_size(content)
        case "image/webp":
            size = _read_webp_size(content)
        case _:
            return None

    return size if min(size) > 0 else None


def _read_number(content: bytes, order: Literal["big", "little"]) -> int:
    return int.from_bytes(content, order)


def _read_jpeg_size(content: bytes) -> tuple[int, int]:
    """Return width and height of a JPEG, from its first segment that has them; 0, 0 without one.

    A segment begins with 0xFF, its marker, and two bytes with its length.
    """
    position = 2
    for _ in range(_MAX_SEGMENTS):
        if position + 9 > len(content) or content[position] != 0xFF:
            break
        marker = content[position + 1]
        if marker == 0xFF:  # fill byte before a marker
            position += 1
            continue

        if 0xC0 <= marker <= 0xCF and marker not in _UNSIZED_JPEG_MARKERS:
            height = _read_number(content[position + 5 : position + 7], "big")
            width = _read_number(content[position + 7 : position + 9], "big")
            return width, height

        segment_length = _read_number(content[position + 2 : position + 4], "big")
        position += 2 + max(2, segment_length)

    return 0, 0


def _read_webp_size(content: bytes) -> tuple[int, int]:
    """Return width and height of a WebP image, whose three formats store them differently."""
    match content[12:16]:
        case b"VP8X":
            width = 1 + _read_number(content[24:27], "little")
            height = 1 + _read_number(content[27:30], "little")
            return width, height
        case b"VP8L" if len(content) >= 25:
            bits = _read_number(content[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width = _read_number(content[26:28], "little")
            height = _read_number(content[28:30], "little")
            return width & 0x3FFF, height & 0x3FFF
    return 0, 0
