"""Actions of tests on a page: press keys, click, read, and take pictures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.support.browser import NotebookPage
from tests.support.kernel_client import label_pattern


@contextmanager
def busy_processor() -> Iterator[None]:
    """Keep one core busy until the end of the block."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def stop(page: NotebookPage) -> None:
    """Click the page's stop button, and wait for the menu."""
    page.page.locator("[data-command='notebook:interrupt-kernel']").first.click()
    page.form().get_by_text("Interrupted: ").wait_for()


# For 300 ms after it gets the focus, a form ignores keys (SETTLE_MS in formfocus.ts).
TAKES_KEYS = """() => {
    const form = document.activeElement?.closest(".jp-nb-form");
    if (!form) return false;
    form.takesKeysAt ??= performance.now() + 350;
    return performance.now() > form.takesKeysAt;
}"""


# Who has the focus instead of a form, to explain a failure.
FOCUSED = "() => document.activeElement?.outerHTML.slice(0, 500)"


def keys(page: NotebookPage, *pressed: str) -> None:
    """Press keys once the form has the focus and handles them."""
    try:
        page.page.wait_for_function(TAKES_KEYS)
    except PlaywrightTimeoutError as error:
        error.add_note(f"The focus is on: {page.page.evaluate(FOCUSED)}")
        raise
    for key in pressed:
        page.page.keyboard.press(key)


def click(page: NotebookPage, label: str) -> None:
    """Click the button of the form that `label` describes."""
    page.form().get_by_role("button", name=label_pattern(label)).click()


def picture(page: NotebookPage, name: str) -> None:
    """Take a picture in the folder that `JP_NB_PICTURES` names."""
    if folder := os.environ.get("JP_NB_PICTURES"):
        for theme in ("Dark", "Light"):
            page.page.evaluate(
                "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })",
                f"JupyterLab {theme}",
            )
            page.page.wait_for_timeout(1500)
            page.screenshot(Path(folder) / f"{name}-{theme.lower()}.png")


LOAD = "%load_ext jp_nb"


def question(**arguments: Any) -> str:
    """Return one reply of a script that asks the user a question."""
    fields = ", ".join(f"{key} = {json.dumps(value)}" for key, value in arguments.items())
    return f'[[replies]]\ntool_calls = [{{ name = "ask_user", arguments = {{ {fields} }} }}]\n'


def outputs(page: NotebookPage, cell: int) -> list[dict[str, Any]]:
    """Return the outputs of a cell in the saved file."""
    return [dict(output) for output in page.saved().cells[cell].outputs]


def load(page: NotebookPage, *, contains: str = "kept in this notebook") -> str:
    """Run the first cell, which loads the extension; return its output."""
    page.run_cell(0)
    return page.output_text(0, contains=contains)


def answer(page: NotebookPage, choice: str) -> None:
    """Click the button of a choice."""
    form = page.form()
    form.get_by_role("button", name=choice, exact=True).click()


def assert_harmless(page: NotebookPage) -> None:
    """Fail if hostile text became an element of the page or ran code."""
    found = page.page.evaluate(
        """() => ({
            pwned: window.pwned,
            images: document.querySelectorAll('.jp-OutputArea img').length,
            headings: document.querySelectorAll('.jp-OutputArea h1').length,
            scripts: document.querySelectorAll('.jp-OutputArea script').length,
            styles: [...document.querySelectorAll('.jp-OutputArea style')]
                .filter(style => style.textContent.includes('body{display')).length,
            links: [...document.querySelectorAll('.jp-OutputArea a')]
                .filter(a => /^(javascript|x|data):/i.test(a.getAttribute('href') ?? '')).length,
        })"""
    )
    assert found == {
        "images": 0,
        "headings": 0,
        "scripts": 0,
        "styles": 0,
        "links": 0,
        **({"pwned": None} if "pwned" in found else {}),
    }
    assert page.dialogs == []


MODEL = "window.jupyterapp.shell.currentWidget.context.model"


def in_page(page: NotebookPage, key: str = "jp") -> Any:
    """Return the value of `key` in the metadata of the open notebook."""
    return page.page.evaluate(f"{MODEL}.getMetadata({key!r})")


IN_SIGHT = """line => {
    line.scrollIntoView({block: "end"});
    const end = document.createRange();
    end.selectNodeContents(line);
    const last = [...end.getClientRects()].at(-1);
    const found = document.elementFromPoint(last.right - 2, last.bottom - 4);
    const box = line.closest(".widget-html-content");
    const scrolls = getComputedStyle(box).overflowY === "auto";
    return scrolls && box.scrollWidth <= box.clientWidth && line.contains(found);
}"""
