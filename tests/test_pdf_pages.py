"""The pages of a PDF: what its page tree names, and what stays unknown."""

from __future__ import annotations

import time

import pytest

import jp_nb as jp
from tests.support.images import pdf, pdf_bytes

ROOT = b"2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 7 >>\nendobj\n"
NODE = b"4 0 obj\n<</Parent 2 0 R/Count 3/Type/Pages/Kids[5 0 R]>>\nendobj\n"


def count_pages(content: bytes) -> int | None:
    return jp.Image("application/pdf", content).pages


@pytest.mark.parametrize("pages", [1, 2, 101, 999])
def test_pages_of_a_pdf_are_counted(pages: int) -> None:
    assert count_pages(pdf_bytes(pages=pages)) == pages
    assert pdf(pages=pages).pages == pages


@pytest.mark.parametrize(
    ("content", "pages"),
    [
        (ROOT + NODE, 7),
        (NODE + ROOT, 7),
        (b"2 0 obj<</Count 7/Type/Pages/Kids[]>>endobj", 7),
        (b"2 0 obj<</Title (no /Count 9 here)/Type/Pages/Count 7>>endobj", 7),
        (b"2 0 obj<</A<</Count 9/Type/Pages>>/Type/Pages/Count 7>>endobj", 7),
        (b"2 0 obj % /Count 9\n<</Type/Pages %x\n/Count 7>>endobj", 7),
        (b"1 0 obj<<>>stream\n" + ROOT.replace(b"7", b"9") + b"endstream endobj " + ROOT, 7),
        (ROOT.replace(b"7", b"9") + b"%%EOF\n" + ROOT + b"%%EOF", 7),  # a later version
    ],
)
def test_root_of_the_page_tree_is_found(content: bytes, pages: int) -> None:
    assert count_pages(b"%PDF-1.4\n" + content) == pages


@pytest.mark.parametrize(
    "content",
    [
        b"",
        NODE,
        b"3 0 obj<</Type/Page/Parent 2 0 R>>endobj" * 9,  # the tree is compressed
        ROOT.replace(b"7", b"8 0 R"),
        ROOT.replace(b"7", b"-1"),
        ROOT.replace(b"7", b"9" * 5000),
        ROOT + ROOT.replace(b"2 0 obj", b"9 0 obj").replace(b"7", b"8"),
        ROOT + b"%%EOF 6 0 obj<</Type/ObjStm>>stream\n..endstream endobj %%EOF",
    ],
)
def test_pages_are_unknown_without_one_root(content: bytes) -> None:
    assert count_pages(b"%PDF-1.4\n" + content) is None


@pytest.mark.parametrize(
    "unit",
    [b"1 0 obj ", b"2 0 obj<</Pages(", b"((", b"<<", b"1 ", b">>stream\n", b"/Pages ", b"\\("],
)
def test_work_is_linear_in_the_file(unit: bytes) -> None:
    def measure(size: int) -> float:
        content = b"%PDF-1.4 1 0 obj<</Pages" + unit * (size // len(unit))
        start = time.process_time()
        count_pages(content)
        return time.process_time() - start

    measure(10_000)
    assert measure(2_000_000) < 40 * measure(200_000) + 0.2
