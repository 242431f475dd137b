"""Signed notebooks that were copied into another folder, as a stranger would use them."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

import jp_nb as jp
from jp_nb.record.changes import stored_changes
from jp_nb.session.session import Session
from tests.kit.questions import answered
from tests.kit.records import new_event
from tests.kit.sessions import directive
from tests.support.sessions import AskedNotebook, bare_folder, write

__all__ = ["bare_folder"]

CALL: Final = '[[replies]]\ntool_calls = [{name = "check"}]\n[[replies]]\ntext = "Checked."\n'
CHECK: Final = {"source": "local", "command": "./check.sh", "run": "unattended", "enable": True}
COMMAND: Final = f"conversation.tools.check:={json.dumps(CHECK)}"
MOVED: Final = "you signed it in another folder"


@pytest.fixture
def home(bare_folder: Path) -> Path:
    """The user's own workspace, with the command `check` and a model that calls it."""
    folder = bare_folder / "own"
    fill(folder, "own")
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of someone else, with another command of the same name."""
    folder = tmp_path / "downloads" / "theirs"
    fill(folder, "evil")
    return folder


def signed_list() -> Path:
    """The user's list of the conversations that were signed."""
    return Path(os.environ["XDG_DATA_HOME"]) / "jp" / "signed-conversations.json"


def fill(folder: Path, word: str) -> None:
    (folder / ".jp").mkdir(parents=True)
    write(folder / "call.toml", CALL)
    write(folder / "check.sh", f"#!/bin/sh\ntouch ran-{word}\necho {word}\n").chmod(0o755)


def change(notebook: AskedNotebook, *assignments: str) -> None:
    notebook.session.configure(*(directive("cfg", each) for each in assignments))


def call(notebook: AskedNotebook) -> None:
    """Run a turn in which the model calls `check`."""
    notebook.session.turns.run("Check.", model="scripted/call")


def sign(folder: Path, *assignments: str) -> Any:
    """Run a notebook of the user in `folder` and return its signed record."""
    notebook = AskedNotebook(folder)
    change(notebook, *assignments)
    change(notebook, "user.name=Ada")
    return close(notebook)


def close(notebook: AskedNotebook) -> Any:
    notebook.session.close()
    return notebook.stored


def is_trusted(folder: Path, record: Any, **options: Any) -> bool:
    """Open the record in the next kernel, and return True if it is trusted there."""
    notebook = AskedNotebook(folder, stored=record, **options)
    trusted = notebook.session.active.trust.trusted
    notebook.session.close()
    return trusted


def ran(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("ran-*"))


def test_copied_notebook_does_not_run_a_command_of_the_new_folder(
    home: Path, elsewhere: Path
) -> None:
    mine = AskedNotebook(home)
    change(mine, COMMAND)
    call(mine)
    record = close(mine)
    assert ran(home) == ["ran-own"]

    copied = AskedNotebook(elsewhere, stored=record)
    [notice] = [each for each in copied.take_notices() if "only you can decide" in each]
    assert "ignored until `%jp trust`" in notice
    assert "conversation.tools.check.source" in notice
    assert f"({MOVED}). If you moved the whole project: `%jp trust --workspace`" in notice
    call(copied)
    with pytest.raises(jp.JpNbError):
        copied.jp("call check")
    copied.session.close()
    assert ran(elsewhere) == []


def test_copied_notebook_attaches_no_file_of_the_new_folder(home: Path, elsewhere: Path) -> None:
    for folder in (home, elsewhere):
        write(folder / "notes.md", folder.name)
    record = sign(home, 'conversation.attachments:=["file://notes.md"]')
    assert is_trusted(home, record)

    copied = AskedNotebook(elsewhere, stored=record)
    assert copied.value("conversation.attachments") == []
    assert MOVED in "\n".join(copied.take_notices())
    copied.session.close()


def test_copied_notebook_uses_no_answers_of_the_new_folder(home: Path, elsewhere: Path) -> None:
    record = sign(home, "prompt.answers=answers.toml")
    copied = AskedNotebook(elsewhere, stored=record)
    assert copied.value("prompt.answers") is None
    assert MOVED in "\n".join(copied.take_notices())
    copied.session.close()


@pytest.mark.parametrize("model", ["scripted/call", "scripted/welcome", "fast"])
def test_copied_notebook_selects_no_script_of_the_new_folder(
    home: Path, elsewhere: Path, tmp_path: Path, model: str
) -> None:
    write(tmp_path / "home" / "config.toml", 'providers.llm.aliases.fast = "scripted/call"\n')
    write(elsewhere / "welcome.toml", CALL)
    mine = AskedNotebook(home)
    mine.session.configure(model="openai/other")
    mine.session.configure(model=model)
    record = close(mine)
    runs: list[str] = []

    @jp.tool
    def check() -> str:
        """Delete the data."""
        runs.append("ran")
        return "done"

    try:
        copied = AskedNotebook(elsewhere, stored=record)
        with pytest.raises(jp.JpNbError):
            copied.session.turns.run("Hello.")
        copied.session.close()
    finally:
        jp.remove_tool("check")
    assert runs == []


def test_values_of_a_file_with_includes_are_not_applied_elsewhere(
    home: Path, elsewhere: Path
) -> None:
    source = "[conversation.tools.check]\nsource = 'local'\n"
    write(home / "base.toml", "[conversation.tools.check]\ncommand = './check.sh'\n")
    write(home / "more.toml", f"extends = ['base.toml']\n{source}")
    mine = AskedNotebook(home)
    with pytest.raises(jp.JpNbError, match="your consent"):
        change(mine, "more.toml")
    mine.jp("trust --workspace --yes")
    change(mine, "more.toml")
    record = close(mine)
    assert is_trusted(home, record)
    assert not is_trusted(elsewhere, record)


# --- consent -----------------------------------------------------------------------------------


def test_user_trusts_a_copy_once(home: Path, elsewhere: Path) -> None:
    record = sign(home, COMMAND)
    copied = AskedNotebook(elsewhere, stored=record)
    copied.jp("trust --yes")
    call(copied)
    record = close(copied)
    assert ran(elsewhere) == ["ran-evil"]
    assert is_trusted(elsewhere, record)
    assert is_trusted(home, record)  # both copies stay signed


def test_declined_trust_remembers_nothing(home: Path, elsewhere: Path) -> None:
    record = sign(home, COMMAND)
    for command in ("trust", "trust --workspace"):
        copied = AskedNotebook(elsewhere, stored=record)
        copied.ends.append(answered(False))
        with pytest.raises(jp.PromptCancelled):
            copied.jp(command)
        assert "./check.sh" in "\n".join(copied.shown)
        copied.session.close()
        assert not is_trusted(elsewhere, record)


def test_moved_project_is_accepted_once_for_all_of_its_notebooks(
    home: Path, tmp_path: Path
) -> None:
    records = [sign(home, COMMAND), sign(home, "prompt.answers=answers.toml")]
    renamed = tmp_path / "renamed"
    shutil.move(home, renamed)
    first = AskedNotebook(renamed, stored=records[0])
    first.jp("trust --workspace --yes")
    assert first.session.active.trust.trusted
    records[0] = close(first)
    assert [is_trusted(renamed, record) for record in records] == [True, True]
    (renamed / "sub").mkdir()
    assert is_trusted(renamed / "sub", records[1])  # the same workspace

    again = AskedNotebook(renamed, stored=records[0])
    again.jp("trust --workspace --revoke")
    again.session.close()
    assert [is_trusted(renamed, record) for record in records] == [False, False]


def test_revoked_signature_is_forgotten(home: Path) -> None:
    record = sign(home, COMMAND)
    mine = AskedNotebook(home, stored=record)
    mine.jp("trust --revoke")
    mine.session.close()
    assert not is_trusted(home, record)  # also an earlier copy of the file


def test_workspace_of_a_changed_file_is_accepted_only_if_a_copy_is_open(
    home: Path, elsewhere: Path
) -> None:
    write(elsewhere / ".jp" / "config.toml", "[conversation.tools.check]\nrun = 'unattended'\n")
    record = sign(home, COMMAND)
    other = AskedNotebook(elsewhere)
    other.jp("trust --workspace --yes")
    other.session.close()
    assert not is_trusted(elsewhere, record)


# --- what keeps working ------------------------------------------------------------------------


def test_copy_without_authority_is_trusted(home: Path, elsewhere: Path) -> None:
    record = sign(home, "assistant.model.parameters.temperature=0.5")
    assert is_trusted(elsewhere, record)
    assert not signed_list().exists()


def test_headless_run_of_a_copy_is_trusted_and_remembers_nothing(
    home: Path, elsewhere: Path
) -> None:
    record = sign(home, COMMAND)
    run = AskedNotebook(elsewhere, stored=record, headless=True)
    assert run.session.active.trust.trusted
    call(run)
    later = close(run)
    assert ran(elsewhere) == ["ran-evil"]
    assert not is_trusted(elsewhere, later)


def test_conversation_of_a_headless_run_is_trusted_in_its_folder(home: Path) -> None:
    run = AskedNotebook(home, headless=True)
    change(run, COMMAND)
    assert is_trusted(home, close(run))


def test_environment_trusts_a_copy(
    home: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = sign(home, COMMAND)
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", str(elsewhere.parent))
    assert is_trusted(elsewhere, record)


def test_link_to_the_workspace_is_the_workspace(home: Path, tmp_path: Path) -> None:
    record = sign(home, COMMAND)
    link = tmp_path / "link"
    link.symlink_to(home)
    assert is_trusted(link, record)


def test_many_harmless_changes_are_trusted_where_they_were_made(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = AskedNotebook(home)
    for number in range(60):
        change(mine, f"user.name=Ada {number}")
    record = close(mine)
    monkeypatch.setattr(stored_changes, "MAX_UNTRUSTED_WORK", 300)
    assert is_trusted(home, record)


def test_setting_made_in_a_copy_is_trusted_there(home: Path, elsewhere: Path) -> None:
    copied = AskedNotebook(elsewhere, stored=sign(home))
    change(copied, COMMAND)
    assert is_trusted(elsewhere, close(copied))


def test_branch_and_new_conversation_are_trusted_where_they_began(home: Path) -> None:
    mine = AskedNotebook(home)
    change(mine, COMMAND)
    call(mine)
    mine.jp("fork")
    branch = mine.stored
    mine.jp("new --keep-config")
    assert is_trusted(home, branch)
    assert is_trusted(home, close(mine))


CHANGES: Final[Sequence[dict[str, Any]]] = (
    {"delta": {"user": {"name": "Ada"}}},
    {"delta": {"assistant": {"model": {"id": {"provider": "openai", "name": "gpt"}}}}},
    {"delta": {"assistant": {"model": {"id": {"provider": "ollama"}}}}},
    {"delta": {"assistant": {"model": {"id": {"name": "call"}}}}},
    {"delta": {"assistant": {"model": {"id": "fast"}}}},
    {"delta": {"assistant": {"model": {"id": " Scripted / call"}}}},
    {"delta": {"assistant": {"model": {"parameters": {"odd": 1}}}}},
    {"delta": {"conversation": {"tools": {"t": {"enable": True}}}}},
    {"delta": {"conversation": {"attachments": ["file://notes.md"]}}},
    {"delta": {"prompt": {"answers": "answers.toml"}}},
    {"delta": {"not": {"known": 1}}, "unsets": ["not a path["]},
    {"unsets": ["assistant.model.id.provider"]},
    {"unsets": ["assistant"]},
    {"unsets": ["conversation.tools"]},
    {"op": "reset"},
)


@pytest.mark.parametrize("model", ["openai/gpt", "ollama/call", "scripted/call"])
def test_each_conversation_that_was_signed_here_is_permitted_here(
    home: Path, tmp_path: Path, model: str
) -> None:
    write(tmp_path / "home" / "config.toml", f'assistant.model.id = "{model}"\n')
    for pair in product(CHANGES[:2], CHANGES):
        notebook = AskedNotebook(home)
        stream = notebook.session.document.conversation
        for each in pair:
            stream.append(new_event("config_delta", **each))
        assert [each for each in notebook.take_notices() if "journal" not in each] == []
        assert is_trusted(home, close(notebook)), pair


# --- workspaces --------------------------------------------------------------------------------


def test_workspace_inside_of_another_counts_by_itself(home: Path) -> None:
    record = sign(home, COMMAND)
    inner = home / "vendor"
    fill(inner, "evil")
    assert not is_trusted(inner, record)
    (home / "sub").mkdir()
    assert is_trusted(home / "sub", record)


def test_workspace_around_another_counts_by_itself(home: Path) -> None:
    inner = home / "vendor"
    fill(inner, "own")
    assert not is_trusted(home, sign(inner, COMMAND))


def test_home_folder_is_no_workspace_of_all_its_folders(
    bare_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(bare_folder))
    (bare_folder / ".jp").mkdir()
    own = bare_folder / "own"
    downloads = bare_folder / "downloads"
    own.mkdir()
    downloads.mkdir()
    record = sign(own, COMMAND)
    assert is_trusted(own, record)
    assert not is_trusted(downloads, record)
    assert not is_trusted(bare_folder, record)


def test_loading_again_in_another_folder_does_not_keep_the_trust(
    home: Path, elsewhere: Path
) -> None:
    mine = AskedNotebook(home)
    change(mine, COMMAND)
    mine.host.home.path = elsewhere / "nb.ipynb"
    mine.host.home.stored = mine.stored
    again = Session(mine.host, previous=mine.session)
    assert not again.active.trust.trusted
    again.close()
    mine.session.close()


# --- the file ----------------------------------------------------------------------------------


def test_list_is_private_and_names_no_conversation(home: Path) -> None:
    record = sign(home, COMMAND)
    path = signed_list()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert record["conversation"]["id"] not in text
    assert str(home) not in text


@pytest.mark.parametrize("text", ["", "{", "[]", '{"workspaces": {"/": 3}}', "[" * 100_000])
def test_damaged_list_permits_nothing(home: Path, text: str) -> None:
    record = sign(home, COMMAND)
    signed_list().write_text(text)
    assert not is_trusted(home, record)
    again = AskedNotebook(home, stored=record)
    again.jp("trust --yes")
    assert is_trusted(home, close(again))


def test_list_that_others_can_write_permits_nothing(home: Path) -> None:
    record = sign(home, COMMAND)
    signed_list().chmod(0o666)
    copied = AskedNotebook(home, stored=record)
    assert "writable for everyone" in "\n".join(copied.take_notices())
    assert not copied.session.active.trust.trusted
    copied.session.close()


def test_list_that_cannot_be_written_is_told_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JP_NB_KEY_FILE", str(tmp_path / "key"))
    write(tmp_path / "file", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    mine = AskedNotebook(home)
    change(mine, COMMAND)
    change(mine, "user.name=Ada")
    told = [each for each in mine.take_notices() if "next kernel will ask you to trust" in each]
    assert len(told) == 1
    mine.session.close()
