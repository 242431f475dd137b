"""Notebooks are recorded on a cassette, and replayed without key and server to the same record."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from jp_nb.cli import main
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall
from tests.support.notebook_runs import (
    KEY,
    KEYS,
    LOAD,
    WEATHER,
    outputs,
    result_of,
    run_program,
    run_with,
    write_cells,
)

pytestmark = pytest.mark.runners

CALLS = (
    ToolCall("weather", {"city": "Bern"}),
    ToolCall("weather", {"city": "Delft", "days": 3}),
)


def weather_notebook(folder: Path, protocol: str) -> Path:
    load = LOAD.format(protocol=protocol)
    cells = (load, WEATHER, "%%jp\nHow will it be?", "%%jp\nThanks.", "_jp.text")
    return write_cells(folder / "talk.ipynb", *cells)


def test_replay_gives_the_same_record_and_shows_a_changed_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = weather_notebook(tmp_path, "anthropic")
    monkeypatch.setenv(KEYS["anthropic"], KEY)
    replies = [
        Reply(status=503),
        Reply(text="Let me see.", reasoning="Two cities.", tool_calls=CALLS),
        Reply(text="Sun everywhere.", cut_after=500),
        Reply(text="Sun everywhere."),
        Reply(text="Welcome."),
    ]
    with LoopbackServer(replies) as server:
        assert run_with(path, "record", providers__llm__anthropic__base_url=server.url).ok
        assert len(server.requests) == 5
    recorded = result_of(path)
    cassette = tmp_path / "talk.cassette.jsonl"
    text = cassette.read_text("utf-8")
    assert KEY not in text
    assert server.url not in text
    assert main(["check", str(path)]) == 0
    monkeypatch.delenv(KEYS["anthropic"])
    assert run_with(path, "replay").failure is None
    assert result_of(path) == recorded
    assert cassette.read_text("utf-8") == text
    assert main(["check", str(path)]) == 0

    output = check_of_changed_result(path, capsys)
    assert "a message after the request 'How will it be?' of the last run" in output

    changed = WEATHER.replace("sun for", "rain for")
    load = LOAD.format(protocol="anthropic")
    write_cells(path, load, changed, "%%jp\nHow will it be?", "%%jp\nThanks.")
    failure = run_with(path, "replay").failure
    assert failure is not None
    assert failure.name == "UnrecordedError"
    assert 'message 6 (result): "Bern: sun for 1" → "Bern: rain for 1"' in failure.message
    assert "--record" in failure.message


def check_of_changed_result(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Change the results of tools in the record; return the finding of `jp-nb check`."""
    made = nbformat.read(path, as_version=4)
    for event in made.metadata.jp.events:
        if event["type"] == "tool_call_response":
            event["content"] = "Something else."
    path.write_text(json.dumps(made), encoding="utf-8")
    capsys.readouterr()
    assert main(["check", str(path)]) == 1
    [line] = capsys.readouterr().out.splitlines()
    return line


def test_missing_exchange_is_recorded_and_the_rest_replayed(
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


def test_run_lists_unused_exchanges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = "%load_ext jp_nb\n%jp config assistant.model.id=scripted/talk"
    (tmp_path / "talk.toml").write_text('[[replies]]\ntext = "Yes."\n[[replies]]\ntext = "No."\n')
    path = write_cells(tmp_path / "talk.ipynb", load, "%%jp\nOne?", "%%jp\nTwo?")
    file = tmp_path / "my.jsonl"
    assert main(["run", str(path), "--record", str(file)]) == 0
    assert f"2 exchanges recorded in {file}\n" in capsys.readouterr().err
    (tmp_path / "talk.toml").unlink()
    write_cells(path, load, "%%jp\nOne?")
    assert main(["run", str(path), "--replay", str(file)]) == 0
    output = capsys.readouterr().err
    assert "1 of 2 exchanges of my.jsonl not used:" in output
    assert "scripted/talk: Two?" in output


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


def make_packing_model(slow: bool) -> Callable[[Received], Reply]:
    """Return the replies of a model that packs for all cities and answers the tool's questions."""

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


@pytest.mark.deep
def test_questions_that_a_model_answers_concurrently_are_recorded_in_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = LOAD.format(protocol="openai")
    path = write_cells(tmp_path / "talk.ipynb", load, PACK + ASKS_MODEL, "%%jp\nPack for all.")
    monkeypatch.setenv(KEYS["openai"], KEY)
    cassette = tmp_path / "talk.cassette.jsonl"
    files = []
    for slow in (True, False):
        with LoopbackServer(make_packing_model(slow)) as server:
            settings = {"providers.llm.openai.base_url": server.url}
            assert run_with(path, "record", **settings).failure is None
            assert len(server.requests) == 2 + len(CITIES)
        files.append(_without_made_up_ids(cassette.read_text("utf-8")))
    assert files[0] == files[1]
    recorded = result_of(path)["record"]
    assert "size 3" in str(recorded)
    monkeypatch.delenv(KEYS["openai"])
    assert run_with(path, "replay").failure is None
    # The order of the recorded answers depends on their timing.
    assert sorted(map(str, result_of(path)["record"])) == sorted(map(str, recorded))

    asks_else = PACK.replace("Which size for", "What size for")
    write_cells(path, load, asks_else + ASKS_MODEL, "%%jp\nPack for all.")
    failure = run_with(path, "replay").failure
    assert failure is not None
    assert failure.name == "UnrecordedError"
    assert "What size for Bern?" in failure.message
    assert "LLM provider error" not in failure.message, "not the request after the question"


def _without_made_up_ids(text: str) -> str:
    """Return `text` without the server's counted ids and the digests over them."""
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


def test_recorded_results_replace_tools_and_give_the_same_conversation(
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
    recorded = result_of(path)
    for name in ("one", "two", "three"):
        (tmp_path / name).unlink()
    monkeypatch.delenv(KEYS["openai"])
    assert run_with(path, "replay", providers__cassette__tools="recorded").failure is None
    assert result_of(path) == recorded
    assert not [name for name in ("one", "two", "three") if (tmp_path / name).exists()]
    (tmp_path / "more").touch()
    failure = run_with(path, "replay").failure  # the tools run, and count another file
    assert failure is not None
    assert "marked one at" in failure.message


def test_key_is_not_on_the_cassette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is in a request of the user, and in the server's reply."""
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
    assert text.count("[key]") == 4  # in the question, the answer, the request, and the error
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


def test_secret_answer_is_not_on_the_cassette_and_a_different_one_replays_it(
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
        assert "sesame" in str(server.requests[2].body)  # attachments are sent without changes
    text = (tmp_path / "talk.cassette.jsonl").read_text("utf-8")
    assert "sesame" not in text
    assert "entered with (secret)" in text
    monkeypatch.setenv("A_TOKEN", "another-secret-token")
    assert run_with(path, "replay", **answers).failure is None


# --- other runners ---------------------------------------------------------------------------

RUNNERS = {
    "jupyter execute": ["-m", "jupyter", "execute", "--inplace", "talk.ipynb"],
    "nbval": ["-m", "pytest", "--nbval-lax", "-p", "no:cacheprovider", "talk.ipynb"],
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a notebook with its cassette."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "talk.toml").write_text('[[replies]]\ntext = "Sun."\n')
    cells = ("%load_ext jp_nb", "%%jp -m scripted/talk\nHow will it be?", "assert _jp.text")
    assert run_with(write_cells(folder / "talk.ipynb", *cells), "record").ok
    return folder


@pytest.mark.parametrize("runner", RUNNERS)
def test_unrecorded_request_fails_a_stock_runner(
    recorded: Path, tmp_path: Path, runner: str
) -> None:
    if runner == "nbval":
        pytest.importorskip("nbval", reason="pip install -e '.[tiers]'")
    text = (recorded / "talk.ipynb").read_text("utf-8")
    (tmp_path / "talk.ipynb").write_text(text.replace("How will it be?", "How was it?"), "utf-8")
    cassette = (recorded / "talk.cassette.jsonl").read_bytes()
    (tmp_path / "talk.cassette.jsonl").write_bytes(cassette)
    settings = {"MODE": "replay", "PATH": "talk.cassette.jsonl"}
    environment = {f"JP_CFG_PROVIDERS__CASSETTE__{name}": x for name, x in settings.items()}
    done = run_program([sys.executable, *RUNNERS[runner]], tmp_path, os.environ | environment)

    assert done.returncode != 0
    assert "How was it?" in done.stdout + done.stderr
    assert "UnrecordedError" in done.stdout + done.stderr


CITY = """
import pydantic
import jp_nb as jp

class City(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def check(cls, value):
        if value.isupper():
            raise ValueError("no capitals")
        return value
"""
ANSWER = "turn = jp.query('Which city?', schema=City)\nprint(repr(turn.data), turn.json)"


def test_rejected_answer_is_replayed_with_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = LOAD.format(protocol="openai")
    path = write_cells(tmp_path / "city.ipynb", load, CITY, ANSWER)
    monkeypatch.setenv(KEYS["openai"], KEY)
    replies = ['{"name": "BONN"}', '```json\n{"name": "Bonn"}\n```']
    with LoopbackServer(replies) as server:
        assert run_with(path, "record", providers__llm__openai__base_url=server.url).ok
    recorded = result_of(path)
    monkeypatch.delenv(KEYS["openai"])
    assert run_with(path, "replay").failure is None
    assert result_of(path) == recorded
    [*_, shown] = [output for output in outputs(path) if output["output_type"] == "stream"]
    assert shown["text"] == "City(name='Bonn') {'name': 'Bonn'}\n"
