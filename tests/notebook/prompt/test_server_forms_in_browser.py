"""Forms of MCP servers in JupyterLab: every kind of field, decline, an address, the keyboard."""

from __future__ import annotations

import pytest

from tests.notebook.prompt.form_pages import FormOnPage, axe_of
from tests.support.browser import Lab
from tests.support.prompt_pages import Opened

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SCRIPT = (
    '[[replies]]\ntool_calls = [{ name = "trip", arguments = {} }]\n[[replies]]\ntext = "Done."\n'
)
FIRST_CELL = """
%load_ext jp_nb
import jp_nb as jp
from jp_nb.mcp.elicitations import make_answer, make_question
from jp_nb.mcp.exchange import ServerQuestion

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City", "minLength": 2,
                 "description": "See <b>the</b> [map](https://evil.example) or https://evil.example"},
        "mail": {"type": "string", "format": "email"},
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "day": {"type": "string", "format": "date"},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30, "default": 2},
        "budget": {"type": "number"},
        "breakfast": {"type": "boolean", "default": True},
        "room": {"type": "string", "oneOf": [
            {"const": "s", "title": "Single"}, {"const": "d", "title": "Double"}]},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["bike", "boat"]}},
        "api_key": {"type": "string"},
    },
    "required": ["city"],
}
FORM = ServerQuestion("who", "form", "The first line of the server.\\nWhich trip?", SCHEMA)

def address(url):
    return ServerQuestion("login", "url", "Please sign in.", None, url)

@jp.tool
def trip(ctx: jp.ToolContext) -> jp.Success | jp.NeedsInput:
    questions = [make_question("books", each, each.key) for each in ASKED]
    if not ctx.ends:
        return jp.NeedsInput(*questions, partial=True, decline=True)
    for question in questions:
        answer = make_answer(question, ctx.ends[question.id], ctx.answers.get(question.id))
        print(question.id, answer.action, answer.content)
    return jp.Success("noted")
"""
TURN = "%%jp -n -m scripted/trip\nGo."


@pytest.fixture(autouse=True)
def script(lab: Lab) -> None:
    (lab.root / "trip.toml").write_text(SCRIPT, encoding="utf-8")


def asked(opened: Opened, questions: str) -> FormOnPage:
    """Run a turn whose tool asks `questions` of a server."""
    notebook = opened(f"ASKED = [{questions}]", TURN)
    notebook.run_cell(1)
    notebook.run_cell(2)
    return FormOnPage(notebook)


@pytest.mark.req("R-MCP-24", "R-MCP-45", "R-MCP-62", "R-MCP-92")
def test_every_kind_of_field_is_answered_with_the_keyboard(opened: Opened) -> None:
    form = asked(opened, "FORM")
    page, keyboard = form.page, form.page.keyboard
    form.box.get_by_text("The first line of the server.").wait_for()
    assert form.box.locator("a").count() == 0  # no text of the server is a link
    assert form.box.locator("b").count() == 0
    form.wait_for_focus("input", "City")
    for text in ("Delft", "ada@example.org", "abc"):
        keyboard.type(text)
        keyboard.press("Tab")
    keyboard.press("Control+Enter")
    form.box.get_by_text("Expected a text that matches ^[A-Z]{3}$").wait_for()
    form.notebook.reload(status="busy")
    form = FormOnPage(form.notebook)
    code = form.box.get_by_label("code")
    code.wait_for()
    assert code.input_value() == "abc"
    code.fill("ABC")
    assert axe_of(page) == []
    keyboard.press("Control+Enter")
    text = form.notebook.output_text(2, contains="Done.")
    assert "Which trip? → 5 of 10 fields" in text  # with the two defaults
    assert "code: ABC" in text


@pytest.mark.req("R-MCP-53", "R-MCP-44")
def test_address_is_opened_only_by_its_button_and_each_page_is_declined_alone(
    opened: Opened, lab: Lab
) -> None:
    address = f"{lab.url}/api?from={'form' * 200}"  # it scrolls, also with the keyboard
    form = asked(opened, f"address({address!r}), FORM")
    form.on(1, 2)
    assert address in form.box.inner_text()
    assert form.box.locator("mark").inner_text() == "127.0.0.1"
    form.box.get_by_text("The connection is not encrypted (http).").wait_for()
    form.box.get_by_text("The host is a number, not a name.").wait_for()
    link = form.box.get_by_role("link", name="Open 127.0.0.1 in a new tab")
    assert axe_of(form.page) == []
    form.page.keyboard.press("Enter")
    form.box.get_by_text("You changed nothing here.").wait_for()
    link.focus()
    with form.page.expect_popup() as opening:
        form.page.keyboard.press("Enter")
    opening.value.wait_for_load_state()
    assert opening.value.url == address
    assert opening.value.evaluate("[window.opener, document.referrer]") == [None, ""]
    opening.value.close()
    form.turn("Next", 2, 2)
    form.press("Decline")
    rows = form.on_summary()
    assert [row.split("\n")[1] for row in rows.all_inner_texts()] == ["done", "declined"]
    form.press("Send")
    text = form.notebook.output_text(2, contains="Done.")
    assert "login accept None" in text
    assert "who decline None" in text
