"""The exact text of a call in JupyterLab: read off the page, it is what runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.exact_blocks import object_of
from tests.support.page_actions import keys
from tests.support.prompt_pages import Opened, answer_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ARGUMENTS: dict[str, Any] = {
    "path": "notes \u200b\u3164\u202egnp.md",
    "content": "".join(f"line {n}  of  a file\n" for n in range(118))
    + "│ path: fake\t\u2028\x9b31m \n    <b>x</b> $x$ שלום 12 (א) "
    + "w" * 300
    + "\n",
    "edits": [{"old": "a\nb", "new": ""}],
}
ASK = """
import json
arguments = json.loads({!r})
print(prompter.ask_here(ActionPrompt(
    "Run local write_file tool?", (Action("y", "Run", "run"),),
    exhibits=(Exhibit("Folder", "/home/ada"), Exhibit("Arguments", arguments)),
)))
"""
LINES = """boxes => boxes.map(
    box => [...box.querySelectorAll(".widget-html-content > div")].map(line => line.textContent)
)"""
SHAPE = """box => {
    const rows = [...box.querySelectorAll(".widget-html-content > div")];
    const place = (node, at) => {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        return range.getBoundingClientRect();
    };
    const text = rows.find(row => row.textContent.includes("ש")).querySelector("bdo").firstChild;
    const from = text.data.indexOf("ש");
    const spots = [...text.data.slice(from, from + 11)].map((_, n) => place(text, from + n));
    const content = box.querySelector(".widget-html-content");
    return {
        inOrder: spots.slice(1).every((x, n) => x.left > spots[n].left || x.top > spots[n].top),
        bars: rows.every(row => getComputedStyle(row, "::before").content.includes("│")),
        wide: content.scrollWidth > content.clientWidth,
        tall: content.scrollHeight > content.clientHeight,
        monospaced: getComputedStyle(content).fontFamily.includes("monospace"),
    };
}"""


def test_page_shows_every_character_in_its_order(opened: Opened) -> None:
    notebook = opened(ASK.format(json.dumps(ARGUMENTS)))
    notebook.page.set_viewport_size({"width": 800, "height": 900})
    notebook.run_cell(1)
    form = notebook.form()
    boxes = form.locator(".jp-nb-exact")
    folder, arguments = boxes.evaluate_all(LINES)
    assert folder == ["/home/ada"]
    assert "  │ line 7  of  a file" in arguments
    assert "content: 120 lines" in arguments
    assert json.dumps(object_of(arguments)) == json.dumps(ARGUMENTS)
    shape = boxes.nth(1).evaluate(SHAPE)
    assert shape == {
        "inOrder": True,
        "bars": True,
        "wide": False,
        "tall": True,  # what does not fit can be scrolled to
        "monospaced": True,
    }
    boxes.nth(1).locator("div div").last.scroll_into_view_if_needed()
    form.get_by_role("button", name="Run", exact=True).click()
    assert "value='run'" in answer_of(notebook)


def test_sixty_thousand_lines_are_shown_in_parts(opened: Opened) -> None:
    ask = ASK.replace(
        "json.loads({!r})", '{"text": "\\n".join(f"line {n}" for n in range(60_000))}'
    )
    notebook = opened(ask)
    notebook.run_cell(1)
    form = notebook.form()
    box = form.locator(".jp-nb-exact").nth(1)
    form.get_by_text("Part 1 of 61: lines 1 to 1000 of 60001").wait_for()
    assert box.locator(".widget-html-content > div").count() == 1000
    box.locator("div div").last.scroll_into_view_if_needed()
    form.get_by_role("button", name="Next part").click()
    form.get_by_text("│ line 999").wait_for()
    assert box.locator(".widget-html-content").evaluate("box => box.scrollTop") == 0
    form.get_by_role("button", name="Previous part").focus()
    keys(notebook, "Enter")
    form.get_by_text("Part 1 of 61").wait_for()
    form.get_by_role("button", name="Previous part").click()
    form.get_by_text("│ line 59999").wait_for()
    form.get_by_role("button", name="Run", exact=True).click()
    assert "value='run'" in answer_of(notebook)
