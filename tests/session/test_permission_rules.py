"""Rules that the user keeps in a notebook: the next kernel, copies, and records of strangers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.support.fakes import yes
from tests.support.sessions import AskedNotebook, bare_folder

MAX_RULES = 100


__all__ = ["bare_folder"]


@pytest.fixture
def seen() -> Iterator[list[str]]:
    """The paths with which the tool `save` ran."""
    paths: list[str] = []

    @jp.tool(run="ask")
    def save(path: str) -> str:
        """Save a file."""
        paths.append(path)
        return f"saved {path}"

    yield paths
    jp.remove_tool("save")


@pytest.fixture
def folder(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = bare_folder / "ws"
    (root / ".jp").mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


def rules_path() -> Path:
    return Path(os.environ["XDG_DATA_HOME"]) / "jp" / "permission-rules.json"


def keep(notebook: AskedNotebook, scope: str, path: str = "a.txt") -> None:
    notebook.ends += [yes("always"), yes(scope)]
    notebook.call("save", path=path)


def is_asked(notebook: AskedNotebook, path: str = "a.txt") -> bool:
    """Call the tool, and return True if the user was asked."""
    notebook.ends[:] = [yes("skip")]
    notebook.call("save", path=path)
    asked = not notebook.ends
    notebook.ends.clear()
    return asked


def test_rule_of_a_notebook_is_kept_for_the_next_kernel(folder: Path, seen: list[str]) -> None:
    first = AskedNotebook(folder)
    keep(first, "notebook")
    assert not is_asked(first)
    first.session.close()

    following = AskedNotebook(folder, stored=first.stored)
    assert not is_asked(following)
    assert is_asked(following, "b.txt")
    assert seen == ["a.txt"] * 3


def test_rule_of_a_session_ends_with_the_kernel(folder: Path, seen: list[str]) -> None:
    first = AskedNotebook(folder)
    keep(first, "session")
    assert not is_asked(first)
    assert not rules_path().exists()
    first.session.close()
    assert is_asked(AskedNotebook(folder, stored=first.stored))


def test_unattended_run_follows_the_rules_of_the_notebook(folder: Path, seen: list[str]) -> None:
    keep(AskedNotebook(folder), "notebook")
    headless = AskedNotebook(folder, headless=True)
    assert headless.call("save", path="a.txt").content == "saved a.txt"
    refused = headless.call("save", path="b.txt")
    assert refused.is_error
    assert "no user is available" in (refused.content or "")


def test_other_notebooks_and_copies_have_no_rules(folder: Path, seen: list[str]) -> None:
    first = AskedNotebook(folder)
    keep(first, "notebook")
    first.session.close()
    assert is_asked(AskedNotebook(folder, stored=first.stored, name="copy"))
    other = folder.parent / "other"
    (other / ".jp").mkdir(parents=True)
    assert is_asked(AskedNotebook(other, stored=first.stored))


def test_record_of_a_stranger_at_the_same_path_gets_no_permission(
    folder: Path, seen: list[str]
) -> None:
    first = AskedNotebook(folder)
    keep(first, "notebook")
    first.session.close()
    stored = first.stored
    stored = json.loads(json.dumps(stored).replace("Settled.", "Go on."))

    strange = AskedNotebook(folder, stored=stored)
    assert not strange.session.active.trust.trusted
    assert is_asked(strange)
    keep(strange, "session")
    [*_, scopes] = strange.person.asked
    assert "notebook" not in [action.value for action in scopes.actions]


def test_settings_of_a_stranger_set_no_rules(folder: Path, seen: list[str]) -> None:
    rules = '[[conversation.tools.save.rules]]\nrun = "unattended"\n'
    (folder / ".jp" / "config.toml").write_text(rules)
    notebook = AskedNotebook(folder)
    assert is_asked(notebook)
    assert seen == []


def test_rule_of_the_user_in_the_configuration(folder: Path, seen: list[str]) -> None:
    notebook = AskedNotebook(folder)
    rule = {"when": {"path": "inside:data"}, "run": "unattended"}
    notebook.jp(f"config conversation.tools.save.rules:='{json.dumps([rule])}'")
    called = notebook.call("save", path="data/a.txt")
    assert called.content == "saved data/a.txt"
    assert called.rule == {"when": {"path": "inside:data"}, "from": "configuration"}
    assert is_asked(notebook, "data/../a.txt")
    assert '(rule: path = "inside:data")' in notebook.jp("log")


def test_rules_are_listed_with_their_origin_and_can_be_removed(
    folder: Path, seen: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = AskedNotebook(folder)
    rule = {"when": {"path": "inside:data", "hint.read_only": True}, "run": "unattended"}
    notebook.jp(f"config conversation.tools.save.rules:='{json.dumps([rule])}'")
    keep(notebook, "session")
    keep(notebook, "notebook", "b.txt")

    shown = notebook.jp("tools save")
    assert '{ when = { path = "inside:data", "hint.read_only" = true }' in shown
    assert "conversation.tools.save.rules, conversation" in shown
    assert '{ when = { path = "a.txt" }, only_these = true, run = "unattended" }' in shown
    assert "you, for this session: remove it with %jp tools save --forget 1" in shown
    assert "you, in this notebook: remove it with %jp tools save --forget 2" in shown

    notebook.jp("tools save --forget 2")
    assert "Forgotten: save" in capsys.readouterr().out
    assert is_asked(notebook, "b.txt")
    assert not is_asked(notebook)
    notebook.jp("tools save --forget 1")
    assert is_asked(notebook)
    for line in ("tools save --forget 1", "tools save --forget x", "tools --forget 1"):
        with pytest.raises(jp.UsageError, match=r"forget|kept rule"):
            notebook.jp(line)


def test_damaged_rules_permit_nothing(folder: Path, seen: list[str]) -> None:
    notebook = AskedNotebook(folder)
    keep(notebook, "notebook")
    path = rules_path()
    good = json.loads(path.read_text())
    [(name, [rule])] = good["notebooks"].items()
    assert path.stat().st_mode & 0o777 == 0o600

    bad: list[Any] = [
        "[" * 100_000,
        {},
        {"notebooks": []},
        {"notebooks": {name: {}}},
        {"notebooks": {name: [{**rule, "when": {"path": ["a.txt"]}}]}},
        {"notebooks": {name: [{**rule, "identity": None}]}},
        {"notebooks": {name: [{**rule, "identity": "0" * 64}]}},
        {"notebooks": {name: [{**rule, "tool": "other"}]}},
        {"notebooks": {name: [{**rule, "asked_by": 1}]}},
    ]
    for content in bad:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        assert is_asked(notebook), content
    path.write_text(json.dumps(good))
    assert not is_asked(notebook)


def test_rules_of_another_user_are_ignored(folder: Path, seen: list[str]) -> None:
    notebook = AskedNotebook(folder)
    keep(notebook, "notebook")
    rules_path().unlink()
    rules_path().mkdir()
    assert is_asked(notebook)
    assert any("permission-rules.json" in notice for notice in notebook.take_notices())


def test_oldest_rules_are_forgotten(folder: Path, seen: list[str]) -> None:
    notebook = AskedNotebook(folder)
    keep(notebook, "notebook")
    stored = json.loads(rules_path().read_text())
    [(name, [rule])] = stored["notebooks"].items()
    rules = [{**rule, "when": {"path": f"{number}.txt"}} for number in range(MAX_RULES)]
    rules_path().write_text(json.dumps({**stored, "notebooks": {name: rules}}))

    assert not is_asked(notebook, "0.txt")
    keep(notebook, "notebook", "new.txt")
    [kept] = json.loads(rules_path().read_text())["notebooks"].values()
    newest = [f"{number}.txt" for number in range(1, MAX_RULES)]
    assert [rule["when"]["path"] for rule in kept] == [*newest, "new.txt"]
    assert is_asked(notebook, "0.txt")


def test_withdrawn_consent_ends_the_rules(
    folder: Path, seen: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    first = AskedNotebook(folder)
    keep(first, "notebook")
    first.session.active.revoke()
    assert is_asked(first)

    first.jp("trust --workspace --yes")
    rules_path().unlink()
    rules_path().mkdir()  # it cannot be read
    capsys.readouterr()
    first.jp("trust --workspace --revoke")
    assert "need your consent again" in capsys.readouterr().out
