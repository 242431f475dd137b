"""`%jp cassette` in a notebook: what is in force, what is recorded, what has answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from jp_nb.errors import ConfigError, UnrecordedError, UsageError
from tests.support.magic_shell import Notebook


@pytest.fixture
def notebook(folder: Path) -> Notebook:
    return Notebook(folder)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(capsys)


class Said:
    """What `%jp cassette` prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, notebook: Notebook, line: str = "") -> str:
        self._capsys.readouterr()
        notebook.jp(f"cassette {line}".strip())
        return self._capsys.readouterr().out


def test_a_conversation_is_recorded_and_answers_in_place_of_the_model(
    notebook: Notebook, said: Said
) -> None:
    assert "no cassette" in said(notebook)
    assert "talk.jsonl: 0 exchanges" in said(notebook, "record talk.jsonl")
    assert notebook.ask("Go on.") == "one"
    assert notebook.ask("And?") == "two"
    assert "2 exchanges so far" in said(notebook)
    (notebook.folder / "talk.toml").unlink()
    replaying = Notebook(notebook.folder)
    assert "0 of 2 exchanges used" in said(replaying, "replay talk.jsonl")
    assert replaying.ask("Go on.") == "one"
    shown = said(replaying)
    assert "1 of 2 exchanges used" in shown
    assert "scripted/talk: And?" in shown
    assert replaying.ask("And?") == "two"
    assert "not used" not in said(replaying)


def test_what_is_asked_more_often_than_recorded_is_an_error_until_it_begins_again(
    notebook: Notebook, said: Said
) -> None:
    said(notebook, "record talk.jsonl")
    notebook.ask("Go on.")
    said(notebook, "replay talk.jsonl")
    assert notebook.ask("Go on.", new=True) == "one"
    with pytest.raises(UnrecordedError, match=r"once .*asked more often"):
        notebook.ask("Go on.", new=True)
    said(notebook, "replay talk.jsonl")
    assert notebook.ask("Go on.", new=True) == "one"
    said(notebook, "off")
    assert notebook.ask("Anything.", new=True) == "one"


def test_a_cassette_that_is_not_there_changes_nothing(notebook: Notebook, said: Said) -> None:
    with pytest.raises(ConfigError, match=r"there is no cassette .*none.jsonl: record it"):
        notebook.jp("cassette replay none.jsonl")
    assert "no cassette" in said(notebook)
    assert notebook.ask("Go on.") == "one"


def test_a_cassette_that_a_file_names_and_is_not_there_fails_before_anything_is_recorded(
    notebook: Notebook,
) -> None:
    with (notebook.folder / ".jp" / "config.toml").open("a") as file:
        file.write('[providers.cassette]\nmode = "replay"\npath = "none.jsonl"\n')
    with pytest.raises(ConfigError, match="there is no cassette"):
        notebook.ask("Go on.")
    assert notebook.session.document.conversation.turn_count == 0
    assert "there is no cassette" in notebook.jp("doctor")


@pytest.mark.parametrize("line", ["cassette rewind", "cassette off talk.jsonl", "cassette Replay"])
def test_what_is_none_of_its_words_is_refused(notebook: Notebook, line: str) -> None:
    with pytest.raises(UsageError, match=r"%jp cassette \[record \| replay"):
        notebook.jp(line)


@pytest.mark.parametrize(
    "text", ["providers.cassette.mode=replay", '{"providers":{"cassette":{}}}']
)
def test_no_conversation_says_which_cassette_counts(notebook: Notebook, text: str) -> None:
    with pytest.raises(ConfigError, match="%jp cassette"):
        notebook.jp(f"config {text}" if "=" in text else f"config -c '{text}'")


def test_loading_again_goes_on_recording_and_begins_a_replay_anew(
    notebook: Notebook, said: Said
) -> None:
    said(notebook, "record talk.jsonl")
    notebook.ask("Go on.")
    again = Notebook(notebook.folder, previous=notebook)
    assert "1 exchange so far" in said(again)
    again.ask("And?", new=True)
    said(again, "replay talk.jsonl")
    again.ask("Go on.", new=True)
    last = Notebook(notebook.folder, previous=again)
    assert "0 of 2 exchanges used" in said(last)


def test_no_model_is_asked_for_its_list_in_a_replay(notebook: Notebook, said: Said) -> None:
    said(notebook, "record talk.jsonl")
    notebook.ask("Go on.")
    said(notebook, "replay talk.jsonl")
    assert "a cassette answers in place of scripted" in notebook.jp("doctor")


def test_a_request_that_a_cassette_answered_was_not_sent(notebook: Notebook, said: Said) -> None:
    said(notebook, "record talk.jsonl")
    notebook.ask("Go on.")
    assert "as it was sent" in notebook.jp("request")
    said(notebook, "replay talk.jsonl")
    notebook.ask("Go on.", new=True)
    assert "as it would have been sent: a cassette answered" in notebook.jp("request")
