"""Fixtures of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.kit.sessions import current_session
from tests.session.rows.row_server import RowServer, echo, serve_rows
from tests.support.sessions import Notebook


@pytest.fixture
def server() -> Iterator[RowServer]:
    """A model server that answers with the prompt in capital letters."""
    with serve_rows(echo) as running:
        yield running


@pytest.fixture
def loaded(open_session: Callable[..., Notebook]) -> Iterator[Notebook]:
    """A notebook in which the extension is loaded."""
    notebook = open_session()
    with current_session(notebook.session):
        yield notebook
