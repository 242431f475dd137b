"""Two pages of two users that share one document: `shared_pages`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import PATIENCE_MS, TOKEN, VIEWPORT, Lab, NotebookPage, running_lab
from tests.support.page_actions import MODEL

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NUMBERS = count(1)
FORMS = ".jp-nb-form[role='group']:visible"
ADA = "Ada Lovelace"
BO = "Bo</b><img src=x onerror=alert(1)>\u202e\n" + "x" * 10_000
BO_SHOWN = '"Bo</b><img src=x onerror=alert(1)>⟨U+202E⟩⟨U+000A⟩xxxxxxxxx…"'
IDENTITY = """name => {
    const { fetch } = window;
    window.fetch = async (request, ...rest) => {
        const answer = await fetch(request, ...rest);
        if (!/\\/api\\/me\\b/.test(request.url ?? request)) return answer;
        const user = await answer.json();
        Object.assign(user.identity, { name, display_name: name });
        return new Response(JSON.stringify(user), answer);
    };
}"""
HANDLED = """async () => {
    const { kernel } = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    const { clientId: session, username } = kernel;
    const header = {
        msg_id: crypto.randomUUID(), msg_type: "comm_info_request", session, username,
        date: new Date().toISOString(), version: "5.3",
    };
    const message = { channel: "control", header, parent_header: {}, metadata: {}, content: {} };
    await kernel.sendControlMessage({ ...message, buffers: [] }, true, true).done;
}"""


class SharedPages:
    """Pages of two users, ADA and BO, on a server that shares documents.

    Each user has one page. It stays loaded from test to test.
    """

    def __init__(self, lab: Lab, chromium: Browser) -> None:
        self.lab = lab
        self._context = chromium.new_context(viewport=VIEWPORT)  # with one cache for all pages
        self._context.set_default_timeout(PATIENCE_MS)
        self._loaded: dict[str, Page] = {}
        self._opened: list[tuple[str, NotebookPage]] = []

    def open(self, *cells: str, pages: int = 2) -> list[NotebookPage]:
        """Open a notebook with these cells in the page of ADA and, of two `pages`, of BO."""
        path = self.lab.write(f"shared-{next(_NUMBERS)}.ipynb", cells)
        return [self.open_again(path, user) for user in (ADA, BO)[:pages]]

    def open_again(self, path: Path, user: str, *, status: str = "idle") -> NotebookPage:
        """Open the notebook in the page of `user`, and wait until its kernel has that `status`."""
        place = f"lab/workspaces/{path.stem}-{next(_NUMBERS)}/tree/{path.name}"
        url = f"{self.lab.url}/{place}?token={TOKEN}&reset"
        tab = self._loaded.pop(user, None) or self._new_tab(user)
        page = NotebookPage(tab, path, url, status)
        self._opened.append((user, page))
        return page

    def _new_tab(self, user: str) -> Page:
        page = self._context.new_page()
        page.add_init_script(f"({IDENTITY})({json.dumps(user)})")
        # On a busy machine, JupyterLab asks while the document loads, and covers the notebook.
        waits = page.get_by_role("button", name="Continue waiting")
        page.add_locator_handler(waits, lambda button: button.click())
        return page

    def store_bytes(self) -> int:
        """Return the size of all changes that the server has kept, of every document."""
        found = self.lab.root.rglob(".jupyter_ystore.db")
        return sum(map(_bytes_in, found))

    def close(self) -> None:
        """Close the notebooks and shut their kernels down."""
        for user, page in self._opened:
            if not page.page.is_closed() and page.leave():
                self._loaded[user] = page.page
            else:
                page.page.close()
            self.lab.shut_down(page.path.name)
        self._opened.clear()


def _bytes_in(database: Path) -> int:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        (size,) = connection.execute("SELECT sum(length(yupdate)) FROM yupdates").fetchone()
    return int(size or 0)


def wait_for_one_output(*pages: NotebookPage, cell: int = 1) -> None:
    """Wait until `cell` has one output in each page.

    The pages first handle all messages that the kernel has sent until now: a page that was busy
    may put in an output that another page has put in already, and takes it out again.
    """
    for page in pages:
        page.page.evaluate(HANDLED)
    for page in pages:
        page.page.wait_for_function(
            f"{MODEL}.cells.get({cell}).sharedModel.getOutputs().length === 1"
        )


def wait_for_one_form(*pages: NotebookPage, cell: int = 1) -> None:
    """Wait until each page shows one form, in the only output of `cell`."""
    wait_for_one_output(*pages, cell=cell)
    for page in pages:
        page.form()
        page.page.wait_for_function(
            """selector => [...document.querySelectorAll(selector)].filter(
                form => form.checkVisibility()).length === 1""",
            arg=FORMS.split(":")[0],
        )


@pytest.fixture(scope="session")
def all_shared_pages(
    chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedPages]:
    """The pages of this test session, on a JupyterLab with jupyter-collaboration."""
    pytest.importorskip("jupyterlab")
    pytest.importorskip("jupyter_server_ydoc")
    with running_lab(tmp_path_factory.mktemp("sharing"), shares=True) as lab:
        yield SharedPages(lab, chromium)


@pytest.fixture
def shared_pages(all_shared_pages: SharedPages) -> Iterator[SharedPages]:
    """The pages, and notebooks in them until the test's end."""
    yield all_shared_pages
    all_shared_pages.close()
