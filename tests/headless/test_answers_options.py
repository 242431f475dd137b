"""`jp-nb run --answers FILE`: a file answers instead of the user."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jp_nb.cli import main
from tests.kit.notebook_record import open_document
from tests.support.notebook_runs import outputs, run, write_scripted

Execute = Callable[..., str]

SCRIPT = """
[[replies]]
tool_calls = [
    {name = "publish", arguments = {note = "One"}},
    {name = "signup", arguments = {}},
    {name = "peek", arguments = {}},
    {name = "set_tone", arguments = {}},
]
[[replies]]
text = "Done."
"""
TOOLS = '''import json
import jp_nb as jp
from pydantic import BaseModel

@jp.tool(run="ask")
def publish(note: str, ctx: jp.ToolContext) -> object:
    """Publish a note."""
    if "audience" not in ctx.answers:
        who = jp.Question.select("audience", "Who is it for?", ["team", "all"])
        return jp.NeedsInput(who.with_exclusive(), jp.Question.secret("token", "Which token?"))
    return f"for {ctx.answers['audience']} with {len(ctx.answers['token'])} and {ctx.answers['token']}"

class Person(BaseModel):
    name: str
    age: int = 30

@jp.tool
def signup(ctx: jp.ToolContext) -> object:
    """Sign a person up."""
    if "who" not in ctx.answers:
        return jp.NeedsInput(jp.Question.form("who", Person, "Who?").with_exclusive())
    return json.dumps(ctx.answers["who"], sort_keys=True)

@jp.tool
def peek() -> str:
    """Look."""
    return "a result"

@jp.tool(access=[jp.ConfigRule("style.reasoning", read=True, write=True)])
def set_tone(ctx: jp.ToolContext) -> object:
    """Change the style."""
    if ctx.delta_rejection is not None:
        return jp.Success(f"not toned: {ctx.delta_rejection.reason}")
    return jp.Success("toned", config={"style": {"reasoning": {"display": "hidden"}}})
'''  # noqa: E501
CELLS = (
    f"%load_ext jp_nb\n{TOOLS}",
    "%%jp -m scripted/tools -c conversation.tools.peek.result=ask\nContinue.",
    "for call in _jp.tool_calls:\n    print(call.content)",
    "try:\n    print(jp.ask(jp.Question.integer('size', 'How large?')))\n"
    "except jp.JpNbError as exc:\n    print(type(exc).__name__)",
)
ALL = """
[questions.publish]
audience = "team"
token = { env = "A_TOKEN" }
[questions."sign*"]
w = "no question of that id"
"w?o" = { name = "Ada" }
[questions."jp.ask"]
size = 4
[permissions]
"pub*" = "run"
[results]
peek = "skip"
[changes]
set_tone = "apply"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = write_scripted(tmp_path, *CELLS)
    (made.parent / "tools.toml").write_text(SCRIPT, encoding="utf-8")
    return made


@pytest.fixture
def execute(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Execute:
    """Run a notebook with `answers`; return the messages of `jp-nb`."""

    def call(path: Path, *more: str, answers: str | None = None, code: int = 0, **env: str) -> str:
        monkeypatch.chdir(path.parent)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        if answers is not None:
            Path("in.answers.toml").write_text(answers, encoding="utf-8")
            more = ("--answers", "in.answers.toml", *more)
        status = main(["run", path.name, *more])
        output = capsys.readouterr().err
        assert status == code, output
        return output

    return call


def printed(path: Path) -> list[str]:
    streams = [x["text"] for x in outputs(path) if x["output_type"] == "stream"]
    return "".join(streams[-2:]).splitlines()


def read_ends(path: Path) -> dict[str, Any]:
    """Return the end of each inquiry, by the text of the question."""
    entries: list[Any] = open_document(path).conversation.raw
    asked = {x["id"]: x["question"]["text"] for x in entries if x["type"] == "inquiry_request"}
    ends = [x for x in entries if x["type"] == "inquiry_response"]
    return {asked[end["id"]]: end for end in ends}


def test_file_answers_permits_withholds_and_applies(path: Path, execute: Execute) -> None:
    """The file replaces the answers file in the notebook's configuration."""
    source = path.read_text("utf-8").replace(
        "%load_ext jp_nb\\n", "%load_ext jp_nb\\n%jp config prompt.answers=none.toml\\n", 1
    )
    assert "prompt.answers=none.toml" in source
    path.write_text(source, encoding="utf-8")
    output = execute(path, "--strict", answers=ALL, A_TOKEN="sesame-open")
    assert printed(path) == [
        "for team with 11 and (secret)",
        '{"age": 30, "name": "Ada"}',
        "Result delivery skipped by user.",
        "toned",
        "4",
    ]
    assert output == (
        "jp-nb: in.answers.toml, line 6: questions.sign*.w was not used: "
        "the notebook did not ask for it\n"
    )
    ends = read_ends(path)
    assert ends["Who is it for?"]["answer"] == "team"
    assert ends["Which token?"]["outcome"] == "redacted"
    assert {end["metadata"]["channel"] for end in ends.values()} == {"answers"}
    applied = [x for x in open_document(path).conversation.raw if "proposed_by" in str(x)]
    assert '"channel": "answers"' in json.dumps(applied)
    assert "sesame-open" not in path.read_text("utf-8")
    shown = json.dumps(outputs(path), ensure_ascii=False)
    for text in ("in.answers.toml, line 11 allows publish to run", "applied by the answers file"):
        assert text in shown


@pytest.mark.runners
def test_open_decisions_are_listed_and_their_template_is_filled_in(
    path: Path, execute: Execute
) -> None:
    output = execute(path, "--answers-template", "new.toml")
    assert output.startswith("jp-nb: 5 open decisions:\n")
    for text in (
        "permission to run publish",
        "question who of signup: Who?",
        "approval of the result of peek",
        "approval of a configuration change proposed by set_tone",
        "question size of jp.ask: How large?",
    ):
        assert text in output
    format_template = (path.parent / "new.toml").read_text("utf-8")
    assert tomllib.loads(format_template) == {
        "questions": {"signup": {}, "jp.ask": {}},
        "permissions": {},
        "results": {},
        "changes": {},
    }
    assert "# style.reasoning.display: " in format_template
    filled = format_template.replace("# who =", "who =").replace('name = ""', 'name = "Bo"')
    for name in ("size", "publish", "peek", "set_tone"):
        filled = filled.replace(f"# {name} =", f"{name} =")
    assert "2 open decisions:" in execute(path, answers=filled)
    assert printed(path)[1:] == ['{"age": 30, "name": "Bo"}', "a result", "toned", "0"]


@pytest.mark.runners
def test_invalid_answers_are_reported_with_file_and_line(path: Path, execute: Execute) -> None:
    wrong = (
        ALL.replace('{ env = "A_TOKEN" }', '"sesame-open"')
        .replace('{ name = "Ada" }', '{ name = { env = "A_TOKEN" } }')
        .replace("size = 4", "size = 4.5")
    )
    output = execute(path, answers=wrong, A_TOKEN="sesame-token")
    place = "in.answers.toml, line"
    assert f"{place} 4: give a secret such as 'token' as an environment" in output
    assert f"{place} 7: 'name' is not a secret, so its answer is recorded and sent" in output
    assert f"{place} 9: the answer to 'size' does not fit" in output
    assert printed(path)[0].startswith("publish: in.answers.toml, line 4: ")
    assert printed(path)[-1] == "ConfigError"
    assert read_ends(path)["Which token?"]["reason"] == "invalid_static_answer"
    assert "sesame" not in output + path.read_text("utf-8")


@pytest.mark.runners
def test_unset_variable_and_misspelt_key_are_reported(path: Path, execute: Execute) -> None:
    wrong = ALL.replace("A_TOKEN", "EMPTY").replace("size = 4", "sise = 4")
    output = execute(path, answers=wrong, EMPTY="")
    assert "line 4: the environment variable 'EMPTY' is not set or is empty" in output
    misspelt = "line 9: questions.jp.ask.sise was not used: did you mean questions.jp.ask.size?"
    assert misspelt in output


@pytest.mark.runners
def test_misspelt_key_fails_a_strict_run(path: Path, execute: Execute) -> None:
    misspelt = ALL.replace("size = 4", "sise = 4")
    line = "line 9: questions.jp.ask.sise was not used: did you mean questions.jp.ask.size?"
    assert line in execute(path, "--strict", answers=misspelt, code=1, A_TOKEN="sesame-open")


@pytest.mark.runners
def test_question_of_the_model_is_answered_by_the_file(tmp_path: Path, execute: Execute) -> None:
    script = """
[[replies]]
tool_calls = [{name = "ask", arguments = {questions = [
    {id = "db", question = "Which database?", options = [{label = "Postgres"}, {label = "None"}]},
]}}]
[[replies]]
text = "Planned."
"""
    made = write_scripted(
        tmp_path, "%load_ext jp_nb", "%%jp -m scripted/tools\nPlan.", "1 + 1", "2"
    )
    (made.parent / "tools.toml").write_text(script, encoding="utf-8")
    assert "used" not in execute(made, answers='[questions.ask]\n"*" = "Postgres"\n')
    [end] = read_ends(made).values()
    assert (end["answer"], end["metadata"]["channel"]) == ("Postgres", "answers")


@pytest.mark.runners
def test_skipped_decisions_are_not_answered_run_or_applied(path: Path, execute: Execute) -> None:
    skipped = (
        ALL.replace('"team"', "{ skip = true }")
        .replace('"w?o" = { name = "Ada" }', "who = { skip = true }")
        .replace('"apply"', '"skip"')
        .replace("size = 4", "size = { skip = true }")
    )
    output = execute(path, answers=skipped, A_TOKEN="sesame-open")
    assert "open decision" not in output
    assert printed(path) == [
        "Tool input declined by user.",
        "Tool input declined by user.",
        "Result delivery skipped by user.",
        "not toned: user_rejected",
        "PromptCancelled",
    ]
    assert read_ends(path)["Who is it for?"]["metadata"] == {
        "end": "declined",
        "channel": "answers",
    }


@pytest.mark.runners
def test_strict_run_fails_at_the_first_open_decision(path: Path, execute: Execute) -> None:
    output = execute(path, "--strict", answers="", code=1)
    assert "PromptUnavailable in cell 2: " in output
    assert re.search(r"\d open decisions?:", output)
    [request] = [x for x in open_document(path).conversation.raw if x["type"] == "chat_request"]
    assert request["content"] == "Continue."


def test_invalid_file_is_refused_before_the_run(path: Path, execute: Execute) -> None:
    before = path.read_bytes()
    output = execute(path, answers="[questions.publish]\n\n[answers]\n", code=1)
    assert output.startswith("jp-nb: unknown table [answers]: expected [questions], [permissions]")
    assert "in.answers.toml, line 3" in output
    (path.parent / "new.toml").touch()
    assert "exists" in execute(path, "--answers-template", "new.toml", code=2)
    assert path.read_bytes() == before


@pytest.mark.runners
def test_environment_variable_names_the_file_for_nbconvert(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path.parent / "in.answers.toml").write_text(ALL, encoding="utf-8")
    monkeypatch.setenv("JP_CFG_PROMPT__ANSWERS", "in.answers.toml")
    monkeypatch.setenv("A_TOKEN", "sesame-open")
    command = ["-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", path.name]
    done = run(command, path.parent)
    assert done.returncode == 0, done.stderr
    assert printed(path)[0] == "for team with 11 and (secret)"
