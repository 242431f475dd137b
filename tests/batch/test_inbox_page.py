"""The inbox as forms in JupyterLab, with the keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.batch.log_lines import (
    asked_permission,
    asked_question,
    waiting_run,
    write_log,
)
from tests.kit.answers import PreparedAnswers
from tests.notebook.prompt.form_pages import axe_of
from tests.support.browser import NotebookPage, OpenNotebook
from tests.support.page_actions import keys

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

TO_WHOM = {"type": "select", "options": ["team", "all"]}


def wait_for(page: NotebookPage, text: str) -> None:
    """Wait until the form shows `text`."""
    page.form().get_by_text(text).first.wait_for()


@pytest.mark.req("INBOX-2", "INBOX-9", "INBOX-13")
def test_decisions_are_answered_with_the_keyboard(
    open_notebook: OpenNotebook, tmp_path: Path
) -> None:
    out = write_log(
        tmp_path / "out",
        [
            waiting_run(
                f"r{number}",
                asked_question("publish", "to", "To whom?", answer_type=TO_WHOM),
                asked_permission("pay", {"amount": 5}),
            )
            for number in range(50)
        ],
    )
    file = out / "answers.toml"
    page = open_notebook(f"%load_ext jp_nb\nimport jp_nb as jp\njp.inbox({str(out)!r})")
    page.page.set_viewport_size({"width": 800, "height": 1000})
    page.run_cell(0)
    wait_for(page, "2 open decisions in 50 runs")
    assert axe_of(page.page) == []

    keys(page, "Enter")
    wait_for(page, "Nothing is chosen yet")
    keys(page, "Tab", "Enter")
    wait_for(page, "To whom?")
    wait_for(page, "Answer for all 50 runs …")
    keys(page, "Enter")
    wait_for(page, "Nothing is chosen yet")
    keys(page, "Tab", "Enter")

    wait_for(page, "For 50 runs")
    keys(page, "Enter")
    assert not file.exists()
    keys(page, "ArrowDown", "Enter")
    wait_for(page, "Run this call in all 50 runs")
    page.page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })",
        "JupyterLab Dark",
    )
    page.page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    assert axe_of(page.page) == []
    assert [each["key"][0] for each in PreparedAnswers(file).list()] == ["questions"]

    keys(page, "Tab", "Enter")
    wait_for(page, "2 open decisions in 50 runs, 2 answered")
    keys(page, "Escape")
    page.output_text(0, contains="Run what waited: jp-nb run --resume")
    found = PreparedAnswers(file).find("permissions", "pay", arguments={"amount": 5})
    assert found is not None
    assert "run" not in found


@pytest.mark.req("INBOX-9", "INBOX-13")
def test_reload_esc_and_interrupt_decide_nothing_and_keep_what_was_answered(
    open_notebook: OpenNotebook, tmp_path: Path
) -> None:
    decisions = [
        asked_permission("pay", {"amount": 5}),
        asked_question("publish", "to", "To whom?", answer_type=TO_WHOM),
        asked_permission("pay", {"amount": 9}),
    ]
    out = write_log(tmp_path / "out", [waiting_run(f"r{n}", *decisions) for n in range(50)])
    file = out / "answers.toml"
    page = open_notebook(f"%load_ext jp_nb\nimport jp_nb as jp\njp.inbox({str(out)!r})")
    page.run_cell(0)
    wait_for(page, "3 open decisions in 50 runs")
    keys(page, "Tab", "Enter")
    wait_for(page, "Run this call in all 50 runs")
    keys(page, "Tab", "Enter")
    wait_for(page, "Answer for all 50 runs …")

    page.reload(status="busy")
    wait_for(page, "Answer for all 50 runs …")
    page.form().focus()
    keys(page, "Escape")
    wait_for(page, "3 open decisions in 50 runs, 1 answered")
    page.interrupt()
    page.output_text(0, contains="3 open decisions in 50 runs, 1 answered\nRun what waited")
    [answer] = PreparedAnswers(file).list()
    assert answer["arguments"] == {"amount": 5}
