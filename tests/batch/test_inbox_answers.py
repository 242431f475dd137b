"""The answers of an inbox: one entry if all runs agree, else a table for each run."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import jp_nb as jp
from tests.batch.log_lines import (
    BATCH,
    asked_permission,
    asked_question,
    ended_run,
    waiting_run,
    write_log,
)
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


@pytest.mark.req("INBOX-4", "INBOX-5")
@pytest.mark.parametrize("is_planned", [False, True])
def test_permission_covers_no_notebook_whose_call_was_not_shown(
    tmp_path: Path, is_planned: bool
) -> None:
    """Another notebook may have another tool of this name, also one that has not run so far."""
    pay = asked_permission("pay", {"amount": 5})
    runs = [waiting_run("a", pay), waiting_run("b", pay)]
    if is_planned:
        planned = {"walk.ipynb": ["", ""], "talk.ipynb": ["", ""]}
        runs.append([{**BATCH, "plan": {"inputs": planned}}])
    else:
        runs.append(ended_run("c", notebook="talk.ipynb"))
    [group] = open_groups(tmp_path, *runs)

    answers = BatchFolder(tmp_path).answers([group])
    answers.decide(group, group.runs, BatchFolder.make_answer())
    answers.save()
    file = PreparedAnswers(tmp_path / "answers.toml")
    assert [each["run"] for each in file.list()] == ["a", "b"]
    call = {"arguments": {"amount": 5}}
    assert file.find("permissions", "pay", run="a", **call) is not None
    assert file.find("permissions", "pay", run="c", **call) is None
    assert answers.count_answered(group) == 2


@pytest.mark.req("INBOX-4")
def test_permission_of_all_runs_covers_the_same_call_of_a_later_run(tmp_path: Path) -> None:
    pay = asked_permission("pay", {"amount": 5})
    [group] = open_groups(tmp_path, waiting_run("a", pay), waiting_run("b", pay))
    answers = BatchFolder(tmp_path).answers([group])
    answers.decide(group, group.runs, BatchFolder.make_answer())
    answers.save()
    file = PreparedAnswers(tmp_path / "answers.toml")
    assert file.find("permissions", "pay", arguments={"amount": 5}, run="later") is not None
    assert file.find("permissions", "pay", arguments={"amount": 6}, run="later") is None


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


FULL = """\
# Answers to the open decisions of a batch, written by `jp-nb inbox`.
# Checked by Ada.

# Readers of the note.

# Ask Grace before.
[questions.publish]
# walk.ipynb, cell 3, turn 1: To whom?
# The team has agreed.
to = "team"  # until May
tags = [
  "a",  # first
  "b",
]

# Payments.
[permissions]
# small ones
pay = "run"  # at most 5

[[permissions.give]]
# Grace said so.
decision = "run"
[permissions.give.arguments]  # exactly
amount = 5  # euros

[questions.signup.who]
# her real name
name = "Ada"

# The end.
"""


def test_comments_of_the_user_stay_where_they_are(tmp_path: Path) -> None:
    file = tmp_path / "answers.toml"
    file.write_text(FULL, encoding="utf-8")
    [group] = open_groups(tmp_path, waiting_run("a", TO), waiting_run("b", TO))
    answers = BatchFolder(tmp_path).answers([group])
    answers.save()
    kept = file.read_text(encoding="utf-8")
    assert kept == (
        "# Answers to the open decisions of a batch, written by `jp-nb inbox`.\n"
        "# Checked by Ada.\n\n# Readers of the note.\n\n# Ask Grace before.\n[questions.publish]\n"
        "# walk.ipynb, cell 3, turn 1: To whom?\n# The team has agreed.\n"
        'to = "team"  # until May\ntags = [\n  "a",  # first\n  "b",\n]\n\n'
        '# Payments.\n# small ones\n# at most 5\n[[permissions.pay]]\ndecision = "run"\n\n'
        "# Grace said so.\n# exactly\n# euros\n"
        '[[permissions.give]]\ndecision = "run"\narguments = { amount = 5 }\n\n'
        '[questions.signup]\n# her real name\nwho = { name = "Ada" }\n\n'
        "# The end.\n"
    )


def test_comments_of_the_user_outlive_a_changed_and_a_withdrawn_answer(tmp_path: Path) -> None:
    file = tmp_path / "answers.toml"
    file.write_text(FULL, encoding="utf-8")
    [group] = open_groups(tmp_path, waiting_run("a", TO), waiting_run("b", TO))
    answers = BatchFolder(tmp_path).answers([group])

    answers.decide(group, group.runs, BatchFolder.make_answer("all"))
    answers.save()
    assert (
        "# The team has agreed.\n# until May\n# 2 runs of walk.ipynb, cell 3, turn 1: To whom?\n"
        'to = "all"\n'
    ) in file.read_text(encoding="utf-8")

    answers.leave_open(group, ["a", "b"])
    answers.save()
    text = file.read_text(encoding="utf-8")
    assert text.endswith("\n# The end.\n# The team has agreed.\n# until May\n")
    assert "To whom?" not in text


notes = st.sampled_from(["", "", "# note", "  # walk.ipynb: note", "# 2 runs of walk.ipynb: note"])
entries = st.sampled_from(
    [
        '[questions.publish]\nto = "team"',
        '[questions.publish]\nto = "team"  # note\n# note\nwhen = [1,  # note\n2]',
        "[questions.publish]",
        "[questions]\npublish.to = { skip = true }",
        'questions.publish.to = "all"  # note',
        '[runs.a.questions.publish]\nto = "all"',
        '[runs.b.questions]\n# note\npublish = { to = "all" }',
        '[permissions]\n# note\npay = "run"',
        '[[permissions.pay]]  # note\ndecision = "run"\n# note\n[permissions.pay.arguments]\na = 1',
        '[[permissions.pay]]\ndecision = "run"',
        '[results]\n"f*" = "skip"',
        "[questions.signup.who]\n# note\nname = 1\n# note\nage = 2",
    ]
)
OPERATIONS = ("decide", "decide a", "leave", "leave b")


@given(
    st.lists(st.tuples(notes, notes, entries), max_size=5),
    notes,
    st.lists(st.sampled_from(OPERATIONS), max_size=3),
)
def test_no_comment_is_lost_or_added_wherever_it_is(
    tmp_path_factory: pytest.TempPathFactory,
    given_entries: list[tuple[str, str, str]],
    last: str,
    operations: list[str],
) -> None:
    folder = tmp_path_factory.mktemp("out")
    file = folder / "answers.toml"
    text = "\n".join([*("\n".join(entry) for entry in given_entries), last])
    numbers = count()
    text = re.sub("note", lambda found: f"note {next(numbers)}", text)
    try:
        PreparedAnswers(text).list()
    except jp.ConfigError:
        assume(False)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)

    [group] = open_groups(folder, waiting_run("a", TO), waiting_run("b", TO))
    answers = BatchFolder(folder).answers([group])
    for operation in operations:
        name, _, run = operation.partition(" ")
        runs = [run] if run else group.runs
        if name == "decide":
            answers.decide(group, runs, BatchFolder.make_answer("team"))
        else:
            answers.leave_open(group, runs)
    answers.save()

    written = file.read_text(encoding="utf-8")
    before = Counter(PreparedAnswers.list_comments(text))
    after = Counter(PreparedAnswers.list_comments(written))
    generated = [each for each in after if each not in before]
    assert all("To whom?" in each or "Answers to" in each for each in generated)
    assert {each: after[each] for each in before} == before

    BatchFolder(folder).answers([group]).save()
    assert file.read_text(encoding="utf-8") == written


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


def test_first_of_equal_entries_is_kept_because_it_counts(tmp_path: Path) -> None:
    file = tmp_path / "answers.toml"
    call = "arguments = { amount = 5 }\n"
    file.write_text(
        f'[[permissions.pay]]\ndecision = "skip"\n{call}'
        f'# no\n[[permissions.pay]]\ndecision = "run"\n{call}',
        encoding="utf-8",
    )
    [group] = open_groups(tmp_path, waiting_run("a", asked_permission("pay", {"amount": 5})))
    answers = BatchFolder(tmp_path).answers([group])
    assert answers.find(group, "a").skip
    answers.save()
    [kept] = PreparedAnswers(file).list()
    assert kept["skip"]
    assert "# no\n" in file.read_text(encoding="utf-8")


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
