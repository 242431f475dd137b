"""The cells of a page: requested, received in pieces and read."""

from __future__ import annotations

import base64
import json
from concurrent.futures import Future
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.pages import PagesInProcess
from tests.notebook.page.page_in_process import pages
from tests.support.scripted_page import View

__all__ = ["pages"]

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def reporting(pages: PagesInProcess) -> None:
    """Let the page report its cells."""
    pages.view.tells = ["cells"]


# --- pieces ----------------------------------------------------------------------------------


def ask(pages: PagesInProcess) -> tuple[Future[str], dict[str, Any]]:
    """Ask the page for its cells; return the answer to come, and a whole answer of the page."""
    answer: Future[str] = pages.store.requests.ask_cells(None)
    seq = pages.view.of_type("cells")[-1]["seq"]
    page = pages.view.page
    return answer, {"type": "cells", "page": page, "seq": seq, "i": 0, "of": 1, "text": "[]"}


def test_pieces_in_any_order_and_repeated_make_one_answer(pages: PagesInProcess) -> None:
    pages.begin()
    answer, piece = ask(pages)
    first = piece | {"of": 2, "text": "a"}
    second = piece | {"of": 2, "text": "b", "i": 1}
    for message in (second, second, first, first):
        pages.post(message)
    assert answer.result(0) == "ab"


def test_answers_to_other_questions_and_incomplete_ones_are_ignored(pages: PagesInProcess) -> None:
    pages.begin()
    answer, piece = ask(pages)
    second = View(page="page-2")
    pages.send(second, second.hello())
    for fields in (
        {"page": "page-2"},
        {"page": "unknown"},
        {"seq": piece["seq"] + 1},
        {"seq": str(piece["seq"])},
        {"i": 1, "of": 2},
        {"i": 7},
        {"i": "0"},
        {"text": None},
    ):
        pages.post(piece | fields)
        assert not answer.done(), fields


@pytest.mark.parametrize(
    "fields", [{"of": 0}, {"of": 10**9}, {"text": 5}, {"text": "x" * 3_000_000}]
)
def test_malformed_piece_ends_the_request(pages: PagesInProcess, fields: dict[str, Any]) -> None:
    pages.begin()
    answer, piece = ask(pages)
    pages.post(piece | fields)
    with pytest.raises(jp.StorageError, match="in an unknown format"):
        answer.result(0)


def test_late_or_repeated_answer_changes_nothing(pages: PagesInProcess) -> None:
    pages.begin()
    answer, piece = ask(pages)
    assert answer.cancel()
    pages.post(piece)
    pages.post(piece)
    assert answer.cancelled()


def test_unanswered_requests_are_forgotten_after_a_while(pages: PagesInProcess) -> None:
    pages.begin()
    asked = [ask(pages) for _ in range(100)]
    for _, piece in (asked[0], asked[99]):
        pages.post(piece)
    assert [answer.done() for answer, _ in (asked[0], asked[99])] == [False, True]


# --- reading ---------------------------------------------------------------------------------


def answer(*cells: Any, **fields: Any) -> dict[str, Any]:
    return {"i": 0, "of": 1, "text": json.dumps(cells)} | fields


def read(pages: PagesInProcess, told: list[Any]) -> Any:
    """Return the cells that a tool gets if the page tells `told`."""
    pages.view.cells = [answer(*told)]
    pages.begin()
    found = pages.look()
    assert found.source_view == "page"
    return found.cells


def test_cells_are_read_with_state_and_images(pages: PagesInProcess) -> None:
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
    header = {"msg_id": "r1", "msg_type": "execute_request", "session": "s"}
    pages.start_cell({"header": header, "metadata": {"cellId": "c"}, "content": {"code": "y"}})
    found = read(pages, told)
    states = ["not run", "done", "running", "queued", "failed", "not run"]
    assert [cell.state for cell in found] == states
    assert [cell.edited for cell in found] == [False, True, *[False] * 4]
    assert (found[1].outputs[0].images[0].content, found[1].left_out) == (PNG, 5)


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 100_000, "nope", '[["a"]]'])
def test_text_that_is_not_a_list_of_cells_is_an_error(pages: PagesInProcess, text: str) -> None:
    pages.view.cells = [answer(text=text)]
    pages.begin()
    assert "in an unknown format" in pages.look().why


def test_cell_with_malformed_fields_is_read_without_them(pages: PagesInProcess) -> None:
    told = [
        {"id": 3, "type": "x", "source": None, "execution_count": True, "outputs": "no"},
        {"type": "code", "outputs": [1, {"kind": "?", "text": 1, "images": [
            {"type": "image/svg+xml", "data": ""}, {"type": "image/png", "data": "a"}, 2]}]},
    ]  # fmt: skip
    first, second = read(pages, told)
    assert (first.kind, first.source, first.cell_id, first.outputs) == ("raw", "", "", ())
    assert (second.outputs[0].kind, second.outputs[0].images) == ("display", ())


# --- a page and a kernel -----------------------------------------------------------------------

CELL = {"id": "a", "type": "code", "source": "from the page"}
RAN = make("notebook_cell", 0, "from the kernel")


def test_page_is_asked_for_its_cells_only_when_a_tool_reads_them(pages: PagesInProcess) -> None:
    pages.view.cells = [answer(CELL)]
    pages.begin()
    pages.tell("one")
    assert pages.view.of_type("cells") == []
    found = pages.look(RAN)
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
    pages: PagesInProcess, monkeypatch: pytest.MonkeyPatch, view: View, why: str
) -> None:
    monkeypatch.setattr("jp_nb.notebook.kernel_notebook.CELLS_TIMEOUT_S", 0.1)
    pages.views = [view]
    pages.begin()
    found = pages.look(RAN)
    assert found.source_view == "kernel"
    assert why in found.why
    assert found.cells == (RAN,)
