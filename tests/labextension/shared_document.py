"""One document on two pages, each in a browser of its own: the fixture `shared_pages`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import PATIENCE_MS, TOKEN, VIEWPORT, Lab, NotebookPage, running_lab
from tests.support.page_actions import MODEL

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

_NUMBERS = count(1)
METADATA = f"{MODEL}.metadata"


class SharedPages:
    """Pages of notebooks on a server where all pages of a notebook share its document."""

    def __init__(self, lab: Lab, chromium: Browser) -> None:
        self.lab = lab
        self._chromium = chromium
        self._opened: list[NotebookPage] = []

    def open(
        self, *cells: str, pages: int = 2, people: Sequence[str] = (), **metadata: Any
    ) -> list[NotebookPage]:
        """Open a notebook with these cells and `metadata` in as many `pages`.

        `people` are the names of their users; else the server calls each by a moon of its choice.
        """
        path = self.lab.write(f"shared-{next(_NUMBERS)}.ipynb", cells)
        notebook = json.loads(path.read_text())
        notebook["metadata"] |= metadata
        path.write_text(json.dumps(notebook))
        names: Sequence[str | None] = people or [None] * pages
        return [self.open_again(path, name) for name in names]

    def open_again(
        self, path: Path, person: str | None = None, *, status: str = "idle"
    ) -> NotebookPage:
        """Open the notebook in one more page, that of `person`; its kernel has that `status`."""
        context = self._chromium.new_context(viewport=VIEWPORT)
        context.set_default_timeout(PATIENCE_MS)
        if person is not None:
            context.route("**/api/me?**", partial(_as_user, person))
        place = f"lab/workspaces/{path.stem}-{next(_NUMBERS)}/tree/{path.name}"
        url = f"{self.lab.url}/{place}?token={TOKEN}&reset"
        page = NotebookPage(context.new_page(), path, url, status)
        self._opened.append(page)
        return page

    def store_bytes(self) -> int:
        """Return the length of all changes that the server has kept, of every document."""
        found = self.lab.root.rglob(".jupyter_ystore.db")
        return sum(map(_bytes_in, found))

    def close(self) -> None:
        """Close the pages, and end their kernels."""
        for page in self._opened:
            page.page.context.close()
            self.lab.shut_down(page.path.name)
        self._opened.clear()


def _as_user(person: str, route: Route) -> None:
    """Have the server call the user of a page `person`."""
    answer = route.fetch()
    said = answer.json()
    said["identity"] |= {"name": person, "display_name": person}
    route.fulfill(response=answer, json=said)


def _bytes_in(database: Path) -> int:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        (size,) = connection.execute("SELECT sum(length(yupdate)) FROM yupdates").fetchone()
    return int(size or 0)


@pytest.fixture(scope="session")
def sharing_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab with jupyter-collaboration."""
    pytest.importorskip("jupyterlab")
    pytest.importorskip("jupyter_server_ydoc")
    with running_lab(tmp_path_factory.mktemp("sharing"), shares=True) as started:
        yield started


@pytest.fixture
def shared_pages(sharing_lab: Lab, chromium: Browser) -> Iterator[SharedPages]:
    """The pages of one test."""
    pages = SharedPages(sharing_lab, chromium)
    yield pages
    pages.close()
