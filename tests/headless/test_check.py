"""`jp-nb check`: what may not be shared is found, with its place, and no key is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb import cli
from jp_nb.config.secret_names import keys_in
from jp_nb.headless.runner import run_notebook
from tests.support import cassette_runs
from tests.support.cassette_runs import KEYS
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.reported_notebook import ANSWER, LOAD, PLAN, SHORTER, TOOLS, written

KEY = "sk-ant-api03-" + "aB3dE6gH9" * 4
NOON = "2026-03-18 12:00:00.0"

Check = Callable[..., tuple[int, list[str]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a notebook that was recorded on a cassette as it ran."""
    folder = tmp_path_factory.mktemp("recorded")
    path = written(folder, LOAD, TOOLS, ANSWER, PLAN, SHORTER)
    assert run_notebook(path, settings={"providers.cassette.mode": "record"}).ok
    return folder


@pytest.fixture
def path(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in the working folder."""
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Path("walk.ipynb")


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """Run `jp-nb check`; returns its status and the lines that it printed."""

    def call(*files: str | Path) -> tuple[int, list[str]]:
        status = cli.main(["check", *map(str, files)])
        printed = capsys.readouterr()
        return status, (printed.out + printed.err).splitlines()

    return call


def changed(path: Path, change: Callable[[Any], object]) -> None:
    """Have `change` made to the notebook at `path`."""
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def test_a_notebook_with_its_cassette_as_a_run_leaves_them_passes(path: Path, check: Check) -> None:
    assert check(path) == (0, ["2 files checked: nothing found"])
    assert check(path, "walk.cassette.jsonl") == (0, ["2 files checked: nothing found"])


# --- keys ------------------------------------------------------------------------------------


def in_source(notebook: Any) -> None:
    notebook.cells[1].source += f"\n# {KEY}"


def in_output(notebook: Any) -> None:
    text = f"the key is \x1b[31m{KEY}\x1b[0m"
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text=text)]


def in_record(notebook: Any) -> None:
    events = notebook.metadata.jp.events
    number = next(i for i, event in enumerate(events) if event["type"] == "chat_response")
    events[number]["message"] += KEY


def in_a_name(notebook: Any) -> None:
    notebook.metadata["mine"] = {KEY: 1}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (in_source, "cells[1].source"),
        (in_output, "cells[1].outputs[0].text"),
        (in_record, "metadata.jp.events[10].message"),
        (in_a_name, "metadata.mine"),
    ],
)
def test_a_key_is_found_and_not_told(
    path: Path, check: Check, change: Callable[[Any], None], place: str
) -> None:
    changed(path, change)
    status, lines = check(path)
    assert status == 1
    what = f"it holds what looks like a key: sk-a… ({len(KEY)} characters)"
    assert f"walk.ipynb: {place}: {what}" in lines


def test_what_a_variable_holds_is_found_however_it_is_spelled(
    path: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALK_PASSWORD", 'four "words" of mine')
    changed(path, lambda notebook: notebook.metadata.update(mine='"four \\"words\\" of mine"'))
    status, lines = check(path)
    held = "it holds the value of the environment variable WALK_PASSWORD"
    assert (status, lines) == (1, [f"walk.ipynb: metadata.mine: {held}"])


WEB_TOKEN = f"eyJ{'aB3dE6gH9' * 20}.eyJzdWIiOiIxMjM0In0.abc"


@pytest.mark.parametrize("secret", ["four words of mine", WEB_TOKEN])
@pytest.mark.parametrize(
    "change",
    [
        lambda made, secret: made.metadata.update({secret: {secret: secret}}),
        lambda made, secret: made.metadata.update({"a" * 70 + f" {secret}": secret}),
        lambda made, secret: made.metadata.jp.events[3].update(timestamp=f"{'a' * 60} {secret}"),
        lambda made, secret: [e.update(event_id=secret) for e in made.metadata.jp.events[3:5]],
    ],
    ids=["name", "long name", "time", "id"],
)
def test_no_place_and_no_message_tells_a_key(
    path: Path,
    check: Check,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Any, str], object],
    secret: str,
) -> None:
    monkeypatch.setenv("WALK_PASSWORD", "four words of mine")
    changed(path, lambda notebook: change(notebook, secret))
    status, lines = check(path)
    assert status == 1
    assert secret[:9] not in "".join(lines)


def test_a_request_that_is_not_on_the_cassette_is_shown_without_the_key_in_it(
    path: Path, check: Check
) -> None:
    def change(notebook: Any) -> None:
        result_changed(notebook)
        asked = next(e for e in notebook.metadata.jp.events if e["type"] == "chat_request")
        asked["content"] = f"{'Plan ' * 17}{KEY}"

    changed(path, change)
    lines = check(path)[1]
    assert any("in the last run is not on" in line for line in lines)
    assert KEY[:12] not in "".join(lines)


@pytest.mark.parametrize(
    ("name", "value"),
    [("WALK_PASSWORD", "walk"), ("WALK_PLACE", "Plan a walk."), ("WALK_TOKEN", ".")],
)
def test_short_values_other_variables_and_paths_are_no_keys(
    path: Path, check: Check, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, str(path.resolve()) if value == "." else value)
    changed(path, lambda notebook: notebook.metadata.update(mine=str(path.resolve())))
    assert check(path)[0] == 0


def test_a_key_on_the_cassette_and_in_the_answers_is_found(path: Path, check: Check) -> None:
    Path("walk.answers.toml").write_text(f'[questions.plan]\nplace = "{KEY}"\n')
    found = f"it holds what looks like a key: sk-a… ({len(KEY)} characters)"
    assert check(path) == (1, [f"walk.answers.toml: line 2: {found}"])
    with Path("walk.cassette.jsonl").open("a") as file:
        file.write(f"\n{KEY}")
    status, lines = check("walk.cassette.jsonl")
    assert status == 1
    assert any(line.endswith(found) for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "div.sk-estimator-doc-link.fitted, #sk-container-id-1 div.sk-toggleable__content",
        "password: answers are sent back to you, token = read()",
        "Bearer of the ring, sk-learn-contrib-and-other-packages",
        "AKIA", "ghp_short", "data:image/png;base64," + "QUtJQUFBQUFBQUFBQUFBQUFBQUE" * 20,
    ],
)  # fmt: skip
def test_what_is_no_key_is_none(text: str) -> None:
    assert keys_in(text) == []


@pytest.mark.parametrize(
    "key",
    [KEY, "ghp_" + "a1" * 18, "AKIAIOSFODNN7EXAMPLE", "xoxb-1234567890-abc", "hf_" + "aB" * 12,
     "Bearer " + "a1." * 10, "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"],
)  # fmt: skip
def test_a_key_is_found_within_other_text(key: str) -> None:
    assert keys_in(f"x = '{key}' and so on") == [key]


# --- the record ------------------------------------------------------------------------------


def without_an_end(notebook: Any) -> None:
    events = notebook.metadata.jp.events
    notebook.metadata.jp.events = [e for e in events if e["type"] != "tool_call_response"]


def with_one_id_twice(notebook: Any) -> None:
    notebook.metadata.jp.events[-1]["event_id"] = notebook.metadata.jp.events[0]["event_id"]


def without_a_field(notebook: Any) -> None:
    del notebook.metadata.jp.events[3]["content"]


def with_no_time(notebook: Any) -> None:
    notebook.metadata.jp.events[3]["timestamp"] = "noon"


def with_a_wrong_value(notebook: Any) -> None:
    notebook.metadata.jp.events[0]["delta"] = {"assistant": {"name": {"no": "name"}}}


def by_a_newer_release(notebook: Any) -> None:
    notebook.metadata.jp.version = 2


def with_a_damaged_one_beside(notebook: Any) -> None:
    notebook.metadata.jp["others"] = [{"conversation": {"id": "jp-c1"}, "events": [7]}]


def emptied(notebook: Any) -> None:
    notebook.metadata.jp.events = []


def with_a_torn_carrier(notebook: Any) -> None:
    state = {"model_module": "jp-nb", "model_name": "RecordModel", "state": {"events.0": []}}
    model = {"application/vnd.jupyter.widget-state+json": {"state": {"a": state}}}
    notebook.metadata["widgets"] = model


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (without_an_end, "this tool call has no end"),
        (with_one_id_twice, "names several entries"),
        (without_a_field, "events[3].content: Field required"),
        (with_no_time, "events[3].timestamp: 'noon' is not a time"),
        (with_a_wrong_value, "what is set at assistant.name counts for nothing here"),
        (by_a_newer_release, "update jp_nb"),
        (with_a_damaged_one_beside, "others[0].events[0]: expected an object"),
        (emptied, "the record is empty"),
        (with_a_torn_carrier, "the copy of the record that a headless run left is damaged"),
    ],
)
def test_damage_of_the_record_is_found(
    path: Path, check: Check, damage: Callable[[Any], None], said: str
) -> None:
    changed(path, damage)
    status, lines = check(path)
    assert status == 1
    assert any(line.startswith("walk.ipynb: metadata.") and said in line for line in lines), lines


def test_a_file_of_a_thousand_damages_takes_few_lines(path: Path, check: Check) -> None:
    changed(path, lambda notebook: notebook.metadata.jp.update(events=[7] * 1000))
    lines = check(path)[1]
    assert len(lines) == 21
    assert lines[20] == "walk.ipynb: and 980 more"


def test_names_in_a_notebook_cannot_write_to_the_terminal(path: Path, check: Check) -> None:
    name = f"\x1b[2J\n{KEY}: fine"
    changed(path, lambda notebook: notebook.metadata.update(mine={name: KEY}))
    text = "\n".join(check(path)[1])
    assert "\x1b" not in text
    assert KEY not in text
    assert text.count("\n") == 1


# --- the cassette ----------------------------------------------------------------------------


@pytest.mark.parametrize("now", [SHORTER.replace("shorter", "longer"), SHORTER[:-5]])
def test_a_cell_that_asks_something_else_now_is_found(path: Path, check: Check, now: str) -> None:
    def change(notebook: Any) -> None:
        notebook.cells[5].source = now

    changed(path, change)
    status, [line] = check("walk.cassette.jsonl")
    assert status == 1
    begin = "walk.ipynb: cells[5]: what this cell asks is not on walk.cassette.jsonl: record"
    assert line.startswith(begin)


def test_a_cell_that_no_runner_runs_asks_nothing(path: Path, check: Check) -> None:
    def add_cell(notebook: Any) -> None:
        tags = {"tags": ["skip-execution"]}
        notebook.cells.append(nbformat.v4.new_code_cell("%%jp\nNever.", id="z", metadata=tags))

    changed(path, add_cell)
    assert check(path)[0] == 0


@pytest.mark.parametrize("source", ["%%jp\nAbout {{place}}.", "print('%%jp')", "", "%%jp\n\n"])
def test_what_only_a_kernel_knows_is_not_held_against_the_cassette(
    path: Path, check: Check, source: str
) -> None:
    changed(path, lambda notebook: notebook.cells.append(nbformat.v4.new_code_cell(source)))
    assert check(path)[0] == 0


def result_changed(notebook: Any) -> None:
    for event in notebook.metadata.jp.events:
        if event["type"] == "tool_call_response":
            event["content"] = "Something else."


def test_a_run_that_went_otherwise_than_the_cassette_is_found(path: Path, check: Check) -> None:
    changed(path, result_changed)
    status, [line] = check(path)
    assert status == 1
    assert "metadata.jp: what followed 'Plan a walk.' in the last run is not on" in line


def test_a_conversation_with_a_person_is_not_held_against_the_cassette(
    path: Path, check: Check
) -> None:
    def change(notebook: Any) -> None:
        result_changed(notebook)
        notebook.metadata.jp.conversation.made = "live"

    changed(path, change)
    assert check(path)[0] == 0


@pytest.mark.parametrize("protocol", KEYS)
def test_what_a_model_said_is_held_against_the_cassette_as_it_was_sent(
    tmp_path: Path, check: Check, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEYS[protocol], cassette_runs.KEY)
    cells = (cassette_runs.LOAD.format(protocol=protocol), cassette_runs.WEATHER)
    path = cassette_runs.write_cells(Path("talk.ipynb"), *cells, "%%jp\nSun?", "%%jp\nThanks.")
    calls = (ToolCall("weather", {"city": "Bern"}), ToolCall("weather", {"city": "Delft"}))
    replies = [
        Reply(status=503),
        Reply(text="Let me see.", reasoning="Two cities.", tool_calls=calls),
        Reply(text="Sun everywhere.", cut_after=500 if protocol == "anthropic" else 250),
        Reply(text="Sun everywhere."),
        Reply(text="Welcome."),
    ]
    with LoopbackServer(replies) as server:
        base_url = {f"providers.llm.{protocol}.base_url": server.url}
        assert cassette_runs.run_with(path, "record", **base_url).ok
    assert check(path) == (0, ["2 files checked: nothing found"])
    assert cassette_runs.run_with(path, "replay").ok
    assert check(path)[0] == 0
    changed(path, result_changed)
    status, [line] = check(path)
    assert status == 1
    assert "what followed 'Sun?' in the last run" in line


def test_a_cassette_that_was_edited_is_found_with_its_line(path: Path, check: Check) -> None:
    file = Path("walk.cassette.jsonl")
    file.write_text(file.read_text().replace("Planned.", "Planted."))
    status, lines = check(path)
    assert status == 1
    assert any(
        line.startswith("walk.cassette.jsonl: line ") and "is not as it was written" in line
        for line in lines
    )


# --- files -----------------------------------------------------------------------------------


def test_a_file_that_is_no_notebook_is_found(path: Path, check: Check) -> None:
    path.write_text("{")
    status, lines = check(path)
    assert status == 1
    assert lines[0].startswith("walk.ipynb: is not a notebook: ")


def test_answers_that_mean_nothing_are_found(path: Path, check: Check) -> None:
    Path("walk.answers.toml").write_text("[permissions]\nplan = 'perhaps'\n")
    status, [line] = check("walk.answers.toml")
    assert status == 1
    assert line.startswith("walk.answers.toml: line 2: ")
    assert 'expected "run" or "skip"' in line


def test_a_folder_is_checked_but_for_what_is_hidden(path: Path, check: Check) -> None:
    for folder in ("notes/deep", ".ipynb_checkpoints"):
        Path(folder).mkdir(parents=True)
        shutil.copy(path, folder)
        changed(Path(folder) / path.name, in_source)
    status, lines = check(".")
    assert status == 1
    assert {line.split(":")[0] for line in lines} == {"notes/deep/walk.ipynb"}


@pytest.mark.parametrize("name", ["gone.ipynb", "walk.toml", "empty"])
def test_what_cannot_be_checked_is_called_wrongly(path: Path, check: Check, name: str) -> None:
    Path("empty").mkdir()
    status, [line] = check(path, name)
    assert status == 2
    assert line.startswith("jp-nb: ")
