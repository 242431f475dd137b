"""The answers of an inbox: one entry if all runs agree, else a table for each run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.batch.log_lines import asked_permission, asked_question, waiting_run, write_log
from tests.kit.answers import PreparedAnswers
from tests.kit.batch_folders import BatchFolder

TO = asked_question("publish", "to", "To whom?", "Delft")


def open_groups(folder: Path, *runs: list[Any]) -> Any:
    """Return the groups of these runs."""
    return BatchFolder(write_log(folder, runs)).decisions().groups


@pytest.mark.req("INBOX-5")
def test_same_answer_of_all_runs_is_one_entry_with_a_comment(tmp_path: Path) -> None:
    [group] = open_groups(tmp_path, *(waiting_run(f"r{n}", TO) for n in range(37)))
    answers = BatchFolder(tmp_path).answers([group])
    answers.decide(group, group.runs, BatchFolder.make_answer("team"))
    answers.save()

    assert (tmp_path / "answers.toml").read_text(encoding="utf-8") == (
        "# Answers to the open decisions of a batch, written by `jp-nb inbox`.\n"
        "\n"
        "[questions.publish]\n"
        "# 37 runs of walk.ipynb, cell 3, turn 1: To whom?\n"
        'to = "team"\n'
    )


@pytest.mark.req("INBOX-5")
def test_differing_answers_are_in_a_table_for_each_run(tmp_path: Path) -> None:
    [group] = open_groups(
        tmp_path, waiting_run("a", TO), waiting_run("b", TO), waiting_run("c", TO)
    )
    answers = BatchFolder(tmp_path).answers([group])
    answers.decide(group, ["a"], BatchFolder.make_answer("team"))
    answers.decide(group, ["b"], BatchFolder.make_answer(skip=True))
    answers.save()

    found = {run: PreparedAnswers(tmp_path / "answers.toml").find(*KEY, run=run) for run in "abc"}
    assert found["a"] is not None
    assert (found["a"]["value"], found["a"]["run"]) == ("team", "a")
    assert found["b"] is not None
    assert found["b"]["skip"]
    assert found["c"] is None
    assert answers.count_answered(group) == 2


KEY = ("questions", "publish", "to")


@pytest.mark.req("INBOX-5")
def test_answer_for_one_notebook_does_not_answer_for_another(tmp_path: Path) -> None:
    walk, talk = open_groups(
        tmp_path, waiting_run("a", TO), waiting_run("b", TO, notebook="talk.ipynb")
    )
    answers = BatchFolder(tmp_path).answers([walk, talk])
    answers.decide(walk, walk.runs, BatchFolder.make_answer("team"))
    answers.save()
    file = tmp_path / "answers.toml"
    assert PreparedAnswers(file).find(*KEY, run="a") is not None
    assert PreparedAnswers(file).find(*KEY, run="b") is None

    answers.decide(talk, talk.runs, BatchFolder.make_answer("team"))
    answers.save()
    [both] = PreparedAnswers(file).list()
    assert both["key"] == KEY
    assert "run" not in both


@pytest.mark.req("INBOX-4")
def test_permission_lists_the_exact_arguments(tmp_path: Path) -> None:
    groups = open_groups(
        tmp_path, waiting_run("a", asked_permission("pay", {"amount": 5}, {"to": None, "x": 1.0}))
    )
    answers = BatchFolder(tmp_path).answers(groups)
    first, second = groups
    answers.decide(first, first.runs, BatchFolder.make_answer())
    answers.decide(second, second.runs, BatchFolder.make_answer(skip=True))
    answers.save()

    file = tmp_path / "answers.toml"
    for arguments, skipped in (({"amount": 5}, False), ({"x": 1.0, "to": None}, True)):
        found = PreparedAnswers(file).find("permissions", "pay", arguments=arguments)
        assert found is not None
        assert found.get("skip", False) == skipped
    assert PreparedAnswers(file).find("permissions", "pay", arguments={"amount": 6}) is None


def test_other_entries_of_the_file_stay_with_their_comments(tmp_path: Path) -> None:
    (tmp_path / "answers.toml").write_text(
        '[permissions]\n# my own rule\npay = "run"\n'
        '[questions.signup]\nwho = { name = "Ada", pin = { env = "PIN" } }\n'
        '[results]\n"fetch*" = "skip"\n[runs.z.changes]\ntone = "apply"\n',
        encoding="utf-8",
    )
    before = PreparedAnswers(tmp_path / "answers.toml").list()
    [group] = open_groups(tmp_path, waiting_run("a", TO))
    answers = BatchFolder(tmp_path).answers([group])
    answers.decide(group, group.runs, BatchFolder.make_answer("team"))
    answers.save()

    after = PreparedAnswers(tmp_path / "answers.toml").list()
    content = [{**each, "line": 0} for each in after]
    for each in before:
        assert {**each, "line": 0} in content
    assert len(after) == len(before) + 1
    text = (tmp_path / "answers.toml").read_text(encoding="utf-8")
    assert "# my own rule\n[[permissions.pay]]\n" in text


def test_withdrawn_answer_leaves_those_of_other_runs(tmp_path: Path) -> None:
    [group] = open_groups(tmp_path, waiting_run("a", TO), waiting_run("b", TO))
    answers = BatchFolder(tmp_path).answers([group])
    answers.decide(group, group.runs, BatchFolder.make_answer("team"))
    answers.save()

    answers = BatchFolder(tmp_path).answers([group])
    assert answers.count_answered(group) == 2
    answers.leave_open(group, ["a"])
    answers.save()
    file = tmp_path / "answers.toml"
    assert PreparedAnswers(file).find(*KEY, run="a") is None
    assert PreparedAnswers(file).find(*KEY, run="b") is not None


texts = st.text(max_size=8) | st.sampled_from(["a.b", '"', "]\n[x]", "\u2028", "answer", "#", " "])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(texts, texts, texts, st.dictionaries(texts, values, max_size=3), texts)
def test_names_and_values_from_a_log_are_data_in_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    tool: str,
    name: str,
    run: str,
    arguments: dict[str, Any],
    value: str,
) -> None:
    folder = tmp_path_factory.mktemp("out")
    question = asked_question(tool, name, "Why?\n[permissions]")
    groups = open_groups(
        folder,
        waiting_run(run, question, asked_permission(tool, arguments)),
        waiting_run(f"{run}-2", question, asked_permission(tool, arguments)),
    )
    answers = BatchFolder(folder).answers(groups)
    for group in groups:
        answers.decide(
            group,
            [run],
            BatchFolder.make_answer(value) if group.question else BatchFolder.make_answer(),
        )
    answers.save()

    found = PreparedAnswers(folder / "answers.toml").list()
    assert [(each["key"], each["run"]) for each in found] == [
        (("questions", tool, name), run),
        (("permissions", tool), run),
    ]
    assert found[0]["value"] == value
    assert found[1]["arguments"] == arguments


@pytest.mark.req("INBOX-8")
def test_secret_is_the_name_of_a_variable(tmp_path: Path) -> None:
    token = asked_question("publish", "token", "Token?", answer_type={"type": "secret"})
    [group] = open_groups(tmp_path, waiting_run("a", token))
    answers = BatchFolder(tmp_path).answers([group])
    answers.decide(group, group.runs, BatchFolder.make_answer(env="PUBLISH_TOKEN"))
    answers.save()
    [answer] = PreparedAnswers(tmp_path / "answers.toml").list()
    assert answer["value"] == ("env", "PUBLISH_TOKEN")


@pytest.mark.req("INBOX-11")
def test_file_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    [group] = open_groups(tmp_path, waiting_run("a", TO))
    file = tmp_path / "answers.toml"
    file.write_text("", encoding="utf-8")
    file.chmod(0o666)
    with pytest.raises(jp.ConfigError, match="writable for everyone"):
        BatchFolder(tmp_path).answers([group])


@pytest.mark.req("INBOX-14")
def test_answers_that_no_resumed_run_used_are_found() -> None:
    file = (
        '[questions.t]\na = 1\nb = 2\n[[permissions.pay]]\ndecision = "run"\n'
        "arguments = { n = 5 }\n[runs.x.questions.t]\na = 3\nc = 4\n[runs.y.questions.t]\na = 5\n"
    )
    used = {"x": [["runs", "x", "questions", "t", "a"]], "z": [["questions", "t", "a"]]}
    assert BatchFolder.find_unused(file, used) == [
        ("runs", "x", "questions", "t", "c"),
        ("questions", "t", "b"),
        ("permissions", "pay", '{"n":5}'),
    ]
