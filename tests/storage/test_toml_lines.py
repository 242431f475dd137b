"""Lines of the keys of a TOML file, compared with the beginnings of the file that have the key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.answers import PreparedAnswers, TomlPath

keys = st.sampled_from(["a", "b", "c", '"a.b"', "'#'", '"["', '"\\""'])
dotted = st.lists(keys, min_size=1, max_size=9).map(".".join)
VALUES = (
    "1",
    '"# no comment"',
    "[\n  1,  # one\n  # two\n]",
    '"""\n[a]\n# text\n"""',
    "'''\n]]'''",
    "{ a = 1, b = { c.a = 2 } }",
    "[{ a = 1 }, { a = 2 }]",
    "[[], [[1]]]",
)
pairs = st.tuples(dotted, st.sampled_from(VALUES)).map(" = ".join)
headers = st.one_of(dotted.map("[{}]".format), dotted.map("[[ {} ]]".format))
statements = st.one_of(pairs, headers, st.sampled_from(["", "# [a]", "  # b = 1"]))


def list_paths(value: Any, above: TomlPath = ()) -> Iterator[TomlPath]:
    """Yield the paths of all keys and items below `value`."""
    parts: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        parts = enumerate(value)
    for part, inner in parts:
        yield (*above, part)
        yield from list_paths(inner, (*above, part))


def find_true_lines(given: list[str]) -> dict[TomlPath, int]:
    """Return the line of the first statement with which the file has each path."""
    found: dict[TomlPath, int] = {}
    line = 1
    for number, statement in enumerate(given, start=1):
        tree = tomllib.loads("\n".join(given[:number]))
        for path in list_paths(tree):
            found.setdefault(path, line)
        line += statement.count("\n") + 1
    return found


@given(st.lists(statements, max_size=12))
@example(["[a.b.c]", "[a]", "b.d = 1"])
@example(["[[a]]", "b = 1", "[[a]]", "[a.b]", "c = 1", "[[a.c]]", "[[a.c]]", "a = 1"])
@example(["[a.b.c.a.b.c.a.b.c]", "a = 1", "[a.b.c.a.b.c.a.b.a]", "a = 1"])
@example(["a.b.c.a.b.c.a.b.c = { a = 1 }", "a.c = 2"])
def test_line_of_each_key_is_that_of_its_first_statement(given: list[str]) -> None:
    try:
        expected = find_true_lines(given)
    except tomllib.TOMLDecodeError:
        assume(False)
    assert PreparedAnswers.find_lines("\n".join(given), expected) == expected


@given(st.lists(statements, max_size=8))
def test_comments_are_those_that_a_reader_of_the_file_sees(given: list[str]) -> None:
    text = "\n".join(given)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)

    comments = list(PreparedAnswers.list_comments(text))
    values = text.count("# one") + text.count("# two")
    assert len(comments) == values + given.count("# [a]") + given.count("  # b = 1")
    for comment in comments:
        text = text.replace(comment, "", 1)
    assert tomllib.loads(text) == tree


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            '[[permissions.pay]]\ndecision = "run"\n\n[[permissions.pay]]\ndecision = "x"\n',
            5,
            "pay",
        ),
        (
            '[[permissions.pay]]\ndecision = "run"\n[permissions.pay.arguments]\na = 1\n'
            '[[permissions.pay]]\ndecision = "run"\n[permissions.pay.arguments]\nb.c = nan\n',
            8,
            "nan is not",
        ),
        ("[runs.a.questions.x]\ny = 1\n[runs]\nb = 1\n", 4, "a table for each run"),
        ('[questions.x.y]\nname = 1\nage = { env = "" }\n', 3, "environment variable"),
        ("[runs.a.b.c.d.e.f.g]\nh = 1\n", 1, "unknown table"),
    ],
)
def test_errors_in_items_and_below_long_headers_name_their_line(
    text: str, line: int, message: str
) -> None:
    with pytest.raises(jp.ConfigError, match=message) as raised:
        PreparedAnswers(text).list()
    assert f"line {line}" in str(raised.value)


def test_long_headers_and_many_keys_take_little_memory() -> None:
    text = f"[{'.'.join('a' * 20_000)}]\n" + "".join(f"b{number} = 1\n" for number in range(20_000))
    path = (*"a" * 20_000, "b7")
    assert PreparedAnswers.find_lines(text, [path]) == {path: 9}
