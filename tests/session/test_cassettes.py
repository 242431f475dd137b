"""The current cassette, without a notebook around it."""

from __future__ import annotations

from pathlib import Path

import pytest

import jp_nb as jp
from jp_nb.session.cassettes import Cassettes, hide_key
from jp_nb.storage.config_files import ConfigFiles

KEY = "sk-test-0123456789abcdef0123"


@pytest.fixture(autouse=True)
def _no_cassette_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODE", "PATH", "TOOLS"):
        monkeypatch.delenv(f"JP_CFG_PROVIDERS__CASSETTE__{name}", raising=False)


def test_cassette_needs_a_path_if_the_notebook_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cassettes = Cassettes(ConfigFiles(tmp_path), None)
    assert cassettes.active is None
    monkeypatch.setenv("JP_CFG_PROVIDERS__CASSETTE__MODE", "record")
    with pytest.raises(jp.ConfigError, match="the name of this notebook is unknown") as raised:
        _ = cassettes.active
    assert raised.value.path == "providers.cassette.path"
    assert cassettes.choose("record", "a.jsonl").path == tmp_path / "a.jsonl"


def test_default_cassette_is_next_to_the_notebook(tmp_path: Path) -> None:
    cassettes = Cassettes(ConfigFiles(tmp_path), tmp_path / "my talk.v2.ipynb")
    found = cassettes.choose("record")
    assert found.path == tmp_path / "my talk.v2.cassette.jsonl"
    assert cassettes.format_path(found.path) == "my talk.v2.cassette.jsonl"


def test_path_is_relative_to_the_folder_of_the_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JP_CFG_PROVIDERS__CASSETTE__PATH", "../tapes/a.jsonl")
    monkeypatch.chdir("/")
    cassettes = Cassettes(ConfigFiles(tmp_path / "notes"), None)
    assert cassettes.choose("record").path == tmp_path / "tapes" / "a.jsonl"


def test_tilde_with_an_unknown_user_is_a_folder_name(tmp_path: Path) -> None:
    found = Cassettes(ConfigFiles(tmp_path), None).choose("record", "~nobody-of-this-name/a.jsonl")
    assert found.path == tmp_path / "~nobody-of-this-name" / "a.jsonl"


def test_current_key_is_hidden_in_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    hide = hide_key("A_KEY", lambda text: text.replace("sesame", "(secret)"))
    monkeypatch.delenv("A_KEY", raising=False)
    assert hide(f"{KEY} sesame") == f"{KEY} (secret)"
    monkeypatch.setenv("A_KEY", KEY)
    assert hide(f"{KEY} sesame") == "[key] (secret)"
    monkeypatch.setenv("A_KEY", "none")  # a word, as for local servers
    assert hide("none of it") == "none of it"
