"""`%jp cassette` in a notebook: mode, recorded exchanges, and used exchanges."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

import jp_nb as jp
from tests.support.entries import without_ids
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.notebook_runs import KEY, KEYS
from tests.support.sessions import Notebook


@pytest.fixture
def cassette_command(capsys: pytest.CaptureFixture[str]) -> CassetteCommand:
    return CassetteCommand(capsys)


class CassetteCommand:
    """Runs `%jp cassette` and returns its output."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, notebook: Notebook, line: str = "") -> str:
        self._capsys.readouterr()
        notebook.jp(f"cassette {line}".strip())
        return self._capsys.readouterr().out


def test_conversation_is_recorded_and_replayed(
    notebook: Notebook, cassette_command: CassetteCommand
) -> None:
    assert "No cassette is in use" in cassette_command(notebook)
    assert "talk.jsonl: 0 exchanges" in cassette_command(notebook, "record talk.jsonl")
    assert notebook.ask("Continue.") == "one"
    assert notebook.ask("And?") == "two"
    assert "2 exchanges so far" in cassette_command(notebook)
    (notebook.folder / "talk.toml").unlink()
    replaying = Notebook(notebook.folder)
    assert "0 of 2 exchanges used" in cassette_command(replaying, "replay talk.jsonl")
    assert replaying.ask("Continue.") == "one"
    shown = cassette_command(replaying)
    assert "1 of 2 exchanges used" in shown
    assert "scripted/talk: And?" in shown
    with pytest.raises(jp.ProviderError, match=r"\(on the cassette → now\):\n  message 3"):
        replaying.ask("Else?")
    line = "A line of an answer that is long.\n"
    with pytest.raises(jp.ProviderError, match=r"\(- on the cassette, \+ now\):\n  message 3"):
        replaying.ask(line * 9)
    assert replaying.ask("And?") == "two"
    assert "Not used" not in cassette_command(replaying)


def test_request_repeated_more_often_than_recorded_is_an_error_until_the_replay_restarts(
    notebook: Notebook, cassette_command: CassetteCommand
) -> None:
    cassette_command(notebook, "record talk.jsonl")
    notebook.ask("Continue.")
    cassette_command(notebook, "replay talk.jsonl")
    assert notebook.ask("Continue.", new=True) == "one"
    with pytest.raises(jp.ProviderError, match=r"once .*sent more often"):
        notebook.ask("Continue.", new=True)
    cassette_command(notebook, "replay talk.jsonl")
    assert notebook.ask("Continue.", new=True) == "one"
    cassette_command(notebook, "off")
    assert notebook.ask("Anything.", new=True) == "one"


def test_missing_cassette_changes_nothing(
    notebook: Notebook, cassette_command: CassetteCommand
) -> None:
    with pytest.raises(jp.ConfigError, match=r"there is no cassette .*none.jsonl. Record it"):
        notebook.jp("cassette replay none.jsonl")
    assert "No cassette is in use" in cassette_command(notebook)
    assert notebook.ask("Continue.") == "one"


def test_missing_cassette_of_a_file_is_an_error_before_anything_is_recorded(
    notebook: Notebook,
) -> None:
    with (notebook.folder / ".jp" / "config.toml").open("a") as file:
        file.write('[providers.cassette]\nmode = "replay"\npath = "none.jsonl"\n')
    with pytest.raises(jp.ConfigError, match="there is no cassette"):
        notebook.ask("Continue.")
    assert notebook.session.document.conversation.turn_count == 0
    assert "there is no cassette" in notebook.jp("doctor")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("rewind", "no cassette mode `rewind`. "),
        ("Replay", "no cassette mode `Replay`. Did you mean `%jp cassette replay`. "),
        ("off talk.jsonl", "`%jp cassette off` takes neither a file nor `--tools`. "),
    ],
)
def test_unknown_word_is_refused(notebook: Notebook, line: str, says: str) -> None:
    with pytest.raises(jp.UsageError, match=rf"{says}Usage: `%jp cassette \[record \| replay"):
        notebook.jp(f"cassette {line}")


@pytest.mark.parametrize(
    "text", ["providers.cassette.mode=replay", '{"providers":{"cassette":{}}}']
)
def test_conversation_cannot_choose_the_cassette(notebook: Notebook, text: str) -> None:
    with pytest.raises(jp.ConfigError, match="%jp cassette"):
        notebook.jp(f"config {text}" if "=" in text else f"config -c '{text}'")


def test_reload_continues_recording_and_restarts_a_replay(
    notebook: Notebook, cassette_command: CassetteCommand
) -> None:
    cassette_command(notebook, "record talk.jsonl")
    notebook.ask("Continue.")
    again = Notebook(notebook.folder, previous=notebook)
    assert "1 exchange so far" in cassette_command(again)
    again.ask("And?", new=True)
    cassette_command(again, "replay talk.jsonl")
    again.ask("Continue.", new=True)
    last = Notebook(notebook.folder, previous=again)
    assert "0 of 2 exchanges used" in cassette_command(last)


def test_no_list_of_models_is_requested_in_a_replay(
    notebook: Notebook, cassette_command: CassetteCommand
) -> None:
    cassette_command(notebook, "record talk.jsonl")
    notebook.ask("Continue.")
    cassette_command(notebook, "replay talk.jsonl")
    assert "a cassette replaces scripted" in notebook.jp("doctor")


def test_replayed_request_is_shown_as_not_sent(
    notebook: Notebook, cassette_command: CassetteCommand
) -> None:
    cassette_command(notebook, "record talk.jsonl")
    notebook.ask("Continue.")
    assert "exact request" in notebook.jp("request")
    cassette_command(notebook, "replay talk.jsonl")
    notebook.ask("Continue.", new=True)
    assert "reconstructed request: a cassette answered" in notebook.jp("request")


# --- models over HTTP --------------------------------------------------------------------------


def entries(notebook: Notebook) -> list[dict[str, object]]:
    """The record without ids, times and what tells branches apart."""
    raw = notebook.session.document.conversation.raw
    return [without_ids(entry) | {"timestamp": ""} for entry in raw]


def with_model(folder: Path, protocol: str, url: str) -> Notebook:
    (folder / ".jp" / "config.toml").write_text(
        f'[assistant.model]\nid = "{protocol}/m"\n'
        "[assistant.request]\nbase_backoff_ms = 1\nmax_retries = 2\n"
        f'[providers.llm.{protocol}]\nbase_url = "{url}"\n'
    )
    return Notebook(folder)


HALF = "The answer is that it will be sunny and "
REST = "it will be sunny and warm in all of the country."
REPLIES: dict[str, list[Reply]] = {
    "retries": [Reply(status=529), Reply(status=503), Reply(text="At last.")],
    "breaks off": [Reply(text=HALF * 9, cut_after=900), Reply(text="Whole.")],
    "reaches the limit": [
        Reply(text=HALF, finish="max_tokens", delta_chars=3),
        Reply(text=REST, delta_chars=2),
    ],
    "reasons": [Reply(reasoning="Hm — 24 °C.", text="Warm.")],
    "says nothing": [Reply(text="")],
    "is refused": [Reply(status=400, message="no such model")],
    "is busy": [Reply(status=429, headers={"retry-after": "0"})] * 3,
    "calls what there is not": [
        Reply(tool_calls=(ToolCall("gone", {"a": 1}), ToolCall("gone", '{"a": '))),
        Reply(text="Well."),
    ],
}


PAIRS = [
    *((protocol, "retries") for protocol in KEYS),
    *zip(cycle(KEYS), [how for how in REPLIES if how != "retries"]),
]


@pytest.mark.parametrize(("protocol", "how"), PAIRS)
def test_replay_leaves_the_same_record(
    folder: Path,
    protocol: str,
    how: str,
    cassette_command: CassetteCommand,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KEYS[protocol], KEY)
    replies = [replace(each, finish=_limit(protocol, each)) for each in REPLIES[how]]
    ends = []
    with LoopbackServer([*replies, Reply(text="Bye.")], strict=False) as server:
        recording = with_model(folder, protocol, server.url)
        cassette_command(recording, "record talk.jsonl")
        ends.append(_asked(recording, "How will it be?"))
        ends.append(_asked(recording, "Bye."))
        recorded = entries(recording)
        recording.session.close()
    monkeypatch.delenv(KEYS[protocol])
    replaying = with_model(folder, protocol, "http://127.0.0.1:9")
    cassette_command(replaying, "replay talk.jsonl")
    assert [_asked(replaying, "How will it be?"), _asked(replaying, "Bye.")] == ends
    assert entries(replaying) == recorded
    assert "Not used" not in cassette_command(replaying)
    replaying.session.close()


def _limit(protocol: str, reply: Reply) -> str | None:
    return "length" if reply.finish and protocol == "openai" else reply.finish


def _asked(notebook: Notebook, text: str) -> str:
    """The answer, or the error."""
    try:
        return notebook.ask(text)
    except jp.ProviderError as exc:
        return repr(exc)


def test_answer_that_cannot_be_written_to_the_cassette_stays_in_the_record(
    folder: Path, cassette_command: CassetteCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS["openai"], KEY)
    with LoopbackServer(["Sunny."]) as server:
        notebook = with_model(folder, "openai", server.url)
        cassette_command(notebook, "record file/talk.jsonl")
        (folder / "file").write_text("")  # where its folder would be
        with pytest.raises(jp.StorageError, match=r"file/talk.jsonl cannot be written"):
            notebook.ask("How will it be?")
    assert "Sunny." in str(entries(notebook))
    notebook.session.close()


def test_recording_without_a_key_leaves_the_cassette_unchanged(
    folder: Path, cassette_command: CassetteCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS["anthropic"], KEY)
    with LoopbackServer(["Sunny."]) as server:
        notebook = with_model(folder, "anthropic", server.url)
        cassette_command(notebook, "record talk.jsonl")
        notebook.ask("How will it be?")
        notebook.session.close()
    before = (folder / "talk.jsonl").read_bytes()
    monkeypatch.delenv(KEYS["anthropic"])
    (folder / ".jp" / "config.toml").write_text('[assistant.model]\nid = "anthropic/m"\n')
    again = Notebook(folder)
    cassette_command(again, "record talk.jsonl")
    with pytest.raises(jp.ProviderError, match="needs a key"):
        again.ask("How will it be?")
    assert (folder / "talk.jsonl").read_bytes() == before
    assert "are recorded on talk.jsonl: 0 exchanges so far" in cassette_command(again)
    again.session.close()


def test_cassette_does_not_contain_addresses_of_servers(
    folder: Path, cassette_command: CassetteCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS["openai"], KEY)
    with LoopbackServer([Reply(status=404), "Sunny."]) as server:
        notebook = with_model(folder, "openai", server.url)
        cassette_command(notebook, "record talk.jsonl")
        with pytest.raises(jp.ProviderError, match=re.escape(server.url)):
            notebook.ask("How will it be?")
        notebook.ask("How will it be?")
        notebook.session.close()
    text = (folder / "talk.jsonl").read_text("utf-8")
    assert "base_url ([address])" in text
    assert "127.0.0.1" not in text


def test_command_overrides_environment_and_environment_the_file(
    folder: Path, cassette_command: CassetteCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (folder / ".jp" / "config.toml").open("a") as file:
        file.write('[providers.cassette]\nmode = "record"\npath = "file.jsonl"\n')
    notebook = Notebook(folder)
    assert "recorded on file.jsonl" in cassette_command(notebook)
    monkeypatch.setenv("JP_CFG_PROVIDERS__CASSETTE__PATH", "variable.jsonl")
    assert "recorded on variable.jsonl" in cassette_command(notebook)
    assert "recorded on said.jsonl" in cassette_command(notebook, "record said.jsonl")
    monkeypatch.setenv("JP_CFG_PROVIDERS__CASSETTE__MODE", "off")
    assert "recorded on said.jsonl" in cassette_command(notebook)
    assert "No cassette is in use" in cassette_command(Notebook(folder))
    notebook.ask("Continue.")
    assert (folder / "said.jsonl").exists()
    assert "cassette" not in str(notebook.session.document.conversation.base_config)
    notebook.session.close()


def test_summary_is_recorded_and_replayed(
    folder: Path, cassette_command: CassetteCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS["openai"], KEY)
    replies = ["One.", "Two.", "Three.", "All of it in short.", "Four."]
    with LoopbackServer(replies) as server:
        recording = with_model(folder, "openai", server.url)
        cassette_command(recording, "record talk.jsonl")
        _summed_up(recording)
        recorded = entries(recording)
        assert len(server.requests) == 5
        recording.session.close()
    assert "All of it in short." in str(recorded)
    monkeypatch.delenv(KEYS["openai"])
    replaying = with_model(folder, "openai", "http://127.0.0.1:9")
    cassette_command(replaying, "replay talk.jsonl")
    _summed_up(replaying)
    assert entries(replaying) == recorded
    replaying.session.close()


def _summed_up(notebook: Notebook) -> None:
    for text in ("First?", "Second?", "Third?"):
        notebook.ask(text)
    notebook.jp("compact -s")
    notebook.ask("Fourth?")
