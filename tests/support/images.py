"""Create images and PDFs with the standard library."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import jp_nb as jp


def png(width: int = 4, height: int = 3, *, shade: int = 128, padding: int = 0) -> bytes:
    """Return a gray image, with `padding` bytes in a chunk that readers ignore."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes([shade]) * width for _ in range(height)))
    chunks = [(b"IHDR", head), (b"puFF", b"\0" * padding), (b"IDAT", rows), (b"IEND", b"")]
    body = b"".join(_chunk(kind, data) for kind, data in chunks if data or kind == b"IEND")
    return b"\x89PNG\r\n\x1a\n" + body


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pdf_bytes(*, title: str = "report", pages: int = 1) -> bytes:
    """Return a PDF with empty pages, in ASCII."""
    numbers = (3, *range(5, 4 + pages))
    kids = " ".join(f"{number} 0 R" for number in numbers)
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] >>"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>",
        page,
        f"<< /Title ({title}) >>",
        *[page] * (pages - 1),
    )
    text = "%PDF-1.4\n"
    offsets = list[int]()
    for number, content in enumerate(objects, start=1):
        offsets.append(len(text))
        text += f"{number} 0 obj\n{content}\nendobj\n"
    rows = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    text += f"xref\n0 {size}\n0000000000 65535 f \n{rows}"
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R /Info 4 0 R >>\nstartxref\n"
    return (text + trailer + f"{text.index('xref')}\n%%EOF\n").encode("ascii")


def pdf(name: str = "report", **how: Any) -> jp.Image:
    """Return a small PDF with a name."""
    return jp.Image("application/pdf", pdf_bytes(**how), name)


def figure(name: str = "figure 1", **how: int) -> jp.Image:
    """Return a small image with a name."""
    return jp.Image("image/png", png(**how), name)
