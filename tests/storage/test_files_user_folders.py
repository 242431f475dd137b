"""Users without a home: what runs in containers often has none."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from jp_nb.session.session import Session
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter

TALK = '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n'


def test_session_works_without_a_home_folder_and_reports_the_missing_journal_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(number: int) -> object:
        raise KeyError(number)

    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "JP_NB_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "relative")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.toml").write_text(TALK)
    session = Session(FakeHost(FakePrompter(away="a test"), FakeHome(tmp_path / "talk.ipynb")))
    assert session.turns.run("First.", model="scripted/talk").text == "one"
    assert session.turns.run("Second.").text == "two"
    told = [notice for notice in session.notices if "journal of this conversation cannot" in notice]
    assert len(told) == 1
    assert "signature" not in session.document.to_json()
    session.close()
    assert [path.name for path in tmp_path.iterdir()] == ["talk.toml"]
