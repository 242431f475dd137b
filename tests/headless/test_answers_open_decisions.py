"""Templates of answers files answer no question before the user edits them."""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.answers import PreparedAnswers
from tests.kit.runs import RunReport

texts = st.text(max_size=12) | st.sampled_from(
    ['"', "\\", "a\nb = 1", "]\n[changes]\nx = 1", "\u2028", "\x85", "'", "#", "\ud800", "\x7f"]
)
others = st.dictionaries(st.sampled_from(["selected", "custom"]), st.lists(texts) | texts)


def written(path: Path, *decisions: Mapping[str, object]) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in decisions), encoding="utf-8")
    template: str = RunReport.text("answers_template", RunReport.read_events(path))
    return template


@given(texts, texts, texts, texts, st.lists(texts, min_size=1, unique=True), st.none() | others)
def test_text_of_tools_and_models_stays_a_comment_in_a_template(
    tool: str, name: str, text: str, context: str, options: list[str], default: object
) -> None:
    question = jp.Question.model_validate(
        {
            "id": name,
            "text": text,
            "context": context,
            "answer_type": {"type": "select", "options": options, "other": True},
            "default": default,
        }
    ).model_dump(mode="json")
    asked = {"open": "question", "tool": tool, "why": "", "detail": [], "question": question}
    change = {"open": "change", "tool": tool, "why": "", "detail": [text, context]}
    with tempfile.TemporaryDirectory() as folder:
        made = written(Path(folder) / "log", asked, change)
    made = made.encode(errors="replace").decode()
    assert PreparedAnswers(made).list() == []
    lines = made.split("\n")
    assert all(line.startswith(("#", "[")) for line in lines if line)
    filled = [x[2:] if x.startswith("# ") and " = " in x and x[2:3] != " " else x for x in lines]
    if "\ud800" not in tool + name + text + context + "".join(options) + str(default):
        for line, after in zip(lines, filled, strict=True):
            if after != line and line in (lines[-2], _answer_line(lines)):
                tomllib.loads(after)


def _answer_line(lines: list[str]) -> str:
    """Return the line that answers the question: the last comment before the next table."""
    end = next((n for n, line in enumerate(lines) if line == "[changes]"), len(lines))
    return next(line for line in reversed(lines[:end]) if line)


def question(tool: str, name: str, **more: object) -> dict[str, object]:
    asked = jp.Question.model_validate({"id": name, "text": "What?", **more}).model_dump(
        mode="json"
    )
    return {"open": "question", "tool": tool, "why": "", "detail": [], "question": asked}


def filled_in(text: str) -> str:
    """Return the template without the # before each line that answers."""
    lines = text.splitlines()[2:]
    return "\n".join(line[2:] if " = " in line else line for line in lines)


def test_each_tool_has_one_table_in_a_template(tmp_path: Path) -> None:
    asked = [question(*each) for each in (("one", "a"), ("two", "a"), ("one", "b"))]
    answers = PreparedAnswers(filled_in(written(tmp_path / "log", *asked))).list()
    assert [each["key"][1:] for each in answers] == [("one", "a"), ("one", "b"), ("two", "a")]


def test_form_of_one_field_is_filled_in_for_any_name_of_the_field(tmp_path: Path) -> None:
    for name in ("answer", "skip", "env", "name"):
        field = {"id": name, "text": "?", "answer_type": {"type": "text"}, "default": "x"}
        form = question("one", "f", answer_type={"type": "form", "fields": [field]})
        [answer] = PreparedAnswers(filled_in(written(tmp_path / "log", form))).list()
        assert answer["value"] == {name: "x"}


@pytest.mark.req("INBOX-5", "INBOX-14")
def test_answers_for_runs_of_a_batch_and_for_other_calls_are_told_apart(tmp_path: Path) -> None:
    permission = {"open": "permission", "tool": "pay", "why": "", "arguments": {"n": 6}}
    log = tmp_path / "log"
    log.write_text(json.dumps(permission) + "\n", encoding="utf-8")
    answers = (
        "[questions.publish]\nto = 1\n"
        "[runs.other.questions.publish]\ntoo = 1\n"
        '[[permissions.pay]]\ndecision = "run"\narguments = { n = 5 }\n'
    )
    lines = RunReport.text("end_of_run", RunReport.read_events(log), answers=answers)
    assert [line for line in lines if "a.toml" in line] == [
        "a.toml, line 2: questions.publish.to was not used: the notebook did not ask for it",
        "a.toml, line 5: permissions.pay was not used: the call has other arguments now",
    ]
