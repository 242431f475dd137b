"""Folders whose configuration nobody has agreed to yet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jp_nb.config.partial import get_path
from jp_nb.workspace import config_files, own_files
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


@pytest.fixture
def open_session(work: Path) -> Iterator[Any]:
    made: list[Opened] = []

    def open_(folder: Path = work) -> Opened:
        made.append(Opened(folder))
        return made[-1]

    yield open_
    for each in made:
        each.notebook.session.close()


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a path another user's: for real where that is allowed, else in what is told of it."""
    given: set[tuple[int, int]] = set()

    def ours(status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) not in given and real(status)

    real = own_files._is_ours
    monkeypatch.setattr(own_files, "_is_ours", ours)

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, 4242, 4242, follow_symlinks=False)
        else:
            status = path.lstat()
            given.add((status.st_dev, status.st_ino))

    return give
