"""The history of questions where nobody is there: read as elsewhere, and the same in every run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.notebook_runs import notebook, outputs, run

PLAN = """
[[replies]]
tool_calls = [{name = "ask", arguments = {questions = [
    {id = "db", question = "Which database?", options = [
        {label = "Postgres", value = "pg"}, {label = "SQLite", value = "li"}]},
    {id = "extras", question = "Which extras?", multi = true, options = [
        {label = "Backups"}, {label = "Metrics"}, {label = "Replicas"}]},
]}}]
[[replies]]
tool_calls = [{name = "ask_user_read", arguments = {action = "query", text = "postgres"}}]
[[replies]]
text = "Planned."
"""
ANSWERS = (
    "-c conversation.tools.ask.questions.db.answer=pg "
    '-c \'conversation.tools.ask.questions.extras.answer:=["Metrics", "Backups"]\''
)
CELLS = (
    "%load_ext jp_nb",
    f"%%jp -m scripted/plan {ANSWERS}\nPlan it.",
    "%jp qna",
    "import json\nfor call in _jp.tool_calls[1:]:\n"
    "    found = json.loads(call.content)['entries']\n"
    "    print([(x['id'], x['answer'], x.get('label')) for x in found])",
)


@pytest.fixture(params=[True, False], ids=["in a workspace", "in a bare folder"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    made = notebook(tmp_path, *CELLS)
    (made.parent / "plan.toml").write_text(PLAN)
    if request.param:
        (tmp_path / ".jp").mkdir()
    return made


def execute(path: Path, *command: str) -> None:
    done = run([*command, path.name], path.parent)
    assert done.returncode == 0, done.stderr


@pytest.mark.req("RCP-28", "RCP-85", "RCP-27")
def test_a_run_lists_what_was_configured_and_the_next_one_shows_the_same(path: Path) -> None:
    execute(path, "-m", "jp_nb.cli", "run")
    first = outputs(path)
    (table,) = [x["data"]["text/plain"] for x in first if "Which extras?" in str(x) and
                "answered by" in str(x)]  # fmt: skip
    assert table.splitlines() == [
        "id  question         answer            answered by",
        "1   Which database?  Postgres          the configuration",
        "2   Which extras?    Metrics, Backups  the configuration",
    ]
    assert first[-1]["text"] == "[(1, 'pg', 'Postgres')]\n"
    execute(path, "-m", "jp_nb.cli", "run")
    assert outputs(path) == first
    log = path.parent.parent / ".jp" / "context" / "qna.jsonl"
    kept = log.read_text().splitlines() if log.parent.parent.exists() else []
    assert [json.loads(line)["id"] for line in kept] == ([1, 2] if kept else [])


@pytest.mark.req("RCP-85")
def test_under_a_runner_of_jupyters_nothing_but_the_record_is_a_widget(path: Path) -> None:
    execute(path, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace")
    found = json.loads(path.read_text(encoding="utf-8"))["metadata"]["widgets"]
    states = found["application/vnd.jupyter.widget-state+json"]["state"]
    assert [state["model_module"] for state in states.values()] == ["jp-nb"]
