"""What all aids in the page have in common: settings, menus, languages, read-only notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from tests.support.browser import Lab, NotebookPage, Notebooks, OpenNotebook, Pages
from tests.support.page_actions import MODEL, question

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Route

pytestmark = pytest.mark.browser

ANSWER = "```python\nx = 1\n```\n\n```python\ny = '\u202e2'\n```\n"
ASK = "Ask about this error"
SOURCES = f"() => Array.from({MODEL}.cells, cell => cell.sharedModel.getSource())"
SET = """([plugin, settings]) => window.jupyterapp.serviceManager.settings.save(
    plugin, JSON.stringify(settings))"""
PAGE = "jp-nb:page"
TRANSLATION = "@jupyterlab/translation-extension:plugin"
MAKE_READ_ONLY = f"() => {{ {MODEL}.readOnly = true; }}"
DRAW_AGAIN = f"""() => {{
    const {{ outputs }} = {MODEL}.cells.get(0);
    outputs.set(0, outputs.get(0).toJSON());
}}"""
WORDS = {
    "Copy": "Kopieren",
    "Insert as cell": "Als Zelle einfügen",
    "Copy code block %1": "Codeblock %1 kopieren",
    "Insert as cell: code block %1": "Als Zelle einfügen: Codeblock %1",
    "Code block %1": "Codeblock %1",
    "Ask about this error": "Nach diesem Fehler fragen",
    "Turns": "Runden",
    "%1 tokens in, %2 out": "%1 Token hinein, %2 heraus",
    "Show Conversations of the Notebook": "Gespräche zeigen",
}
HEAD = {"": {"domain": "jp_nb", "language": "de", "plural_forms": "nplurals=2; plural=(n != 1);"}}


def record() -> dict[str, Any]:
    usage = {"input_tokens": 1234, "output_tokens": 5}
    events = [
        {"type": "turn_start"},
        {"type": "chat_request", "content": "How?"},
        {"type": "chat_response", "content": "So.", "metadata": {"usage": usage}},
    ]
    others = [{"conversation": {"id": "jp-c2", "title": "Older"}, "events": []}]
    return {"version": 1, "conversation": {"id": "jp-c3"}, "events": events, "others": others}


@pytest.fixture
def stored(lab: Lab, pages: Pages) -> Iterator[NotebookPage]:
    """A page of its own with an answer, a cell for a request, and an error."""
    sources = ["%%jp\nHow?", "%%jp\nLook at ", "1 / 0"]
    path = lab.write("aids.ipynb", sources, jp=record())
    notebook = nbformat.read(path, as_version=4)
    data = {"text/markdown": ANSWER, "text/plain": "x = 1"}
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", data=data)]
    error = {"ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["zero"]}
    notebook.cells[2].outputs = [nbformat.v4.new_output("error", **error)]
    nbformat.write(notebook, path)

    notebooks = Notebooks(lab, pages, "aids")
    page = notebooks.open_file(path, fresh=True)
    page.cell(0).locator(".jp-nb-code").first.wait_for()
    yield page
    notebooks.close()


def buttons(page: NotebookPage, cell: int) -> Locator:
    return page.cell(cell).locator(".jp-nb-button")


@pytest.mark.req("PAGE-1", "PAGE-4", "PAGE-5")
def test_settings_turn_each_aid_off_alone(stored: NotebookPage) -> None:
    page = stored
    buttons(page, 2).first.wait_for()
    assert buttons(page, 0).count() == 4
    offers = page.page.locator(".jp-Completer:visible .jp-Completer-item")
    write = page.page.keyboard.type
    try:
        page.page.evaluate(SET, [PAGE, {"codeButtons": False, "mentions": False}])
        page.reload()
        buttons(page, 2).first.wait_for()
        assert buttons(page, 0).count() == 0
        assert page.cell(0).locator(".jp-nb-code-warning").count() == 0

        page.cell(1).locator(".cm-content").click()
        page.page.keyboard.press("Control+End")
        write("@")
        page.page.wait_for_timeout(1500)
        assert offers.count() == 0
        page.page.evaluate(SET, [PAGE, {"errorButton": False}])
        page.reload()
        buttons(page, 0).first.wait_for(state="attached")
        assert buttons(page, 2).count() == 0

        page.cell(1).locator(".cm-content").click()
        page.page.keyboard.press("Control+End")
        write("@")
        offers.filter(has_text="@cell3").wait_for()
    finally:
        page.page.evaluate(SET, [PAGE, {}])


@pytest.mark.req("PAGE-1")
def test_buttons_name_their_block_and_keep_the_focus_while_the_answer_grows(
    stored: NotebookPage,
) -> None:
    page = stored
    names = [each.get_attribute("aria-label") for each in buttons(page, 0).all()]
    assert names == [
        "Copy code block 1",
        "Insert as cell: code block 1",
        "Copy code block 2",
        "Insert as cell: code block 2",
    ]
    insert = page.cell(0).get_by_role("button", name="Insert as cell: code block 2")
    insert.focus()
    insert.evaluate("button => { button.isOld = true; }")
    page.page.evaluate(DRAW_AGAIN)
    page.page.wait_for_function(
        "() => document.activeElement.ariaLabel === 'Insert as cell: code block 2'"
        " && !document.activeElement.isOld"
    )


@pytest.mark.req("PAGE-1", "PAGE-5")
def test_keys_on_a_button_are_no_shortcuts_of_the_notebook(stored: NotebookPage) -> None:
    page = stored
    before = page.page.evaluate(SOURCES)
    for cell in (0, 2):
        button = buttons(page, cell).first
        page.cell(cell).locator(".jp-InputPrompt").click()  # the notebook takes commands
        button.focus()
        for key in ("a", "b", "m"):
            page.page.keyboard.press(key)
        assert button.evaluate("button => button === document.activeElement")
    assert page.page.evaluate(SOURCES) == before


@pytest.mark.req("PAGE-2")
def test_code_with_characters_that_nobody_sees_has_a_warning(stored: NotebookPage) -> None:
    page = stored
    warning = page.cell(0).get_by_role("note")
    assert warning.count() == 1
    assert warning.inner_text() == (
        "Check the code before you run it: line 1 contains characters that are invisible or look "
        "like other characters."
    )
    block = page.cell(0).locator(".jp-nb-code").nth(1)
    assert block.locator(".jp-nb-code-warning").is_visible()
    insert = block.get_by_role("button", name="Insert as cell")
    insert.focus()
    button, note = insert.bounding_box(), warning.bounding_box()
    assert button is not None
    assert note is not None
    assert button["y"] + button["height"] <= note["y"]
    page.page.keyboard.press("Enter")
    page.page.wait_for_function(f"() => ({SOURCES})()[1] === \"y = '\\u202e2'\"")


@pytest.mark.req("PAGE-1", "PAGE-6")
def test_aids_change_nothing_in_a_read_only_notebook_and_say_so(stored: NotebookPage) -> None:
    page = stored
    page.page.evaluate(MAKE_READ_ONLY)
    before = page.page.evaluate(SOURCES)
    insert = buttons(page, 0).nth(1)
    insert.focus()
    page.page.keyboard.press("Enter")
    status = page.cell(0).locator(".jp-nb-code").first.get_by_role("status")
    status.get_by_text("The notebook is read-only").wait_for(state="attached")
    assert insert.inner_text() == "The notebook is read-only"
    page.command("jp-nb:new-request")
    assert page.page.evaluate(SOURCES) == before


@pytest.mark.req("PAGE-6")
def test_menus_and_palette_have_the_commands(stored: NotebookPage) -> None:
    page = stored.page
    for menu, command in (
        ("View", "Show Conversations of the Notebook"),
        ("Edit", "Insert Request Cell Below"),
    ):
        page.locator(".lm-MenuBar-itemLabel", has_text=menu).first.click()
        page.locator(".lm-Menu-itemLabel", has_text=command).wait_for()
        page.keyboard.press("Escape")

    stored.command("apputils:activate-command-palette", wait=False)
    page.locator(".lm-CommandPalette-input").fill("insert request cell below")
    page.locator(".lm-CommandPalette-itemLabel", has_text="Insert Request Cell Below").wait_for()
    page.keyboard.press("Escape")


@pytest.mark.req("PAGE-6")
def test_panel_has_lists_with_headings_and_switches_by_a_typed_command(
    stored: NotebookPage,
) -> None:
    stored.command("jp-nb:show-conversations")
    panel = stored.page.locator("#jp-nb-conversations")
    panel.get_by_role("heading", name="1  How?").wait_for()
    panel.get_by_role("heading", name="Older").wait_for()
    assert panel.get_by_role("list").count() == 2
    assert panel.get_by_role("listitem").count() == 3
    assert panel.get_by_text("1,234 tokens in, 5 out").count() == 1
    status = panel.get_by_role("status")
    assert status.inner_text() == "No question is open."
    paper = panel.evaluate("panel => getComputedStyle(panel).backgroundColor")
    for forced_colors in ("none", "active"):  # otherwise the bars of the chart are not seen
        stored.page.emulate_media(forced_colors=forced_colors)
        color = panel.locator(".jp-nb-bar").evaluate("bar => getComputedStyle(bar).backgroundColor")
        assert color not in (paper, "rgba(0, 0, 0, 0)", "rgb(255, 255, 255)")
    panel.get_by_role("button", name="Switch: %jp switch jp-c2").click()
    stored.page.wait_for_function(f"() => ({SOURCES})().includes('%jp switch jp-c2')")


@pytest.mark.req("PAGE-1", "PAGE-5", "PAGE-6")
def test_texts_and_numbers_follow_a_language_pack(stored: NotebookPage) -> None:
    page = stored
    bundle = {**HEAD, **{text: [words] for text, words in WORDS.items()}}

    def translate(route: Route) -> None:
        route.fulfill(json={"data": {"jp_nb": bundle}, "message": ""})

    page.page.route("**/api/translations/de*", translate)
    try:
        page.page.evaluate(SET, [TRANSLATION, {"locale": "de"}])
        page.reload()
        assert_translated(page)
    finally:
        page.page.evaluate(SET, [TRANSLATION, {}])


def assert_translated(page: NotebookPage) -> None:
    page.cell(0).get_by_role("button", name="Codeblock 1 kopieren").wait_for(state="attached")
    page.cell(2).get_by_role("button", name="Nach diesem Fehler fragen").wait_for()
    page.command("jp-nb:show-conversations")
    panel = page.page.locator("#jp-nb-conversations")
    panel.get_by_text("Runden").wait_for()
    panel.get_by_text("1.234 Token hinein, 5 heraus").wait_for()


@pytest.mark.req("PAGE-1")
def test_code_in_a_form_has_no_buttons(lab: Lab, open_notebook: OpenNotebook) -> None:
    script = question(question="Ship?", answer_type="boolean", context=ANSWER)
    (lab.root / "shown.toml").write_text(
        f"{script}[[replies]]\ntext = {json.dumps(ANSWER)}\n", encoding="utf-8"
    )
    page = open_notebook("%load_ext jp_nb", "%%jp -n -m scripted/shown\nGo.")
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    form = page.form()
    form.locator(".jp-nb-context pre").first.wait_for()
    assert form.locator(".jp-nb-context pre").count() == 2
    assert page.cell(1).locator(".jp-nb-code").count() == 0
    form.get_by_role("button", name="Yes", exact=True).click()
    page.cell(1).locator(".jp-nb-code").nth(1).wait_for()
