"""Rules of `access.config` as a person meets them: when loading, in `%jp tools`, at `@jp.tool`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.support.sessions import Notebook, bare_folder

__all__ = ["bare_folder"]

TOOL = "conversation.tools.x"
GOOD = f'[{TOOL}]\nsource = "local"\n[[{TOOL}.access.config]]\npath = "user"\nread = true\n'
WRONG = f'[[{TOOL}.access.config]]\npath = "conversation"\nwrite = true\n'
ODD = f'[[{TOOL}.access.config]]\npath = "usr.name"\nread = true\n'
SENTENCE = (
    "tool 'x' grants write = true to path 'conversation' which is a sensitive path. "
    'Use write = "insecure_allow" to explicitly acknowledge this grant.'
)


@pytest.fixture
def folder(bare_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notebook's folder in a workspace; nothing is configured."""
    monkeypatch.setenv("JP_NB_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", str(tmp_path))
    inner = bare_folder / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    return inner


@pytest.fixture
def load(folder: Path) -> Iterator[Callable[[], Notebook]]:
    """Load the extension without a kernel."""
    made: list[Notebook] = []

    def load() -> Notebook:
        made.append(Notebook(folder))
        return made[-1]

    yield load
    for notebook in made:
        notebook.session.close()


@pytest.fixture(autouse=True)
def no_tools_are_left_behind() -> Iterator[None]:
    yield
    for tool in jp.tools():
        jp.remove_tool(tool.name)


def configure(folder: Path, text: str) -> Path:
    path = folder / ".jp" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    return path


# --- loading ---------------------------------------------------------------------------------


@pytest.mark.req("R078-18")
@pytest.mark.parametrize("wrong_is_nearer", [True, False])
def test_file_with_a_wrong_rule_is_named(
    folder: Path, load: Callable[[], Notebook], wrong_is_nearer: bool
) -> None:
    near = configure(folder, WRONG if wrong_is_nearer else GOOD)
    far = configure(folder.parent, GOOD if wrong_is_nearer else WRONG)
    notebook = load()
    wrong = near if wrong_is_nearer else far
    said = f"{TOOL}.access.config.0.write: {SENTENCE} (from workspace file: {wrong})"
    assert any(said in notice for notice in notebook.notices)
    with pytest.raises(jp.ConfigError) as caught:
        notebook.ask("Go.")
    assert str(caught.value) == said


def test_rule_that_matches_nothing_is_reported_once(
    folder: Path, load: Callable[[], Notebook]
) -> None:
    configure(folder, GOOD + ODD)
    notebook = load()
    (notice,) = notebook.notices
    assert notice == (
        "tool 'x': access.config path 'usr.name' does not exist in the configuration, so the "
        "rule never matches"
    )
    # A restored conversation reports it again.
    assert notebook.session.settings.list_warnings() == [notice]
    notebook.take_notices()
    notebook.jp("new")
    assert notebook.take_notices() == []


def test_valid_rules_are_not_reported(folder: Path, load: Callable[[], Notebook]) -> None:
    configure(folder, GOOD)
    assert load().notices == []


def test_assignment_has_the_limits_of_a_file_for_grants(
    folder: Path, load: Callable[[], Notebook]
) -> None:
    notebook = load()
    rule = '{"path": "conversation", "write": true}'
    with pytest.raises(jp.ConfigError) as caught:
        notebook.jp(f"config '{TOOL}.access.config:=[{rule}]'")
    assert SENTENCE in str(caught.value)
    assert "x" not in notebook.value("conversation.tools")


def test_loading_without_configuration_reads_no_rules(folder: Path) -> None:
    code = (
        "import sys; from types import SimpleNamespace as N\n"
        "from jp_nb.notebook.host import NotebookHost\n"
        "from jp_nb.session.session import Session\n"
        "Session(NotebookHost(N(user_ns={}))).close()\n"
        "assert 'jp_nb.config.authority' not in sys.modules\n"
        "assert 'jp_nb.config.tree.tool_settings' not in sys.modules"
    )
    home = {"XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **home}, timeout=60)


# --- %jp tools -------------------------------------------------------------------------------


def test_grants_of_a_tool_are_described(folder: Path, load: Callable[[], Notebook]) -> None:
    configure(folder, GOOD + ODD + f'[[{TOOL}.access.config]]\npath = "style"\napply = "ask"\n')
    assert (
        "config user: read; config usr.name: matches no setting; config style: nothing"
    ) in load().jp("tools x")


# --- @jp.tool --------------------------------------------------------------------------------


@pytest.mark.req("R078-1")
def test_file_restricts_a_python_tool(folder: Path, load: Callable[[], Notebook]) -> None:
    seen: list[Any] = []

    @jp.tool(access=[jp.ConfigRule("assistant.model", read=True, write=True)])
    def change_model(ctx: jp.ToolContext) -> str:
        seen.append(ctx.config)
        return "seen"

    rule = (
        '[[conversation.tools.change_model.access.config]]\npath = "assistant.model.parameters"\n'
    )
    configure(folder, rule)
    notebook = load()
    script = '[[replies]]\ntool_calls = [{ name = "change_model" }]\n[[replies]]\ntext = "Done."\n'
    (folder / "go.toml").write_text(script)
    notebook.cell("-m scripted/go -c assistant.model.parameters.temperature=0.5", "Go.")
    [config] = seen
    assert config == {"assistant": {"model": {"id": {"provider": "scripted", "name": "go"}}}}
    told = notebook.jp("tools change_model")
    assert "config assistant.model: read, write (asks)" in told
    assert "config assistant.model.parameters: nothing" in told


def test_file_rules_for_a_python_tool_are_refused(
    folder: Path, load: Callable[[], Notebook]
) -> None:
    @jp.tool
    def look(place: str) -> str:
        return place

    configure(folder, '[[conversation.tools.look.access.fs]]\npath = "."\n')
    notebook = load()
    with pytest.raises(jp.ConfigError, match=r"`access\.fs` is only supported on local tools"):
        notebook.value("conversation.tools")
