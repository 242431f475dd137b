"""In a real page: what is waited for, where tools print, and a reload in the middle."""

from __future__ import annotations

import json

import pytest

from tests.support.browser import Lab, OpenNotebook
from tests.support.page_actions import LOAD, answer, load, outputs, picture, question

pytestmark = pytest.mark.browser

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
    hold = '[[replies]]\ntool_calls = [{ name = "hold", arguments = { gate = %s } }]\n'
    (lab.root / "hold.toml").write_text(hold % json.dumps("gate") + '[[replies]]\ntext = "Done."\n')
    (lab.root / "gate").unlink(missing_ok=True)


def test_what_tools_print_stands_at_their_calls_in_the_page_and_in_the_file(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(LOAD, TOOLS, "%%jp -m scripted/parts\nGo.")
    load(page)
    page.run_cell(1)
    page.run_cell(2)
    answer(page, "Yes")
    text = page.output_text(2, contains="Third part.")
    order = ["First part.", "looking at Delft", "Ship it?", "Second part.", "looking at Gouda"]
    places = [text.index(part) for part in (*order, "Third part.")]
    assert places == sorted(places)
    page.wait_for_kernel_status("idle")
    page.save()
    saved = outputs(page, 2)
    assert [output["output_type"] for output in saved] == [
        *("display_data", "stream", "display_data", "stream", "display_data")
    ]
    assert all(output["metadata"] == {} for output in saved[::2])


def test_parts_that_begin_after_a_reload_are_shown_below_the_others(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(LOAD, TOOLS, "%%jp -m scripted/parts\nGo.")
    load(page)
    page.run_cell(1)
    page.run_cell(2)
    page.form()
    page.save()
    page.reload(status="")
    answer(page, "Yes")
    text = page.output_text(2, contains="Third part.")
    places = [text.index(part) for part in ("First part.", "Second part.", "Third part.")]
    assert places == sorted(places)
    assert text.count("Third part.") == 1
    page.wait_for_kernel_status("idle")
    page.save()
    displays = [each for each in outputs(page, 2) if each["output_type"] == "display_data"]
    assert [each["metadata"] for each in displays] == [{}, {}, {}]


def test_a_person_sees_what_is_waited_for_and_that_an_interrupt_was_heard(
    open_notebook: OpenNotebook, lab: Lab
) -> None:
    page = open_notebook(LOAD, TOOLS, "%%jp -m scripted/hold\nGo.")
    load(page)
    page.run_cell(1)
    page.run_cell(2)
    page.output_text(2, contains="Waiting for hold · 2 s")
    page.interrupt()
    page.form().get_by_role("button", name="Run `hold` again").click()
    page.output_text(2, contains="Waiting for hold · 1 s")
    (lab.root / "gate").touch()
    text = page.output_text(2, contains="Done.")
    assert "Waiting" not in text


COUNTED = """
[[replies]]
text = "Let me look."
tool_calls = [{ name = "hold", arguments = { gate = "gate" } }]
usage = { input_tokens = 12300, output_tokens = 480, cache_read_tokens = 9225 }
[[replies]]
text = "Done."
usage = { input_tokens = 12900, output_tokens = 20 }
"""


def test_tokens_are_counted_while_a_turn_runs_and_known_after_a_restart(
    open_notebook: OpenNotebook, lab: Lab
) -> None:
    (lab.root / "counted.toml").write_text(COUNTED, encoding="utf-8")
    page = open_notebook(LOAD, TOOLS, "%%jp -m scripted/counted\nGo.", "%jp usage")
    load(page)
    page.run_cell(1)
    page.run_cell(2)
    page.output_text(2, contains="Waiting for hold")
    page.output_text(2, contains="· 12,300 tokens in, 480 out")
    picture(page, "tokens")
    (lab.root / "gate").touch()
    assert "tokens" not in page.output_text(2, contains="Done.")
    page.wait_for_kernel_status("idle")
    page.save()
    assert "tokens" not in json.dumps(outputs(page, 2))
    page.restart_kernel()
    load(page)
    page.run_cell(3)
    shown = page.output_text(3, contains="scripted/counted")
    assert "25,200" in shown
    assert "37%" in shown  # of what was sent came from the cache
