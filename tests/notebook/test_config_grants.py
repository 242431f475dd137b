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
from jp_nb.config.access_rules import Grants
from jp_nb.config.schema import parse_path
from jp_nb.notebook.commands import run_subcommand
from jp_nb.session.session import Session
from jp_nb.storage import config_files
from jp_nb.toolkit.python import REGISTRY
from tests.support.sessions import make_session, shell_of

TOOL = "conversation.tools.x"
GOOD = f'[{TOOL}]\nsource = "local"\n[[{TOOL}.access.config]]\npath = "user"\nread = true\n'
WRONG = f'[[{TOOL}.access.config]]\npath = "conversation"\nwrite = true\n'
ODD = f'[[{TOOL}.access.config]]\npath = "usr.name"\nread = true\n'
SENTENCE = (
    "tool 'x' grants write = true to path 'conversation' which is a sensitive path. "
    'Use write = "insecure_allow" to explicitly acknowledge this grant.'
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notebook's folder in a workspace; nothing is configured."""
    for name in [name for name in os.environ if name.startswith(("JP_CFG_", "JP_NB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(config_files, "get_config_folder", lambda: tmp_path / "home")
    monkeypatch.setenv("JP_NB_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", str(tmp_path))
    inner = tmp_path / "work" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    return inner


@pytest.fixture
def load() -> Iterator[Callable[[], Session]]:
    """Load the extension without a kernel."""
    made: list[Session] = []

    def load() -> Session:
        made.append(make_session())
        return made[-1]

    yield load
    for session in made:
        session.close()


@pytest.fixture(autouse=True)
def no_tools_are_left_behind() -> Iterator[None]:
    before = set(REGISTRY.all())
    yield
    for name in set(REGISTRY.all()) - before:
        REGISTRY.remove(name)


def configure(folder: Path, text: str) -> Path:
    path = folder / ".jp" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    return path


def report(session: Session, name: str) -> str:
    shell = shell_of(session)
    shell.shown.clear()
    run_subcommand(shell, session, "tools", name)
    (text,) = shell.shown
    return text


# --- loading ---------------------------------------------------------------------------------


@pytest.mark.req("R078-18")
@pytest.mark.parametrize("wrong_is_nearer", [True, False])
def test_file_with_a_wrong_rule_is_named(
    folder: Path, load: Callable[[], Session], wrong_is_nearer: bool
) -> None:
    near = configure(folder, WRONG if wrong_is_nearer else GOOD)
    far = configure(folder.parent, GOOD if wrong_is_nearer else WRONG)
    session = load()
    wrong = near if wrong_is_nearer else far
    said = f"{TOOL}.access.config.0.write: {SENTENCE} (from workspace file: {wrong})"
    assert any(said in notice for notice in session.notices)
    with pytest.raises(jp.ConfigError) as caught:
        session.turns.run("Go.")
    assert str(caught.value) == said


def test_rule_that_matches_nothing_is_reported_once(
    folder: Path, load: Callable[[], Session]
) -> None:
    configure(folder, GOOD + ODD)
    session = load()
    (notice,) = session.notices
    assert notice == (
        "tool 'x': access.config path 'usr.name' does not exist in the configuration, so the "
        "rule never matches"
    )
    assert session.settings.warnings() == [notice]  # as a restored conversation reports it
    session.notices.clear()
    session.conversations.new()
    assert session.notices == []


def test_valid_rules_are_not_reported(folder: Path, load: Callable[[], Session]) -> None:
    configure(folder, GOOD)
    assert load().notices == []


def test_assignment_has_the_limits_of_a_file_for_grants(
    folder: Path, load: Callable[[], Session]
) -> None:
    session = load()
    rule = '{"path": "conversation", "write": true}'
    with pytest.raises(jp.ConfigError) as caught:
        run_subcommand(shell_of(session), session, "config", f"'{TOOL}.access.config:=[{rule}]'")
    assert SENTENCE in str(caught.value)
    assert session.config.conversation.tools.get("x") is None


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


def test_grants_of_a_tool_are_described(folder: Path, load: Callable[[], Session]) -> None:
    configure(folder, GOOD + ODD + f'[[{TOOL}.access.config]]\npath = "style"\napply = "ask"\n')
    assert (
        "config user: read; config usr.name: matches no setting; config style: nothing"
    ) in report(load(), "x")


# --- @jp.tool --------------------------------------------------------------------------------


@pytest.mark.req("R078-1")
def test_file_restricts_a_python_tool(folder: Path, load: Callable[[], Session]) -> None:
    @jp.tool(access=[jp.ConfigRule("assistant.model", read=True, write=True)])
    def change_model(target: str) -> str:
        return target

    rule = (
        '[[conversation.tools.change_model.access.config]]\npath = "assistant.model.parameters"\n'
    )
    configure(folder, rule)
    session = load()
    access = session.config.conversation.tools["change_model"].access
    assert access is not None
    found = Grants(access.config)
    assert found.may_write(parse_path("assistant.model.id"))
    assert not found.may_write(parse_path("assistant.model.parameters.temperature"))
    told = report(session, "change_model")
    assert "config assistant.model: read, write (asks)" in told
    assert "config assistant.model.parameters: nothing" in told


def test_file_rules_for_a_python_tool_are_refused(
    folder: Path, load: Callable[[], Session]
) -> None:
    @jp.tool
    def look(place: str) -> str:
        return place

    configure(folder, '[[conversation.tools.look.access.fs]]\npath = "."\n')
    session: Any = load()
    with pytest.raises(jp.ConfigError, match=r"`access\.fs` is only supported on local tools"):
        session.config  # noqa: B018 - reading it is what fails
