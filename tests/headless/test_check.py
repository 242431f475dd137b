"""`jp-nb check` finds keys, damage, and outdated cassettes, and prints no key."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.cli import main
from jp_nb.headless.runner import run_notebook
from tests.headless.reported_notebook import ANSWER, LOAD, PLAN, SHORTER, TOOLS, write_walk
from tests.support.notebook_runs import write_cells

KEY = "sk-ant-api03-" + "aB3dE6gH9" * 4
NOON = "2026-03-18 12:00:00.0"

Check = Callable[..., tuple[int, list[str]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a notebook that was recorded on a cassette."""
    folder = tmp_path_factory.mktemp("recorded")
    path = write_walk(folder, LOAD, TOOLS, ANSWER, PLAN, SHORTER)
    assert run_notebook(path, settings={"providers.cassette.mode": "record"}).ok
    return folder


@pytest.fixture
def path(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the recorded notebook, in the working folder."""
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Path("walk.ipynb")


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """Run `jp-nb check`; returns its status and the lines that it printed."""

    def call(*files: str | Path) -> tuple[int, list[str]]:
        status = main(["check", *map(str, files)])
        printed = capsys.readouterr()
        return status, (printed.out + printed.err).splitlines()

    return call


def edit_notebook(path: Path, change: Callable[[Any], object]) -> None:
    """Apply `change` to the notebook at `path`."""
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def test_notebook_and_cassette_of_a_run_pass(path: Path, check: Check) -> None:
    assert check(path) == (0, ["2 files checked: no problems found"])
    assert check(path, "walk.cassette.jsonl") == (0, ["2 files checked: no problems found"])


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


def test_key_is_found_and_not_printed(path: Path, check: Check) -> None:
    for change in (in_source, in_output, in_record, in_a_name):
        edit_notebook(path, change)
    status, lines = check(path)
    assert status == 1
    what = f"contains a possible API key: sk-a… ({len(KEY)} characters)"
    for place in (
        "cells[1].source",
        "cells[1].outputs[0].text",
        "metadata.jp.events[10].message",
        "metadata.mine",
    ):
        assert f"walk.ipynb: {place}: {what}" in lines
    assert KEY not in "".join(lines)


def test_value_of_a_secret_variable_is_found_also_escaped(
    path: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALK_PASSWORD", 'four "words" of mine')
    edit_notebook(
        path, lambda notebook: notebook.metadata.update(mine='"four \\"words\\" of mine"')
    )
    status, lines = check(path)
    held = "contains the value of the environment variable WALK_PASSWORD"
    assert (status, lines) == (1, [f"walk.ipynb: metadata.mine: {held}"])


WEB_TOKEN = f"eyJ{'aB3dE6gH9' * 20}.eyJzdWIiOiIxMjM0In0.abc"


NAMED_BY_A_SECRET: list[Callable[[Any, str], object]] = [
    lambda made, secret: made.metadata.update({secret: {secret: secret}}),
    lambda made, secret: made.metadata.update({"a" * 70 + f" {secret}": secret}),
    lambda made, secret: made.metadata.jp.events[3].update(timestamp=f"{'a' * 60} {secret}"),
    lambda made, secret: [e.update(event_id=secret) for e in made.metadata.jp.events[3:5]],
]


@pytest.mark.parametrize("secret", ["four words of mine", WEB_TOKEN])
def test_place_and_message_of_a_finding_hold_no_key(
    path: Path, check: Check, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("WALK_PASSWORD", "four words of mine")
    before = path.read_bytes()
    for change in NAMED_BY_A_SECRET:
        path.write_bytes(before)
        edit_notebook(path, lambda notebook: change(notebook, secret))
        status, lines = check(path)
        assert status == 1
        assert secret[:9] not in "".join(lines)


def test_request_that_is_not_on_the_cassette_is_printed_without_its_key(
    path: Path, check: Check
) -> None:
    def change(notebook: Any) -> None:
        result_changed(notebook)
        asked = next(e for e in notebook.metadata.jp.events if e["type"] == "chat_request")
        asked["content"] = f"{'Plan ' * 17}{KEY}"

    edit_notebook(path, change)
    lines = check(path)[1]
    assert any("of the last run is not in" in line for line in lines)
    assert KEY[:12] not in "".join(lines)


def test_short_values_other_variables_and_paths_are_not_keys(
    path: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALK_PASSWORD", "walk")
    monkeypatch.setenv("WALK_PLACE", "Plan a walk.")
    monkeypatch.setenv("WALK_TOKEN", str(path.resolve()))
    edit_notebook(path, lambda notebook: notebook.metadata.update(mine=str(path.resolve())))
    assert check(path)[0] == 0


def test_key_on_the_cassette_and_in_the_answers_is_found(path: Path, check: Check) -> None:
    Path("walk.answers.toml").write_text(f'[questions.plan]\nplace = "{KEY}"\n')
    found = f"contains a possible API key: sk-a… ({len(KEY)} characters)"
    assert check(path) == (1, [f"walk.answers.toml: line 2: {found}"])
    with Path("walk.cassette.jsonl").open("a") as file:
        file.write(f"\n{KEY}")
    status, lines = check("walk.cassette.jsonl")
    assert status == 1
    assert any(line.endswith(found) for line in lines)


def find_keys(check: Check, folder: Path, text: str) -> list[str]:
    """Return the findings in a notebook whose only cell has this text."""
    status, lines = check(write_cells(folder / "keys.ipynb", text))
    return lines if status else []


def test_keys_are_recognized_among_other_text(check: Check, tmp_path: Path) -> None:
    for text in (
        "div.sk-estimator-doc-link.fitted, #sk-container-id-1 div.sk-toggleable__content",
        "password: answers are sent back to you, token = read()",
        "Bearer of the ring, sk-learn-contrib-and-other-packages",
        "AKIA", "ghp_short", "data:image/png;base64," + "QUtJQUFBQUFBQUFBQUFBQUFBQUE" * 20,
    ):  # fmt: skip
        assert find_keys(check, tmp_path, text) == []
    for key in (
        KEY, "ghp_" + "a1" * 18, "AKIAIOSFODNN7EXAMPLE", "xoxb-1234567890-abc",
        "hf_" + "aB" * 12, "Bearer " + "a1." * 10,
        "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----",
    ):  # fmt: skip
        [found] = find_keys(check, tmp_path, f"x = '{key}' and so on")
        assert found.endswith(f"contains a possible API key: {key[:4]}… ({len(key)} characters)")


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


def test_damage_of_the_record_is_found(path: Path, check: Check, subtests: pytest.Subtests) -> None:
    rows: list[tuple[Callable[[Any], None], str]] = [
        (without_an_end, "this tool call has no response"),
        (with_one_id_twice, "is the id of several entries"),
        (without_a_field, "events[3].content: Field required"),
        (with_no_time, "events[3].timestamp: 'noon' is not a timestamp"),
        (with_a_wrong_value, "the setting assistant.name is unknown or not valid"),
        (by_a_newer_release, "update jp_nb"),
        (with_a_damaged_one_beside, "others[0].events[0]: expected an object"),
        (emptied, "the record is empty"),
        (with_a_torn_carrier, "the copy of the record from a headless run is damaged"),
    ]
    before = path.read_bytes()
    for damage, message in rows:
        with subtests.test(damage.__name__):
            path.write_bytes(before)
            edit_notebook(path, damage)
            status, lines = check(path)
            assert status == 1
            found = [line for line in lines if message in line]
            assert found[0].startswith("walk.ipynb: metadata."), lines


def test_findings_of_a_file_are_limited(path: Path, check: Check) -> None:
    edit_notebook(path, lambda notebook: notebook.metadata.jp.update(events=[7] * 1000))
    lines = check(path)[1]
    assert len(lines) == 21
    assert lines[20] == "walk.ipynb: and 980 more"


def test_escape_sequences_in_names_do_not_reach_the_terminal(path: Path, check: Check) -> None:
    name = f"\x1b[2J\n{KEY}: fine"
    edit_notebook(path, lambda notebook: notebook.metadata.update(mine={name: KEY}))
    text = "\n".join(check(path)[1])
    assert "\x1b" not in text
    assert KEY not in text
    assert text.count("\n") == 1


# --- the cassette ----------------------------------------------------------------------------


def test_changed_request_of_a_cell_is_found(path: Path, check: Check) -> None:
    for now in (SHORTER.replace("shorter", "longer"), SHORTER[:-5]):
        edit_notebook(path, lambda notebook: notebook.cells[5].update(source=now))
        status, [line] = check("walk.cassette.jsonl")
        assert status == 1
        begin = (
            "walk.ipynb: cells[5]: the request of this cell is not in walk.cassette.jsonl: record"
        )
        assert line.startswith(begin)


def test_skipped_cell_needs_no_exchange(path: Path, check: Check) -> None:
    def add_cell(notebook: Any) -> None:
        tags = {"tags": ["skip-execution"]}
        notebook.cells.append(nbformat.v4.new_code_cell("%%jp\nNever.", id="z", metadata=tags))

    edit_notebook(path, add_cell)
    assert check(path)[0] == 0


def test_cell_whose_request_is_unknown_needs_no_exchange(path: Path, check: Check) -> None:
    for source in (
        "%%jp\nAbout {{place}}.",
        "%%jp --each rows\nAbout {place}.",
        "%%jp --each=rows\nAbout {place}.",
        "print('%%jp')",
        "",
        "%%jp\n\n",
    ):
        edit_notebook(
            path, lambda notebook: notebook.cells.append(nbformat.v4.new_code_cell(source))
        )
        assert check(path)[0] == 0, source


def result_changed(notebook: Any) -> None:
    for event in notebook.metadata.jp.events:
        if event["type"] == "tool_call_response":
            event["content"] = "Something else."


def test_result_that_differs_from_the_cassette_is_found(path: Path, check: Check) -> None:
    edit_notebook(path, result_changed)
    status, [line] = check(path)
    assert status == 1
    assert "metadata.jp: a message after the request 'Plan a walk.' of the last run" in line


def test_live_conversation_is_not_compared_with_the_cassette(path: Path, check: Check) -> None:
    def change(notebook: Any) -> None:
        result_changed(notebook)
        notebook.metadata.jp.conversation.made = "live"

    edit_notebook(path, change)
    assert check(path)[0] == 0


@pytest.mark.req("R-MCP-76")
def test_tool_with_another_definition_on_the_cassette_is_named(path: Path, check: Check) -> None:
    recorded = map(json.loads, Path("walk.cassette.jsonl").read_text("utf-8").splitlines())
    plan = next(line for line in recorded if "tool" in line and line["name"] == "plan")
    del plan["tool"]  # its id
    changed = {**plan, "description": "Plan a longer walk."}
    unknown = {**plan, "name": "books__read"}

    def set_tools(*tools: Any, key: str = "head", at: int = 0) -> Callable[[Any], None]:
        def change(notebook: Any) -> None:
            events = notebook.metadata.jp.events
            begins = [e for e in events if e["type"] in ("chat_response", "tool_call_request")]
            texts = [tool if isinstance(tool, str) else json.dumps(tool) for tool in tools]
            begins[at].setdefault("metadata", {})[key] = {"tools": texts}

        return change

    edit_notebook(path, set_tools(plan))
    assert check(path)[0] == 0
    edit_notebook(path, set_tools(plan, unknown))
    assert check(path)[0] == 0

    edit_notebook(path, set_tools(changed))
    status, [line] = check("walk.cassette.jsonl")
    assert status == 1
    assert "metadata.jp: the definition of the tool plan in the last request differs" in line
    assert "record it again" in line

    edit_notebook(path, set_tools(plan, key="head_change", at=-1))  # the server changed it back
    assert check(path)[0] == 0
    edit_notebook(path, set_tools("plan", key="head_change", at=-1))
    assert check(path)[0] == 1


def test_edited_cassette_is_found_with_its_line(path: Path, check: Check) -> None:
    file = Path("walk.cassette.jsonl")
    file.write_text(file.read_text().replace("Planned.", "Planted."))
    status, lines = check(path)
    assert status == 1
    assert any(
        line.startswith("walk.cassette.jsonl: line ")
        and ("was changed after it was recorded") in line
        for line in lines
    )


# --- files -----------------------------------------------------------------------------------


def test_file_that_is_not_a_notebook_is_found(path: Path, check: Check) -> None:
    path.write_text("{")
    status, lines = check(path)
    assert status == 1
    assert lines[0].startswith("walk.ipynb: is not a notebook: ")


def test_invalid_answer_in_an_answers_file_is_found(path: Path, check: Check) -> None:
    Path("walk.answers.toml").write_text("[permissions]\nplan = 'perhaps'\n")
    status, [line] = check("walk.answers.toml")
    assert status == 1
    assert line.startswith("walk.answers.toml: line 2: ")
    assert 'expected "run" or "skip"' in line


def test_folder_is_checked_without_hidden_folders(path: Path, check: Check) -> None:
    for folder in ("notes/deep", ".ipynb_checkpoints"):
        Path(folder).mkdir(parents=True)
        shutil.copy(path, folder)
        edit_notebook(Path(folder) / path.name, in_source)
    status, lines = check(".")
    assert status == 1
    assert {line.split(":")[0] for line in lines} == {"notes/deep/walk.ipynb"}


def test_file_that_cannot_be_checked_ends_with_2(path: Path, check: Check) -> None:
    Path("empty").mkdir()
    for name in ("gone.ipynb", "walk.toml", "empty"):
        status, [line] = check(path, name)
        assert status == 2
        assert line.startswith("jp-nb: ")
