"""The page that runs a cell gets the duration and tokens of its turn, and stores neither."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.pages import PagesInProcess
from tests.notebook.page.page_in_process import pages
from tests.support.scripted_page import View

__all__ = ["pages"]

END = {"seconds": 12, "sent": 1_234, "received": 56}


def request(session: str = "session 1", cell: str = "cell 1") -> dict[str, Any]:
    header = {"msg_id": "r1", "msg_type": "execute_request", "session": session}
    return {"header": header, "metadata": {"cellId": cell}, "content": {"code": "%%jp"}}


def opened(pages: PagesInProcess, *tells: str) -> None:
    """Open a page that supports `tells`, and is the page of `session 1`."""
    pages.view.tells = list(tells)
    pages.view.client = "session 1"
    pages.begin()


def test_page_gets_the_counts_of_a_turn_in_its_cell(pages: PagesInProcess) -> None:
    opened(pages, "ended")
    pages.show_end(request(), **END)
    [message] = pages.view.of_type("ended")
    assert (message["request"], message["cell"]) == ("r1", "cell 1")
    assert (message["seconds"], message["sent"], message["received"]) == (12, 1_234, 56)


def test_page_of_another_version_and_cells_of_a_console_get_no_counts(
    pages: PagesInProcess,
) -> None:
    opened(pages, "cells", "input")
    pages.show_end(request(), **END)
    assert not pages.view.of_type("ended")

    pages.view.tells.append("ended")
    pages.send(pages.view, pages.view.hello())
    pages.show_end(request(cell=""), **END)
    assert not pages.view.of_type("ended")


@pytest.mark.parametrize("closes", [True, False])
def test_page_of_another_notebook_and_a_closed_store_get_no_counts(
    pages: PagesInProcess, closes: bool
) -> None:
    opened(pages, "ended")
    session = "session 1"
    if closes:
        pages.store.close()
    else:
        session = "session 2"
        other = View(page="page 2", path="other.ipynb", client=session)
        pages.send(other, other.hello())

    pages.show_end(request(session), **END)
    assert not pages.view.of_type("ended")
