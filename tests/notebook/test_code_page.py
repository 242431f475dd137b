"""Code as a new cell, and progress while a tool runs, in JupyterLab and in Notebook 7."""

from __future__ import annotations

import json

import pytest

from tests.support.browser import Lab, OpenNotebook
from tests.support.cells import calls
from tests.support.page_actions import LOAD, load, picture

pytestmark = pytest.mark.browser

ANSWER = "Two ways:\n\n```python\nfound = 6 * 7\nfound\n```\n\nor\n\n```sql\nselect 42\n```\n"
TOOLS = """
import asyncio, time
import ipywidgets
import jp_nb as jp
from IPython.display import display
from tqdm import tqdm
from tqdm.notebook import tqdm as notebook_tqdm

async def until_told():
    while not path.exists():
        await asyncio.sleep(0.05)

import pathlib
path = pathlib.Path("go-on")
path.unlink(missing_ok=True)

@jp.tool
async def long_work(city: str) -> str:
    bar = ipywidgets.IntProgress(value=1, max=3, description="widget"); display(bar)
    both = [notebook_tqdm(total=4, desc="notebook"), tqdm(total=4, desc="text")]
    for each in both:
        each.update(1)
        each.refresh()
    print("half way", flush=True)
    bar.value = 2
    await until_told()
    return "done"
"""
SCRIPTS = {
    "answer": f"[[replies]]\ntext = {json.dumps(ANSWER)}\n",
    "work": calls(("long_work", {"city": "Delft"})) + '[[replies]]\ntext = "That is all."\n',
}


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in SCRIPTS.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")
    (lab.root / "go-on").unlink(missing_ok=True)


def test_block_becomes_a_cell_below_in_notebook_7(open_notebook: OpenNotebook) -> None:
    page = open_notebook(
        LOAD, "%%jp -m scripted/answer\nHow?", "%jp code 1", "'last'", classic=True
    )
    load(page)
    page.run_cell(1)
    page.output_text(1, contains="Two ways")
    page.run_cell(2)
    page.output_text(2, contains="a new cell has block 1")
    page.page.wait_for_function("document.querySelectorAll('.jp-Notebook .jp-Cell').length === 5")
    assert page.cell(2).locator(".cm-content").inner_text() == "%jp code 1"
    assert page.cell(3).locator(".cm-content").inner_text() == "found = 6 * 7\nfound"
    assert page.cell(4).locator(".cm-content").inner_text() == "'last'"
    assert page.cell(3).locator(".jp-InputPrompt").inner_text().strip() == "[ ]:"
    page.run_cell(3)
    page.output_text(3, contains="42")


def test_progress_is_seen_while_a_tool_runs_and_its_call_becomes_a_cell(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    page = open_notebook(LOAD, TOOLS, "%%jp -m scripted/work\nGo.", "%jp code --call")
    load(page)
    page.run_cell(1)
    page.run_cell(2)
    text = page.output_text(2, contains="half way")
    page.cell(2).get_by_text("notebook:").first.wait_for()
    page.cell(2).get_by_text("text:").first.wait_for()
    page.page.wait_for_function(
        "document.querySelectorAll('.jp-Notebook .jp-Cell')[2]"
        ".querySelector('.progress-bar')?.style.width.startsWith('66')"
    )
    assert "That is all." not in text
    picture(page, "progress")
    (lab.root / "go-on").touch()
    page.output_text(2, contains="That is all.")
    page.run_cell(3)
    page.output_text(3, contains="a new cell has the call")
    page.cell(4).locator(".cm-content").wait_for()
    assert page.cell(4).locator(".cm-content").inner_text() == "await long_work(city='Delft')"
    page.run_cell(4)
    page.output_text(4, contains="done")
