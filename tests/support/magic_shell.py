"""`%jp` and `%%jp` without a kernel: a shell, its folder and a session."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jp_nb.config.directives import Directive
from jp_nb.notebook.commands import run_subcommand
from jp_nb.notebook.notebook_host import NotebookHost
from jp_nb.record.timestamps import utc_now
from jp_nb.session.session import Session
from jp_nb.workspace import config_files
from tests.support.in_process import FakeShell

SCRIPT = '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n[[replies]]\ntext = "three"\n'


class Notebook:
    """A session without a kernel: what is shown is collected."""

    def __init__(self, folder: Path, *, days: int = 0, previous: Notebook | None = None) -> None:
        self.folder = folder
        self._shell = FakeShell()
        self.shown = self._shell.shown
        host = NotebookHost(self._shell)
        before = previous.session if previous is not None else None
        self.session: Session = Session(
            host, clock=lambda: utc_now() + timedelta(days=days), previous=before
        )

    def jp(self, line: str) -> str:
        """Run `%jp LINE` and return what it displayed."""
        self.shown.clear()
        name, _, rest = line.partition(" ")
        run_subcommand(self._shell, self.session, name, rest)
        return "\n".join(self.shown)

    def told(self) -> list[str]:
        """What the person is told once, since the last call."""
        told = list(self.session.notices)
        self.session.notices.clear()
        return told

    def ask(self, text: str, *directives: Directive, **options: Any) -> str:
        return self.session.run_turn(text, directives=directives, **options).text

    def value(self, path: str) -> Any:
        value: Any = self.session.config.model_dump(mode="json")
        for key in path.split("."):
            value = value[key]
        return value

    @property
    def ids(self) -> list[str]:
        others: Any = self.session.document.others
        stored = [other["conversation"]["id"] for other in others]
        return [self.session.document.conversation.id, *stored]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a script, where nothing else is configured."""
    for name in [name for name in os.environ if name.startswith(("JP_CFG_", "JP_NB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(config_files, "user_folder", lambda: tmp_path / "home")
    monkeypatch.setenv("JP_NB_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # journals: of this test alone
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", str(tmp_path))
    work = tmp_path / "work"
    (work / ".jp").mkdir(parents=True)
    (work / "talk.toml").write_text(SCRIPT)
    (work / ".jp" / "config.toml").write_text(
        'config_load_paths = ["personas"]\n[assistant.model]\nid = "scripted/talk"\n'
        '[user]\nname = "file"\n'
    )
    (work / "personas").mkdir()
    (work / "personas" / "dev.toml").write_text(
        '[user]\nname = "dev"\n[assistant.model.parameters]\nstop_words = ["d"]\n'
    )
    monkeypatch.chdir(work)
    return work
