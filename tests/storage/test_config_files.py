"""Configuration files around a notebook: order, includes, and files selected by name."""

from __future__ import annotations

import operator
import os
from pathlib import Path
from typing import Any

import platformdirs
import pytest

import jp_nb as jp
from tests.kit.folders import config_files
from tests.kit.settings import Settings, value_at

WORDS = "assistant.model.parameters.stop_words"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration folder."""
    folder = tmp_path / "home" / "jp"
    monkeypatch.setattr(platformdirs, "user_config_path", lambda _: folder)
    for name in [name for name in os.environ if name.startswith("JP_CFG_")]:
        monkeypatch.delenv(name)
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "deep"
    folder.mkdir(parents=True)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def stop_words(value: str) -> str:
    return f'[assistant.model.parameters]\nstop_words = ["{value}"]\n'


def folded_words(files: Any) -> object:
    return value_at(Settings.from_files(files).merged(), WORDS)


def test_files_are_merged_from_the_user_through_the_root_to_the_notebook(
    home: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / "config.toml", stop_words("user"))
    outer = write(work.parent / ".jp" / "config.toml", stop_words("outer"))
    write(work / ".jp" / "config.toml", stop_words("near"))
    monkeypatch.setenv("JP_CFG_ASSISTANT__MODEL__PARAMETERS__STOP_WORDS", "+env")
    files = config_files(work)
    assert folded_words(files) == ["user", "outer", "near", "env"]
    assert [(x.name, x.file) for x in files.load_layers()][1] == ("workspace file", str(outer))
    assert files.root == work


def test_file_that_does_not_inherit_replaces_weaker_files_only(
    home: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / "config.toml", stop_words("user"))
    write(work / ".jp" / "config.toml", "inherit = false\n" + stop_words("near"))
    monkeypatch.setenv("JP_CFG_USER__NAME", "env")
    files = config_files(work)
    assert folded_words(files) == ["near"]
    assert value_at(Settings.from_files(files).merged(), "user.name") == "env"


def test_file_is_read_again_when_it_changed(home: Path, work: Path) -> None:
    path = write(work / ".jp" / "config.toml", stop_words("one"))
    files = config_files(work)
    assert folded_words(files) == ["one"]
    assert files.load_layers()[0] is files.load_layers()[0]
    write(path, stop_words("another"))
    assert folded_words(files) == ["another"]


def test_files_are_read_once_in_a_block_and_again_after_it(home: Path, work: Path) -> None:
    path = write(work / ".jp" / "config.toml", stop_words("one"))
    files = config_files(work)
    with files.read_once():
        write(path, stop_words("another"))
        assert folded_words(files) == ["one"]
    assert folded_words(files) == ["another"]


def test_unchanged_sources_keep_their_layers(
    home: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(work / ".jp" / "config.toml", stop_words("one"))
    monkeypatch.setenv("JP_CFG_USER__NAME", "env")
    files = config_files(work)
    assert all(map(operator.is_, files.load_layers(), files.load_layers()))
    before = files.load_layers()
    monkeypatch.setenv("JP_CFG_USER__NAME", "other")
    assert [old is new for old, new in zip(before, files.load_layers(), strict=True)] == [
        True,
        False,
    ]


def test_included_files_are_weaker_or_stronger_and_globs_are_sorted(home: Path, work: Path) -> None:
    folder = work / ".jp"
    write(folder / "config.d" / "b.toml", stop_words("b"))
    write(folder / "config.d" / "a.toml", 'extends = ["../base.toml"]\n' + stop_words("a"))
    write(folder / "base.toml", stop_words("base"))
    write(folder / "tail.toml", stop_words("tail"))
    write(
        folder / "config.toml",
        'extends = ["config.d/**/*.toml", { path = "tail.toml", strategy = "after" }, "none/*"]\n'
        + stop_words("own"),
    )
    files = config_files(work)
    assert folded_words(files) == ["base", "a", "b", "own", "tail"]
    assert files.notices.take() == []
    assert Path(files.load_layers()[0].file or "").name == "base.toml"


def test_file_that_a_pattern_matches_in_several_ways_is_included_once(
    home: Path, work: Path
) -> None:
    write(work / ".jp" / "config.d" / "deep" / "a.toml", stop_words("a"))
    write(work / ".jp" / "config.toml", 'extends = ["config.d/**/**/*.toml"]\n' + stop_words("own"))
    files = config_files(work)
    assert len(files.load_layers()) == 2
    assert folded_words(files) == ["a", "own"]


def test_missing_included_file_is_reported_once_and_ignored(home: Path, work: Path) -> None:
    write(work / ".jp" / "config.toml", 'extends = ["gone.toml"]\n' + stop_words("own"))
    files = config_files(work)
    assert folded_words(files) == folded_words(files) == ["own"]
    (notice,) = files.notices.take()
    assert "'gone.toml', which does not exist" in notice


def test_circular_includes_are_an_error_with_the_chain(home: Path, work: Path) -> None:
    write(work / ".jp" / "config.toml", 'extends = ["a.toml"]')
    write(work / ".jp" / "a.toml", 'extends = ["b.toml"]')
    write(work / ".jp" / "b.toml", 'extends = ["a.toml"]')
    with pytest.raises(jp.ConfigError, match=r"a\.toml -> .*b\.toml -> .*a\.toml"):
        config_files(work).load_layers()


def test_error_of_a_value_names_the_included_file(home: Path, work: Path) -> None:
    write(work / ".jp" / "config.toml", 'extends = ["a.toml"]')
    wrong = write(work / ".jp" / "a.toml", '[user]\nnme = "x"')
    with pytest.raises(jp.ConfigError, match=r"did you mean 'user\.name'") as caught:
        config_files(work).load_layers()
    assert caught.value.file == str(wrong)


def test_name_is_searched_in_the_load_paths_of_user_and_workspace(home: Path, work: Path) -> None:
    write(home / "config" / "personas" / "dev.toml", stop_words("user"))
    write(work / ".jp" / "config.toml", "")
    mine = write(work / "personas" / "dev.json", '{"user": {"name": "ws"}}')
    files = config_files(work)
    layers = files.load_named("dev", ["skills", "personas"])
    merged = Settings.from_files(files, "dev", load_paths=("skills", "personas")).merged()
    assert value_at(merged, WORDS) == ["user"]
    assert [layer.file for layer in layers][1] == str(mine)
    assert files.make_claim_names(layers[1]) == (
        ["file:personas/dev.json"],
        "personas/dev.json",
    )
    names, label = files.make_claim_names(layers[0])
    assert label == "<user-local>"
    assert names == [f"file:{(home / 'config/personas/dev.toml').resolve()}"]


def test_path_selects_that_file(home: Path, work: Path) -> None:
    path = write(work / "x.toml", 'id = "me"\n' + stop_words("x"))
    files = config_files(work)
    for name in ("x.toml", "@x.toml", str(path)):
        (layer,) = files.load_named(name, [])
        assert layer.file == str(path)
    assert files.make_claim_names(layer)[0] == ["file:x.toml", "id:me"]


def test_error_of_an_unknown_name_lists_the_searched_places(home: Path, work: Path) -> None:
    with pytest.raises(jp.ConfigError) as caught:
        config_files(work).load_named("dve", ["personas"])
    text = str(caught.value)
    assert str(home / "config" / "personas" / "dve") in text
    assert str(work / "personas" / "dve") in text
    assert ".toml and .json" in text
