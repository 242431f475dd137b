"""What the tests of the extension share: each has its pages to itself."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.browser import OpenNotebook


@pytest.fixture
def open_notebook(open_notebook: OpenNotebook) -> OpenNotebook:
    """Open a notebook in a page that nobody used before."""
    return partial(open_notebook, fresh=True)
