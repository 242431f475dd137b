"""The fixture of cells in IPython without a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.ipython_shell import IPythonShell


@pytest.fixture
def ipython(folder: Path) -> Iterator[IPythonShell]:
    """A shell in `folder`, with the extension."""
    made = IPythonShell()
    made.load()
    yield made
    made.close()
