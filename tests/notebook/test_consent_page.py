"""Only a click in the form permits a call, also while kernel and processor are busy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import click

pytestmark = pytest.mark.browser

ROUNDS = int(os.environ.get("JP_NB_ROUNDS", "1"))
WORK_S = 5.0
"""Longer than a page has to show the form here."""
OPTIONS = "-n -m scripted/both -c prompt.rendered_timeout_s=0.5"
SCRIPT = """
[[replies]]
tool_calls = [{ name = "work", arguments = {} }, { name = "publish", arguments = {} }]
[[replies]]
text = "Done."
"""
LOAD = f"""
%load_ext jp_nb
import time
import jp_nb as jp

published = []

@jp.tool
def work() -> str:
    time.sleep({WORK_S})
    return "worked"

@jp.tool(run="ask")
def publish() -> str:
    published.append("yes")
    return "published"
"""
CELLS = (LOAD, f"%%jp {OPTIONS}\nGo.", "text = 1", "print('published', len(published))")
BOX = ".jp-Stdin-input"


@pytest.fixture(autouse=True)
def busy_processor() -> Iterator[None]:
    """Two processes that do nothing but use the processor."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield
    for each in loops:
        each.kill()
        each.wait()


@pytest.fixture
def page(open_notebook: OpenNotebook, lab: Lab) -> NotebookPage:
    (lab.root / "both.toml").write_text(SCRIPT, encoding="utf-8")
    page = open_notebook(*CELLS)
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    return page


def begin(page: NotebookPage) -> None:
    """Run the turn and wait for its form: the function holds the kernel by then."""
    page.run_cell(1)
    page.form()


def published(page: NotebookPage) -> str:
    page.run_cell(3)
    return page.output_text(3, contains="published")


def test_click_counts_while_a_function_keeps_the_kernel_busy(page: NotebookPage) -> None:
    for round_ in range(ROUNDS):
        begin(page)
        click(page, "Run")
        page.form().get_by_text("Sent.").wait_for()
        text = page.output_text(1, contains="Done.")
        assert "✓ publish()" in text
        assert page.page.locator(BOX).count() == 0
        page.wait_for_kernel_status("idle")
        assert f"published {round_ + 1}" in published(page)
        page.wait_for_kernel_status("idle")


def test_text_typed_into_another_cell_permits_nothing(page: NotebookPage) -> None:
    for _ in range(ROUNDS):
        begin(page)
        page.cell(2).locator(".cm-content").click()
        page.page.keyboard.press("End")
        for _line in range(int(WORK_S / 0.25) + 8):  # while the function runs, and afterwards
            page.page.keyboard.type("y\n")
            page.page.wait_for_timeout(250)
        assert page.page.locator(BOX).count() == 0
        assert "✓ work()" in page.output_text(1, contains="work()")
        assert page.page.evaluate(
            "() => [...document.querySelectorAll('.jp-Notebook .jp-Cell')][2]"
            ".contains(document.activeElement)"
        )
        click(page, "Skip")
        assert "Done." in page.output_text(1, contains="Done.")
        page.wait_for_kernel_status("idle")
        assert "published 0" in published(page)
        page.wait_for_kernel_status("idle")
