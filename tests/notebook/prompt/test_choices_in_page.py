"""Options with more than labels, numbers and dates in JupyterLab, as far as the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import NotebookPage, OpenNotebook
from tests.support.page_actions import IN_SIGHT, LOAD, keys, load, picture
from tests.support.prompt_pages import Opened, answer_of

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PLANS = """Question.select('plan', 'Which plans?', [
    Option(value='parser', label='Rewrite the parser', description='It takes three days.'),
    Option(value='keep', label='Keep it', description='Nothing changes.\\n' * 5),
    'wait',
], other=True, multi={multi}, recommended=0)"""
MANY = "Question.select('n', 'Which?', [f'number {n}' for n in range(30)], multi=True, other=True)"
IMPORT = "from jp_nb.tooling.select_kind import Option\n"


def start(opened: Opened, question: str, **more: Any) -> NotebookPage:
    notebook = opened(f"{IMPORT}print(ask({question}))", **more)
    notebook.run_cell(1)
    notebook.form()
    return notebook


@pytest.mark.req("RPI-64", "RPI-56", "RCP-20", "HB-4", "RPI-52")
def test_several_and_an_own_text_are_picked_with_the_mouse(opened: Opened) -> None:
    notebook = start(opened, PLANS.format(multi=True))
    form = notebook.form()
    form.get_by_text("Submit").click()
    form.get_by_text("Press the button once more to answer: none of these.").wait_for()
    form.get_by_role("checkbox", name="wait").click()
    form.get_by_text("Rewrite the parser").click()
    form.get_by_role("checkbox", name="Other (type your own)").click()
    notebook.page.keyboard.type("and tests")
    form.get_by_text("(3 selected)").wait_for()
    picture(notebook, "several")
    form.get_by_text("Submit").click()
    answer = "value={'selected': ['wait', 'parser'], 'custom': 'and tests'}, channel='form'"
    assert answer in answer_of(notebook)
    notebook.save()
    assert "widget-view" not in str(notebook.saved())


@pytest.mark.req("HB-4", "RPI-52")
def test_none_of_several_is_sent_by_a_second_press_without_a_change_between(
    opened: Opened,
) -> None:
    notebook = start(opened, PLANS.format(multi=True))
    form = notebook.form()
    form.get_by_text("Submit").click()
    form.get_by_text("once more").wait_for()
    for _ in range(2):
        form.get_by_role("checkbox", name="wait").click()
    form.get_by_text("Submit").click()
    notebook.page.wait_for_timeout(500)
    assert form.is_visible()
    form.get_by_text("Submit").click()
    assert "value=[], channel='form'" in answer_of(notebook)


def test_no_letter_of_a_text_that_is_typed_at_once_is_lost(opened: Opened) -> None:
    notebook = start(opened, PLANS.format(multi=True))
    form = notebook.form()
    form.get_by_role("checkbox", name="Other (type your own)").click()
    form.evaluate(
        """form => {
            const now = performance.now;
            performance.now = () => 0; // still in the moment in which keys are not for the form
            const box = form.querySelector("textarea");
            window.kept = [" ", "a", "Enter"].map(key => box.dispatchEvent(
                new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })));
            performance.now = now;
        }"""
    )
    assert notebook.page.evaluate("window.kept") == [True, True, False]


KEYS: list[tuple[list[str], str]] = [
    (["Space", "Enter"], "value='parser'"),
    (["ArrowDown", "Enter"], "value='keep'"),
    (["ArrowDown", "ArrowDown", "ArrowDown", "Tab", "m", "y", "Control+Enter"], "'my'}"),
    (["Tab", "m", "y", "Shift+Tab", "ArrowUp", "Enter"], "value='wait'"),
    (["Tab", "Tab", "Enter"], "value='parser'"),
]


@pytest.mark.req("RPI-49", "RPI-22", "RCP-90", "RCP-91")
def test_one_option_is_picked_with_the_keyboard(opened: Opened) -> None:
    for pressed, answer in KEYS:
        notebook = start(opened, PLANS.format(multi=False))
        keys(notebook, *pressed)
        assert answer in answer_of(notebook)


@pytest.mark.req("RPI-89", "RPI-13")
def test_thirty_options_are_filtered_and_ticked_with_the_keyboard(opened: Opened) -> None:
    notebook = start(opened, MANY)
    form = notebook.form()
    keys(notebook, *"2 9", "Enter", "Space")  # in the filter Enter goes to what is found
    form.get_by_text("1 of 30 shown (1 selected)").wait_for()
    keys(notebook, "Shift+Tab")
    assert form.get_by_role("searchbox").evaluate("box => box === document.activeElement")
    keys(notebook, "Escape")
    assert form.is_visible()
    assert form.get_by_role("searchbox").input_value() == ""
    keys(notebook, "ArrowDown", "ArrowDown", "ArrowDown", "Space", "Enter")
    assert "value=['number 29', 'number 2']" in answer_of(notebook)


def test_reloaded_page_shows_the_picks_before_and_after_it_was_saved(
    open_notebook: OpenNotebook,
) -> None:
    ask = (
        "import jp_nb as jp\nname = 'Which?'\noptions = [f'number {n}' for n in range(30)]\n"
        "picked = jp.ask(jp.Question.select('n', name, options, multi=True, other=True))"
    )
    notebook = open_notebook(LOAD, ask, "print(picked)")
    load(notebook)
    notebook.save()
    notebook.run_cell(1)
    form = notebook.form()
    boxes = form.locator(".jp-nb-options input")
    for index in (29, 3, 29, 29):
        boxes.nth(index).click()
    form.locator(".jp-nb-own-text").fill("half a sent")
    form.get_by_role("searchbox").fill("9")
    for saved in (False, True):
        form.get_by_text("4 of 30 shown (3 selected)").wait_for()
        if saved:
            notebook.save()
        notebook.page.wait_for_timeout(1000)  # what was typed last is on its way
        notebook.reload(status="")
        form = notebook.form()
        boxes = form.locator(".jp-nb-options input")
    form.get_by_text("4 of 30 shown (3 selected)").wait_for()
    assert form.get_by_role("searchbox").input_value() == "9"
    assert form.locator(".jp-nb-own-text").input_value() == "half a sent"
    assert [n for n in range(30) if boxes.nth(n).is_checked()] == [3, 29]
    form.get_by_text("Submit").click()
    form.wait_for(state="hidden")
    notebook.wait_for_kernel_status("idle")
    notebook.run_cell(2)
    text = notebook.output_text(2, contains="selected")
    assert "'selected': ['number 3', 'number 29'], 'custom': 'half a sent'" in text


NARROW: ViewportSize = {"width": 800, "height": 900}
OUT_OF_SIGHT = """form => [...form.querySelectorAll("input, textarea, button, .jp-nb-option")]
    .filter(each => each.checkVisibility() && each.closest(".jp-nb-options") === null)
    .filter(each => each.getBoundingClientRect().right > form.getBoundingClientRect().right)
    .length"""


# How well a text is read on the form: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio. Its own
# background, if it has one, is the browser's to lay on top of the form's.
CONTRAST = """text => {
    const paint = document.createElement("canvas").getContext("2d");
    const form = text.closest(".jp-nb-form");
    const light = colours => {
        for (const colour of colours) {
            paint.fillStyle = colour;
            paint.fillRect(0, 0, 1, 1);
        }
        const [red, green, blue] = [...paint.getImageData(0, 0, 1, 1).data].map(part => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const paper = getComputedStyle(form).backgroundColor;
    const both = [light([paper]), light([paper, getComputedStyle(text).color])];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
}"""


def test_long_and_foreign_texts_are_readable_in_a_narrow_dark_window(opened: Opened) -> None:
    options = """[
        *(Option(value=n, label=f'{n} ' + 'a name that goes on ' * 12, description='x ' * 400)
          for n in range(28)),
        'עברית (א) <b>bold</b> \\u202egnp.exe',
        'W' * 300,
    ]"""
    question = f"Question.select('q', 'Which?', {options}, other=True, recommended=1)"
    notebook = opened(f"{IMPORT}print(ask({question}))")
    notebook.page.set_viewport_size(NARROW)
    notebook.page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })",
        "JupyterLab Dark",
    )
    notebook.run_cell(1)
    form = notebook.form()
    assert form.evaluate("form => form.scrollWidth <= form.clientWidth")
    assert form.evaluate(OUT_OF_SIGHT) == 0
    listed = form.locator(".jp-nb-options")
    assert listed.evaluate("list => list.scrollWidth <= list.clientWidth")
    assert listed.locator(".jp-nb-option-label").first.evaluate(CONTRAST) > 7
    assert listed.locator(".jp-nb-description").first.evaluate(CONTRAST) > 4.5
    assert listed.locator(".jp-nb-star").evaluate(CONTRAST) > 3
    picture(notebook, "long-dark")
    form.get_by_role("searchbox").fill("bold")
    form.get_by_text("<b>bold</b> ⟨U+202E⟩gnp.exe").click()
    form.get_by_text("Submit").click()
    assert "<b>bold</b>" in answer_of(notebook)
    notebook.page.evaluate(
        "window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' })"
    )


SCROLLS = "box => box.scrollHeight > box.clientHeight"


@pytest.mark.req("RCP-89", "RCP-91")
def test_long_texts_scroll_and_lose_nothing(opened: Opened) -> None:
    question = "Question.select('q', 'long ' * 300 + 'THE END', range(40), other=True)"
    notebook = start(opened, f"{question}.with_context('line\\n\\n' * 200 + 'THE LAST')")
    form = notebook.form()
    box = form.bounding_box()
    assert box is not None
    assert box["height"] < 1200
    line = form.locator(".jp-nb-question bdi")
    assert "THE END" in line.inner_text()
    assert line.evaluate(IN_SIGHT)
    context = form.locator(".jp-nb-context")
    assert "THE LAST" in context.inner_text()
    assert context.evaluate(SCROLLS)
    listed = form.locator(".jp-nb-options")
    assert listed.evaluate(SCROLLS)
    keys(notebook, "ArrowDown", "PageDown")
    notebook.page.wait_for_function(
        "document.querySelector('.jp-nb-form .jp-nb-options').scrollTop > 100"
    )


# --- numbers and dates -----------------------------------------------------------------------


TYPES = "from jp_nb.tooling.question_kinds import TextAnswer\n"
DATE = "Question(id='q', text='When?', answer_type=TextAnswer(format='date'))"


def test_number_out_of_bounds_and_half_a_date_are_no_answers(opened: Opened) -> None:
    notebook = start(opened, "Question.integer('n', 'How many?', minimum=1, maximum=5)")
    form = notebook.form()
    box = form.get_by_role("textbox", name="How many?")
    assert box.get_attribute("inputmode") == "numeric"
    keys(notebook, "7", "Enter")
    form.get_by_text("expected a whole number from 1 to 5").wait_for()
    assert box.input_value() == "7"
    picture(notebook, "number")
    keys(notebook, "Backspace", "4", "Enter")
    assert "value=4, channel='form'" in answer_of(notebook)
    notebook = opened(f"{TYPES}print(ask({DATE}))")
    notebook.run_cell(1)
    form = notebook.form()
    date = form.get_by_label("When?").and_(form.locator("input[type=date]"))
    keys(notebook, "1", "1", "Enter")
    form.get_by_text("expected a date such as 2026-11-23").wait_for()
    picture(notebook, "date")
    date.fill("2026-03-01")
    form.get_by_text("Submit").click()
    assert "value='2026-03-01', channel='form'" in answer_of(notebook)
