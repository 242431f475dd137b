"""Commands while configuration files are invalid, and after they are fixed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.ipython_shell import IPythonShell

STORY = '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n'
FIXED = 'assistant.model.id = "scripted/story"\nuser.name = "Ada"\n'


@pytest.fixture
def inner(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace inside of another one."""
    found = folder / "inner"
    (found / ".jp").mkdir(parents=True)
    (found / "story.toml").write_text(STORY)
    (folder / ".jp" / "config.toml").write_text("")
    monkeypatch.chdir(found)
    return found


@pytest.fixture
def unloaded(inner: Path) -> Iterator[IPythonShell]:
    made = IPythonShell()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [
        ("user.nmae = 'x'\nassistant.name = 5\n", "x = [\n",
         [".jp/config.toml", "user.nmae", "assistant.name", "not TOML"]),
        ("assistant.model.id = 'no_such_alias'\n", "", ["no_such_alias"]),
    ],
)  # fmt: skip
def test_extension_reports_invalid_files_and_works_once_they_are_fixed(
    unloaded: IPythonShell, inner: Path, near: str, far: str, expected: list[str]
) -> None:
    ipython = unloaded
    file = inner / ".jp/config.toml"
    above = inner.parent / ".jp/config.toml"
    file.write_text(near)
    above.write_text(far)
    printed = ipython.load()
    assert "the configuration is not valid, so no request can be sent" in printed
    assert ("../.jp/config.toml" in printed) == bool(far)
    assert str(inner.parent) not in printed
    problem = str(ipython.run("%%jp\nGo.").error)
    for text in expected:
        assert text in printed
        assert text in problem
    assert len(ipython.session.document.conversation) == 0
    doctor = ipython.run("%jp doctor").shown
    assert "error: " in doctor
    assert "versions" in doctor
    ipython.run("%jp config --unset user.name")
    assert "effective" in ipython.run("%jp config --explain assistant.model.id").shown
    file.write_text(FIXED)
    above.write_text("")
    assert ipython.run("%%jp\nGo.").shown == "one"
    assert "workspace file" in ipython.run("%jp config user.name").shown
    assert ipython.session.document.conversation.base_config["user"] == {"name": "Ada"}


def test_conversation_setting_is_unset_while_a_file_is_invalid(
    unloaded: IPythonShell, inner: Path
) -> None:
    ipython = unloaded
    file = inner / ".jp" / "config.toml"
    file.write_text(FIXED)
    ipython.load()
    ipython.run("%jp config assistant.name=Robo")
    ipython.run("%%jp\nGo.")
    file.write_text("user = [\n")
    assert "not TOML" in str(ipython.run("%%jp\nGo.").error)
    explained = ipython.run("%jp config --explain assistant.name").shown
    assert 'conversation, for turn 1  "Robo"' in explained
    ipython.run("%jp config --unset assistant.name")
    assert "reverted" in ipython.run("%jp config --explain assistant.name").shown
    assert "not TOML" in str(ipython.run("%jp config assistant.name=again").error)
    file.write_text(FIXED)
    assert ipython.session.config.assistant.name is None
    assert ipython.run("%%jp\nContinue.").shown == "two"
    assert [turn.text for turn in ipython.session.conversations.log()] == ["one", "two"]
