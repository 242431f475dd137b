"""A cell ends when the page has its record, and waits for nobody who is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scripted_page import ROOT, FrontEnd, kernel

LOAD = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n%load_ext jp_nb"
FOR_EVER = "from jp_nb.notebook.document import live; live.END_OF_CELL_S = 3600"
SCRIPT = '[[replies]]\ntext = "Certainly."\n' * 3


@pytest.fixture
def front(tmp_path: Path) -> Iterator[FrontEnd]:
    (tmp_path / "talk.toml").write_text(SCRIPT, encoding="utf-8")
    with kernel(tmp_path) as started:
        yield started


def kinds(front: FrontEnd) -> list[str]:
    return [event["type"] for event in front.view.jp["events"]]


@pytest.mark.parametrize(
    "cell",
    [
        "%%jp -m scripted/talk\nGo.",
        "%jp q Hello! Who answers here?",
        "import jp_nb as jp\njp.query('Go.', model='scripted/talk')",
    ],
)
def test_when_a_cell_has_ended_the_page_has_all_of_its_record(front: FrontEnd, cell: str) -> None:
    front.run(LOAD)
    front.view.slow = 0.2  # what is behind a message under way waits for its acknowledgement
    front.run(cell)
    assert kinds(front)[-1] == "chat_response"
    front.run("%jp config assistant.name=Ada")
    assert kinds(front)[-1] == "config_delta"


def test_a_cell_waits_for_no_page_that_is_gone(front: FrontEnd) -> None:
    front.run(f"{LOAD}\n{FOR_EVER}")
    front.run("%%jp -m scripted/talk\nGo.")
    front.view.awake = False
    front.run("%%jp\nOn.")  # until what was sent is due again
    front.run("%%jp\nOn.")
    front.view.awake = True
    front.until(lambda: kinds(front).count("chat_response") == 3)


def test_a_cell_waits_for_no_page_where_there_never_was_one(front: FrontEnd) -> None:
    front.views.clear()
    front.run(f"{LOAD}\n{FOR_EVER}")
    front.run("%%jp -m scripted/talk\nGo.")
    assert front.run("print(_jp.text)") == "Certainly.\n"
