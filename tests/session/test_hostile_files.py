"""Files of a folder that cannot be read: no command waits for them, and none ends with a crash."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

import jp_nb as jp
from jp_nb.cli import main
from tests.kit.ipython_shell import IPythonShell
from tests.support.sessions import Notebook, bare_folder, configure, write
from tests.support.tiers import mostly_deep

__all__ = ["bare_folder"]

LIMIT_S: Final = 20
"""Far above the time of any command here, on a busy machine."""


class Hang(BaseException):
    """A command did not end in time. No code of the program catches it."""


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise `Hang` in the block after `LIMIT_S` seconds, also while it waits in a system call."""

    def stop(_: int, __: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def make_huge_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10_000_000_000)  # without a block on the disk


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


HOSTILE: Final[dict[str, Callable[[Path], None]]] = {
    "named pipe": lambda path: os.mkfifo(path),
    "socket": make_socket,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "folder": lambda path: path.mkdir(),
    "link to itself": make_loop,
    "broken link": lambda path: path.symlink_to("nowhere"),
    "10 GB": make_huge_file,
}


KINDS: Final = mostly_deep(HOSTILE, quick=["named pipe", "10 GB"])


def make_hostile(kind: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    HOSTILE[kind](path)


PLACES: Final = (
    "any.toml",
    "welcome.toml",
    "scripts/any.toml",
    "scripts",
    ".jp",
    ".jp/config.toml",
    ".jp/context",
    ".jp/context/qna.jsonl",
    ".jp/context/qna.csv",
    ".jp/context/qna_0001.jsonl",
    ".jp/context/.qna.lock",
    "included.toml",
    "personas/dev.toml",
    "nb.answers.toml",
    "nb.cassette.jsonl",
    "notes.md",
)
"""Files of a folder that the program reads by itself, or finds by a name of the user."""
DATA: Final = (
    "trusted-folders.json",
    "signed-conversations.json",
    "signed-conversations.lock",
    "notebook-key",
    "journal/jp-c1.0.jsonl",
    "question-logs",
)
"""Files of the user's data folder."""
LINES: Final = (
    "models scripted",
    "doctor",
    "config",
    "config -c dev",
    "config -c any",
    "config --workspace prompt.notify=off",
    "trust --workspace",
    "qna",
    "qna import .jp/context/qna.csv",
    "cassette replay nb.cassette.jsonl",
    "cassette record nb.cassette.jsonl",
    "cassette off",
    "usage --count",
    "new",
    "import notes.md",
)
MODELS: Final = ("scripted/typo", "scripted/any", "scripted/welcome")
SETTINGS: Final = """
extends = ["included.toml", "per*/**/*.toml", "**/qna*"]
config_load_paths = ["personas"]
conversation.attachments = ["file:notes.md", "file:**/*.csv"]
prompt.answers = "nb.answers.toml"
record.project_log = "on"
"""


@pytest.mark.parametrize("kind", KINDS)
def test_no_command_waits_for_a_file_of_the_folder(
    bare_folder: Path, tmp_path: Path, kind: str, subtests: pytest.Subtests
) -> None:
    for place in PLACES:
        folder = tmp_path / place.replace("/", "-")
        folder.mkdir()
        if not place.startswith(".jp") or place == ".jp/config.toml":
            write(tmp_path / "home" / "config.toml", SETTINGS)
        if place != ".jp" and not place.startswith(".jp/c"):
            configure(folder, SETTINGS)
        make_hostile(kind, folder / place)
        with subtests.test(place=place):
            use_everything(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_no_command_waits_for_a_file_of_the_user(
    bare_folder: Path, tmp_path: Path, kind: str, subtests: pytest.Subtests
) -> None:
    for number, place in enumerate(DATA):
        os.environ["XDG_DATA_HOME"] = str(tmp_path / f"data{number}")  # `bare_folder` restores it
        make_hostile(kind, tmp_path / f"data{number}" / "jp" / place)
        folder = tmp_path / f"work{number}"
        configure(folder, "prompt.notify = 'off'")
        with subtests.test(place=place):
            use_everything(folder)


def use_everything(folder: Path) -> None:
    """Run each command that reads files. Only the errors of the program are allowed."""
    os.chdir(folder)
    with time_limit():
        notebook = Notebook(folder)
    try:
        for line in LINES:
            with time_limit(), suppress(jp.JpNbError, SystemExit):
                notebook.jp(line)
        for model in MODELS:
            with time_limit(), suppress(jp.JpNbError):
                notebook.ask("Hello.", model=model)
        with time_limit():
            IPythonShell.complete("%jp config -c |", notebook.session)
    finally:
        with time_limit():
            notebook.session.close()


@pytest.mark.parametrize("kind", KINDS)
def test_no_command_of_the_shell_waits_for_a_file(
    bare_folder: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    subtests: pytest.Subtests,
) -> None:
    for name in ("nb.ipynb", "nb.answers.toml", "nb.cassette.jsonl", "conversation/events.json"):
        make_hostile(kind, bare_folder / name)
    commands = (
        ["run", "nb.ipynb"],
        ["check", "nb.ipynb"],
        ["check", "."],
        ["check", "nb.answers.toml", "nb.cassette.jsonl"],
        ["show", "nb.ipynb"],
        ["strip", "nb.ipynb"],
        ["diff", "nb.ipynb", "nb.ipynb"],
        ["export", "nb.ipynb", "out"],
        ["import", "conversation", "new.ipynb"],
        ["trust", ".", "--yes"],
    )
    for command in commands:
        with subtests.test(command=command), time_limit():
            status = main(command)
            shown = capsys.readouterr()
            assert "Traceback" not in shown.err
            if command[0] not in ("trust", "check"):
                assert status != 0


def test_pattern_of_included_files_ends_in_a_folder_of_links_to_itself(bare_folder: Path) -> None:
    for name in ("a", "b"):
        (bare_folder / name).symlink_to(".")
    configure(bare_folder, 'extends = ["../**/*.toml", "../*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/x"]')
    with time_limit():
        notebook = Notebook(bare_folder)
        shown = notebook.jp("doctor")
        notebook.session.close()
    assert "would search more than 5,000 files" in "\n".join([*notebook.notices, shown])
