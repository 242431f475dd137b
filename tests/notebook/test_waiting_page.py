"""A running turn in a page of JupyterLab: its status, the output of tools, and a reload."""

from __future__ import annotations

import json
from time import monotonic

import pytest

from tests.support.browser import Lab
from tests.support.page_actions import LOAD, answer, outputs, picture, question
from tests.support.prompt_pages import Opened

pytestmark = pytest.mark.browser

FIRST_CELL = LOAD
TOOLS = """
import time
from pathlib import Path
import jp_nb as jp

@jp.tool
def look(place: str) -> str:
    print("looking at", place)
    return "fine"

@jp.tool
def hold(gate: str) -> str:
    while not Path(gate).exists():
        time.sleep(0.02)
    return "held"
"""
LOOK = (
    '[[replies]]\ntext = "{}"\ntool_calls = [{{ name = "look", arguments = {{ place = "{}" }} }}]\n'
)
PARTS = (
    LOOK.format("First part.", "Delft")
    + question(question="Ship it?", answer_type="boolean")
    + LOOK.format("Second part.", "Gouda")
    + '[[replies]]\ntext = "Third part."\n'
)


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    (lab.root / "parts.toml").write_text(PARTS, encoding="utf-8")
    (lab.root / "gate").unlink(missing_ok=True)


def test_output_of_tools_is_shown_at_their_calls_in_order_after_a_reload(opened: Opened) -> None:
    page = opened(TOOLS, "%%jp -n -m scripted/parts\nGo.")
    page.run_cell(1)
    parts = ["First part.", "looking at Delft", "Ship it?", "Second part.", "looking at Gouda"]
    for reloaded in (False, True):
        page.run_cell(2)
        page.form()
        if reloaded:
            page.save()
            page.reopen(status="")
            parts = ["First part.", "Ship it?", "Second part."]
        answer(page, "Yes")
        text = page.output_text(2, contains="Third part.")
        places = [text.index(part) for part in (*parts, "Third part.")]
        assert places == sorted(places)
        assert text.count("Third part.") == 1
        page.wait_for_kernel_status("idle")
        page.save()
        saved = outputs(page, 2)
        displays = [each for each in saved if each["output_type"] == "display_data"]
        assert [each["metadata"] for each in displays] == [{}, {}, {}]
        if not reloaded:
            kinds = [each["output_type"] for each in saved]
            assert kinds == ["display_data", "stream", "display_data", "stream", "display_data"]


WAITING = "() => document.body.innerText.match(/Waiting for hold · (\\d+) s/)"
COUNTED = """
[[replies]]
text = "Let me look."
tool_calls = [{ name = "hold", arguments = { gate = "gate" } }]
usage = { input_tokens = 12300, output_tokens = 480, cache_read_tokens = 9225 }
[[replies]]
text = "Done."
usage = { input_tokens = 12900, output_tokens = 20 }
"""


def test_status_shows_the_awaited_tool_and_the_tokens(opened: Opened, lab: Lab) -> None:
    (lab.root / "counted.toml").write_text(COUNTED, encoding="utf-8")
    page = opened(TOOLS, "%%jp -n -m scripted/counted\nGo.")
    page.run_cell(1)
    page.run_cell(2)
    page.output_text(2, contains="Waiting for hold · 2 s")
    page.output_text(2, contains="· 12,300 tokens in, 480 out")
    picture(page, "tokens")
    page.interrupt()
    page.form().get_by_role("button", name="Run hold again").click()
    clicked = monotonic()
    page.page.wait_for_function(WAITING)
    shown = page.page.evaluate(WAITING)
    assert int(shown[1]) <= monotonic() - clicked + 1  # the time of the first run is not counted
    (lab.root / "gate").touch()
    text = page.output_text(2, contains="Done.")
    assert "Waiting" not in text
    assert "tokens" not in text
    page.wait_for_kernel_status("idle")
    page.save()
    assert "tokens" not in json.dumps(outputs(page, 2))
