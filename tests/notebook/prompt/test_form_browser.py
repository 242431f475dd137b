"""The forms in JupyterLab: seen, clicked, typed into, reloaded, interrupted, restarted."""

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


@pytest.mark.parametrize(
    ("question", "clicks", "answer"),
    [
        (SELECT, lambda form: form.get_by_label("green").check(), "'green'"),
        (MANY, lambda form: form.locator("select").select_option("colour 7"), "'colour 7'"),
        (TEXT, lambda form: form.locator("textarea").fill("no\nreason"), "'no\\nreason'"),
        (SECRET, lambda form: form.locator("input").fill("hunter2"), "'hunter2'"),
    ],
    ids=["select", "many", "text", "secret"],
)
def test_answered_with_the_mouse(
    opened: Opened, question: str, clicks: Callable[[Any], None], answer: str
) -> None:
    notebook = opened(f"print(ask({question}))")
    notebook.run_cell(1)
    form = notebook.form()
    clicks(form)
    form.get_by_text("Submit").click()
    assert f"value={answer}" in answer_of(notebook)
    notebook.save()
    assert "widget-view" not in str(notebook.saved())
    assert "No such comm" not in str(notebook.saved())


@pytest.mark.parametrize(
    ("question", "keys", "answer"),
    [
        (BOOLEAN, ["Tab", "Enter"], "True, channel='form', remember=False"),
        (BOOLEAN, ["ArrowRight", "ArrowDown", "Space"], "True, channel='form', remember=True"),
        (BOOLEAN, ["ArrowUp", "ArrowLeft", "Enter"], "False, channel='form', remember=True"),
        (f"{SELECT}.with_default('green')", ["Space", "Enter"], "'green'"),
        (f"{SELECT}.with_default('green')", ["Tab", "Enter"], "'green'"),
        (f"{TEXT}.with_default('so')", ["Tab", "Space"], "'so'"),
        (SELECT, ["ArrowDown", "ArrowDown", "Enter"], "'blue'"),
        (MANY, ["ArrowDown", "ArrowDown", "Enter"], "'colour 1'"),
        (TEXT, ["a", "Enter", "b", "Shift+Enter", "c", "Control+Enter"], "'a\\nb\\nc'"),
        (SECRET, ["h", "i", "Enter"], "'hi'"),
    ],
)
def test_answered_with_the_keyboard(
    opened: Opened, question: str, keys: list[str], answer: str
) -> None:
    notebook = opened(f"print(ask({question}))", "")
    notebook.run_cell(1, "Shift+Enter")  # the selection moves on, the focus lands in the form
    notebook.form()
    settle(notebook)
    for key in keys:
        notebook.page.keyboard.press(key)
    assert f"value={answer}" in answer_of(notebook)
    assert notebook.page.locator(".jp-Notebook .jp-Cell").count() == 3


@pytest.mark.parametrize("question", [BOOLEAN, SELECT, MANY, TEXT, SECRET])
def test_escape_cancels(opened: Opened, question: str) -> None:
    notebook = opened(f"print(ask({question}))")
    notebook.run_cell(1)
    notebook.form()
    settle(notebook)
    notebook.page.keyboard.press("Escape")
    assert "NotAnswered(end='cancelled', channel='form', by=None)" in answer_of(notebook)


def test_nothing_chosen_is_said(opened: Opened) -> None:
    notebook = opened(f"print(ask({SELECT}))")
    notebook.run_cell(1)
    form = notebook.form()
    form.get_by_text("Submit").click()
    form.get_by_text("Please choose an option first.").wait_for()
    form.get_by_label("red").check()
    form.get_by_text("Submit").click()
    assert "'red'" in answer_of(notebook)


CONSENTS = {
    "boolean": f"ask({BOOLEAN}.with_default(True))",
    "permission": "prompter.ask_here(PERMISSION)",
    "apply": """propose('t', ProposedChange('a.b', '"x"', '"y"'))""",
    "select": f"ask({SELECT}.with_default('green'))",
    "text": f"ask({TEXT}.with_default('so'))",
}


@pytest.mark.parametrize("kind", CONSENTS)
def test_no_key_chooses_what_nobody_chose(opened: Opened, kind: str) -> None:
    notebook = opened(f"print({CONSENTS[kind]})")
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
    said = form.locator(".jp-nb-note[role='status']")
    said.get_by_text("press Submit" if kind in ("text", "select") else "goes to the but").wait_for()
    assert notebook.page.locator(".jp-Notebook .jp-Cell").count() == 2
    assert form.is_visible()
    notebook.page.keyboard.press("Escape")
    if kind == "apply":  # Esc decides nothing there
        form.get_by_text("Reject", exact=True).click()
    notebook.output_text(1, contains="rejected" if kind == "apply" else "end='cancelled'")


@pytest.mark.parametrize("key", ["Enter", "Escape", " "])
def test_a_key_that_was_held_down_before_chooses_nothing(opened: Opened, key: str) -> None:
    wait = "import os, time\nwhile not os.path.exists('held'): time.sleep(0.02)"
    notebook = opened(f"{wait}\nprint(prompter.ask_here(PERMISSION))")
    notebook.run_cell(1)
    page = notebook.page
    page.evaluate("document.activeElement.blur()")
    page.keyboard.down(key)
    notebook.path.with_name("held").touch()
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


def test_the_second_click_of_two_presses_nothing_of_the_next_form(opened: Opened) -> None:
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


def test_a_suggestion_is_marked_and_the_focus_is_seen_beside_it(opened: Opened) -> None:
    notebook = opened(f"print(ask({BOOLEAN}.with_default(True)))")
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


def test_who_types_elsewhere_keeps_the_focus(opened: Opened) -> None:
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


def test_queued_cells_run_after_it_in_order(opened: Opened) -> None:
    later = ["order.append(1)", "order.append(2); print(order)"]
    notebook = opened(f"order = [ask({BOOLEAN})[0].value]", *later)
    for index in (1, 2, 3):
        notebook.run_cell(index)
    form = notebook.form()
    form.get_by_text("Yes", exact=True).click()
    assert "[True, 1, 2]" in notebook.output_text(3, contains="[")


def test_the_title_says_that_a_prompt_waits(opened: Opened) -> None:
    notebook = opened(f"print(ask({BOOLEAN}))", f"print(ask({BOOLEAN}, notify=False))")
    for index, mark in ((1, True), (2, False)):
        notebook.run_cell(index)
        form = notebook.form()
        assert notebook.page.title().startswith("● ") is mark
        form.get_by_text("Cancel").click()
        answer_of(notebook, index)
        notebook.page.wait_for_function("!document.title.startsWith('● ')")


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


def test_a_reloaded_page_has_the_form_and_what_was_typed(opened: Opened) -> None:
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


def test_an_interrupt_takes_the_form_away(opened: Opened) -> None:
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


def test_after_a_restart_no_form_looks_alive(opened: Opened) -> None:
    notebook = opened(f"print(ask({BOOLEAN}))", alone=True)
    notebook.run_cell(1)
    notebook.form()
    notebook.save()
    notebook.restart_kernel()
    dead = notebook.page.locator(".jp-nb-form")
    assert dead.locator("button:visible, input:visible").count() == 0
    said = "element => getComputedStyle(element, '::before').content"
    assert dead.evaluate(said) == '"This prompt is no longer open."'
    assert not notebook.page.title().startswith("● ")
    notebook.reload()
    notebook.page.wait_for_timeout(1000)
    assert notebook.outputs(1).locator("button, input").count() == 0
    plain = notebook.saved().cells[1].outputs[0]["data"]["text/plain"]
    assert plain.endswith("[Open only while its form is shown; without one it is asked as text.]")


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


@pytest.mark.req("R078-75")
def test_every_change_can_be_read_before_it_is_decided(opened: Opened, tmp_path: Path) -> None:
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


@pytest.mark.req("R078-77")
@pytest.mark.parametrize(("key", "decision"), [("Apply", "applied"), ("Reject", "rejected")])
def test_changes_are_decided_by_a_key_or_a_button(opened: Opened, key: str, decision: str) -> None:
    notebook = opened(f"{CHANGES}\nprint(propose('change_model', *changes))")
    notebook.run_cell(1)
    form = notebook.form()
    settle(notebook)
    if key == "Reject":
        form.get_by_text(key, exact=True).click()
    else:
        notebook.page.keyboard.press("ArrowRight")
        notebook.page.keyboard.press("Enter")
    made = f"Approval(decision='{decision}', channel='form', reason='', by=None)"
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
question = Question.select('q', all_of_it, {options}).with_context('\\n'.join(evil * 10))
print(prompter.ask_here(QuestionPrompt(question, label=all_of_it, tool=all_of_it)).value[:5])
print(prompter.ask_here(ActionPrompt(
    all_of_it, (Action('y', all_of_it, 'yes'), Action('n', evil[0], 'no')), label=all_of_it,
    exhibits=(Exhibit(all_of_it, all_of_it), Exhibit('Arguments', {{all_of_it: evil}})), changes=(
        ProposedChange(all_of_it, None, evil[0]), ProposedChange(evil[2], evil[3], evil[5]),
    ),
)).value[:5])
"""


@pytest.mark.parametrize("options", ["evil", "evil + [str(n) for n in range(9)]"])
def test_hostile_text_runs_nothing_and_breaks_nothing(
    opened: Opened, options: str, tmp_path: Path
) -> None:
    texts = ", ".join(f'"""{text}"""' if '"' not in text else f"'{text}'" for text in EVIL)
    notebook = opened(HOSTILE.format(evil=texts, options=options))
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
    if form.locator("select").count():
        form.locator("select").select_option(index=1)
    else:
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
    """Whether the form is no wider than the cell and its buttons can be reached."""
    area = notebook.cell(1).locator(".jp-OutputArea").first.bounding_box()
    box = form.bounding_box()
    last = form.locator(".jp-nb-actions button").last.bounding_box()
    assert area is not None and box is not None and last is not None  # noqa: PT018
    return bool(
        box["width"] <= area["width"]
        and box["height"] < 2000  # two exhibits, a table and long labels, each of which scrolls
        and last["x"] + last["width"] <= box["x"] + box["width"] + 1
    )
