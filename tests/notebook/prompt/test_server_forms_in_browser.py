"""Forms of MCP servers in JupyterLab: every kind of field, decline, an address, the keyboard.

The first tests ask without a server; the others start servers that follow a script.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.kit.kinds import is_kind
from tests.mcp.helpers import FORM, Scripted, scripted
from tests.notebook.prompt.form_pages import FormOnPage, axe_of
from tests.support.browser import Lab
from tests.support.page_actions import keys
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
from jp_nb.mcp.tool_calls.elicitations import make_answer, make_question
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
    form.notebook.reopen(status="busy")
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
    keys(form.notebook, "Enter")
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


# --- with servers --------------------------------------------------------------------------------


def configure(**servers: Scripted) -> str:
    """Return the source of a cell that configures `servers` in a new conversation."""
    lines = ["%jp new"]
    for name, server in servers.items():
        launch = server.launch
        assert is_kind(launch, "stdio_launch")
        key = f"providers.mcp.{name}"
        arguments = json.dumps(launch.arguments)
        lines.append(f"%jp config {key}.command={launch.command} {key}.arguments:='{arguments}'")
    return "\n".join(lines)


def kill(server: Scripted) -> None:
    """Kill the process of `server`."""
    assert is_kind(server.launch, "stdio_launch")
    script = server.launch.arguments[-1].encode()
    [process] = [each for each in Path("/proc").glob("[0-9]*") if script in read_command(each)]
    os.kill(int(process.name), signal.SIGKILL)


def read_command(process: Path) -> list[bytes]:
    """Return the words of the command of a process; none if it has ended."""
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def call(tool: str, **arguments: str) -> str:
    """Return a call of a scripted model."""
    fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in arguments.items())
    return f'{{ name = "{tool}", arguments = {{ {fields} }} }}'


def test_rule_that_is_kept_with_the_mouse_lets_the_next_call_run(opened: Opened, lab: Lab) -> None:
    pytest.importorskip("mcp")
    books = scripted(lab.root, calls={"read": [{"result": "A book."}]})
    first = call("books__read", path="data/a.txt")
    second = call("books__read", path="data/b.txt")
    replies = [f"tool_calls = [{first}]", 'text = "One."']
    replies += [f"tool_calls = [{second}]", 'text = "Two."']
    script = "\n".join(f"[[replies]]\n{reply}" for reply in replies)
    (lab.root / "rule.toml").write_text(script, encoding="utf-8")
    turn = "%%jp -m scripted/rule -t mcp.books\nGo."
    notebook = opened(configure(books=books), turn, "%%jp\nAgain.")
    notebook.run_cell(1)
    notebook.run_cell(2)

    form = FormOnPage(notebook)
    form.press("Always allow calls like this …")
    form.box.get_by_text('"data/a.txt"').wait_for()
    form.press("Change the conditions …")
    form.box.get_by_text('a path inside the folder "data"').click()
    form.press("Submit")
    form.box.get_by_text('"inside:data"').wait_for()
    form.press("Run, and keep the rule for this session")
    notebook.output_text(2, contains="One.")

    notebook.run_cell(3)  # no form appears
    text = notebook.output_text(3, contains="Two.")
    assert 'books__read(path="data/b.txt") (rule: path = "inside:data"' in text


def test_form_of_a_killed_server_makes_room_for_that_of_another_server(
    opened: Opened, lab: Lab
) -> None:
    pytest.importorskip("mcp")
    steps = [{"ask": {"who": FORM}}, {"answers": True}]
    servers = {name: scripted(lab.root, calls={"trip": steps}) for name in ("books", "maps")}
    calls = ", ".join(call(f"{name}__trip") for name in servers)
    script = f'[[replies]]\ntool_calls = [{calls}]\n[[replies]]\ntext = "Both."\n'
    (lab.root / "both.toml").write_text(script, encoding="utf-8")
    free = "\n%jp config " + " ".join(
        f"conversation.tools.{name}__trip.run=unattended" for name in servers
    )
    turn = "%%jp -m scripted/both -t mcp.books -t mcp.maps\nGo."
    notebook = opened(configure(**servers) + free, turn)
    notebook.run_cell(1)
    notebook.run_cell(2)

    form = FormOnPage(notebook)
    form.box.get_by_text("Which trip?").wait_for()
    asks_first = "books" if "books asks" in form.box.inner_text() else "maps"
    [other] = servers.keys() - {asks_first}
    form.box.get_by_label("city").fill("Rome")
    kill(servers[asks_first])
    form.box.get_by_text(f"{other} asks").wait_for()
    city = form.box.get_by_label("city")
    assert city.input_value() == ""
    city.fill("Delft")
    form.press("Submit")
    text = notebook.output_text(2, contains="Both.")
    assert f"✗ {asks_first}__trip() — Trip of the MCP server {asks_first}: " in text
    assert f"✓ {other}__trip()" in text
    assert "city: Delft" in text
