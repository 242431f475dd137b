"""The model reads the notebook of the page, edits included, while its cell runs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import LOAD, MODEL

pytestmark = pytest.mark.browser

PLOT = (
    "from IPython.display import Image, display\nimport base64\n"
    "display(Image(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')))\nprint('drawn')"
)
BROKEN = "print('before')\n1/0"
GATE = """
import asyncio, os
import jp_nb

@jp_nb.tool(run="unattended")
async def gate() -> str:
    "Wait for the file."
    while not os.path.exists("gate"):
        await asyncio.sleep(0.02)
    return "open"
"""


def calls(*asked: tuple[str, dict[str, Any]]) -> str:
    """Return a script in which the model calls these tools, one after the other."""
    fields = [
        ", ".join(f"{key} = {json.dumps(value)}" for key, value in arguments.items())
        for _, arguments in asked
    ]
    return (
        "".join(
            f'[[replies]]\ntool_calls = [{{ name = "{name}", arguments = {{ {given} }} }}]\n'
            for (name, _), given in zip(asked, fields, strict=True)
        )
        + '[[replies]]\ntext = "I have looked."\n'
    )


def results(page: NotebookPage, count: int) -> list[str]:
    """Wait until the record has `count` tool results, and return them in order."""
    page.wait_for_record(
        f"record.events.filter(e => e.type === 'tool_call_response').length === {count}"
    )
    events = page.page.evaluate(f"{MODEL}.getMetadata('jp').events")
    return [event["content"] for event in events if event["type"] == "tool_call_response"]


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    look = calls(
        ("gate", {}),
        ("notebook_cells", {}),
        ("notebook_cell", {"cell": 4}),
        ("notebook_cell", {"cell": 5, "part": "outputs"}),
        ("notebook_search", {"text": "WRITTEN JUST"}),
        ("notebook_cell", {"cell": 2}),
    )
    (lab.root / "look.toml").write_text(look, encoding="utf-8")


def test_model_reads_cells_states_and_images_of_the_page(
    open_notebook: OpenNotebook,
) -> None:
    ask = "%%jp -m scripted/look -t notebook\nLook around."
    page = open_notebook(LOAD + GATE, "old = 1", ask, PLOT, BROKEN, "'queued'", "'not run'")
    for cell in (0, 1, 3):
        page.run_cell(cell)
    page.output_text(3, contains="drawn")
    page.run_cell(4)
    page.output_text(4, contains="ZeroDivisionError")
    page.page.evaluate(
        f"""() => {{
            const {{ sharedModel, cells }} = {MODEL};
            cells.get(1).sharedModel.setSource("new = 1  # written just now");
            const source = "# A *heading*\\n\\nText.";
            sharedModel.insertCell(7, {{ cell_type: "markdown", source }});
        }}"""
    )
    page.run_cell(2)
    page.run_cell(5)
    page.cell(5).get_by_text("[*]:").wait_for()
    page.path.with_name("gate").touch()
    page.output_text(2, contains="I have looked.")
    _, listed, plot, broken, found, edited = results(page, 6)
    assert listed.startswith(
        "Cells 1 to 8 of 8. These are the cells of the open page, including unsaved edits."
    )
    lines = listed.split("\n")[3:-1]
    known = r"(?<=ran) as \d+|(?<=failed) as \d+|, id [\w-]+, version [0-9a-f]{12}"
    assert [re.sub(known, "", line) for line in lines] == [
        "1 [code, ran] %load_ext jp_nb (+8 lines)",
        "2 [code, ran, edited since] new = 1  # written just now",
        "3 [code, running] %%jp -m scripted/look -t notebook (+1 line)",
        "4 [code, ran] from IPython.display import Image, display (+3 lines)",
        "5 [code, failed] print('before') (+1 line)",
        "6 [code, waiting to run] 'queued'",
        "7 [code, not run] 'not run'",
        "8 [markdown] # A *heading* (+1 line)",
    ]
    assert "Images with this result: 1." in plot
    assert "display, with an image]\n<IPython.core.display.Image object>" in plot
    assert "stream]\ndrawn" in plot
    assert "[1: stream]\nbefore" in broken
    assert "ZeroDivisionError" in broken
    assert "\x1b" not in broken
    assert "cell 2, source, line 1: new = 1  # written just now" in found
    assert "new = 1  # written just now" in edited
    record = page.page.evaluate(f"{MODEL}.getMetadata('jp')")
    assert sum(event["type"] == "image" for event in record["events"]) == 1


@pytest.mark.deep
def test_huge_notebook_is_sent_in_a_few_megabytes(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(LOAD, "from jp_nb.session import require_session\n"
        "import json\n"
        "store = require_session().active.store\n"
        "told = [store.requests.ask_cells(whole).result(60) for whole in (None, 1000, 'unknown')]\n"
        "first = json.loads(told[0])\n"
        "print([len(x) < 5_000_000 for x in told], len(first), first[3]['left_out'] > 900_000)\n"
        "one, none = map(json.loads, told[1:])\n"
        "print(len(one[1000]['outputs'][0]['text']), 'source' in one[1], 'source' in none[1])",
    )  # fmt: skip
    page.run_cell(0)
    page.output_text(0, contains="jp_nb")
    page.page.evaluate(
        f"""() => {{
            const {{ sharedModel }} = {MODEL};
            const text = "y".repeat(1e6);
            const output = {{ output_type: "stream", name: "stdout", text }};
            const outputs = (n) => n % 25 ? [] : [output];
            sharedModel.insertCells(2, Array.from({{ length: 1250 }}, (_, n) => ({{
                cell_type: "code", source: n === 1 ? text : `x = ${{n}}\\n`.repeat(200),
                outputs: outputs(n + 2), execution_count: n,
            }})));
        }}"""
    )
    page.run_cell(1)
    text = page.output_text(1, contains="False False")
    assert "[True, True, True] 1252 True" in text
    assert "200003 False False" in text
