"""Settings without a session: files, a record, and changes by tools."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.record.change_marks import ProposedBy, make_proposal_metadata
from jp_nb.session.base_config import base_config
from jp_nb.session.settings import Settings
from jp_nb.storage import config_files
from jp_nb.storage.config_files import ConfigFiles
from tests.kit.records import new_event
from tests.kit.sessions import directive
from tests.support.entries import new_stream

ID = "assistant.model.id"
BOTH = {"provider": "openai", "name": "by-tool"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose file `dev` sets a model and a name."""
    for name in [name for name in os.environ if name.startswith(("JP_CFG_", "JP_NB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(config_files, "get_config_folder", lambda: tmp_path / "home")
    work = tmp_path / "work"
    (work / ".jp").mkdir(parents=True)
    (work / ".jp" / "config.toml").write_text(f'{ID} = "anthropic/base"\n')
    (work / "dev.toml").write_text(f'{ID} = "google/by-file"\nuser.name = "by-file"\n')
    return work


class Talk:
    """A conversation in a workspace, with its settings."""

    def __init__(self, folder: Path) -> None:
        files = ConfigFiles(folder)
        self.stream = new_stream(base_config=base_config(files))
        self.settings = Settings(self.stream, files, trusted=True, is_local=True)

    def change(self, kind: Any, text: str) -> list[str]:
        return self.settings.change(directive(kind, text))

    def a_tool_sets(
        self, model: Mapping[str, str], *, claims: Any = None, unsets: tuple[str, ...] = ()
    ) -> None:
        """Append the change of an approved proposal, as the agent does."""
        touched = [*(f"{ID}.{key}" for key in model), *unsets]
        call = ProposedBy("change_model", "call_1", tuple(touched), "person", "form")
        self.stream.append(
            new_event(
                "config_delta",
                delta={"assistant": {"model": {"id": dict(model)}}} if model else {},
                unsets=unsets,
                claims=dict.fromkeys(touched, claims),
                metadata=make_proposal_metadata([call]),
            )
        )

    @property
    def model(self) -> str:
        return self.settings.model

    @property
    def name(self) -> str | None:
        return self.settings.config.user.name


@pytest.mark.req("R078-57")
def test_model_of_a_tool_survives_removing_a_file(folder: Path, subtests: pytest.Subtests) -> None:
    rows: list[Any] = [None, []]
    for unclaimed in rows:
        with subtests.test(unclaimed=unclaimed):
            talk = Talk(folder)
            talk.change("cfg", "dev.toml")
            talk.a_tool_sets(BOTH, claims=unclaimed)
            assert talk.model == "openai/by-tool"
            talk.change("no_cfg", "dev.toml")
            assert (talk.model, talk.name) == ("openai/by-tool", None)
            (said,) = talk.change("no_cfg", "dev.toml")
            assert "no current setting is from 'dev.toml'" in said


@pytest.mark.req("R078-57")
def test_partial_model_of_a_tool_keeps_the_rest(folder: Path) -> None:
    talk = Talk(folder)
    talk.change("cfg", "dev.toml")
    talk.a_tool_sets({"name": "by-tool"})
    talk.change("no_cfg", "dev.toml")
    assert (talk.model, talk.name) == ("google/by-tool", None)


@pytest.mark.req("R078-57")
def test_value_unset_by_a_tool_stays_unset(folder: Path) -> None:
    talk = Talk(folder)
    talk.change("cfg", "user.name=mine")
    talk.change("cfg", "dev.toml")
    talk.a_tool_sets({}, unsets=("user.name",))
    assert talk.name is None
    talk.change("no_cfg", "dev.toml")
    assert (talk.model, talk.name) == ("anthropic/base", None)


@pytest.mark.req("R078-57")
def test_user_can_undo_the_model_of_a_tool(folder: Path, subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, str]] = [
        ("cfg", f"{ID}=ollama/mine", "ollama/mine"),
        ("cfg", "dev.toml", "google/by-file"),
        ("unset", ID, "anthropic/base"),
        ("no_cfg", f"{ID}=openai/by-tool", "google/by-file"),
    ]
    for kind, text, model in rows:
        with subtests.test(kind=kind):
            talk = Talk(folder)
            talk.change("cfg", "dev.toml")
            talk.a_tool_sets(BOTH)
            assert talk.change(kind, text) == []
            assert talk.model == model


@pytest.mark.req("R078-57")
def test_model_of_a_tool_survives_in_a_restored_conversation(folder: Path) -> None:
    talk = Talk(folder)
    talk.change("cfg", "dev.toml")
    talk.a_tool_sets(BOTH)
    raw = json.loads(json.dumps(talk.stream.raw))
    again = Talk(folder)
    again.stream = new_stream(*raw, base_config=talk.stream.base_config)
    again.settings = Settings(again.stream, ConfigFiles(folder), trusted=True)
    again.change("no_cfg", "dev.toml")
    assert (again.model, again.name) == ("openai/by-tool", None)


def test_attached_path_is_relative_to_the_notebook_and_stored_from_the_workspace(
    folder: Path,
) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "notes.md").write_text("Delft", encoding="utf-8")
    (folder / "top.md").write_text("Leiden", encoding="utf-8")
    talk = Talk(folder / "deep")
    for text in ("notes.md", "../top.md", "file://deep/*.md", "notes.md"):
        talk.change("attach", text)
    expected = ["file://deep/notes.md", "file://top.md", "file://deep/*.md"]
    assert talk.settings.config.conversation.attachments == expected
    before = len(talk.stream.deltas)
    missing = "file .*/deep/"
    for text, why in [("nots.md", missing + "nots.md"), ("top.md", missing), (" ", "a URL")]:
        with pytest.raises(jp.UsageError, match=why):
            talk.change("attach", text)
    assert len(talk.stream.deltas) == before
    talk.change("no_cfg", "conversation.attachments=file://top.md")
    assert talk.settings.config.conversation.attachments == [expected[0], expected[2]]
