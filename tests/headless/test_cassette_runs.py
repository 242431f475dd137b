"""Notebooks recorded on a cassette, and run again from it: no key, no server, the same record."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from jp_nb.agent.exchange import Exchange
from jp_nb.agent.model_events import Finished
from jp_nb.cli import main
from jp_nb.headless.cassette_options import (
    cassette_use,
    noting_use,
    unused_lines,
    used_lines,
    written_lines,
)
from jp_nb.session.cassette_choice import CassetteChoice
from jp_nb.session.cassette_tape import CassetteTape
from jp_nb.workspace.cassette_writer import CassetteWriter
from tests.support.asked_requests import SPEC, asked, changed
from tests.support.cassette_runs import KEY, KEYS, LOAD, WEATHER, left, run_with, write_cells
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall

CALLS = (
    ToolCall("weather", {"city": "Bern"}),
    ToolCall("weather", {"city": "Delft", "days": 3}),
)


def weather_notebook(folder: Path, protocol: str) -> Path:
    load = LOAD.format(protocol=protocol)
    cells = (load, WEATHER, "%%jp\nHow will it be?", "%%jp\nThanks.", "_jp.text")
    return write_cells(folder / "talk.ipynb", *cells)


@pytest.mark.parametrize("protocol", KEYS)
def test_a_replay_without_key_and_server_gives_the_same_record(
    tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = weather_notebook(tmp_path, protocol)
    monkeypatch.setenv(KEYS[protocol], KEY)
    replies = [
        Reply(status=503),
        Reply(text="Let me see.", reasoning="Two cities.", tool_calls=CALLS),
        Reply(text="Sun everywhere.", cut_after=500 if protocol == "anthropic" else 250),
        Reply(text="Sun everywhere."),
        Reply(text="Welcome."),
    ]
    with LoopbackServer(replies) as server:
        assert run_with(path, "record", **{f"providers.llm.{protocol}.base_url": server.url}).ok
        assert len(server.requests) == 5
    recorded = left(path)
    cassette = tmp_path / "talk.cassette.jsonl"
    text = cassette.read_text("utf-8")
    assert KEY not in text
    assert server.url not in text
    monkeypatch.delenv(KEYS[protocol])
    for _ in range(2):
        assert run_with(path, "replay").failure is None
        assert left(path) == recorded
    assert cassette.read_text("utf-8") == text


def test_a_request_that_is_not_on_the_cassette_fails_the_cell_and_shows_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = weather_notebook(tmp_path, "anthropic")
    monkeypatch.setenv(KEYS["anthropic"], KEY)
    replies = [Reply(tool_calls=CALLS), Reply(text="Sun."), Reply(text="Welcome.")]
    with LoopbackServer(replies) as server:
        assert run_with(path, "record", providers__llm__anthropic__base_url=server.url).ok
    changed = WEATHER.replace("sun for", "rain for")
    load = LOAD.format(protocol="anthropic")
    write_cells(path, load, changed, "%%jp\nHow will it be?", "%%jp\nThanks.")
    failure = run_with(path, "replay").failure
    assert failure is not None
    assert failure.name == "UnrecordedError"
    assert 'message 4 (result): "Bern: sun for 1" → "Bern: rain for 1"' in failure.message
    assert "--record" in failure.message


def test_what_is_missing_is_recorded_and_the_rest_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = LOAD.format(protocol="openai")
    path = write_cells(tmp_path / "talk.ipynb", load, "%%jp\nOne?")
    monkeypatch.setenv(KEYS["openai"], KEY)
    mode = "replay-or-record"
    with LoopbackServer(["One."]) as server:
        assert run_with(path, mode, providers__llm__openai__base_url=server.url).ok
    write_cells(path, load, "%%jp\nOne?", "%%jp\nTwo?")
    with LoopbackServer(["Two."]) as server:
        assert run_with(path, mode, providers__llm__openai__base_url=server.url).ok
        assert len(server.requests) == 1
    monkeypatch.delenv(KEYS["openai"])
    assert run_with(path, "replay").ok


def test_a_run_says_which_exchanges_nothing_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = "%load_ext jp_nb\n%jp config assistant.model.id=scripted/talk"
    (tmp_path / "talk.toml").write_text('[[replies]]\ntext = "Yes."\n[[replies]]\ntext = "No."\n')
    path = write_cells(tmp_path / "talk.ipynb", load, "%%jp\nOne?", "%%jp\nTwo?")
    file = tmp_path / "my.jsonl"
    assert main(["run", str(path), "--record", str(file)]) == 0
    assert f"2 exchanges recorded on {file}\n" in capsys.readouterr().err
    (tmp_path / "talk.toml").unlink()
    write_cells(path, load, "%%jp\nOne?")
    assert main(["run", str(path), "--replay", str(file)]) == 0
    said = capsys.readouterr().err
    assert "1 of 2 exchanges of my.jsonl not used:" in said
    assert "scripted/talk: Two?" in said
    write_cells(path, load)
    assert main(["run", str(path), "--replay", str(file)]) == 0
    assert "2 of 2 exchanges of my.jsonl not used:" in capsys.readouterr().err
    assert main(["run", str(path), "--tools", "recorded"]) == 2


@pytest.mark.parametrize("name", ["one\u2028two.jsonl", os.fsdecode(b"b\xffd.jsonl")])
def test_what_is_not_used_is_said_whatever_the_cassette_is_called(
    tmp_path: Path, name: str
) -> None:
    exchange = Exchange(asked(SPEC), (), Finished())
    CassetteWriter(tmp_path / name).add(exchange)
    with noting_use() as noted:
        tape = CassetteTape(CassetteChoice("replay", tmp_path / name))
        assert "1 of 1 exchange" in unused_lines(cassette_use(noted))[0]
        tape.replay(exchange.asked)
        assert unused_lines(cassette_use(noted)) == []
        assert used_lines(cassette_use(noted)) == [f"1 of 1 exchange of {name} used"]


def test_an_exchange_in_words_shows_no_part_of_a_key(tmp_path: Path) -> None:
    last = max(index for index, each in enumerate(SPEC["message"]) if "user" in each)
    spec = changed(SPEC, ("message", last, "user"), f"{'x' * 52} {KEY}")
    spec["message"] = spec["message"][: last + 1]
    CassetteWriter(tmp_path / "talk.jsonl").add(Exchange(asked(spec), (), Finished()))
    with noting_use() as noted:
        CassetteTape(CassetteChoice("replay", tmp_path / "talk.jsonl"))
        [_, line] = unused_lines(cassette_use(noted))
    assert "x" * 52 in line
    assert "sk-" not in line


def test_a_recording_of_nothing_is_said(tmp_path: Path) -> None:
    path, noted = tmp_path / "talk.jsonl", tmp_path / "used"
    settings = {"providers.cassette.path": str(path), "providers.cassette.mode": "record"}
    [line] = written_lines(cassette_use(noted, settings))
    assert line == f"no model answered, and nothing is recorded on {path}"
    path.touch()
    assert written_lines(cassette_use(noted, settings)) == [f"{line}: it is as it was"]


def test_what_a_run_adds_is_said_and_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    settings = {"providers.cassette.path": str(path), "providers.cassette.mode": "replay-or-record"}
    exchanges = [
        Exchange(asked(changed(SPEC, ("model",), name)), (), Finished()) for name in ("a", "b")
    ]
    for number, exchange in enumerate(exchanges):
        with noting_use() as noted:
            tape = CassetteTape(CassetteChoice("replay-or-record", path))
            for before in exchanges[:number]:
                tape.replay(before.asked)
            tape.keep(exchange)
            uses = cassette_use(noted, settings)
        assert written_lines(uses) == [f"1 exchange added to {path}"]
        assert used_lines(uses) == ["1 of 1 exchange of talk.jsonl used"] * number
        assert unused_lines(uses) == []


def test_questions_of_tools_that_do_not_run_are_not_missed(tmp_path: Path) -> None:
    file = tmp_path / "talk.cassette.jsonl"
    question = changed(SPEC, ("message", 8), {"user": "Which size?", "inquiry": "pack.size"})
    CassetteWriter(file).add(Exchange(asked(question), (), Finished()))
    for tools, lines in (("run", 2), ("recorded", 0)):
        with noting_use() as noted:
            tape = CassetteTape(CassetteChoice("replay", file, tools))
            assert len(unused_lines(cassette_use(noted))) == lines
        assert len(tape.unused()) == lines // 2


PACK = '''
import jp_nb as jp

@jp.tool
def pack(city: str, jp_context: jp.ToolContext) -> jp.Success | jp.NeedsInput:
    """Pack for a city.

    Args:
        city: Where.
    """
    if "size" in jp_context.answers:
        return jp.Success(f"{city}: {jp_context.answers['size']}")
    return jp.NeedsInput(jp.Question.text("size", f"Which size for {city}?"))
'''
ASKS_MODEL = "\n%jp config conversation.tools.pack.questions.size.target=assistant"
CITIES = ("Bern", "Delft", "Oslo", "Rome")


def packing(slow: bool) -> Callable[[Received], Reply]:
    """A model that packs for all cities at once, and answers the questions of the tool itself."""

    def reply(request: Received) -> Reply:
        body = json.dumps(request.body, ensure_ascii=False)
        asked = [place for place, city in enumerate(CITIES) if f"Which size for {city}?" in body]
        if "is paused and asks you" in body:
            [place] = asked
            wait = 0.2 * (place if slow else len(CITIES) - place)
            return Reply(text=json.dumps({"answer": f"size {place}"}), delay=wait)
        if "size 3" in body:
            return Reply(text="Packed.")
        return Reply(tool_calls=tuple(ToolCall("pack", {"city": city}) for city in CITIES))

    return reply


@pytest.mark.parametrize("protocol", KEYS)
def test_questions_that_a_model_answers_at_the_same_time_are_on_the_cassette_in_one_order(
    tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = LOAD.format(protocol=protocol)
    path = write_cells(tmp_path / "talk.ipynb", load, PACK + ASKS_MODEL, "%%jp\nPack for all.")
    monkeypatch.setenv(KEYS[protocol], KEY)
    cassette, files = tmp_path / "talk.cassette.jsonl", []
    for slow in (True, False):
        with LoopbackServer(packing(slow)) as server:
            settings = {f"providers.llm.{protocol}.base_url": server.url}
            assert run_with(path, "record", **settings).failure is None
            assert len(server.requests) == 2 + len(CITIES)
        files.append(_without_made_up_ids(cassette.read_text("utf-8")))
    assert files[0] == files[1]
    recorded = left(path)["record"]
    assert "size 3" in str(recorded)
    monkeypatch.delenv(KEYS[protocol])
    replays = []
    for _ in range(3):
        assert run_with(path, "replay").failure is None
        replays.append(left(path))
    assert replays[0] == replays[1] == replays[2]
    # Who answered last when it was recorded is a matter of time.
    assert sorted(map(str, replays[0]["record"])) == sorted(map(str, recorded))


def test_a_question_that_is_not_on_the_cassette_is_what_the_error_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that the tool then told the model of the failure, which is not recorded either."""
    load = LOAD.format(protocol="openai")
    path = write_cells(tmp_path / "talk.ipynb", load, PACK + ASKS_MODEL, "%%jp\nPack for all.")
    monkeypatch.setenv(KEYS["openai"], KEY)
    with LoopbackServer(packing(slow=True)) as server:
        assert run_with(path, "record", providers__llm__openai__base_url=server.url).ok
    asks_else = PACK.replace("Which size for", "What size for")
    write_cells(path, load, asks_else + ASKS_MODEL, "%%jp\nPack for all.")
    failure = run_with(path, "replay").failure
    assert failure is not None
    assert failure.name == "UnrecordedError"
    assert "What size for Bern?" in failure.message
    assert "LLM provider error" not in failure.message


def _without_made_up_ids(text: str) -> str:
    """The text without what the server numbers as requests arrive, and what covers that."""
    return re.sub(r'"id":"[^"]*"|"seal":"\w+"', "", text)


MARKS = '''
from pathlib import Path
import jp_nb as jp

@jp.tool
def mark(name: str) -> str:
    """Leave a mark.

    Args:
        name: Of the file.
    """
    if name == "odd":
        raise jp.ToolError("odd names leave none")
    Path(name).touch()
    return f"marked {name} at {len(list(Path('.').iterdir()))}"
'''


def test_with_recorded_tools_none_runs_and_the_conversation_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = LOAD.format(protocol="openai")
    path = write_cells(tmp_path / "talk.ipynb", load, MARKS, "%%jp\nMark.", "%%jp\nAgain.")
    monkeypatch.setenv(KEYS["openai"], KEY)
    calls = tuple(ToolCall("mark", {"name": name}) for name in ("one", "odd", "two"))
    replies = [
        Reply(tool_calls=calls),
        Reply(tool_calls=(ToolCall("mark", {"name": "three"}), ToolCall("gone", {}))),
        Reply(text="Done."),
        Reply(tool_calls=calls[:1]),
        Reply(text="Done again."),
    ]
    with LoopbackServer(replies) as server:
        assert run_with(path, "record", providers__llm__openai__base_url=server.url).ok
    recorded = left(path)
    for name in ("one", "two", "three"):
        (tmp_path / name).unlink()
    monkeypatch.delenv(KEYS["openai"])
    assert run_with(path, "replay", providers__cassette__tools="recorded").failure is None
    assert left(path) == recorded
    assert not [name for name in ("one", "two", "three") if (tmp_path / name).exists()]
    (tmp_path / "more").touch()
    failure = run_with(path, "replay").failure  # they run, and count another file
    assert failure is not None
    assert "marked one at" in failure.message


def test_no_key_is_on_a_cassette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where somebody sends the key, nor where the server says it."""
    load = LOAD.format(protocol="anthropic")
    asks = f"%%jp\nMy key is {KEY}, is it not?"
    path = write_cells(tmp_path / "talk.ipynb", load, asks, "%%jp\nAnd now?")
    monkeypatch.setenv(KEYS["anthropic"], KEY)
    replies = [Reply(text=f"Yes, it is {KEY}."), Reply(status=400, message=f"bad key {KEY}")]
    with LoopbackServer(replies) as server:
        failure = run_with(path, "record", providers__llm__anthropic__base_url=server.url).failure
    assert failure is not None
    text = (tmp_path / "talk.cassette.jsonl").read_text("utf-8")
    assert KEY not in text
    assert text.count("[key]") == 4  # asked, answered, replayed to the model, and in the error
    assert "x-api-key" not in text
    again = run_with(path, "replay").failure
    assert again is not None
    assert again.message == failure.message


ASKS_SECRET = '''
import jp_nb as jp

@jp.tool
def enter(ctx: jp.ToolContext) -> object:
    """Enter a place."""
    if "token" not in ctx.answers:
        return jp.NeedsInput(jp.Question.secret("token", "Which token?"))
    kept.append(ctx.answers["token"])
    return f"entered with {ctx.answers['token']}"

kept = []
'''


def test_no_secret_answer_is_on_a_cassette_and_another_one_replays_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = LOAD.format(protocol="openai") + "\nnotes = 'nothing yet'"
    attach = "notes = f'It was {kept[-1]}.'\n"
    path = write_cells(
        tmp_path / "talk.ipynb", load, ASKS_SECRET, "%%jp\nGo in.", attach, "%%jp -a notes\nWell?"
    )
    (tmp_path / "talk.answers.toml").write_text('[questions.enter]\ntoken = { env = "A_TOKEN" }\n')
    answers = {"prompt.answers": "talk.answers.toml"}
    monkeypatch.setenv(KEYS["openai"], KEY)
    monkeypatch.setenv("A_TOKEN", "sesame-open-up")
    replies = [Reply(tool_calls=(ToolCall("enter", {}),)), Reply(text="In."), Reply(text="Well.")]
    with LoopbackServer(replies) as server:
        settings = {"providers.llm.openai.base_url": server.url, **answers}
        assert run_with(path, "record", **settings).failure is None
        assert "sesame" in str(server.requests[2].body)  # what is attached is sent as it is
    text = (tmp_path / "talk.cassette.jsonl").read_text("utf-8")
    assert "sesame" not in text
    assert "entered with (secret)" in text
    monkeypatch.setenv("A_TOKEN", "another-secret-token")
    assert run_with(path, "replay", **answers).failure is None
