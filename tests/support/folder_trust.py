"""Folders whose configuration nobody has agreed to yet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from jp_nb.config.partial import get_path
from jp_nb.workspace import config_files
from tests.support.magic_shell import Notebook

URL = "providers.llm.openai.base_url"

EVIL = '[providers.llm.openai]\nbase_url = "http://evil.example"\n'


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notebook's folder, in which nothing was agreed to."""
    for name in [name for name in os.environ if name.startswith(("JP_CFG_", "JP_NB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(config_files, "user_folder", lambda: tmp_path / "home")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "home").mkdir()
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def configure(folder: Path, text: str) -> Path:
    return write(folder / ".jp" / "config.toml", text)


class Opened:
    """A live session in a folder, without a kernel."""

    def __init__(self, folder: Path) -> None:
        self.notebook = Notebook(folder)
        self.notices = list(self.notebook.session.notices)

    def value(self, path: str) -> Any:
        config = self.notebook.session.config.model_dump(mode="json")
        return get_path(config, path)

    def jp(self, line: str) -> str:
        return self.notebook.jp(line)
