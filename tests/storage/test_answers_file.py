"""The answers file: answers with their lines, patterns and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.answers import PreparedAnswers


def test_each_form_of_an_answer_is_read_with_its_line() -> None:
    answers = PreparedAnswers(
        'questions.u.i = ["p",\n  "q"]\n'
        '[questions.t]  # a comment\na = "x"\n\n  b = { skip = true }\nc = { env = "NAME" }\n'
        'd = { name = "Ada", pin = { env = "PIN" }, left = { skip = true } }\n'
        'e = { answer = { env = "a field of that name" } }\n'
        "f = 2026-11-23\n"
        'g = """\n[questions.t]\nh = 1\n"""\n'
        '[permissions]\nt = "run"\n'
    ).list()
    form = {"name": "Ada", "pin": ("env", "PIN")}
    assert answers == [
        {"key": ("questions", "u", "i"), "line": 1, "value": ["p", "q"]},
        {"key": ("questions", "t", "a"), "line": 4, "value": "x"},
        {"key": ("questions", "t", "b"), "line": 6, "skip": True},
        {"key": ("questions", "t", "c"), "line": 7, "value": ("env", "NAME")},
        {"key": ("questions", "t", "d"), "line": 8, "value": form},
        {"key": ("questions", "t", "e"), "line": 9, "value": {"env": "a field of that name"}},
        {"key": ("questions", "t", "f"), "line": 10, "value": "2026-11-23"},
        {"key": ("questions", "t", "g"), "line": 11, "value": "[questions.t]\nh = 1\n"},
        {"key": ("permissions", "t"), "line": 16, "value": None},
    ]


def test_errors_name_the_line(subtests: pytest.Subtests) -> None:
    for text, line, what in [
        ("[question.t]\n", 1, "unknown table [question]: did you mean [questions]? Expected "),
        ("\n[questions]\nt = 1\n", 3, "under its tool"),
        ('[permissions]\na = "run"\n\nt = "apply"\n', 4, 'expected "run" or "skip"'),
        ("[changes]\nt = true\n", 2, 'expected "apply" or "skip"'),
        ("[questions.t]\na = 1\nb = { skip = false }\n", 3, "{ skip = true }"),
        ("[questions.t]\na = { env = 1 }\n", 2, "name of an environment variable"),
        ('[questions.t]\na = { b = { env = "" } }\n', 2, "name of an environment variable"),
        ("[questions.t]\na = [1, [inf]]\n", 2, "inf is not a valid answer"),
        ("[questions.t]\r\na = 1\r\n[x]\r\n", 3, "unknown table [x]"),
        ("[permissions.t]\namount = 5\n", 1, "expected { decision = "),
        ("[[permissions.t]]\narguments = {}\n", 1, "expected { decision = "),
        (
            '[[permissions.t]]\ndecision = "skip"\narguments = {}\n\n'
            '[[permissions.t]]\ndecision = "apply"\narguments = {}\n',
            6,
            'expected "run" or "skip"',
        ),
        (
            'permissions.t = { decision = "run", arguments = "[1]" }\n',
            1,
            "a table, or a JSON object",
        ),
        ('permissions.t = { decision = "run", arguments = "{" }\n', 1, "not valid JSON"),
        ('[results]\nt = { decision = "deliver", arguments = {} }\n', 2, '"deliver" or "skip"'),
        ("[runs]\nr = 1\n", 2, "a table for each run"),
        ('[runs."a b".question.t]\nx = 1\n', 1, "unknown table [question]"),
        ('[runs.r.permissions]\nt = "run"\n[runs.r.changes]\nt = 1\n', 4, '"apply" or "skip"'),
        ("[runs.r.runs.s]\n", 1, "unknown table [runs]"),
        ("results = 1\n", 1, "[results] must be a table"),
        ("[results]\na = \n", 2, "is not TOML"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(jp.ConfigError) as error:
                PreparedAnswers(text).list()
            assert what in str(error.value)
            assert f"line {line}" in str(error.value)


def test_unreadable_toml_is_an_error_of_the_file(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["a = " + "[" * 5000 + "]" * 5000, "a = " + "9" * 5000]
    for text in rows:
        with subtests.test(text=text), pytest.raises(jp.ConfigError, match=r"a\.toml"):
            PreparedAnswers(text).list()


def test_exact_name_precedes_patterns_and_the_first_pattern_wins() -> None:
    file = '[questions."*"]\nid = 1\n[questions.t]\n"i*" = 2\nid = 3\n"*" = 4\n'
    for names, found in [
        (("t", "id"), {"key": ("questions", "t", "id"), "line": 5, "value": 3}),
        (("u", "id"), {"key": ("questions", "*", "id"), "line": 2, "value": 1}),
        (("t", "ix"), {"key": ("questions", "t", "i*"), "line": 4, "value": 2}),
        (("u", "other"), None),
    ]:
        assert PreparedAnswers(file).find("questions", *names) == found

    assert PreparedAnswers(file).find("permissions", "t") is None


def test_bracket_in_a_pattern_is_literal() -> None:
    file = '[questions.t]\n"size[*]" = 1\n'
    assert PreparedAnswers(file).find("questions", "t", "size[0]") is not None
    assert PreparedAnswers(file).find("questions", "t", "size*") is None


def test_file_with_windows_line_ends_and_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(b"\xef\xbb\xbf[questions.t]\r\nid = 'a'\r\n")
    [answer] = PreparedAnswers(file).list()
    assert (answer["value"], answer["line"]) == ("a", 2)


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"\xff", "not UTF-8"), (b"\n" * 50_001, "has more than 50000 lines"), (None, "no such")],
)
def test_error_of_an_unreadable_file_gives_the_reason(
    tmp_path: Path, content: bytes | None, what: str
) -> None:
    file = tmp_path / "a.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(jp.ConfigError, match=what) as error:
        PreparedAnswers(file).list()
    assert str(file) in str(error.value)


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
answers = st.one_of(
    st.text(max_size=20), st.booleans(), st.integers(-(2**60), 2**60), st.lists(st.text(max_size=3))
)


@given(st.dictionaries(names, st.dictionaries(names, answers, max_size=4), max_size=4))
def test_any_names_and_answers_are_read_at_their_lines(
    tools: dict[str, dict[str, object]],
) -> None:
    text = tomlkit.dumps({"questions": tools})
    found = PreparedAnswers(text).list()
    assert {answer["key"][1:]: answer["value"] for answer in found} == {
        (tool, question): value
        for tool, questions in tools.items()
        for question, value in questions.items()
    }
    lines = text.split("\n")
    for answer in found:
        assert tomlkit.key(answer["key"][2]).as_string() in lines[answer["line"] - 1]


@pytest.mark.req("INBOX-4")
def test_permission_with_arguments_covers_only_the_call_with_exactly_these_arguments() -> None:
    file = (
        '[[permissions.pay]]\ndecision = "run"\narguments = { amount = 5, to = ["Ada"] }\n'
        '[[permissions.pay]]\ndecision = "skip"\narguments = \'{"amount": null}\'\n'
    )
    allowed = {"amount": 5, "to": ["Ada"]}

    found = PreparedAnswers(file).find("permissions", "pay", arguments={"to": ["Ada"], "amount": 5})
    assert found == {
        "key": ("permissions", "pay"),
        "line": 1,
        "arguments": allowed,
        "value": None,
    }
    skipped = PreparedAnswers(file).find("permissions", "pay", arguments={"amount": None})
    assert skipped is not None
    assert (skipped["line"], skipped["skip"]) == (4, True)

    for other in (
        {"amount": 6, "to": ["Ada"]},
        {"amount": 5.0, "to": ["Ada"]},
        {"amount": True, "to": ["Ada"]},
        {"amount": "5", "to": ["Ada"]},
        {"amount": 5, "to": ["Ada"], "more": 1},
        {"amount": 5},
        {},
        None,
    ):
        assert PreparedAnswers(file).find("permissions", "pay", arguments=other) is None


@pytest.mark.req("INBOX-4")
def test_decision_about_exact_arguments_has_priority_over_one_about_the_tool() -> None:
    file = '[permissions]\npay = [{ decision = "skip", arguments = { amount = 5 } }]\n"*" = "run"\n'
    exact = PreparedAnswers(file).find("permissions", "pay", arguments={"amount": 5})
    assert exact is not None
    assert exact["skip"]
    other = PreparedAnswers(file).find("permissions", "pay", arguments={"amount": 6})
    assert other is not None
    assert other["key"] == ("permissions", "*")


@pytest.mark.req("INBOX-5")
def test_table_of_a_run_has_priority_and_is_not_read_for_other_runs() -> None:
    file = (
        '[questions.publish]\naudience = "team"\n'
        '[runs."walk-city=Delft-1f3a9c".questions.publish]\n"aud*" = "all"\n'
        '[runs."walk-city=Delft-1f3a9c".results]\nfetch = "skip"\n'
    )
    name = "walk-city=Delft-1f3a9c"

    own = PreparedAnswers(file).find("questions", "publish", "audience", run=name)
    assert own is not None
    assert (own["value"], own["line"], own["run"]) == ("all", 4, name)
    assert PreparedAnswers(file).find("results", "fetch", run=name) is not None

    for run in ("walk-city=Leiden-1f3a9c", None):
        general = PreparedAnswers(file).find("questions", "publish", "audience", run=run)
        assert general is not None
        assert general["value"] == "team"
        assert PreparedAnswers(file).find("results", "fetch", run=run) is None
