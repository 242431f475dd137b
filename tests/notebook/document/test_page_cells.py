"""What a page tells of its cells: read in pieces, once, from the page that was asked."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from jp_nb.errors import StorageError
from jp_nb.notebook.document.page_cells import PageCells, read_cells
from tests.support.scripted_page import SETUP, FrontEnd, View, kernel

PNG = b"\x89PNG\r\n\x1a\n"


def piece(text: Any = "[]", **fields: Any) -> dict[str, Any]:
    return {"type": "cells", "page": "p", "seq": 1, "i": 0, "of": 1, "text": text} | fields


def heard(*messages: dict[str, Any]) -> Future[str]:
    cells = PageCells()
    answer = cells.expect(1, "p")
    for message in messages:
        cells.hear(message)
    return answer


# --- pieces ----------------------------------------------------------------------------------


def test_pieces_in_any_order_and_repeated_make_one_answer() -> None:
    two = [piece("b", i=1, of=2), piece("b", i=1, of=2), piece("a", of=2), piece("a", of=2)]
    assert heard(*two).result(0) == "ab"


@pytest.mark.parametrize(
    "message",
    [
        piece(page="another"),
        piece(seq=2),
        piece(seq="1"),
        piece(i=1, of=2),
        piece(i=7),
        piece(i="0"),
        {"type": "cells"},
    ],
)
def test_what_nobody_asked_for_is_no_answer(message: dict[str, Any]) -> None:
    assert not heard(message).done()


@pytest.mark.parametrize(
    "message",
    [piece(of=0), piece(of=10**9), piece(of=None), piece(text=None), piece("x" * 3_000_000)],
)
def test_a_piece_that_cannot_be_one_ends_the_waiting(message: dict[str, Any]) -> None:
    with pytest.raises(StorageError, match="in a form that this kernel does not know"):
        heard(message).result(0)


def test_an_answer_that_comes_too_late_or_twice_changes_nothing() -> None:
    cells = PageCells()
    answer = cells.expect(1, "p")
    assert answer.cancel()
    cells.hear(piece())
    cells.hear(piece())
    assert answer.cancelled()


def test_questions_that_are_never_answered_do_not_pile_up() -> None:
    cells = PageCells()
    asked = [cells.expect(seq, "p") for seq in range(100)]
    cells.hear(piece(seq=0))
    cells.hear(piece(seq=99))
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


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 100_000, "nope", '[["a"]]'])
def test_what_is_no_list_of_cells_is_an_error(text: str) -> None:
    with pytest.raises(StorageError, match="in a form that this kernel does not know"):
        read_cells(text, frozenset())


def test_wrong_fields_are_left_out_and_the_cell_stays() -> None:
    told = [
        {"id": 3, "type": "x", "source": None, "execution_count": True, "outputs": "no"},
        {"type": "code", "outputs": [1, {"kind": "?", "text": 1, "images": [
            {"type": "image/svg+xml", "data": ""}, {"type": "image/png", "data": "a"}, 2]}]},
    ]  # fmt: skip
    first, second = read_cells(json.dumps(told), frozenset())
    assert (first.kind, first.source, first.cell_id, first.outputs) == ("raw", "", "", ())
    assert (second.outputs[0].kind, second.outputs[0].images) == ("display", ())


# --- in a kernel -----------------------------------------------------------------------------

LOOK = """from jp_nb.notebook import kernel_notebook
from jp_nb.notebook.ran_cells import RanCells
kernel_notebook.PATIENCE_S = 1
async def look(whole=None):
    notebook = kernel_notebook.KernelNotebook(ip, in_cell.opened.store, RanCells(ip))
    found = await notebook.cells(whole)
    print(found.seen_by, found.why, [cell.source for cell in found.cells][-2:])
ip = get_ipython()
await look()"""
CELL = {"id": "a", "type": "code", "source": "from the page"}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[FrontEnd]:
    with kernel(tmp_path) as started:
        yield started


def answer(*cells: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"i": 0, "of": 1, "text": json.dumps(cells)} | fields


def test_the_page_is_asked_only_when_somebody_looks(front: FrontEnd) -> None:
    front.view.tells, front.view.cells = ["cells"], [answer(CELL)]
    front.run(SETUP)
    front.run("say('one'); flushed()")
    assert front.view.of_type("cells") == []
    assert front.run(LOOK) == "page  ['from the page']\n"
    (asked,) = front.view.of_type("cells")
    assert (asked["to"], asked["whole"]) == ("page-1", None)


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (View(), "an older jp_nb extension"),
        (View(tells=["cells"]), "did not answer within 1 s"),
        (View(tells=["cells"], cells=[answer(i=0, of=2)]), "did not answer within 1 s"),
        (View(tells=["cells"], cells=[answer(text="{")]), "in a form that this kernel does not"),
        (View(tells=["cells"], cells=[answer(of=0)]), "in a form that this kernel does not"),
        (View(tells=["cells"], cells=[answer(CELL)], slow=2.5), "did not answer within 1 s"),
        (View(tells=["cells"], cells=[answer(CELL, seq=-1)]), "did not answer within 1 s"),
        (View(tells=["cells"], cells=[answer(CELL, page="x")]), "did not answer within 1 s"),
    ],
    ids=["older", "silent", "in part", "no JSON", "no piece", "slow", "late", "another page"],
)
def test_without_a_good_answer_it_is_the_kernels_history(
    front: FrontEnd, view: View, why: str
) -> None:
    front.views = [view]
    front.run(SETUP)
    said = front.run(LOOK)
    assert said.startswith("kernel "), said
    assert why in said
    assert "await look()" in said  # the running cell, too
