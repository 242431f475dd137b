"""The current cassette of a session: its path, and what it does not contain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.loopback import LoopbackServer
from tests.support.sessions import Notebook

KEY = "sk-test-0123456789abcdef0123"


@pytest.fixture
def cassettes_of(bare_folder: Path) -> Iterator[Callable[[Path | None], Any]]:
    """Return the cassettes of a session for the notebook at a path; None: it has no path."""
    opened: list[Session] = []

    def open_cassettes(notebook: Path | None) -> Any:
        opened.append(Session(FakeHost(home=FakeHome(notebook))))
        return opened[-1].active.cassettes

    yield open_cassettes
    for session in opened:
        session.close()


Open = Callable[[Path | None], Any]


def test_cassette_needs_a_path_if_the_notebook_is_unknown(
    bare_folder: Path, cassettes_of: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    cassettes = cassettes_of(None)
    assert cassettes.active is None
    monkeypatch.setenv("JP_CFG_PROVIDERS__CASSETTE__MODE", "record")
    with pytest.raises(jp.ConfigError, match="the name of this notebook is unknown") as raised:
        _ = cassettes.active
    assert raised.value.path == "providers.cassette.path"
    assert cassettes.choose("record", "a.jsonl").path == bare_folder / "a.jsonl"


def test_default_cassette_is_next_to_the_notebook(bare_folder: Path, cassettes_of: Open) -> None:
    cassettes = cassettes_of(bare_folder / "my talk.v2.ipynb")
    found = cassettes.choose("record")
    assert found.path == bare_folder / "my talk.v2.cassette.jsonl"
    assert cassettes.format_path(found.path) == "my talk.v2.cassette.jsonl"


def test_path_is_relative_to_the_folder_of_the_notebook(
    bare_folder: Path, cassettes_of: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JP_CFG_PROVIDERS__CASSETTE__PATH", "../tapes/a.jsonl")
    monkeypatch.chdir("/")
    (bare_folder / "notes").mkdir()
    cassettes = cassettes_of(bare_folder / "notes" / "nb.ipynb")
    assert cassettes.choose("record").path == bare_folder / "tapes" / "a.jsonl"


def test_tilde_with_an_unknown_user_is_a_folder_name(bare_folder: Path, cassettes_of: Open) -> None:
    found = cassettes_of(None).choose("record", "~nobody-of-this-name/a.jsonl")
    assert found.path == bare_folder / "~nobody-of-this-name" / "a.jsonl"


@pytest.mark.parametrize(
    ("value", "recorded"),
    [(KEY, "Is it [key]?"), ("none", "Is it none?")],  # a word, as for local servers
)
def test_current_key_is_hidden_in_recordings(
    folder: Path, monkeypatch: pytest.MonkeyPatch, value: str, recorded: str
) -> None:
    monkeypatch.setenv("A_KEY", value)
    notebook = Notebook(folder)
    notebook.jp("cassette record a.jsonl")
    notebook.jp("config providers.llm.openai.api_key_env=A_KEY")
    with LoopbackServer([f"It is {value}."]) as server:
        notebook.jp(f"config providers.llm.openai.base_url={server.url}")
        notebook.ask(f"Is it {value}?", model="openai/m")
    notebook.session.close()
    content = (folder / "a.jsonl").read_text()
    assert recorded in content
    assert KEY not in content
