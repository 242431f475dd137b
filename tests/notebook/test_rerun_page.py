"""Cells that run again in a page of JupyterLab, and `%jp why` and `%jp retry`."""

from __future__ import annotations

import pytest

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import click, keys, load, picture

pytestmark = pytest.mark.browser

ANSWERS = "".join(f'[[replies]]\ntext = "answer {n}"\n' for n in range(6))
LOAD = "%load_ext jp_nb\n%jp new\n%jp config assistant.model.id=scripted/answers"
REQUESTS = "import jp_nb as jp; print('asked', [t.request for t in jp.conversation().turns])"
REPLACE = "Replace: continue from before this turn, in a branch"
CANCEL = "Cancel"


@pytest.fixture(autouse=True)
def script(lab: Lab) -> None:
    (lab.root / "answers.toml").write_text(ANSWERS, encoding="utf-8")


def asked_again(open_notebook: OpenNotebook) -> NotebookPage:
    """Open a notebook, run three cells, and run the second one again, which shows a form."""
    page = open_notebook(LOAD, "%%jp\nFirst.", "%%jp\nSecond.", "%%jp\nThird.", REQUESTS)
    load(page)
    for cell in (1, 2, 3):
        page.run_cell(cell)
        page.output_text(cell, contains=f"answer {cell - 1}")
    page.run_cell(2)
    page.form().get_by_text("You already ran this cell").wait_for()
    return page


def requests(page: NotebookPage, cell: int = 4) -> str:
    page.run_cell(cell)
    return page.output_text(cell, contains="asked").strip()


def run_again(page: NotebookPage) -> None:
    """Run the second cell once more, and wait for the question about it."""
    page.run_cell(2)
    page.form().get_by_text("You already ran this cell").wait_for()


def test_cell_that_runs_again_is_cancelled_replaced_or_appended(
    open_notebook: OpenNotebook,
) -> None:
    page = asked_again(open_notebook)
    picture(page, "rerun")
    click(page, CANCEL)
    said = page.output_text(2, contains="cancelled: no request was sent")
    assert "Traceback" not in said
    assert "PromptCancelled" not in said
    run_again(page)
    keys(page, "Escape")
    page.output_text(2, contains="cancelled: no request was sent")
    assert requests(page) == "asked ['First.', 'Second.', 'Third.']"
    run_again(page)
    page.save()
    page.reopen(status="")
    click(page, REPLACE)
    assert "answer 1" in page.output_text(2, contains="answer 1")
    assert requests(page) == "asked ['First.', 'Second.']"
    run_again(page)
    keys(page, "Tab", "Tab", "Enter")
    page.output_text(2, contains="answer 2")
    assert requests(page) == "asked ['First.', 'Second.', 'Second.']"


def test_why_and_retry_show_the_request_folded(open_notebook: OpenNotebook) -> None:
    failing = "rows = {'first': 1}\nrows['second']"
    page = open_notebook(LOAD, "%%jp\nFirst.", failing, "%jp why", "%jp retry")
    load(page)
    page.run_cell(1)
    page.output_text(1, contains="answer 0")
    page.run_cell(2)
    page.output_text(2, contains="KeyError")
    for cell, parts in ((3, ["→ 2 rows['second']", "KeyError: 'second'"]), (4, ["First."])):
        page.run_cell(cell)
        page.output_text(cell, contains="answer")
        request = page.outputs(cell).locator("details")
        assert request.locator("summary").inner_text() == "Request"
        assert not request.locator("pre").is_visible()
        picture(page, f"why-{cell}")
        request.locator("summary").click()
        sent = request.locator("pre").inner_text()
        assert [part for part in parts if part in sent] == parts
        picture(page, f"why-{cell}-open")
    page.output_text(4, contains="turn 1 is asked again")  # a notice after the answer
