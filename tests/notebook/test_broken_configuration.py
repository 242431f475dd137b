"""What works while configuration files are wrong, and once they are mended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cells import error, said, value
from tests.support.kernel_client import FrontEnd, front_end

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

STORY = '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n'
MENDED = 'assistant.model.id = "scripted/story"\nuser.name = "Ada"\n'
LOAD = "%load_ext jp_nb\nimport jp_nb"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a" / "b" / ".jp").mkdir(parents=True)
    (tmp_path / "a" / ".jp").mkdir()
    (tmp_path / "a" / "b" / "story.toml").write_text(STORY)
    return tmp_path / "a" / "b"


@pytest.fixture
def user(folder: Path) -> Iterator[FrontEnd]:
    with front_end(folder) as made:
        yield made


def problem(user: FrontEnd, code: str) -> str:
    request = user.start(code)
    user.finish(request)
    found = error(user, request)
    assert found is not None
    return f"{found['ename']}: {found['evalue']}"


@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [
        ("user.nmae = 'x'\nassistant.name = 5\n", "x = [\n",
         [".jp/config.toml", "user.nmae", "assistant.name", "not TOML"]),
        ("assistant.model.id = 'no_such_alias'\n", "", ["no_such_alias"]),
    ],
)  # fmt: skip
def test_the_extension_loads_says_what_is_wrong_and_works_once_it_is_mended(
    user: FrontEnd, folder: Path, near: str, far: str, expected: list[str]
) -> None:
    file, above = folder / ".jp" / "config.toml", folder.parent / ".jp" / "config.toml"
    file.write_text(near)
    above.write_text(far)
    request = user.start(LOAD)
    user.finish(request)
    assert error(user, request) is None
    told = user.printed(request)
    assert "the configuration is not valid, and nothing can be asked with it" in told
    assert ("../.jp/config.toml" in told) == bool(far)
    assert str(folder.parent) not in told
    for text in expected:
        assert text in told
        assert text in problem(user, "%%jp\nGo.")
    assert value(user, "len(jp_nb.session.current.current().document.conversation)") == 0
    assert "does not work: " in said(user, "%jp doctor")
    assert "versions" in said(user, "%jp doctor")
    user.run("%jp config --unset user.name")
    assert "in force" in said(user, "%jp config --explain assistant.model.id")
    file.write_text(MENDED)
    above.write_text("")
    request = user.start("%%jp\nGo.")
    user.finish(request)
    assert error(user, request) is None
    assert value(user, "jp_nb.last.text") == "one"
    assert "workspace file" in said(user, "%jp config user.name")
    base = value(user, "jp_nb.session.current.current().document.conversation.base_config")
    assert base["user"] == {"name": "Ada"}


def test_what_this_conversation_set_is_taken_back_while_a_file_is_wrong(
    user: FrontEnd, folder: Path
) -> None:
    file = folder / ".jp" / "config.toml"
    file.write_text(MENDED)
    user.run(LOAD)
    user.run("%jp config assistant.name=Robo")
    user.run("%%jp\nGo.")
    file.write_text("user = [\n")
    assert "not TOML" in problem(user, "%%jp\nGo.")
    listed = said(user, "%jp config --explain assistant.name")
    assert 'conversation, for turn 0  "Robo"' in listed
    user.run("%jp config --unset assistant.name")
    assert "taken back" in said(user, "%jp config --explain assistant.name")
    assert "not TOML" in problem(user, "%jp config assistant.name=again")
    file.write_text(MENDED)
    assert value(user, "jp_nb.conversation().config.assistant.name") is None
    user.run("%%jp\nGo on.")
    assert value(user, "[t.text for t in jp_nb.conversation().turns]") == ["one", "two"]
