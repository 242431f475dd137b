"""A kernel that was killed, and folders in which its notebook is opened again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import jp_nb
from tests.session.killed_session import define, environment, killed


@pytest.fixture(scope="session")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a kernel that its tool killed in the second turn. To be copied."""
    folder = tmp_path_factory.mktemp("dead")
    killed(folder)
    return folder


@pytest.fixture
def clean_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that has all that is written in this test, and the tool that leaves marks."""
    for name in [name for name in os.environ if name.startswith("JP_")]:
        monkeypatch.delenv(name)
    for name, text in environment(tmp_path).items():
        monkeypatch.setenv(name, text)
    monkeypatch.chdir(tmp_path)
    define(tmp_path)
    yield tmp_path
    jp_nb.remove_tool("leave_mark")


@pytest.fixture
def left_folder(dead: Path, clean_folder: Path) -> Path:
    """A clean folder with the files of the dead kernel, as if it had run there."""
    shutil.copytree(dead, clean_folder, dirs_exist_ok=True)
    for journal in (clean_folder / "data" / "jp" / "journal").iterdir():
        journal.write_text(journal.read_text().replace(str(dead), str(clean_folder)))
    return clean_folder
