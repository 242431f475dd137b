"""A form with pages in JupyterLab: walked by mouse and by keyboard, reloaded, left, timed out.

Settled otherwise: RCP-89 has a long question scroll by its own keys. Here the browser's keys scroll
whatever has the focus, and its box is as high as fits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Lab, OpenNotebook
from tests.support.form_pages import FOUR, LOAD, SCRIPT, TURN, FormOnPage, axe_of
from tests.support.prompt_pages import Opened

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def planned(lab: Lab, open_notebook: OpenNotebook) -> Any:
    """A function that opens a notebook whose turn asks four questions."""
    (lab.root / "plan.toml").write_text(SCRIPT, encoding="utf-8")

    def ask(*, classic: bool = False) -> FormOnPage:
        page = open_notebook(LOAD, TURN, classic=classic)
        page.run_cell(0)
        page.output_text(0, contains="kept in this notebook")
        page.run_cell(1)
        return FormOnPage(page)

    return ask


def asked(opened: Opened, code: str, *more: str, alone: bool = False) -> FormOnPage:
    notebook = opened(f"{FOUR}\nprint({code})", *more, alone=alone)
    notebook.run_cell(1)
    return FormOnPage(notebook)


# --- a turn's form, whole --------------------------------------------------------------------


@pytest.mark.req("RPI-1", "RPI-57", "RPI-58", "RPI-60")
@pytest.mark.parametrize("classic", [False, True], ids=["lab", "notebook"])
def test_a_turn_s_form_by_mouse(planned: Any, classic: bool) -> None:
    form = planned(classic=classic)
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
def test_a_turn_s_form_by_keyboard_alone(planned: Any) -> None:
    form = planned()
    form.on(1)
    keys = form.page.keyboard
    form.wait_for_focus("input", "Postgres")  # what is recommended
    form.page.wait_for_timeout(400)  # it ignores keys meant for what had the focus before
    keys.press("Enter")  # chooses nothing that nobody chose
    form.box.get_by_text("Nothing was changed here: press Next to go on.").wait_for()
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
def test_cancel_leads_to_a_reply_with_the_answers_so_far(planned: Any) -> None:
    form = planned()
    form.on(1)
    form.turn("Next", 2)
    form.box.get_by_label("metrics").check()
    form.press("Cancel")
    form.box.get_by_label("Your reply").fill("What would they cost?")
    form.press("Reply to the assistant")
    text = form.notebook.output_text(1, contains="Done.")
    assert "answers {'store': 'Postgres', 'extras': ['metrics']}" in text
    assert "reply What would they cost?" in text
    ends = {"store": "answered", "extras": "answered", "why": "cancelled", "size": "cancelled"}
    assert f"ends {ends}" in text


@pytest.mark.req("HB-12")
def test_cancel_stops_the_turn_or_leads_back(planned: Any) -> None:
    form = planned()
    form.on(1)
    form.turn("Next", 2)
    form.turn("Next", 3)
    form.box.get_by_label("Why?").fill("half a sent")
    form.press("Cancel")
    form.box.get_by_role("button", name="Stop the turn").wait_for()
    form.turn("Back", 3)
    assert form.box.get_by_label("Why?").input_value() == "half a sent"
    form.press("Cancel")
    form.press("Stop the turn")
    form.notebook.wait_for_kernel_status("idle")
    form.notebook.page.locator(".jp-nb-form").wait_for(state="detached")
    text = form.notebook.output_text(1)
    assert "Done." not in text
    assert "answers" not in text


# --- what may happen to it -------------------------------------------------------------------


@pytest.mark.req("RPI-61")
def test_the_summary_lists_what_is_open_and_leads_to_it(opened: Opened) -> None:
    form = asked(opened, "ask_form(*FOUR, partial=True, menu=True)")
    form.on(1)
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


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.req("RPI-58")
def test_a_reloaded_page_has_the_same_page_of_the_form_and_all_answers(
    planned: Any, saved: bool
) -> None:
    form = planned()
    form.on(1)
    form.box.get_by_label("SQLite").check()
    form.turn("Next", 2)
    for name in ("traces", "logs"):
        form.box.get_by_label(name).check()
    form.turn("Next", 3)
    form.box.get_by_label("Why?").fill("half a sent")
    form.turn("Back", 2)  # with it, what was typed is sent
    form.turn("Next", 3)
    if saved:
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


@pytest.mark.req("RCP-88")
def test_a_double_click_on_next_turns_one_page(opened: Opened) -> None:
    notebook = opened(f"{FOUR}\nprint(ask_form(*FOUR, partial=True))")
    notebook.run_cell(1)
    form = FormOnPage(notebook)
    form.on(1)
    form.box.get_by_role("button", name="Next", exact=True).dblclick()
    form.on(2)
    form.turn("Back", 1)


@pytest.mark.req("RPI-66", "RPI-68", "RPI-75", "HB-2")
def test_the_second_page_times_out_and_the_third_is_up(opened: Opened) -> None:
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


@pytest.mark.req("RPI-77", "RPI-80")
def test_an_interrupt_takes_it_away(opened: Opened) -> None:
    form = asked(opened, "ask_form(*FOUR, partial=True, menu=True)")
    form.on(1)
    form.turn("Next", 2)
    form.notebook.interrupt()
    text = form.notebook.output_text(1, contains="nswered(")
    assert "NotAnswered(end='interrupted', channel='form', by=None)" in text
    assert not form.box.is_visible()


def test_two_pages_of_the_browser_show_the_same_page_of_the_form(opened: Opened, lab: Lab) -> None:
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


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_an_accessibility_engine_finds_nothing_wrong_with_any_step(
    opened: Opened, theme: str, tmp_path: Path
) -> None:
    form = _with_fields(opened)
    page = form.page
    page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })",
        f"JupyterLab {theme}",
    )
    page.wait_for_function(
        "light => document.body.dataset.jpThemeLight === light", arg=str(theme == "Light").lower()
    )
    page.set_viewport_size({"width": 800, "height": 1100})
    found = {}
    form.on(1, 3)
    found["choice"] = axe_of(page)
    form.turn("Next", 2, 3)
    form.box.get_by_label("logs").check()
    found["several"] = axe_of(page)
    form.turn("Next", 3, 3)
    form.box.get_by_label("Port").fill("77000")
    form.press("Submit")
    form.box.get_by_text("Expected a whole number").wait_for()
    found["problems"] = axe_of(page)
    form.notebook.screenshot(tmp_path / "problems.png")
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
    found["summary"] = axe_of(page)
    assert "hunter2" not in page.content()
    form.press("Send as it is")
    form.notebook.output_text(1, contains="FormEnd")
    assert [each for step in found.values() for each in step] == []
    page.evaluate(
        "window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' })"
    )


def _with_fields(opened: Opened) -> FormOnPage:
    notebook = opened(
        f"{FOUR}{FIELDS}\nend = ask_form(FOUR[0], FOUR[1], SETTINGS, partial=True, menu=True)\n"
        "print(type(end))"
    )
    notebook.run_cell(1)
    return FormOnPage(notebook)


def test_names_descriptions_and_problems_are_there_for_who_does_not_see_them(
    opened: Opened,
) -> None:
    form = _with_fields(opened)
    form.on(1, 3)
    assert form.page.get_by_role("group", name="Which store?").count() >= 1
    assert form.box.locator(".jp-nb-progress").get_attribute("role") == "status"
    form.turn("Next", 2, 3)
    form.turn("Next", 3, 3)
    form.wait_for_focus("textarea", "Name")
    form.box.get_by_label("Port").fill("0")
    form.press("Submit")
    form.box.get_by_text("Expected a whole number").wait_for()
    described = """label => {
        const box = [...document.querySelectorAll('.jp-nb-form :is(input, textarea)')]
            .find(each => document.getElementById(each.getAttribute('aria-labelledby'))
                ?.textContent === label);
        const said = box.getAttribute('aria-describedby').split(' ')
            .map(id => document.getElementById(id).textContent.trim()).filter(Boolean);
        return [said, box.getAttribute('aria-required'), box.getAttribute('aria-invalid')];
    }"""
    assert form.page.evaluate(described, "Port") == [
        ["Expected a whole number from 1 to 65535"],
        "true",
        "true",
    ]
    said, *_ = form.page.evaluate(described, "Name")
    assert said[0] == "The name of the server."
    form.page.keyboard.press("Escape")
    form.press("Stop the turn")
    form.notebook.output_text(1, contains="FormEnd")


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
def test_hostile_and_right_to_left_text_is_shown_as_it_is(opened: Opened, tmp_path: Path) -> None:
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


@pytest.mark.req("RPI-45", "RPI-46", "RPI-48")
@pytest.mark.parametrize(
    ("granted", "hidden", "notify", "times"),
    [
        (True, True, True, 1),
        (True, False, True, 0),  # the form is in view
        (False, True, True, 0),
        (True, True, False, 0),
    ],
)
def test_the_browser_notifies_once_whom_the_form_does_not_reach(
    opened: Opened, granted: bool, hidden: bool, notify: bool, times: int
) -> None:
    notebook = opened(f"{FOUR}\nprint(ask_form(*FOUR, partial=True, notify={notify}))")
    notebook.page.evaluate(RECORD, [granted, hidden])
    notebook.run_cell(1)
    form = FormOnPage(notebook)
    form.on(1)
    form.turn("Next", 2)
    form.turn("Next", 3)
    told = form.page.evaluate("window.told")
    assert len(told) == times
    for title, body, tag in told:
        assert title == "A notebook waits for your answer"
        assert body.startswith("Store · ")
        assert tag == "string"
    form.press("Cancel")
    form.press("Throw it away")
    notebook.output_text(1, contains="cancelled")
    form.page.evaluate("delete document.hidden")
    assert json.dumps(told).count("asked") == 0


def test_a_form_that_is_scrolled_out_of_sight_notifies(opened: Opened) -> None:
    tall = "from IPython.display import HTML\nHTML('<div style=\"height: 3000px\">tall</div>')"
    wait = "import os, time\nwhile not os.path.exists('away'): time.sleep(0.02)"
    notebook = opened(tall, f"{FOUR}{wait}\nprint(ask_form(*FOUR))", "typing = 1", alone=True)
    notebook.run_cell(1)
    notebook.output_text(1, contains="tall")
    notebook.page.evaluate(RECORD, [True, False])
    notebook.run_cell(2)
    notebook.cell(0).locator(".cm-content").click()  # who types there keeps the focus
    notebook.path.with_name("away").touch()
    notebook.page.wait_for_function("window.told.length === 1")
    notebook.interrupt()
