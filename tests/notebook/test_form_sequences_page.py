"""While a prompt is open, exactly one form is visible: over random sequences of what users do.

The seed and the sequence are in the message of a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from time import monotonic

import pytest

from tests.support.browser import Lab, NotebookPage
from tests.support.page_actions import LOAD, question
from tests.support.prompt_pages import Opened

pytestmark = pytest.mark.browser

FIRST_CELL = LOAD
ASK = "import jp_nb as jp\njp.ask(jp.Question.boolean('sure', 'Sure?'))"
TURN = "%%jp -n -m scripted/ship\nGo."
CELLS = (ASK, TURN, "1", TURN)
PATIENCE_S = 20  # of a busy machine
STAYS_MS = 100
ENDS = 40
"""Limit of forms that one sequence may leave open."""

# The number of forms in each view, and whether the page shows that the kernel is busy.
STATE = """() => {
    const isLive = form =>
        form.checkVisibility() && !form.closest(".jupyter-widgets-disconnected");
    const context = window.jupyterapp?.shell?.currentWidget?.sessionContext;
    return [
        [...document.querySelectorAll(".jp-nb-form[role='group']")].filter(isLive).length,
        context?.kernelDisplayStatus ?? "no notebook",
    ];
}"""
SELECT = """at => {
    const { content } = window.jupyterapp.shell.currentWidget;
    content.activeCellIndex = 1 + at % Math.max(content.widgets.length - 1, 1);
    content.deselectAll();
    content.mode = "command";
}"""
FORGET_UNDO = """() => {
    window.jupyterapp.shell.currentWidget.content.model.sharedModel.clearUndoHistory();
}"""
LIVE_BUTTON = ".jp-nb-form[role='group'] .jp-nb-actions button:not(.jupyter-widgets-disconnected)"

Action = Callable[[NotebookPage, Random], object]


@pytest.fixture(autouse=True)
def script(lab: Lab) -> None:
    asks = question(question="Ship it?", answer_type="boolean")
    (lab.root / "ship.toml").write_text(f'{asks}[[replies]]\ntext = "Shipped."\n')


def does(*commands: str) -> Action:
    """Return an action that executes commands for a random cell."""

    def act(page: NotebookPage, random: Random) -> None:
        page.page.evaluate(SELECT, random.randrange(6))
        for command in commands:
            page.command(f"notebook:{command}", wait=False)

    return act


def answer(page: NotebookPage, random: Random) -> None:
    """Click the first button of the form, if there is one."""
    buttons = page.page.locator(LIVE_BUTTON).locator("visible=true")  # not of a kernel that is gone
    if buttons.count():
        buttons.first.click()


def restart(page: NotebookPage, random: Random) -> None:
    page.restart_kernel()
    page.page.evaluate(SELECT, 0)
    page.run_cell(0)


ACTIONS: dict[str, Action] = {
    "run": does("run-cell"),
    "run twice": does("run-cell", "run-cell"),
    "run all": does("run-all-cells"),
    "run all twice": does("run-all-cells", "run-all-cells"),
    "clear": does("clear-cell-output"),
    "clear all": does("clear-all-cell-outputs"),
    "delete": does("delete-cell"),
    "delete and undo": does("delete-cell", "undo-cell-action"),
    "undo": does("undo-cell-action"),
    "redo": does("redo-cell-action"),
    "move down": does("move-cell-down"),
    "move up": does("move-cell-up"),
    "split": does("split-cell-at-cursor"),
    "copy": does("copy-cell", "paste-cell-below"),
    "cut": does("cut-cell", "paste-cell-below"),
    "collapse": does("hide-cell-outputs"),
    "collapse all": does("hide-all-cell-outputs"),
    "expand": does("show-all-cell-outputs"),
    "to markdown": does("change-cell-to-markdown"),
    "to code": does("change-cell-to-code"),
    "interrupt": does("interrupt-kernel"),
    "answer": answer,
    "close and reopen": lambda page, random: page.reopen(status=""),
    "save": lambda page, random: page.save(),
}
SLOW_ACTIONS: dict[str, Action] = {
    "reload": lambda page, random: page.reload(status=""),
    "restart": restart,
}


def state(page: NotebookPage) -> tuple[int, str]:
    forms, status = page.page.evaluate(STATE)
    return forms, status


def is_right(page: NotebookPage) -> bool:
    """Return True if one form is visible, or none because the kernel waits for no answer."""
    forms, status = state(page)
    return forms == 1 or (forms == 0 and status == "idle")


def check(page: NotebookPage, story: list[str]) -> None:
    """Wait until the state is right, and stays so."""
    until = monotonic() + PATIENCE_S
    while monotonic() < until:
        if is_right(page):
            page.page.wait_for_timeout(STAYS_MS)
            if is_right(page):
                return
        page.page.wait_for_timeout(50)
    forms, status = state(page)
    pytest.fail(f"{forms} forms are visible, the kernel is {status}, after {story}")


def answer_all(page: NotebookPage, story: list[str]) -> None:
    """Answer all forms, and wait until the kernel is idle."""
    for _ in range(ENDS):
        check(page, story)
        if state(page) == (0, "idle"):
            return
        answer(page, Random(0))
        page.page.wait_for_timeout(100)
    pytest.fail(f"the kernel still asks after {story}")


def play(
    page: NotebookPage, seed: int, length: int, actions: dict[str, Action], first: str = "run all"
) -> None:
    """Play a random sequence, which begins with `first`, and check the state after each action."""
    random = Random(seed)
    story = [f"seed {seed}", first]
    page.page.evaluate(FORGET_UNDO)
    actions[first](page, random)
    page.page.wait_for_timeout(random.choice((0, 100, 400)))
    for _ in range(length):
        name = random.choice(list(actions))
        story.append(name)
        actions[name](page, random)
        check(page, story)
    answer_all(page, story)
    shown = page.page.locator(".jp-Notebook").inner_text()
    assert "no page has shown" not in shown, story


@pytest.mark.parametrize("seed", range(20))
def test_one_form_is_visible_in_a_short_sequence(opened: Opened, seed: int) -> None:
    play(opened(*CELLS), seed, 3, ACTIONS, first=["run", "run twice", "run all"][seed % 3])


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 300))
def test_one_form_is_visible_in_a_long_sequence(opened: Opened, seed: int) -> None:
    play(opened(*CELLS), seed, 10, ACTIONS | SLOW_ACTIONS)


@contextmanager
def second_window(page: NotebookPage) -> Iterator[NotebookPage]:
    """Open the notebook in another tab of the browser."""
    tab = page.page.context.new_page()
    try:
        yield NotebookPage(tab, page.path, page._url, status="")
    finally:
        tab.close()


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(300, 310))
def test_one_form_is_visible_in_each_of_two_windows(opened: Opened, seed: int) -> None:
    page = opened(*CELLS, alone=True)
    page.save()
    random = Random(seed)
    story = [f"seed {seed}"]
    with second_window(page) as other:
        other.cell(0).wait_for()
        for _ in range(6):
            name = random.choice(["run", "run twice", "run all", "answer", "clear", "interrupt"])
            each = random.choice([page, other])
            story.append(f"{name} in window {1 + (each is other)}")
            ACTIONS[name](each, random)
            for window in (page, other):
                check(window, story)
        answer_all(page, story)
        check(other, story)
