"""A form with pages in JupyterLab and Notebook 7: mouse, keyboard, reload, ways out, time.

Settled otherwise: RCP-89 has a long question scroll by its own keys. Here the browser's keys scroll
whatever has the focus, and its box is as high as fits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.prompt.form_pages import FOUR, SCRIPT, TOOL, TURN, FormOnPage, axe_of
from tests.support.browser import Lab
from tests.support.prompt_pages import Opened

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


# A tool that asks, and prompts without a turn.
FIRST_CELL = f"{TOOL}\nfrom in_cell import *\n{FOUR}"


@pytest.fixture(autouse=True)
def script(lab: Lab) -> None:
    (lab.root / "plan.toml").write_text(SCRIPT, encoding="utf-8")


def plan(opened: Opened, **where: bool) -> FormOnPage:
    """Run a turn whose tool asks four questions."""
    notebook = opened(TURN, **where)
    notebook.run_cell(1)
    return FormOnPage(notebook)


def asked(opened: Opened, code: str, *more: str, alone: bool = False) -> FormOnPage:
    """Run `code`, which shows a form and returns its end."""
    notebook = opened(f"print({code})", *more, alone=alone)
    notebook.run_cell(1)
    return FormOnPage(notebook)


# --- a turn's form, whole --------------------------------------------------------------------


@pytest.mark.req("RPI-1", "RPI-57", "RPI-58", "RPI-60")
def test_form_in_notebook_7_is_answered_with_the_mouse(opened: Opened) -> None:
    form = plan(opened, classic=True)
    box = form.on(1)
    assert box.get_by_text("Store", exact=True).is_visible()
    assert box.get_by_role("button", name="Back").is_disabled()
    box.get_by_label("SQLite").check()
    form.turn("Next", 2)
    box.get_by_label("traces").check()
    box.get_by_label("logs").check()
    box.get_by_label("Your own answer").fill("and <b>alerts</b>")
    form.turn("Next", 3)
    box.get_by_label("Why?").fill("so\nthere")
    form.turn("Back", 2)
    assert box.get_by_label("Your own answer").input_value() == "and <b>alerts</b>"
    form.turn("Back", 1)
    assert box.get_by_label("SQLite").is_checked()
    form.turn("Next", 2)
    form.turn("Next", 3)
    assert box.get_by_label("Why?").input_value() == "so\nthere"
    form.turn("Next", 4)
    assert box.get_by_role("button", name="Next").count() == 0
    box.get_by_label("How many?").fill("3")
    form.press("Submit")
    text = form.notebook.output_text(1, contains="Done.")
    answers = {
        "store": "SQLite",
        "extras": {"selected": ["traces", "logs"], "custom": "and <b>alerts</b>"},
        "why": "so\nthere",
        "size": 3,
    }
    assert f"answers {answers}" in text
    assert box.count() == 0


@pytest.mark.req("RCP-21", "RCP-91", "RPI-57")
def test_form_is_answered_with_the_keyboard(opened: Opened) -> None:
    form = plan(opened)
    form.on(1)
    keys = form.page.keyboard
    form.wait_for_focus("input", "Postgres")  # what is recommended
    form.page.wait_for_timeout(400)  # it ignores keys meant for what had the focus before
    keys.press("Enter")  # chooses nothing by itself
    form.box.get_by_text("You changed nothing here. Press Next to continue.").wait_for()
    keys.press("ArrowDown")
    keys.press("Enter")
    form.on(2)
    form.wait_for_focus("input", "logs")
    keys.press("Space")
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    keys.press("Space")
    keys.press("Control+Enter")
    form.on(3)
    form.wait_for_focus("textarea", "Why?")
    keys.type("one")
    keys.press("Enter")
    keys.type("two")
    keys.press("Tab")
    form.wait_for_focus("button", "Back")
    keys.press("Enter")
    form.on(2)
    form.wait_for_focus("input", "logs")
    keys.press("Control+Enter")
    form.on(3)
    form.wait_for_focus("textarea", "Why?")
    keys.press("Control+Enter")
    form.on(4)
    form.wait_for_focus("input", "How many?")
    keys.type("7")
    keys.press("Escape")
    form.wait_for_focus("textarea", "Your reply, sent together with the answers so far:")
    keys.press("Escape")
    form.on(4)
    form.wait_for_focus("input", "How many?")
    keys.press("Tab")
    keys.press("Tab")
    form.wait_for_focus("button", "Submit")
    keys.press("Space")
    text = form.notebook.output_text(1, contains="Done.")
    answers = {"store": "SQLite", "extras": ["logs", "traces"], "why": "one\ntwo", "size": 7}
    assert f"answers {answers}" in text


@pytest.mark.req("HB-12", "RPI-62")
def test_cancel_leads_back_to_a_reply_or_to_the_end_of_the_turn(opened: Opened) -> None:
    form = plan(opened)
    form.on(1)
    form.turn("Next", 2)
    form.box.get_by_label("metrics").check()
    form.press("Cancel")
    form.box.get_by_role("button", name="Stop the turn").wait_for()
    form.turn("Back", 2)
    assert form.box.get_by_label("metrics").is_checked()
    form.press("Cancel")
    form.box.get_by_label("Your reply").fill("What would they cost?")
    form.press("Reply to the assistant")
    text = form.notebook.output_text(1, contains="Done.")
    assert "answers {'store': 'Postgres', 'extras': ['metrics']}" in text
    assert "reply What would they cost?" in text
    ends = {"store": "answered", "extras": "answered", "why": "cancelled", "size": "cancelled"}
    assert f"ends {ends}" in text
    form = plan(opened)
    form.on(1)
    form.press("Cancel")
    form.press("Stop the turn")
    form.notebook.wait_for_kernel_status("idle")
    form.notebook.page.locator(".jp-nb-form").wait_for(state="detached")
    text = form.notebook.output_text(1)
    assert "Done." not in text
    assert "answers" not in text


# --- what may happen to it -------------------------------------------------------------------


@pytest.mark.req("RPI-61", "RCP-88")
def test_summary_lists_open_questions_and_leads_to_them(opened: Opened) -> None:
    form = asked(opened, "ask_form(*FOUR, partial=True, menu=True)")
    form.on(1)
    form.box.get_by_role("button", name="Next", exact=True).dblclick()  # turns one page
    form.on(2)
    form.turn("Back", 1)
    for number in (2, 3, 4):
        form.turn("Next", number)
    form.press("Submit")
    rows = form.box.get_by_role("listitem")
    rows.first.wait_for()
    assert [row.inner_text().split("\n")[0] for row in rows.all()] == [
        "1. Which store?",
        "2. Which extras?",
        "3. Why?",
        "4. How many?",
    ]
    assert rows.nth(0).get_by_text("Postgres").is_visible()
    assert rows.nth(3).get_by_text("not answered").is_visible()
    rows.nth(1).get_by_role("button", name="None of these: Which extras?").click()
    form.box.get_by_role("listitem").nth(1).locator("b", has_text="none of these").wait_for()
    form.box.get_by_role("button", name="Answer: How many?").click()
    form.on(4)
    form.box.get_by_label("How many?").fill("0")
    form.press("Submit")
    form.box.get_by_text("Expected a whole number from 1 to 9").wait_for()
    form.wait_for_focus("input", "How many?")
    assert form.box.get_by_label("How many?").get_attribute("aria-invalid") == "true"
    form.box.get_by_label("How many?").fill("1")
    form.press("Submit")
    form.press("Send as it is")
    text = form.notebook.output_text(1, contains="FormEnd")
    assert text.count("Answered(value=") == 3
    assert "Answered(value=[]" in text
    assert text.count("end='declined'") == 1


@pytest.mark.req("RPI-58")
def test_reloaded_page_shows_the_same_page_of_the_form_with_all_answers(
    opened: Opened,
) -> None:
    form = plan(opened)
    form.on(1)
    form.box.get_by_label("SQLite").check()
    form.turn("Next", 2)
    for name in ("traces", "logs"):
        form.box.get_by_label(name).check()
    form.turn("Next", 3)
    form.box.get_by_label("Why?").fill("half a sent")
    form.turn("Back", 2)  # with it, what was typed is sent
    form.turn("Next", 3)
    form.notebook.save()
    form.notebook.reload(status="busy")
    form = FormOnPage(form.notebook)
    form.on(3)
    assert form.box.get_by_label("Why?").input_value() == "half a sent"
    form.turn("Back", 2)
    assert form.box.get_by_text("(2 selected)").is_visible()
    form.turn("Next", 3)
    form.turn("Next", 4)
    form.box.get_by_label("How many?").fill("2")
    form.press("Submit")
    text = form.notebook.output_text(1, contains="Done.")
    for words in ("store? → SQLite", "extras? → traces, logs", "Why? → half a sent", "many? → 2"):
        assert words in text


@pytest.mark.req("RPI-66", "RPI-68", "RPI-75", "HB-2")
def test_after_the_time_of_the_second_page_the_third_is_up(opened: Opened) -> None:
    quick = "ask_form(FOUR[0], FOUR[1], FOUR[2], partial=True, timeout=3)"
    form = asked(opened, quick)
    form.on(1, 3)
    form.turn("Next", 2, 3)
    form.box.get_by_label("traces").check()
    form.on(3, 3)  # by itself
    form.box.get_by_label("Why?").fill("because")
    form.page.wait_for_timeout(3500)  # longer than there is time: it waits for who writes
    form.press("Submit")
    text = form.notebook.output_text(1, contains="FormEnd")
    assert "Answered(value='Postgres', channel='form', remember=False, marks=frozenset(), " in text
    assert (
        "value=['traces'], channel='form', remember=False, marks=frozenset({'timed_out'})" in text
    )
    assert "value='because'" in text


def test_two_pages_of_the_browser_show_the_same_page_of_the_form(opened: Opened) -> None:
    form = asked(opened, "ask_form(*FOUR, partial=True)", alone=True)
    form.on(1)
    form.notebook.save()  # another page has no outputs but the saved ones
    other = form.page.context.new_page()
    other.goto(form.page.url)
    second = NotebookPageLike(other)
    second.on("Question 1 of 4")
    form.box.get_by_label("Redis").check()
    form.turn("Next", 2)
    second.on("Question 2 of 4")
    second.press("Next")
    form.on(3)
    second.on("Question 3 of 4")
    form.turn("Next", 4)
    second.on("Question 4 of 4")
    form.box.get_by_label("How many?").fill("5")
    form.press("Submit")
    form.press("Send as it is")
    text = form.notebook.output_text(1, contains="FormEnd")
    assert "value='Redis'" in text
    other.locator(".jp-nb-form").wait_for(state="detached")
    other.close()


class NotebookPageLike:
    """The form in a second page of the browser."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def on(self, text: str) -> None:
        self.page.locator(".jp-nb-form[role='group']").get_by_text(text).wait_for()

    def press(self, label: str) -> None:
        self.page.locator(".jp-nb-form").get_by_role("button", name=label, exact=True).click()


# --- seen, heard, in any light ---------------------------------------------------------------


FIELDS = """
from jp_nb.tooling.question import FormAnswer
SETTINGS = Question(id='f', text='Server settings', answer_type=FormAnswer(fields=(
    Question.text('name', 'Name').with_context('The name of the *server*.'),
    Question.integer('port', 'Port', minimum=1, maximum=65535).with_default(8080),
    Question.boolean('tls', 'TLS').with_required(False),
    Question.secret('key', 'API key'),
    Question(id='day', text='Day', answer_type={'type': 'text', 'format': 'date'}
             ).with_required(False),
)))
"""


DESCRIBED = """label => {
    const box = [...document.querySelectorAll('.jp-nb-form :is(input, textarea)')]
        .find(each => document.getElementById(each.getAttribute('aria-labelledby'))
            ?.textContent === label);
    const about = box.getAttribute('aria-describedby').split(' ')
        .map(id => document.getElementById(id).textContent.trim()).filter(Boolean);
    return [about, box.getAttribute('aria-required'), box.getAttribute('aria-invalid')];
}"""


def use_theme(form: FormOnPage, theme: str) -> None:
    """Switch JupyterLab to a theme, `Light` or `Dark`."""
    form.page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })",
        f"JupyterLab {theme}",
    )
    form.page.wait_for_function(
        "light => document.body.dataset.jpThemeLight === light", arg=str(theme == "Light").lower()
    )


def test_every_step_is_accessible_in_light_or_dark(opened: Opened, tmp_path: Path) -> None:
    notebook = opened(
        f"{FIELDS}\nend = ask_form(FOUR[0], FOUR[1], SETTINGS, partial=True, menu=True)\n"
        "print(type(end))"
    )
    notebook.run_cell(1)
    form = FormOnPage(notebook)
    page, found = form.page, {}
    page.set_viewport_size({"width": 800, "height": 1100})
    use_theme(form, "Light")
    form.on(1, 3)
    assert page.get_by_role("group", name="Which store?").count() >= 1
    assert form.box.locator(".jp-nb-progress").get_attribute("role") == "status"
    found["choice"] = axe_of(page)
    form.turn("Next", 2, 3)
    form.box.get_by_label("logs").check()
    use_theme(form, "Dark")
    found["several"] = axe_of(page)
    form.turn("Next", 3, 3)
    form.wait_for_focus("textarea", "Name")
    form.box.get_by_label("Port").fill("77000")
    form.press("Submit")
    form.box.get_by_text("Expected a whole number").wait_for()
    assert page.evaluate(DESCRIBED, "Port") == [
        ["Expected a whole number from 1 to 65535"],
        "true",
        "true",
    ]
    about, *_ = page.evaluate(DESCRIBED, "Name")
    assert about[0] == "The name of the server."
    found["problems, dark"] = axe_of(page)
    use_theme(form, "Light")
    found["problems"] = axe_of(page)
    notebook.screenshot(tmp_path / "problems.png")
    assert form.box.evaluate("form => form.scrollWidth <= form.clientWidth")
    form.box.get_by_label("Port").fill("8080")
    form.press("Cancel")
    form.box.get_by_role("button", name="Stop the turn").wait_for()
    found["menu"] = axe_of(page)
    form.turn("Back", 3, 3)
    form.turn("Back", 2, 3)
    form.box.get_by_label("logs").uncheck()
    form.turn("Next", 3, 3)
    form.box.get_by_label("Name").fill("web")
    form.box.get_by_label("API key").fill("hunter2")
    form.press("Submit")
    form.box.get_by_text("Not every question is answered").wait_for()
    use_theme(form, "Dark")
    found["summary"] = axe_of(page)
    use_theme(form, "Light")
    assert "hunter2" not in page.content()
    form.press("Send as it is")
    notebook.output_text(1, contains="FormEnd")
    assert [each for step in found.values() for each in step] == []


IN_VIEW = """words => {
    const { x, y, width, height } = words.getBoundingClientRect();
    const found = document.elementFromPoint(x + width / 2, y + height / 2);
    return words.contains(found) || found.contains(words);
}"""
EVIL = """
EVIL = '<img src=x onerror=alert(1)> $\\\\frac{1}{2}$ \\u202egnp.exe \\x1b[31m ' + 'W' * 300
RTL = 'مرحبا بالعالم (a) شكرا'
HOSTILE = [
    Question.select('q1', EVIL, [EVIL, RTL, 'x'], other=True).with_header(EVIL).with_context(EVIL),
    Question(id='q2', text=RTL, answer_type={'type': 'form', 'fields': [
        {'id': 'a', 'text': EVIL, 'context': EVIL, 'answer_type': {'type': 'text'}},
        {'id': 'b', 'text': RTL, 'answer_type': {'type': 'integer'}},
    ]}).with_header(RTL),
    Question.text('q3', EVIL),
]
"""


@pytest.mark.req("RPI-38")
def test_hostile_and_right_to_left_text_runs_nothing(opened: Opened, tmp_path: Path) -> None:
    notebook = opened(
        f"{EVIL}\nend = ask_form(*HOSTILE, partial=True, menu=True)\nprint(type(end))"
    )
    notebook.run_cell(1)
    form = FormOnPage(notebook)
    form.page.set_viewport_size({"width": 800, "height": 1000})
    dangerous = ".jp-nb-form :is(img, script, [onerror], .MathJax, mjx-container)"
    for number in (1, 2, 3):
        form.on(number, 3)
        form.page.wait_for_timeout(300)  # for mathematics to be typeset, if it were
        harmful = form.page.locator(dangerous).evaluate_all(
            "all => all.filter(one => !one.closest('.jp-nb-context, .jp-nb-about')).length"
        )
        assert harmful == 0
        assert form.page.locator(".jp-nb-form :is(img, script, [onerror])").count() == 0
        assert form.box.evaluate("form => form.scrollWidth <= form.clientWidth")
        notebook.screenshot(tmp_path / f"hostile-{number}.png")
        if number < 3:
            form.press("Next")
    form.press("Submit")
    form.box.get_by_text("Not every question").wait_for()
    notebook.screenshot(tmp_path / "hostile-summary.png")
    assert form.page.locator(dangerous).count() == 0
    assert form.box.evaluate("form => form.scrollWidth <= form.clientWidth")
    assert form.box.get_by_text("not answered", exact=True).nth(2).evaluate(IN_VIEW)
    form.press("Send as it is")
    notebook.output_text(1, contains="FormEnd")
    assert notebook.dialogs == []


# --- told of it ------------------------------------------------------------------------------

RECORD = """([granted, hidden]) => {
    window.told = [];
    class Told {
        static permission = granted ? "granted" : "default";
        static requestPermission() { window.told.push("asked"); }
        constructor(title, { body, tag }) { window.told.push([title, body, typeof tag]); }
        close() {}
    }
    window.Notification = Told;
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
}"""


NOTIFIES: list[tuple[bool, bool, bool, int]] = [
    (True, True, True, 1),
    (True, False, True, 0),  # the form is in view
    (False, True, True, 0),
    (True, True, False, 0),
]
"""Permission granted, page hidden, notification configured; how often the browser notifies."""


@pytest.mark.req("RPI-45", "RPI-46", "RPI-48")
def test_browser_notifies_once_if_the_user_does_not_see_the_form(opened: Opened) -> None:
    for granted, hidden, notify, times in NOTIFIES:
        notebook = opened(f"print(ask_form(*FOUR, partial=True, notify={notify}))")
        notebook.page.evaluate(RECORD, [granted, hidden])
        notebook.run_cell(1)
        form = FormOnPage(notebook)
        form.on(1)
        form.turn("Next", 2)
        told = form.page.evaluate("window.told")
        assert len(told) == times
        for title, body, tag in told:
            assert title == "A notebook waits for your answer"
            assert body.startswith("Store · ")
            assert tag == "string"
        form.press("Cancel")
        form.press("Discard")
        notebook.output_text(1, contains="cancelled")
        form.page.evaluate("delete document.hidden")
        assert json.dumps(told).count("asked") == 0


def test_form_that_is_scrolled_out_of_sight_notifies(opened: Opened) -> None:
    tall = "from IPython.display import HTML\nHTML('<div style=\"height: 3000px\">tall</div>')"
    wait = "import os, time\nwhile not os.path.exists('away'): time.sleep(0.02)"
    notebook = opened(tall, f"{wait}\nprint(ask_form(*FOUR))", "typing = 1", alone=True)
    notebook.run_cell(1)
    notebook.output_text(1, contains="tall")
    notebook.page.evaluate(RECORD, [True, False])
    notebook.run_cell(2)
    notebook.cell(0).locator(".cm-content").click()  # who types there keeps the focus
    notebook.path.with_name("away").touch()
    notebook.page.wait_for_function("window.told.length === 1")
    notebook.interrupt()
    notebook.cell(2).scroll_into_view_if_needed()
    notebook.output_text(2, contains="interrupted")
