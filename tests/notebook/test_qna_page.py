"""The question log in JupyterLab: an answer given in the page is logged and listed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Lab, OpenNotebook
from tests.support.page_actions import assert_harmless, click, load, picture, question

pytestmark = pytest.mark.browser

ASKED = "Which <img src=x onerror='window.pwned=1'> | database?"
OPTIONS = ["Postgres", "SQLite | <b>3</b>"]


@pytest.fixture
def context(lab: Lab) -> Iterator[Path]:
    script = question(question=ASKED, answer_type="select", options=OPTIONS)
    (lab.root / "decides.toml").write_text(script + '[[replies]]\ntext = "Noted."\n')
    folder = lab.root / ".jp" / "context"
    shutil.rmtree(folder, ignore_errors=True)  # what other notebooks of this folder were answered
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.req("RCP-27", "RCP-38", "RCP-84", "RCP-69")
def test_answer_given_in_the_page_is_logged_and_listed_as_a_table(
    context: Path, open_notebook: OpenNotebook
) -> None:
    context.parent.mkdir(exist_ok=True)
    page = open_notebook(
        "%load_ext jp_nb", "%%jp -n -m scripted/decides\nDecide.", "%jp qna", "%jp qna get 1"
    )
    load(page)
    page.run_cell(1)
    page.form().get_by_role("radio").nth(1).click()
    click(page, "Submit")
    page.output_text(1, contains="Noted.")
    (kept,) = map(json.loads, (context / "qna.jsonl").read_text("utf-8").splitlines())
    assert (kept["id"], kept["answer"], kept["channel"]) == (1, OPTIONS[1], "form")
    assert (kept["question"], bool(kept["cell"])) == (ASKED, True)
    page.run_cell(2)
    page.output_text(2, contains="answered by")
    cells = page.outputs(2).locator("table td")
    assert cells.all_inner_texts() == ["1", ASKED, OPTIONS[1], "the user"]
    page.run_cell(3)
    shown = page.output_text(3, contains="asked by the assistant")
    assert ASKED in shown
    assert OPTIONS[1] in shown
    assert_harmless(page)
    picture(page, "qna")
    page.save()
    stored = json.dumps(page.saved().metadata["jp"])
    assert "answered by" not in stored
