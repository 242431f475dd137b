"""A page asks for outputs that it does not show, and tells where an input box can appear."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.notebook.collaborators import Collaborators
from jp_nb.notebook.running_cells import RunningCells
from tests.notebook.page.page_in_process import Pages, pages
from tests.support.scripted_page import View

__all__ = ["pages"]

FORM = {"text/plain": "Ship it?"}


def request(name: str, session: str) -> dict[str, Any]:
    header = {"msg_id": name, "msg_type": "execute_request", "session": session}
    return {"header": header, "metadata": {"cellId": f"cell {name}"}, "content": {"code": "ask()"}}


@pytest.fixture
def cells(pages: Pages) -> RunningCells:
    """The running cells of a kernel whose page is open."""
    pages.kernel._publish_status = lambda *args: None  # type: ignore[attr-defined]
    pages.view.tells = ["input"]
    pages.view.client = "session 1"
    pages.begin()
    found = RunningCells.of(pages.kernel)
    assert found is not None
    return found


def run(cells: RunningCells, name: str, session: str) -> None:
    """Run a cell with one output."""
    cells("busy", "shell", request(name, session))
    cells.set_output(request(name, session), f"form {name}", FORM, {})


def shown(pages: Pages) -> list[str]:
    return [message["request"] for message in pages.view.of_type("show")]


def test_page_gets_the_outputs_of_the_running_cell_that_it_wants(
    pages: Pages, cells: RunningCells
) -> None:
    run(cells, "r1", "session 1")
    run(cells, "r2", "session before the reload")
    pages.send(pages.view, {"type": "want", "request": "r2"})
    pages.until(lambda: shown(pages))
    (message,) = pages.view.of_type("show")
    assert (message["request"], message["cell"], message["code"]) == ("r2", "cell r2", "ask()")
    assert message["outputs"] == [{"display_id": "form r2", "data": FORM, "metadata": {}}]
    cells("idle", "shell", request("r1", "session 1"))
    for wanted in ("r1", "unknown", "", ["r2"], None):
        pages.send(pages.view, {"type": "want", "request": wanted})
    pages.send(View(page="a page that said no hello"), {"type": "want", "request": "r2"})
    pages.send(pages.view, {"type": "want", "request": "r2"})
    pages.until(lambda: len(shown(pages)) > 1)
    assert set(shown(pages)) == {"r2"}


def test_outputs_of_another_notebook_on_the_same_kernel_are_not_sent(
    pages: Pages, cells: RunningCells
) -> None:
    other = View(page="page 2", path="other.ipynb", client="session 2")
    pages.send(other, other.hello())
    run(cells, "r1", "session 1")
    run(cells, "r2", "session 2")
    for wanted in ("r2", "r1"):
        pages.send(pages.view, {"type": "want", "request": wanted})
    pages.until(lambda: shown(pages))
    assert shown(pages) == ["r1"]


def test_renamed_notebook_gets_the_outputs_of_its_earlier_sessions(
    pages: Pages, cells: RunningCells
) -> None:
    run(cells, "r1", "session 1")
    pages.views[0] = View(page="page 2", client="session 2")  # reloaded
    pages.send(pages.view, pages.view.hello())
    pages.view.path = "renamed.ipynb"
    pages.send(pages.view, pages.view.hello())
    pages.until(lambda: pages.store.path == "renamed.ipynb")
    pages.view.received.clear()
    pages.send(pages.view, {"type": "want", "request": "r1"})
    pages.until(lambda: shown(pages))


@pytest.mark.parametrize("can", [True, False])
def test_page_tells_whether_it_can_show_an_input_box(
    pages: Pages, cells: RunningCells, can: bool
) -> None:
    pages.view.inputs = ["r1"] if can else []
    found = Collaborators.of(pages.kernel).find_input(request("r1", "session 1"))
    assert found is can
    assert pages.view.of_type("input")[-1]["request"] == "r1"


def test_no_page_can_tell_about_input_boxes_of_other_notebooks_or_of_a_closed_store(
    pages: Pages, cells: RunningCells
) -> None:
    other = View(page="page 2", path="other.ipynb", client="session 2")
    pages.send(other, other.hello())
    find_input = Collaborators.of(pages.kernel).find_input
    assert find_input(request("r2", "session 2")) is None
    pages.store.close()
    assert find_input(request("r1", "session 1")) is None
    assert Collaborators.of(pages.kernel).find_input(request("r1", "session 1")) is None


def test_page_that_does_not_answer_shows_no_input_box(
    pages: Pages, cells: RunningCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jp_nb.notebook.page.live_store.INPUT_S", 0.05)
    monkeypatch.setattr("jp_nb.notebook.page.live_store.SECOND_PAGE_S", 0.05)
    pages.view.awake = False
    assert Collaborators.of(pages.kernel).find_input(request("r1", "session 1")) is False


def test_outputs_of_a_cell_that_ended_unseen_are_sent_to_the_next_page_until_it_shows_them(
    pages: Pages, cells: RunningCells
) -> None:
    run(cells, "r1", "session 1")
    cells("idle", "shell", request("r1", "session 1"))
    for number in (2, 3):
        pages.views[0] = View(page=f"page {number}", client="session 1")
        pages.send(pages.view, pages.view.hello())
        pages.until(lambda: shown(pages))
        (message,) = pages.view.of_type("show")
        assert (message["request"], message["over"]) == ("r1", True)
    pages.send(View(page="unknown"), {"type": "seen", "request": "r1"})
    pages.send(pages.view, {"type": "seen", "request": "r1"})
    run(cells, "r2", "session 1")  # is still sent
    pages.views[0] = View(page="page 4", client="session 1")
    pages.send(pages.view, pages.view.hello())
    pages.until(lambda: shown(pages))
    assert shown(pages) == ["r2"]


def test_only_the_last_run_of_a_cell_and_a_bounded_number_of_cells_are_kept(
    cells: RunningCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jp_nb.notebook.running_cells.MAX_ENDED", 2)
    again = {**request("r1 again", "s"), "metadata": {"cellId": "cell r1"}}
    kept: list[str] = []

    def end(*requests: dict[str, Any], outputs: bool = True) -> list[str]:
        for each in requests:
            cells("busy", "shell", each)
            if outputs:
                cells.set_output(each, "form", FORM, {})
            cells("idle", "shell", each)
        kept.clear()
        cells.for_each_unseen(lambda cell: kept.append(cell.request["header"]["msg_id"]))
        return kept

    assert end(request("r1", "s"), again) == ["r1 again"]
    assert end(request("r2", "s"), request("r3", "s")) == ["r2", "r3"]
    assert end(request("r3", "s"), outputs=False) == ["r2"]
