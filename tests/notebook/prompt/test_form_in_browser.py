"""A form with one question in JupyterLab: every control, hostile, long and exact text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import NotebookPage
from tests.support.exact_blocks import parse_object
from tests.support.page_actions import IN_SIGHT, click, keys, picture
from tests.support.prompt_pages import Opened, answer_of

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

FIRST_CELL = """
from in_cell import *
from jp_nb.toolkit.question_types.text_answer import TextAnswer
from jp_nb.toolkit.question_types.select_options import Option

def ask_each(*questions):
    for end in [ask(question)[0] for question in questions]:
        print(end)
    print("That was all.")
"""

# --- every control ---------------------------------------------------------------------------

HIDDEN = "a\\u200bb\\r\\n\\u202ec"


ACTIVE = """() => [...document.querySelectorAll('.jp-Notebook .jp-Cell')]
    .findIndex(cell => cell.classList.contains('jp-mod-active'))"""


def decide(page: NotebookPage, form: Locator) -> None:
    """Look at the buttons of a boolean question and choose one with the keyboard."""
    labels = form.get_by_role("button").all_inner_texts()
    assert labels == ["Yes (suggested)", "Yes, for this turn", "No", "No, for this turn", "Cancel"]
    assert page.page.title().startswith("● ")
    selected = page.page.evaluate(ACTIVE)
    keys(page, "Enter", "Space", "Control+Enter", "d", "d", "a")  # choose nothing
    form.get_by_text("to reach the buttons").wait_for()
    assert form.evaluate("form => form === document.activeElement")
    assert form.evaluate("form => getComputedStyle(form).outlineStyle") == "solid"
    keys(page, "ArrowRight", "ArrowDown")
    assert page.page.evaluate(ACTIVE) == selected  # no key is one of the notebook's
    keys(page, "Space")


def click_twice(page: NotebookPage, form: Locator) -> None:
    """Send the second click of two, which belonged to the form before, and choose with keys."""
    form.get_by_role("button", name="Yes", exact=True).dispatch_event("click", {"detail": 2})
    keys(page, "ArrowUp", "ArrowLeft", "Enter")


def keep_default(page: NotebookPage, form: Locator) -> None:
    """Choose the suggested option, which no key chooses by itself."""
    keys(page, "Enter", "Control+Enter")
    form.get_by_text("press Submit").wait_for()
    keys(page, "Space", "Enter")


def edit_hidden(page: NotebookPage, form: Locator) -> None:
    """Add a letter to a text with invisible characters."""
    form.get_by_text("stands for one invisible character").wait_for()
    assert form.locator("textarea").input_value() == "a⟨U+200B⟩b⟨U+000D⟩\n⟨U+202E⟩c"
    keys(page, "Control+Enter")
    form.get_by_text("press Submit").wait_for()
    keys(page, "Control+End", "!", "Control+Enter")


def enter_number(page: NotebookPage, form: Locator) -> None:
    """Enter a number that is out of bounds, then another one."""
    box = form.get_by_role("textbox")
    assert box.get_attribute("inputmode") == "numeric"
    keys(page, "7", "Enter")
    form.get_by_text("expected a whole number from 1 to 5").wait_for()
    assert box.input_value() == "7"
    keys(page, "Backspace", "4", "Enter")


def enter_date(page: NotebookPage, form: Locator) -> None:
    """Enter half a date, then a whole one."""
    keys(page, "1", "1", "Enter")
    form.get_by_text("expected a date such as 2026-11-23").wait_for()
    form.locator("input[type=date]").fill("2026-03-01")
    click(page, "Submit")


def press(*pressed: str) -> Callable[[NotebookPage, Locator], None]:
    """Return an action that presses keys."""
    return lambda page, _: keys(page, *pressed)


BOOLEAN = "Question.boolean('q', {!r})"
SELECT = "Question.select('q', {!r}, ['red', 'green', 'blue'])"
MANY = "Question.select('q', {!r}, [f'color {{n}}' for n in range(12)])"
OTHER = "Question.select('q', {!r}, ['red', 'green', 'blue'], other=True, recommended=0)"
TEXT = "Question.text('q', {!r})"
SECRET = "Question.secret('q', {!r})"
INTEGER = "Question.integer('q', {!r}, minimum=1, maximum=5)"
DATE = "Question(id='q', text={!r}, answer_type=TextAnswer(format='date'))"
WAYS: list[tuple[str, Callable[[NotebookPage, Locator], None], str]] = [
    (f"{BOOLEAN}.with_default(True)", decide, "value=True, channel='form', remember=True"),
    (BOOLEAN, click_twice, "value=False, channel='form', remember=True"),
    (f"{SELECT}.with_default('green')", keep_default, "value='green'"),
    (f"{SELECT}.with_default('green')", press("Tab", "Enter"), "value='green'"),
    (MANY, press("ArrowDown", "ArrowDown", "Enter"), "value='color 1'"),
    (OTHER, press("Tab", "m", "y", "Shift+Tab", "ArrowUp", "Enter"), "value='blue'"),
    (OTHER, press(*["ArrowDown"] * 3, "Tab", "m", "y", "Control+Enter"), "'custom': 'my'}"),
    (
        TEXT,
        press("a", "Enter", "b", "Shift+Enter", "c", "ArrowUp", "Home", "d", "Control+Enter"),
        "value='a\\ndb\\nc'",
    ),
    (f"{TEXT}.with_default('{HIDDEN}')", edit_hidden, f"value='{HIDDEN}!'"),
    (f"{TEXT}.with_default('so')", press("Tab", "Space"), "value='so'"),
    (SECRET, press("h", "ArrowLeft", "i", "Enter"), "value='ih'"),
    (SECRET, press("h", "ArrowDown", "Escape"), "NotAnswered(end='cancelled'"),
    (INTEGER, enter_number, "value=4"),
    (DATE, enter_date, "value='2026-03-01'"),
]


@pytest.mark.req("RPI-49", "RPI-22", "RCP-90", "RCP-91")
def test_each_control_is_answered_with_the_keyboard(opened: Opened) -> None:
    texts = [f"Question number {n}?" for n in range(len(WAYS))]
    asked = [question.format(text) for (question, *_), text in zip(WAYS, texts, strict=True)]
    page = opened(f"ask_each({', '.join(asked)})", "")
    page.run_cell(1, "Shift+Enter")  # selects the next cell; the form gets the focus
    for (_, answer, _), text in zip(WAYS, texts, strict=True):
        form = page.form()
        form.get_by_text(text).wait_for()
        assert page.page.get_by_role("group", name=text).count() >= 1
        answer(page, form)
    printed = page.output_text(1, contains="That was all.").split("That was all.")[0]
    ends = [line for line in printed.splitlines() if "nswered(" in line]
    for line, (question, _, end) in zip(ends, WAYS, strict=True):
        assert end in line, question
    assert page.page.locator(".jp-Notebook .jp-Cell").count() == 3
    page.page.wait_for_function("!document.title.startsWith('● ')")
    page.save()
    saved = str(page.saved())
    assert "widget-view" not in saved
    assert "No such comm" not in saved


def test_key_that_was_held_down_before_the_form_chooses_nothing(opened: Opened) -> None:
    notebook = opened(
        "import os, time\nfor name in ('Enter', 'Space'):\n"
        "    while not os.path.exists(f'held {name}'): time.sleep(0.02)\n"
        "    end = prompter.ask_in_cell(PERMISSION)\n"
        "    print(name, end)"
    )
    notebook.run_cell(1)
    page = notebook.page
    for name in ("Enter", "Space"):
        page.evaluate("document.activeElement.blur()")
        page.keyboard.down(name)
        notebook.path.with_name(f"held {name}").touch()
        form = notebook.form()
        keys(notebook)
        for _ in range(5):
            page.keyboard.down(name)  # once more without `up`: it repeats
        page.keyboard.up(name)
        page.keyboard.press("Tab")  # the form handles it after the others
        page.wait_for_function("document.activeElement.tagName === 'BUTTON'")
        assert form.is_visible()
        assert form.locator(".jp-nb-note").inner_text() == ""
        page.keyboard.press("Enter")
        notebook.output_text(1, contains=f"{name} Answered(value='run'")


# --- several options -------------------------------------------------------------------------

PLANS = """Question.select('plan', 'Which plans?', [
    Option(value='parser', label='Rewrite the parser', description='It takes three days.'),
    Option(value='keep', label='Keep it', description='Nothing changes.\\n' * 5),
    'wait',
], other=True, multi=True, recommended=0)"""
THIRTY = "Question.select('n', 'Which?', [f'number {n}' for n in range(30)], multi=True)"
TYPE_AT_ONCE = """form => {
    const now = performance.now;
    performance.now = () => 0; // as in the first moment, when the form ignores some keys
    const box = form.querySelector("textarea");
    const kept = [" ", "a", "Enter"].map(key => box.dispatchEvent(
        new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })));
    performance.now = now;
    return kept;
}"""


@pytest.mark.req("RPI-64", "RPI-56", "RCP-20", "HB-4", "RPI-52", "RPI-89", "RPI-13")
def test_several_options_are_picked_with_the_mouse_and_the_keyboard(opened: Opened) -> None:
    page = opened(f"ask_each({PLANS}, {THIRTY})")
    page.run_cell(1)
    form = page.form()
    once_more = form.get_by_text("Press the button again to answer: none of these.")
    click(page, "Submit")
    once_more.wait_for()
    for _ in range(2):
        form.get_by_role("checkbox", name="wait").click()
    once_more.wait_for(state="detached")
    click(page, "Submit")
    once_more.wait_for()
    form.get_by_role("checkbox", name="wait").click()
    form.get_by_text("Rewrite the parser").click()
    form.get_by_role("checkbox", name="Other (type your own)").click()
    assert form.evaluate(TYPE_AT_ONCE) == [True, True, False]
    page.page.keyboard.type("and tests")
    form.get_by_text("(3 selected)").wait_for()
    picture(page, "several")
    click(page, "Submit")
    form = page.form()
    form.get_by_text("Which?").wait_for()
    keys(page, *"2 9", "Enter", "Space")  # in the filter, Enter moves to the first match
    form.get_by_text("1 of 30 shown (1 selected)").wait_for()
    keys(page, "Shift+Tab")
    assert form.get_by_role("searchbox").evaluate("box => box === document.activeElement")
    keys(page, "Escape")
    assert form.is_visible()
    assert form.get_by_role("searchbox").input_value() == ""
    keys(page, "ArrowDown", "ArrowDown", "ArrowDown", "Space", "Enter")
    printed = page.output_text(1, contains="That was all.")
    assert "value={'selected': ['wait', 'parser'], 'custom': 'and tests'}" in printed
    assert "value=['number 29', 'number 2']" in printed


# --- messages that no form sends -------------------------------------------------------------

NOTE_COMMS = """() => {
    const { kernel } = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    window.comms = [];
    kernel.anyMessage.connect((_, { direction, msg }) => {
        if (direction === "recv" && msg.header.msg_type === "comm_open") {
            window.comms.push(msg.content.comm_id);
        }
    });
}"""
FORGE = """contents => {
    const { kernel } = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    const { clientId: session, username } = kernel;
    const send = (msg_type, content) => {
        const header = {
            msg_id: crypto.randomUUID(), msg_type, session, username,
            date: new Date().toISOString(), version: "5.3",
        };
        const message = { channel: "shell", header, parent_header: {}, metadata: {}, buffers: [] };
        kernel.sendShellMessage({ ...message, content }, false, true);
    };
    for (const comm_id of window.comms) {
        for (const data of contents) send("comm_msg", { comm_id, data });
        send("comm_open", { comm_id, target_name: "jupyter.widget", data: {} });
        send("comm_close", { comm_id, data: {} });
    }
    send("comm_msg", { comm_id: "no such comm", data: {} });
    return window.comms.length;
}"""
FORGED: list[Any] = [
    {"method": "update", "state": {"index": 99, "value": 5, "children": [], "_esm": "x"}},
    {"method": "update", "state": {"description": "A lie", "options": ["A lie"]}},
    {"method": "custom", "content": ["click"]},
    {"method": "custom", "content": {"type": "submit", "step": 0, "index": 99}},
    {"method": "custom", "content": {"type": ["submit"], "step": {}}},
    {"method": "update", "state": "x"},
    "x",
]


def test_messages_that_no_form_sends_change_nothing(opened: Opened) -> None:
    page = opened(f"print(ask({SELECT.format('Which?')}))")
    page.page.evaluate(NOTE_COMMS)
    page.run_cell(1)
    form = page.form()
    assert page.page.evaluate(FORGE, FORGED) > 10
    form.get_by_text("Please choose an option first.").wait_for()
    form.get_by_label("green").check()
    click(page, "Submit")
    assert "value='green'" in answer_of(page)
    page.wait_for_kernel_status("idle")
    text = page.output_text(1)
    assert "A lie" not in text
    assert "Error" not in text
    assert "comm" not in text


# --- long, hostile and exact text ------------------------------------------------------------

LONG = """Question.select('q', 'long ' * 300 + 'THE END', [
    *(Option(value=n, label=f'{n} ' + 'a long name ' * 20, description='x ' * 400)
      for n in range(28)),
    'עברית (א) <b>bold</b> \\u202egnp.exe',
    'W' * 300,
], other=True, recommended=1).with_context('line\\n\\n' * 200 + 'THE LAST')"""
OUT_OF_SIGHT = """form => [...form.querySelectorAll("input, textarea, button, .jp-nb-option")]
    .filter(each => each.checkVisibility() && each.closest(".jp-nb-options") === null)
    .filter(each => each.getBoundingClientRect().right > form.getBoundingClientRect().right)
    .length"""
SCROLLS = "box => box.scrollHeight > box.clientHeight"


@pytest.mark.req("RCP-89", "RCP-91")
def test_long_and_foreign_texts_scroll_in_a_narrow_window(opened: Opened) -> None:
    page = opened(f"print(ask({LONG}))")
    page.page.set_viewport_size({"width": 800, "height": 900})
    page.run_cell(1)
    form = page.form()
    keys(page)
    box = form.bounding_box()
    assert box is not None
    assert box["height"] < 1200
    assert form.evaluate("form => form.scrollWidth <= form.clientWidth")
    assert form.evaluate(OUT_OF_SIGHT) == 0
    listed = form.locator(".jp-nb-options")
    assert listed.evaluate("list => list.scrollWidth <= list.clientWidth")
    assert listed.evaluate(SCROLLS)
    keys(page, "ArrowDown", "PageDown")
    page.page.wait_for_function(
        "document.querySelector('.jp-nb-form .jp-nb-options').scrollTop > 100"
    )
    line = form.locator(".jp-nb-question bdi")
    assert "THE END" in line.inner_text()
    assert line.evaluate(IN_SIGHT)
    context = form.locator(".jp-nb-context")
    assert "THE LAST" in context.inner_text()
    assert context.evaluate(SCROLLS)
    picture(page, "long")
    form.get_by_role("searchbox").fill("bold")
    form.get_by_text("<b>bold</b> ⟨U+202E⟩gnp.exe").click()
    click(page, "Submit")
    assert "<b>bold</b>" in answer_of(page)


EVIL = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "$\\\\href{javascript:alert(3)}{click}$ $$\\\\frac{1}{2}$$",
    "[md](javascript:alert(4)) <a href=javascript:alert(5)>a</a>",
    "\\u202egnp.exe\\x1b[31m\\x00",
    "W" * 3000,
    '"onfocus=alert(6) autofocus x="',
]
HOSTILE = """
evil = [{evil}]
all_of_it = ' '.join(evil)
question = Question.select('q', all_of_it, evil).with_context('\\n'.join(evil * 10))
words = ', '.join(f'"word {{n}}"' for n in range(300))
changes = (
    ProposedChange(all_of_it, None, evil[0]),
    ProposedChange(evil[2], evil[3], evil[5]),
    ProposedChange('assistant.model.parameters.stop_words', f'[{{words}}]', '["THE LAST"]'),
    ProposedChange('assistant.name', None, '"' + 'x' * 5000 + 'THE END"'),
    *(ProposedChange(f'conversation.tools.t.options.k{{n}}', None, f'{{n}}') for n in range(40)),
)
print(prompter.ask_in_cell(QuestionPrompt(question, label=all_of_it, tool=all_of_it)).value[:5])
print(prompter.ask_in_cell(ActionPrompt(
    all_of_it, (Action('y', all_of_it, 'yes'), Action('n', evil[0], 'no')), label=all_of_it,
    exhibits=(PromptDetail(all_of_it, all_of_it), PromptDetail('Arguments', {{all_of_it: evil}})),
    changes=changes,
)))
"""
DANGEROUS = "img, script, a, mjx-container, .MathJax, [onfocus], [onerror]"


@pytest.mark.req("R078-75", "R078-77")
def test_hostile_text_runs_nothing_and_every_change_can_be_read(
    opened: Opened, tmp_path: Path
) -> None:
    texts = ", ".join(f'"""{text}"""' if '"' not in text else f"'{text}'" for text in EVIL)
    page = opened(HOSTILE.format(evil=texts))
    page.run_cell(1)
    form = page.form()
    # Only the context is rendered as an answer is, formulas included.
    form.locator(".jp-nb-context mjx-container").first.wait_for()
    harmful = ".jp-nb-context :is(img, script, [onfocus], [onerror], [href^=javascript])"
    assert form.locator(harmful).count() == 0
    assert form.locator(f":is({DANGEROUS}):not(.jp-nb-context *)").count() == 0
    page.screenshot(tmp_path / "question.png", form)
    assert is_within_cell(page, form)
    form.locator("input").nth(1).check()
    click(page, "Submit")
    page.output_text(1, contains="<scri")
    form = page.form()
    table = form.locator("table")
    table.wait_for()
    for text in ("word 299", "THE LAST", "THE END", "options.k39"):
        line = table.locator("bdi", has_text=text).locator("visible=true").last
        assert line.evaluate(IN_SIGHT), text
    assert form.locator(DANGEROUS).count() == 0
    page.screenshot(tmp_path / "actions.png", form)
    assert is_within_cell(page, form)
    form.locator(".jp-nb-actions button").nth(1).click()
    page.output_text(1, contains="Answered(value='no'")
    page.wait_for_kernel_status("idle")
    assert page.cell(1).locator(".jp-OutputArea").locator(DANGEROUS).count() == 0
    assert page.dialogs == []


def is_within_cell(page: NotebookPage, form: Locator) -> bool:
    """Return True if the form is no wider than the cell and its buttons are inside of it."""
    area = page.cell(1).locator(".jp-OutputArea").first.bounding_box()
    box = form.bounding_box()
    last = form.locator(".jp-nb-actions button").last.bounding_box()
    assert area is not None and box is not None and last is not None  # noqa: PT018
    return bool(
        box["width"] <= area["width"]
        and box["height"] < 2000  # two exhibits, a table and long labels, each of which scrolls
        and last["x"] + last["width"] <= box["x"] + box["width"] + 1
    )


ARGUMENTS: dict[str, Any] = {
    "path": "notes \u200b\u3164\u202egnp.md",
    "content": "".join(f"line {n}  of  a file\n" for n in range(118))
    + "│ path: fake\t\u2028\x9b31m \n    <b>x</b> $x$ שלום 12 (א) "
    + "w" * 300
    + "\n",
    "edits": [{"old": "a\nb", "new": ""}],
}
EXACT = """
import json
arguments = json.loads({!r})
long = {{"text": "\\n".join(f"line {{n}}" for n in range(60_000))}}
print(prompter.ask_in_cell(ActionPrompt(
    "Run local write_file tool?", (Action("y", "Run", "run"),),
    exhibits=(
        PromptDetail("Folder", "/home/ada"),
        PromptDetail("Arguments", arguments),
        PromptDetail("Long", long),
    ),
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


def test_exact_text_is_shown_in_order_and_a_very_long_one_in_parts(opened: Opened) -> None:
    page = opened(EXACT.format(json.dumps(ARGUMENTS)))
    page.page.set_viewport_size({"width": 800, "height": 900})
    page.run_cell(1)
    form = page.form()
    boxes = form.locator(".jp-nb-exact")
    folder, arguments, _ = boxes.evaluate_all(LINES)
    assert folder == ["/home/ada"]
    assert "  │ line 7  of  a file" in arguments
    assert "content: 120 lines" in arguments
    assert json.dumps(parse_object(arguments)) == json.dumps(ARGUMENTS)
    assert boxes.nth(1).evaluate(SHAPE) == {
        "inOrder": True,
        "bars": True,
        "wide": False,
        "tall": True,  # the rest can be scrolled to
        "monospaced": True,
    }
    form.get_by_text("Part 1 of 61: lines 1 to 1000 of 60001").wait_for()
    assert boxes.nth(2).locator(".widget-html-content > div").count() == 1000
    boxes.nth(2).locator("div div").last.scroll_into_view_if_needed()
    click(page, "Next part")
    form.get_by_text("│ line 999").wait_for()
    assert boxes.nth(2).locator(".widget-html-content").evaluate("box => box.scrollTop") == 0
    form.get_by_role("button", name="Previous part").focus()
    keys(page, "Enter")
    form.get_by_text("Part 1 of 61").wait_for()
    click(page, "Previous part")
    form.get_by_text("│ line 59999").wait_for()
    click(page, "Run")
    assert "value='run'" in answer_of(page)
