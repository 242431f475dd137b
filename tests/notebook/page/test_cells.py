"""The cells of a page: requested, received in pieces and read."""

from __future__ import annotations

import asyncio
import base64
import json
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.notebook import front_end
from jp_nb.notebook.front_end import read_cells
from jp_nb.notebook.page.page_cells import PageCells
from jp_nb.toolkit.base import NotebookCell, NotebookCells
from tests.notebook.page.page_in_process import Pages, pages
from tests.support.scripted_page import View

__all__ = ["pages"]

PNG = b"\x89PNG\r\n\x1a\n"


def piece(text: Any = "[]", **fields: Any) -> dict[str, Any]:
    return {"type": "cells", "page": "p", "seq": 1, "i": 0, "of": 1, "text": text} | fields


def note_message(*messages: dict[str, Any]) -> Future[str]:
    cells = PageCells()
    answer = cells.expect(1, "p")
    for message in messages:
        cells.add_piece(message)
    return answer


# --- pieces ----------------------------------------------------------------------------------


def test_pieces_in_any_order_and_repeated_make_one_answer() -> None:
    two = [piece("b", i=1, of=2), piece("b", i=1, of=2), piece("a", of=2), piece("a", of=2)]
    assert note_message(*two).result(0) == "ab"


def test_answers_to_other_questions_and_incomplete_ones_are_ignored() -> None:
    for message in (
        piece(page="another"),
        piece(seq=2),
        piece(seq="1"),
        piece(i=1, of=2),
        piece(i=7),
        piece(i="0"),
        {"type": "cells"},
    ):
        assert not note_message(message).done(), message


def test_malformed_piece_ends_the_request() -> None:
    for message in (
        piece(of=0),
        piece(of=10**9),
        piece(of=None),
        piece(text=None),
        piece("x" * 3_000_000),
    ):
        with pytest.raises(jp.StorageError, match="in an unknown format"):
            note_message(message).result(0)


def test_late_or_repeated_answer_changes_nothing() -> None:
    cells = PageCells()
    answer = cells.expect(1, "p")
    assert answer.cancel()
    cells.add_piece(piece())
    cells.add_piece(piece())
    assert answer.cancelled()


def test_unanswered_requests_are_forgotten_after_a_while() -> None:
    cells = PageCells()
    asked = [cells.expect(seq, "p") for seq in range(100)]
    cells.add_piece(piece(seq=0))
    cells.add_piece(piece(seq=99))
    assert [answer.done() for answer in (asked[0], asked[99])] == [False, True]


# --- reading ---------------------------------------------------------------------------------


def test_cells_are_read_with_state_and_images() -> None:
    image = {"type": "image/png", "data": base64.b64encode(PNG).decode()}
    outputs = [{"kind": "display", "text": "fig", "images": [image]}]
    told = [
        {"id": "a", "type": "markdown", "source": "# T"},
        {"id": "b", "type": "code", "source": "x", "execution_count": 2, "edited": True,
         "outputs": outputs, "left_out": 5},
        {"id": "c", "type": "code", "source": "y", "busy": True, "execution_count": None},
        {"id": "d", "type": "code", "source": "z", "busy": True},
        {"id": "e", "type": "code", "outputs": [{"kind": "error", "text": "E"}]},
        {"id": "f", "type": "code", "edited": True},
    ]  # fmt: skip
    found = read_cells(json.dumps(told), frozenset({"c"}))
    states = ["not run", "done", "running", "queued", "failed", "not run"]
    assert [cell.state for cell in found] == states
    assert [cell.edited for cell in found] == [False, True, *[False] * 4]
    assert (found[1].outputs[0].images[0].content, found[1].left_out) == (PNG, 5)


def test_text_that_is_not_a_list_of_cells_is_an_error() -> None:
    for text in ("", "{}", "[1]", "[" * 100_000, "nope", '[["a"]]'):
        with pytest.raises(jp.StorageError, match="in an unknown format"):
            read_cells(text, frozenset())


def test_cell_with_malformed_fields_is_read_without_them() -> None:
    told = [
        {"id": 3, "type": "x", "source": None, "execution_count": True, "outputs": "no"},
        {"type": "code", "outputs": [1, {"kind": "?", "text": 1, "images": [
            {"type": "image/svg+xml", "data": ""}, {"type": "image/png", "data": "a"}, 2]}]},
    ]  # fmt: skip
    first, second = read_cells(json.dumps(told), frozenset())
    assert (first.kind, first.source, first.cell_id, first.outputs) == ("raw", "", "", ())
    assert (second.outputs[0].kind, second.outputs[0].images) == ("display", ())


# --- a page and a kernel -----------------------------------------------------------------------

CELL = {"id": "a", "type": "code", "source": "from the page"}
RAN = NotebookCell(0, "from the kernel")


def answer(*cells: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"i": 0, "of": 1, "text": json.dumps(cells)} | fields


def look(pages: Pages) -> NotebookCells:
    """Return the cells that a tool gets."""
    shell = SimpleNamespace(user_ns={})
    notebook = front_end.KernelNotebook(shell, pages.store, (RAN,))
    return asyncio.run(notebook.cells())


def test_page_is_asked_for_its_cells_only_when_a_tool_reads_them(pages: Pages) -> None:
    pages.view.tells, pages.view.cells = ["cells"], [answer(CELL)]
    pages.begin()
    pages.tell("one")
    assert pages.view.of_type("cells") == []
    found = look(pages)
    assert (found.source_view, found.why) == ("page", "")
    assert [cell.source for cell in found.cells] == ["from the page"]
    (asked,) = pages.view.of_type("cells")
    assert (asked["to"], asked["whole"]) == ("page-1", None)


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (View(), "an older jp-nb extension"),
        (View(tells=["cells"]), "did not answer within 0.1 s"),
        (View(tells=["cells"], cells=[answer(text="{")]), "in an unknown format"),
        (View(tells=["cells"], cells=[answer(CELL)], slow=0.3), "did not answer within 0.1 s"),
        (View(tells=["cells"], cells=[answer(CELL, page="x")]), "did not answer within 0.1 s"),
    ],
    ids=["older", "silent", "no JSON", "slow", "another page"],
)
def test_history_of_the_kernel_is_used_when_the_page_gives_no_good_answer(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, view: View, why: str
) -> None:
    monkeypatch.setattr(front_end, "CELLS_TIMEOUT_S", 0.1)
    pages.views = [view]
    pages.begin()
    found = look(pages)
    assert found.source_view == "kernel"
    assert why in found.why
    assert found.cells == (RAN,)
