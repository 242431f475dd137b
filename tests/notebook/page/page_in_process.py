"""A kernel with one page in this process, for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.pages import PagesInProcess


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PagesInProcess]:
    """A kernel with one page that shows an empty notebook."""
    monkeypatch.chdir(tmp_path)
    for name in ("JPY_SESSION_NAME", "VSCODE_PID"):
        monkeypatch.delenv(name, raising=False)
    made = PagesInProcess(monkeypatch)
    yield made
    if hasattr(made, "opened"):
        made.store.close()
