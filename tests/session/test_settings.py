"""Settings of a conversation: files, a record, and changes by tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.kit.records import new_event
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHome, FakeHost

ID = "assistant.model.id"
BOTH = {"provider": "openai", "name": "by-tool"}


@pytest.fixture
def folder(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trusted workspace whose file `dev` sets a model and a name."""
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", str(bare_folder))
    (bare_folder / ".jp").mkdir()
    (bare_folder / ".jp" / "config.toml").write_text(f'{ID} = "anthropic/base"\n')
    (bare_folder / "dev.toml").write_text(f'{ID} = "google/by-file"\nuser.name = "by-file"\n')
    return bare_folder


class Talk:
    """A conversation in a workspace, with its settings."""

    def __init__(self, folder: Path, stored: Any = None) -> None:
        session = Session(FakeHost(home=FakeHome(folder / "nb.ipynb", stored=stored)))
        self.document = session.document
        self.stream = session.document.conversation
        self.settings = session.settings

    def change(self, kind: Any, text: str) -> list[str]:
        return self.settings.change(directive(kind, text))

    def a_tool_sets(
        self, model: Mapping[str, str], *, claims: Any = None, unsets: tuple[str, ...] = ()
    ) -> None:
        """Append the change of an approved proposal, as the agent does."""
        touched = [*(f"{ID}.{key}" for key in model), *unsets]
        proposal = {
            "tool": "change_model",
            "call_id": "call_1",
            "paths": touched,
            "applied_by": "person",
            "channel": "form",
        }
        self.stream.append(
            new_event(
                "config_delta",
                delta={"assistant": {"model": {"id": dict(model)}}} if model else {},
                unsets=unsets,
                claims=dict.fromkeys(touched, claims),
                metadata={"proposed_by": [proposal]},
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
    again = Talk(folder, stored=json.loads(json.dumps(talk.document.to_json())))
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
