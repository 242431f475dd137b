"""A page asks for outputs that it does not show, and tells where an input box can appear."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.pages import PagesInProcess
from tests.notebook.page.page_in_process import pages
from tests.support.scripted_page import View

__all__ = ["pages"]

FORM = {"text/plain": "Ship it?"}


def request(name: str, session: str) -> dict[str, Any]:
    header = {"msg_id": name, "msg_type": "execute_request", "session": session}
    return {"header": header, "metadata": {"cellId": f"cell {name}"}, "content": {"code": "ask()"}}


@pytest.fixture(autouse=True)
def opened(pages: PagesInProcess) -> None:
    """Open the page of a kernel whose cells can show outputs."""
    pages.view.tells = ["input"]
    pages.view.client = "session 1"
    pages.begin()


def run(pages: PagesInProcess, name: str, session: str) -> None:
    """Start a cell with one output."""
    pages.run_cell(request(name, session), f"form {name}", FORM)


def shown(pages: PagesInProcess) -> list[str]:
    return [message["request"] for message in pages.view.of_type("show")]


def test_page_gets_the_outputs_of_the_running_cell_that_it_wants(pages: PagesInProcess) -> None:
    run(pages, "r1", "session 1")
    run(pages, "r2", "session before the reload")
    pages.send(pages.view, {"type": "want", "request": "r2"})
    pages.until(lambda: shown(pages))
    (message,) = pages.view.of_type("show")
    assert (message["request"], message["cell"], message["code"]) == ("r2", "cell r2", "ask()")
    assert message["outputs"] == [{"display_id": "form r2", "data": FORM, "metadata": {}}]
    pages.end_cell(request("r1", "session 1"))
    for wanted in ("r1", "unknown", "", ["r2"], None):
        pages.send(pages.view, {"type": "want", "request": wanted})
    pages.send(View(page="a page that said no hello"), {"type": "want", "request": "r2"})
    pages.send(pages.view, {"type": "want", "request": "r2"})
    pages.until(lambda: len(shown(pages)) > 1)
    assert set(shown(pages)) == {"r2"}


def test_outputs_of_another_notebook_on_the_same_kernel_are_not_sent(pages: PagesInProcess) -> None:
    other = View(page="page 2", path="other.ipynb", client="session 2")
    pages.send(other, other.hello())
    run(pages, "r1", "session 1")
    run(pages, "r2", "session 2")
    for wanted in ("r2", "r1"):
        pages.send(pages.view, {"type": "want", "request": wanted})
    pages.until(lambda: shown(pages))
    assert shown(pages) == ["r1"]


def test_renamed_notebook_gets_the_outputs_of_its_earlier_sessions(pages: PagesInProcess) -> None:
    run(pages, "r1", "session 1")
    pages.views[0] = View(page="page 2", client="session 2")  # reloaded
    pages.send(pages.view, pages.view.hello())
    pages.view.path = "renamed.ipynb"
    pages.send(pages.view, pages.view.hello())
    pages.until(lambda: pages.store.path == "renamed.ipynb")
    pages.view.received.clear()
    pages.send(pages.view, {"type": "want", "request": "r1"})
    pages.until(lambda: shown(pages))


@pytest.mark.parametrize("can", [True, False])
def test_page_tells_whether_it_can_show_an_input_box(pages: PagesInProcess, can: bool) -> None:
    pages.view.inputs = ["r1"] if can else []
    found = pages.find_input(request("r1", "session 1"))
    assert found is can
    assert pages.view.of_type("input")[-1]["request"] == "r1"


def test_no_page_can_tell_about_input_boxes_of_other_notebooks_or_of_a_closed_store(
    pages: PagesInProcess,
) -> None:
    other = View(page="page 2", path="other.ipynb", client="session 2")
    pages.send(other, other.hello())
    assert pages.find_input(request("r2", "session 2")) is None
    pages.store.close()
    assert pages.find_input(request("r1", "session 1")) is None


def test_page_that_does_not_answer_shows_no_input_box(
    pages: PagesInProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jp_nb.notebook.page.input_box_question.INPUT_S", 0.05)
    monkeypatch.setattr("jp_nb.notebook.page.input_box_question.SECOND_PAGE_S", 0.05)
    pages.view.awake = False
    assert pages.find_input(request("r1", "session 1")) is False


def test_outputs_of_a_cell_that_ended_unseen_are_sent_to_the_next_page_until_it_shows_them(
    pages: PagesInProcess,
) -> None:
    run(pages, "r1", "session 1")
    pages.end_cell(request("r1", "session 1"))
    for number in (2, 3):
        pages.views[0] = View(page=f"page {number}", client="session 1")
        pages.send(pages.view, pages.view.hello())
        pages.until(lambda: shown(pages))
        (message,) = pages.view.of_type("show")
        assert (message["request"], message["over"]) == ("r1", True)
    pages.send(View(page="unknown"), {"type": "seen", "request": "r1"})
    pages.send(pages.view, {"type": "seen", "request": "r1"})
    run(pages, "r2", "session 1")  # is still sent
    pages.views[0] = View(page="page 4", client="session 1")
    pages.send(pages.view, pages.view.hello())
    pages.until(lambda: shown(pages))
    assert shown(pages) == ["r2"]


def test_only_the_last_run_of_a_cell_and_a_bounded_number_of_cells_are_kept(
    pages: PagesInProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jp_nb.notebook.running_cells.MAX_ENDED", 2)
    again = {**request("r1 again", "s"), "metadata": {"cellId": "cell r1"}}

    def run_to_end(*requests: dict[str, Any]) -> list[str]:
        for each in requests:
            pages.run_cell(each, "form", FORM)
            pages.end_cell(each)
        return pages.list_unseen()

    assert run_to_end(request("r1", "s"), again) == ["r1 again"]
    assert run_to_end(request("r2", "s"), request("r3", "s")) == ["r2", "r3"]
    pages.start_cell(request("r3", "s"))  # runs again, and shows nothing
    pages.end_cell(request("r3", "s"))
    assert pages.list_unseen() == ["r2"]
