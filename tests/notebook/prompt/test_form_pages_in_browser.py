"""A form with pages in JupyterLab: keyboard, mouse, two pages, accessibility, notifications.

Settled otherwise: RCP-89 has a long question scroll by its own keys. Here the browser's keys scroll
the element with the focus, and its box is as high as fits.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.notebook.prompt.form_pages import FOUR, SCRIPT, TOOL, TURN, FormOnPage, axe_of
from tests.support.browser import Lab
from tests.support.page_actions import keys
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


def plan(opened: Opened) -> FormOnPage:
    """Run a turn whose tool asks four questions."""
    notebook = opened(TURN)
    notebook.run_cell(1)
    return FormOnPage(notebook)


@pytest.mark.req("RCP-21", "RCP-91", "RPI-57")
def test_form_is_answered_with_the_keyboard(opened: Opened) -> None:
    form = plan(opened)
    form.on(1)
    keyboard = form.page.keyboard
    form.wait_for_focus("input", "Postgres")  # what is recommended
    keys(form.notebook, "Enter")  # chooses nothing by itself
    form.box.get_by_text("You changed nothing here. Press Next to continue.").wait_for()
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    form.on(2)
    form.wait_for_focus("input", "logs")
    keyboard.press("Space")
    keyboard.press("ArrowDown")
    keyboard.press("ArrowDown")
    keyboard.press("Space")
    keyboard.press("Control+Enter")
    form.on(3)
    form.wait_for_focus("textarea", "Why?")
    keyboard.type("one")
    keyboard.press("Enter")
    keyboard.type("two")
    keyboard.press("Tab")
    form.wait_for_focus("button", "Back")
    keyboard.press("Enter")
    form.on(2)
    form.wait_for_focus("input", "logs")
    keyboard.press("Control+Enter")
    form.on(3)
    form.wait_for_focus("textarea", "Why?")
    keyboard.press("Control+Enter")
    form.on(4)
    form.wait_for_focus("input", "How many?")
    keyboard.type("7")
    keyboard.press("Escape")
    form.wait_for_focus("textarea", "Your reply, sent together with the answers so far:")
    keyboard.press("Escape")
    form.on(4)
    form.wait_for_focus("input", "How many?")
    keyboard.press("Tab")
    keyboard.press("Tab")
    form.wait_for_focus("button", "Submit")
    keyboard.press("Space")
    text = form.notebook.output_text(1, contains="Done.")
    answers = {"store": "SQLite", "extras": ["logs", "traces"], "why": "one\ntwo", "size": 7}
    assert f"answers {answers}" in text


# Sets `window.handled` once the kernel has read the text of a box.
WATCH = """typed => {
    const { kernel } = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    let sent;
    kernel.anyMessage.connect((_, { direction, msg }) => {
        if (direction === "send") {
            if (msg.content.data?.state?.value === typed) sent = msg.header.msg_id;
        } else if (sent && msg.parent_header.msg_id === sent) {
            window.handled ||= msg.content.execution_state === "idle";
        }
    });
}"""


@pytest.mark.req("RPI-58", "HB-12", "RPI-62")
def test_page_that_is_opened_again_shows_all_answers_and_a_reply_sends_them(opened: Opened) -> None:
    form = plan(opened)
    form.on(1)
    form.box.get_by_label("SQLite").check()
    form.turn("Next", 2)
    for name in ("traces", "logs"):
        form.box.get_by_label(name).check()
    form.turn("Next", 3)
    form.page.evaluate(WATCH, "half a sent")
    form.box.get_by_label("Why?").fill("half a sent")
    form.page.wait_for_function("window.handled")
    notebook = form.notebook
    notebook.save()  # the page that opens has only the saved outputs
    notebook.reopen(status="busy")
    form = FormOnPage(notebook)
    form.on(3)
    assert form.box.get_by_label("Why?").input_value() == "half a sent"
    for number in (2, 1):
        form.turn("Back", number)
    assert form.box.get_by_label("SQLite").is_checked()
    form.turn("Next", 2)
    form.box.get_by_text("(2 selected)").wait_for()

    form.press("Cancel")
    form.box.get_by_role("button", name="Stop the turn").wait_for()
    form.turn("Back", 2)
    assert form.box.get_by_label("traces").is_checked()
    form.press("Cancel")
    form.box.get_by_label("Your reply").fill("What would they cost?")
    form.press("Reply to the assistant")
    text = notebook.output_text(1, contains="Done.")
    answers = ("store? → SQLite", "extras? → traces, logs", "Why? → half a sent")
    for words in (*answers, "many? — no answer: cancelled", "What would they cost?"):
        assert words in text


# Notes whether the form says that the user is writing, which stops the time to answer.
SAYS_WRITING = """() => {
    const { kernel } = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    window.writing = [];
    kernel.anyMessage.connect((_, { direction, msg }) => {
        const said = msg.content.data?.content;
        if (direction === "send" && said?.type === "writing") window.writing.push(said.value);
    });
}"""


@pytest.mark.req("RPI-61", "RCP-88")
def test_form_with_a_deadline_says_who_writes_and_its_summary_leads_to_open_questions(
    opened: Opened,
) -> None:
    notebook = opened("print(ask_form(*FOUR, partial=True, menu=True, timeout_s=600))")
    notebook.page.evaluate(SAYS_WRITING)
    notebook.run_cell(1)
    form = FormOnPage(notebook)
    form.on(1)
    form.box.get_by_role("button", name="Next", exact=True).dblclick()  # turns one page
    form.on(2)
    form.turn("Back", 1)
    form.turn("Next", 2)
    form.turn("Next", 3)
    assert form.page.evaluate("window.writing") == []
    form.box.get_by_label("Why?").press("x")
    form.page.wait_for_function("window.writing.join() === 'true'")
    form.box.get_by_label("Why?").press("Backspace")
    form.turn("Next", 4)
    assert form.page.evaluate("window.writing") == [True, False]
    form.press("Submit")
    rows = form.on_summary()
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


# --- seen, heard, in any light ---------------------------------------------------------------


FIELDS = """
from jp_nb.toolkit.question_types.select_options import Option
PLANS = Question.select('plan', 'Which plan?', [
    Option(value='slow', description='It takes three days.'), 'fast',
], recommended=0, other=True).with_context('About **time**.')
from jp_nb.toolkit.question import FormAnswer
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
        f"{FIELDS}\nend = ask_form(PLANS, FOUR[1], SETTINGS, partial=True, menu=True)\n"
        "print('backwards', end.ends[2].value['key'][::-1])"
    )
    notebook.run_cell(1)
    form = FormOnPage(notebook)
    page = form.page
    found = {}
    page.set_viewport_size({"width": 800, "height": 1100})
    form.on(1, 3)
    assert page.get_by_role("group", name="Which plan?").count() >= 1
    assert form.box.locator(".jp-nb-progress").get_attribute("role") == "status"
    found["choice, light"] = axe_of(page)
    use_theme(form, "Dark")
    form.turn("Next", 2, 3)
    form.box.get_by_label("logs").check()
    found["several, dark"] = axe_of(page)
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
    notebook.screenshot(tmp_path / "problems.png")
    assert form.box.evaluate("form => form.scrollWidth <= form.clientWidth")
    form.box.get_by_label("Port").fill("8080")
    form.press("Cancel")
    form.box.get_by_role("button", name="Stop the turn").wait_for()
    use_theme(form, "Light")
    found["menu, light"] = axe_of(page)
    form.turn("Back", 3, 3)
    form.turn("Back", 2, 3)
    form.box.get_by_label("logs").uncheck()
    form.turn("Next", 3, 3)
    form.box.get_by_label("Name").fill("web")
    form.box.get_by_label("API key").fill("hunter2")
    form.press("Submit")
    form.box.get_by_text("Not every question is answered").wait_for()
    found["summary, light"] = axe_of(page)
    assert "hunter2" not in page.content()
    form.press("Send as it is")
    notebook.output_text(1, contains="backwards 2retnuh")
    notebook.save()
    assert "hunter2" not in json.dumps(notebook.saved())
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
    for number in (1, 2):
        form.on(number, 2)
        rendered = form.box.locator(".jp-nb-context, .jp-nb-about")
        rendered.locator("mjx-container").first.wait_for()  # nothing else is typeset
        harmful = form.page.locator(dangerous).evaluate_all(
            "all => all.filter(one => !one.closest('.jp-nb-context, .jp-nb-about')).length"
        )
        assert harmful == 0
        assert form.page.locator(".jp-nb-form :is(img, script, [onerror])").count() == 0
        assert form.box.evaluate("form => form.scrollWidth <= form.clientWidth")
        notebook.screenshot(tmp_path / f"hostile-{number}.png")
        if number < 2:
            form.press("Next")
    form.press("Submit")
    form.box.get_by_text("Not every question").wait_for()
    notebook.screenshot(tmp_path / "hostile-summary.png")
    assert form.page.locator(dangerous).count() == 0
    assert form.box.evaluate("form => form.scrollWidth <= form.clientWidth")
    assert form.box.get_by_text("not answered", exact=True).last.evaluate(IN_VIEW)
    form.press("Send as it is")
    notebook.output_text(1, contains="FormEnd")
    assert notebook.dialogs == []


# --- notifications ---------------------------------------------------------------------------

# Replaces the browser's notifications and visibility, and notes each notification.
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
NOTIFIES: list[tuple[bool, bool, int]] = [
    (True, True, 1),
    (True, False, 0),  # the form is in view
    (False, True, 0),
    (True, True, 0),  # of the question without notifications
]
"""Permission granted, page hidden, how often the browser notifies; for each question in order."""
TALL = "from IPython.display import HTML\nHTML('<div style=\"height: 3000px\">tall</div>')"
ASKS = """
import os, time
def which(n):
    return Question.select('q', f'Which {n}?', ['red', 'blue'])
ask(which(1), which(2), which(3), label='Store')
ask(which(4), notify=False)
while not os.path.exists('away'): time.sleep(0.02)
ask(which(5))
"""


@pytest.mark.req("RPI-45", "RPI-46", "RPI-48")
def test_browser_notifies_once_if_the_user_does_not_see_the_form(opened: Opened) -> None:
    notebook = opened(TALL, ASKS)
    page = notebook.page
    notebook.run_cell(1)
    notebook.output_text(1, contains="tall")
    page.evaluate(RECORD, NOTIFIES[0][:2])
    notebook.run_cell(2)
    for number, (*_, times) in enumerate(NOTIFIES, start=1):
        form = notebook.form()
        form.get_by_text(f"Which {number}?").wait_for()
        form.get_by_role("button", name="Submit").click()
        form.get_by_text("Please choose an option first.").wait_for()
        told = page.evaluate("window.told")
        assert len(told) == times
        for title, body, tag in told:
            assert title == "A notebook is waiting for your answer"
            assert body.startswith("Store · ")
            assert tag == "string"
        next_one = NOTIFIES[number] if number < len(NOTIFIES) else (True, False)
        page.evaluate(RECORD, next_one[:2])
        form.get_by_role("button", name="Cancel").click()

    notebook.cell(0).locator(".cm-content").click()  # the focus stays there
    notebook.path.with_name("away").touch()
    page.wait_for_function("window.told.length === 1")  # the form is scrolled out of sight
    page.evaluate("delete document.hidden")
    notebook.interrupt()
    notebook.wait_for_kernel_status("idle")
