"""Files of a killed kernel, and folders in which its notebook is opened again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import jp_nb
from tests.session.killed_session import define_tool, environment, run_killed_session


@pytest.fixture(scope="session")
def killed_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a kernel that its tool killed in the second turn. Tests copy it."""
    folder = tmp_path_factory.mktemp("dead")
    run_killed_session(folder)
    return folder


@pytest.fixture
def clean_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for all files of a test, with the tool `leave_mark`."""
    for name in [name for name in os.environ if name.startswith("JP_")]:
        monkeypatch.delenv(name)
    for name, text in environment(tmp_path).items():
        monkeypatch.setenv(name, text)
    monkeypatch.chdir(tmp_path)
    define_tool(tmp_path)
    yield tmp_path
    jp_nb.remove_tool("leave_mark")


@pytest.fixture
def killed_folder(killed_kernel: Path, clean_folder: Path) -> Path:
    """A clean folder with the files of the killed kernel, as if it had run there."""
    shutil.copytree(killed_kernel, clean_folder, dirs_exist_ok=True)
    for journal in (clean_folder / "data" / "jp" / "journal").iterdir():
        journal.write_text(journal.read_text().replace(str(killed_kernel), str(clean_folder)))
    return clean_folder
