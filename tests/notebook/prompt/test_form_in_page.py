"""A form with one question in JupyterLab: seen, clicked, typed into, reloaded, interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import NotebookPage
from tests.support.page_actions import IN_SIGHT
from tests.support.prompt_pages import BOOLEAN, Opened, answer_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SELECT = "Question.select('which', 'Which?', ['red', 'green', 'blue'])"
MANY = "Question.select('which', 'Which?', [f'colour {n}' for n in range(12)])"
TEXT = "Question.text('why', 'Why?')"
SECRET = "Question.secret('key', 'Key?')"


def settle(notebook: NotebookPage) -> None:
    """Let the time pass in which keys still belong to what had the focus before."""
    notebook.page.wait_for_timeout(400)


DEFAULT = "a\\u200bb\\r\\n\\u202ec"
CLICKS: list[tuple[str, Callable[[Any], None], str]] = [
    (SELECT, lambda form: form.get_by_label("green").check(), "'green'"),
    (MANY, lambda form: form.locator("select").select_option("colour 7"), "'colour 7'"),
    (TEXT, lambda form: form.locator("textarea").fill("no\nreason"), "'no\\nreason'"),
    (SECRET, lambda form: form.locator("input").fill("hunter2"), "'hunter2'"),
]


def test_each_kind_of_question_is_answered_with_the_mouse(opened: Opened) -> None:
    for question, clicks, answer in CLICKS:
        notebook = opened(f"print(ask({question}))")
        notebook.run_cell(1)
        form = notebook.form()
        if question == SELECT:
            form.get_by_text("Submit").click()
            form.get_by_text("Please choose an option first.").wait_for()
        clicks(form)
        form.get_by_text("Submit").click()
        assert f"value={answer}" in answer_of(notebook)
        notebook.save()
        assert "widget-view" not in str(notebook.saved())
        assert "No such comm" not in str(notebook.saved())


ACTIVE = """() => [...document.querySelectorAll('.jp-Notebook .jp-Cell')]
    .findIndex(cell => cell.classList.contains('jp-mod-active'))"""
PRESSES: list[tuple[str, list[str], str]] = [
    (BOOLEAN, ["Tab", "Enter"], "value=True, channel='form', remember=False"),
    (BOOLEAN, ["ArrowRight", "ArrowDown", "Space"], "value=True, channel='form', remember=True"),
    (BOOLEAN, ["ArrowUp", "ArrowLeft", "Enter"], "value=False, channel='form', remember=True"),
    (BOOLEAN, ["Escape"], "NotAnswered(end='cancelled', channel='form', by=None)"),
    (f"{SELECT}.with_default('green')", ["Space", "Enter"], "value='green'"),
    (f"{SELECT}.with_default('green')", ["Tab", "Enter"], "value='green'"),
    (SELECT, ["ArrowDown", "ArrowDown", "Enter"], "value='blue'"),
    (MANY, ["ArrowDown", "ArrowDown", "Enter"], "value='colour 1'"),
    (MANY, ["Escape"], "NotAnswered(end='cancelled'"),
    (
        TEXT,
        ["a", "Enter", "b", "Shift+Enter", "c", "ArrowUp", "Home", "d", "Control+Enter"],
        "value='a\\ndb\\nc'",
    ),
    (f"{TEXT}.with_default('so')", ["Tab", "Space"], "value='so'"),
    (SECRET, ["h", "ArrowLeft", "i", "Enter"], "value='ih'"),
    (SECRET, ["h", "ArrowDown", "Escape"], "NotAnswered(end='cancelled'"),
]


def test_each_kind_of_question_is_answered_with_the_keyboard(opened: Opened) -> None:
    for question, keys, answer in PRESSES:
        notebook = opened(f"print(ask({question}))", "")
        notebook.run_cell(1, "Shift+Enter")  # the selection moves on, the focus lands in the form
        notebook.form()
        settle(notebook)
        selected = notebook.page.evaluate(ACTIVE)
        for key in keys[:-1]:
            notebook.page.keyboard.press(key)
        assert notebook.page.evaluate(ACTIVE) == selected
        notebook.page.keyboard.press(keys[-1])
        assert answer in answer_of(notebook)
        assert notebook.page.locator(".jp-Notebook .jp-Cell").count() == 3


def test_text_with_characters_that_cannot_be_seen_is_edited_as_it_is(opened: Opened) -> None:
    notebook = opened(f"print(ask({TEXT}.with_default('{DEFAULT}')))")
    notebook.run_cell(1)
    form = notebook.form()
    box = form.locator("textarea")
    assert box.input_value() == "a⟨U+200B⟩b⟨U+000D⟩\n⟨U+202E⟩c"
    form.get_by_text("stands for one invisible character").wait_for()
    box.press("Control+End")
    box.type("!")
    form.get_by_text("Submit").click()
    assert f"value='{DEFAULT}!'" in answer_of(notebook)


CONSENTS = {
    "boolean": f"ask({BOOLEAN}.with_default(True))",
    "permission": "prompter.ask_here(PERMISSION)",
    "apply": """propose('t', ProposedChange('a.b', '"x"', '"y"'))""",
    "select": f"ask({SELECT}.with_default('green'))",
    "text": f"ask({TEXT}.with_default('so'))",
}


def test_no_key_selects_an_option_that_the_user_did_not_select(opened: Opened) -> None:
    for kind, code in CONSENTS.items():
        notebook = opened(f"print({code})")
        notebook.run_cell(1)
        form = notebook.form()
        settle(notebook)
        keys = ["Enter", "Space", "Control+Enter", "d", "d", "a"]
        if kind == "text":
            keys = ["Control+Enter"]
        elif kind == "select":
            keys = ["Enter", "Control+Enter"]
        for key in keys:
            notebook.page.keyboard.press(key)
        note = form.locator(".jp-nb-note[role='status']")
        expected = "press Submit" if kind in ("text", "select") else "goes to the but"
        note.get_by_text(expected).wait_for()
        assert notebook.page.locator(".jp-Notebook .jp-Cell").count() == 2
        assert form.is_visible()
        notebook.page.keyboard.press("Escape")
        if kind == "apply":  # Esc decides nothing there
            form.get_by_text("Reject", exact=True).click()
        notebook.output_text(1, contains="rejected" if kind == "apply" else "end='cancelled'")


def test_key_that_was_held_down_before_the_form_chooses_nothing(opened: Opened) -> None:
    wait = "import os, time\nwhile not os.path.exists('held'): time.sleep(0.02)"
    for key in ("Enter", "Escape", " "):
        notebook = opened(f"{wait}\nprint(prompter.ask_here(PERMISSION))")
        held = notebook.path.with_name("held")
        held.unlink(missing_ok=True)
        notebook.run_cell(1)
        page = notebook.page
        page.evaluate("document.activeElement.blur()")
        page.keyboard.down(key)
        held.touch()
        form = notebook.form()
        settle(notebook)
        for _ in range(5):
            page.keyboard.down(key)  # once more without `up`: it repeats
        page.keyboard.up(key)
        page.keyboard.press("Tab")  # heard after the others
        page.wait_for_function("document.activeElement.tagName === 'BUTTON'")
        assert form.is_visible()
        assert form.locator(".jp-nb-note").inner_text() == ""
        page.keyboard.press("Enter")
        assert "value='run'" in answer_of(notebook)


def test_second_click_of_two_presses_nothing_of_the_next_form(opened: Opened) -> None:
    notebook = opened(f"print(ask({BOOLEAN}, {BOOLEAN.replace('sure', 'really')}))")
    notebook.run_cell(1)
    form = notebook.form()
    first = form.element_handle()
    form.get_by_role("button", name="Yes", exact=True).click()
    notebook.page.wait_for_function("form => !form.isConnected", arg=first)
    notebook.form().get_by_role("button", name="Yes", exact=True).dispatch_event(
        "click", {"detail": 2}
    )
    notebook.form().get_by_role("button", name="No", exact=True).click()
    text = answer_of(notebook)
    assert text.count("value=True") == 1
    assert text.count("value=False") == 1


def test_form_shows_the_suggestion_has_the_focus_and_marks_the_title(opened: Opened) -> None:
    suggests = f"{BOOLEAN}.with_default(True)"
    notebook = opened(f"print(ask({suggests}))", f"print(ask({BOOLEAN}, notify=False))")
    notebook.run_cell(1)
    form = notebook.form()
    labels = form.get_by_role("button").all_inner_texts()
    assert labels == [
        "Yes (suggested)",
        "Yes, for this turn",
        "No",
        "No, for this turn",
        "Cancel",
    ]
    assert form.evaluate("form => form === document.activeElement")
    assert form.evaluate("form => getComputedStyle(form).outlineStyle") == "solid"
    assert notebook.page.get_by_role("group", name="Sure?").count() == 1
    for cell, marked in ((1, True), (2, False)):
        if cell == 2:
            notebook.run_cell(2)
        form = notebook.form()
        assert notebook.page.title().startswith("● ") is marked
        form.get_by_text("Cancel").click()
        answer_of(notebook, cell)
        notebook.page.wait_for_function("!document.title.startsWith('● ')")


def test_typing_in_another_cell_keeps_the_focus_there(opened: Opened) -> None:
    wait = "import os, time\nwhile not os.path.exists('typing'): time.sleep(0.02)"
    notebook = opened(f"{wait}\nprint(ask({BOOLEAN}))", "x = 1")
    notebook.run_cell(1)
    notebook.cell(2).locator(".cm-content").click()
    notebook.path.with_name("typing").touch()
    form = notebook.form()
    settle(notebook)
    notebook.page.keyboard.press("End")
    notebook.page.keyboard.type(" + 22")
    assert "x = 1 + 22" in notebook.cell(2).inner_text()
    assert form.is_visible()


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


def test_reloaded_page_shows_the_form_with_the_typed_text(opened: Opened) -> None:
    notebook = opened(f"answers = ask({TEXT})", "print(answers)", alone=True)
    notebook.run_cell(1)
    textarea = notebook.form().locator("textarea")
    notebook.page.evaluate(WATCH, "half a sent")
    textarea.fill("half a sent")
    notebook.page.wait_for_function("window.handled")
    notebook.save()
    notebook.reload(status="")
    form = notebook.form()
    assert form.locator("textarea").input_value() == "half a sent"
    form.locator("textarea").fill("half a sentence")
    form.get_by_text("Submit").click()
    form.wait_for(state="hidden")
    notebook.wait_for_kernel_status("idle")
    notebook.run_cell(2)
    assert "'half a sentence'" in answer_of(notebook, 2)


def test_interrupt_closes_the_form_and_input_works(opened: Opened) -> None:
    notebook = opened(f"print(ask({BOOLEAN}))", "print(input())")
    notebook.run_cell(1)
    form = notebook.form()
    notebook.interrupt()
    assert "NotAnswered(end='interrupted', channel='form', by=None)" in answer_of(notebook)
    assert not form.is_visible()
    notebook.run_cell(2)
    notebook.page.locator(".jp-Stdin-input").fill("still here")
    notebook.page.keyboard.press("Enter")
    assert notebook.output_text(2, contains="still here")


CHANGES = """
words = ', '.join(f'"word {n}"' for n in range(300))
changes = [
    ProposedChange('assistant.model.id', '"anthropic/opus"', '"anthropic/sonnet"'),
    ProposedChange('assistant.model.parameters.temperature', '0.7', None),
    ProposedChange('assistant.model.parameters.stop_words', f'[{words}]', '["first", "THE LAST"]'),
    ProposedChange('assistant.name', None, '"' + 'x' * 5000 + 'THE END"'),
    *(ProposedChange(f'conversation.tools.t.options.k{n}', None, f'{n}') for n in range(40)),
]
"""


@pytest.mark.req("R078-75", "R078-77")
def test_every_change_can_be_read_before_the_changes_are_rejected(
    opened: Opened, tmp_path: Path
) -> None:
    notebook = opened(f"{CHANGES}\nprint(propose('change_model', *changes))")
    notebook.run_cell(1)
    form = notebook.form()
    notebook.screenshot(tmp_path / "changes.png", form)
    assert within(notebook, form)
    table = form.locator("table")
    for text in ("word 299", "THE LAST", "THE END", "options.k39"):
        line = table.locator("bdi", has_text=text).locator("visible=true").last
        assert line.evaluate(IN_SIGHT), text
    notebook.screenshot(tmp_path / "changes_end.png", form)
    form.get_by_text("Reject", exact=True).click()
    made = "Approval(decision='rejected', channel='form', reason='', by=None)"
    notebook.output_text(1, contains=made)


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
print(prompter.ask_here(QuestionPrompt(question, label=all_of_it, tool=all_of_it)).value[:5])
print(prompter.ask_here(ActionPrompt(
    all_of_it, (Action('y', all_of_it, 'yes'), Action('n', evil[0], 'no')), label=all_of_it,
    exhibits=(Exhibit(all_of_it, all_of_it), Exhibit('Arguments', {{all_of_it: evil}})), changes=(
        ProposedChange(all_of_it, None, evil[0]), ProposedChange(evil[2], evil[3], evil[5]),
    ),
)).value[:5])
"""


def test_hostile_text_runs_nothing_and_breaks_nothing(opened: Opened, tmp_path: Path) -> None:
    texts = ", ".join(f'"""{text}"""' if '"' not in text else f"'{text}'" for text in EVIL)
    notebook = opened(HOSTILE.format(evil=texts))
    notebook.run_cell(1)
    form = notebook.form()
    notebook.page.wait_for_timeout(1000)  # for mathematics to be typeset, if it were
    dangerous = "img, script, a, mjx-container, .MathJax, [onfocus], [onerror]"
    context = ".jp-nb-context"  # is rendered, as an answer is: formulas, links to the web
    harmful = f"{context} :is(img, script, [onfocus], [onerror], [href^=javascript])"
    assert form.locator(harmful).count() == 0
    assert form.locator(f":is({dangerous}):not({context} *)").count() == 0
    notebook.screenshot(tmp_path / "question.png", form)
    assert within(notebook, form)
    form.locator("input").nth(1).check()
    form.get_by_text("Submit", exact=True).click()
    notebook.output_text(1, contains="<scri")
    form = notebook.form()
    form.locator("table").wait_for()  # the second one
    notebook.page.wait_for_timeout(500)
    assert form.locator(dangerous).count() == 0
    notebook.screenshot(tmp_path / "actions.png", form)
    assert within(notebook, form)
    form.locator(".jp-nb-actions button").nth(1).click()
    notebook.output_text(1, contains="no")
    notebook.wait_for_kernel_status("idle")
    rendered = notebook.cell(1).locator(".jp-OutputArea")
    assert rendered.locator(dangerous).count() == 0
    assert notebook.dialogs == []


def within(notebook: NotebookPage, form: Any) -> bool:
    """Return whether the form is no wider than the cell, with all buttons in reach."""
    area = notebook.cell(1).locator(".jp-OutputArea").first.bounding_box()
    box = form.bounding_box()
    last = form.locator(".jp-nb-actions button").last.bounding_box()
    assert area is not None and box is not None and last is not None  # noqa: PT018
    return bool(
        box["width"] <= area["width"]
        and box["height"] < 2000  # two exhibits, a table and long labels, each of which scrolls
        and last["x"] + last["width"] <= box["x"] + box["width"] + 1
    )
