"""Images and PDFs: type and size read from their bytes, and their text."""

from __future__ import annotations

import io

import pytest
from PIL import Image as Pillow

import jp_nb as jp
from jp_nb.image_headers import detect_media_type
from jp_nb.images import find_image_problem
from tests.support.images import figure, pdf, pdf_bytes, png

MAX_IMAGE_BYTES = 3_750_000
MAX_IMAGE_SIDE = 2000


FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def read_size(content: bytes) -> tuple[int, int] | None:
    return jp.Image("image/png", content).size


def drawn(kind: str, size: tuple[int, int], **how: object) -> bytes:
    file = io.BytesIO()
    Pillow.new("RGB", size, (200, 10, 10)).save(file, kind, **how)
    return file.getvalue()


def test_type_and_size_are_read_from_the_bytes(subtests: pytest.Subtests) -> None:
    for size in [(1, 1), (640, 480), (3, 1999)]:
        for kind in FORMATS:
            with subtests.test(kind=kind, size=size):
                content = drawn(kind, size)
                assert detect_media_type(content) == f"image/{kind.lower()}"
                assert read_size(content) == size
                assert find_image_problem(jp.Image(f"image/{kind.lower()}", content)) is None


def test_size_of_unusual_files_is_read() -> None:
    forms: list[tuple[str, dict[str, object]]] = [
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}),
        ("JPEG", {"progressive": True, "comment": b"\xff\xc0" * 5000}),
    ]
    for kind, how in forms:
        assert read_size(drawn(kind, (321, 123), **how)) == (321, 123)
    content = drawn("JPEG", (321, 123))
    table = b"\xff\xc4\x00\x0b" + b"\x00\x01" * 5  # at the place of the size in a frame
    assert read_size(content[:2] + table[:13] + content[2:]) == (321, 123)
    assert read_size(content[:2] + b"\xff\xff" + content[2:]) == (321, 123)


def test_truncated_file_is_read_without_an_error() -> None:
    for kind in FORMATS:
        content = drawn(kind, (64, 48))
        for end in range(min(len(content), 700)):
            assert read_size(content[:end]) in (None, (64, 48))


def test_long_file_without_a_frame_has_no_size() -> None:
    assert read_size(b"\xff\xd8" + b"\xff\xe0\x00\x02" * 200_000) is None
    assert read_size(b"\xff\xd8" + b"\xff" * 1_000_000) is None


def test_unsupported_image_is_rejected_with_a_reason() -> None:
    assert find_image_problem(jp.Image("image/svg+xml", b"<svg/>")) == (
        "models accept image/png, image/jpeg, image/gif, image/webp, application/pdf"
    )
    assert find_image_problem(jp.Image("image/jpeg", png())) == "its bytes are not image/jpeg"
    assert find_image_problem(jp.Image("image/png", png()[:20])) == "its bytes do not give its size"
    assert str(MAX_IMAGE_SIDE) in str(find_image_problem(figure(width=MAX_IMAGE_SIDE + 1)))
    assert str(MAX_IMAGE_BYTES) in str(find_image_problem(figure(padding=MAX_IMAGE_BYTES)))


def test_pdf_that_models_cannot_read_is_rejected_with_a_reason() -> None:
    assert find_image_problem(pdf()) is None
    content = pdf_bytes()
    encrypted = content.replace(b"/Root", b"/Encrypt 5 0 R /Root")
    for changed, why in [
        (b"%!PS" + content, "its bytes are not application/pdf"),
        (content[:-7], "its end is missing"),
        (encrypted, "it is encrypted"),
        (content + b"\0" * MAX_IMAGE_BYTES, f"the limit is {MAX_IMAGE_BYTES} bytes: select pages"),
    ]:
        assert find_image_problem(jp.Image("application/pdf", changed)) == why


def test_pdf_has_a_description_and_is_shown_as_text() -> None:
    paper = pdf()
    assert paper.words == f"report, application/pdf {len(paper.content)} B"
    assert paper.left_out("of x") == f"[PDF: {paper.words}: omitted, because of x]"
    assert paper._repr_mimebundle_() == {"text/plain": f"<{paper.words}>"}


def test_image_has_a_description_and_a_mime_bundle() -> None:
    image = figure(width=640, height=480)
    assert image.words == "figure 1, image/png 640×480"
    assert repr(image) == f"<figure 1, image/png 640×480, {len(image.content) / 1000:.1f} kB>"
    assert image._repr_mimebundle_() == {"text/plain": repr(image), "image/png": image.text}
    assert jp.Image("text/html", b"<b>")._repr_mimebundle_().keys() == {"text/plain"}


def test_name_of_an_image_is_one_safe_line() -> None:
    image = figure("]\n[image: \x1b[31mno\u202e " + "x" * 500)
    assert image.words.startswith(") (image: no")
    assert len(image.words) < 120
    assert "\n" not in image.words
    assert "\u202e" not in image.words
