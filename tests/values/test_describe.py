"""Tests that descriptions of all kinds of values are within the budget and reproducible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.values import describe_value
from tests.values.sample_values import BUDGETS, OPTIONAL, descriptions, sample_values

VALUES = sample_values()
TELL = """
import json
from tests.values.sample_values import descriptions
print(json.dumps(descriptions(2000)))
"""


def text_of(name: str, chars: int = 700) -> str:
    return str(describe_value(VALUES[name], chars=chars, name="value").text)


def test_no_description_is_longer_than_its_budget(subtests: pytest.Subtests) -> None:
    for chars in [0, 1, 7, 30, 90, *BUDGETS]:
        with subtests.test(chars=chars):
            for name, value in VALUES.items():
                assert len(describe_value(value, chars=chars, name="value").text) <= chars, name


def test_budget_without_images_has_no_images() -> None:
    for name, value in VALUES.items():
        assert describe_value(value, images=0).images == (), name


def test_descriptions_are_the_same_in_every_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TELL],
        capture_output=True,
        check=True,
        timeout=120,
        env=os.environ | {"PYTHONHASHSEED": "1"},
    )
    here = descriptions(2000)
    there = json.loads(done.stdout)
    assert {name: there[name] for name in here if here[name] != there[name]} == {}


EXPECTED = {
    "text": "first line\nsecond",
    "list": "[1, 'a', [2, {'k': (1,)}]]",
    "set": "{'a', 'b', 'c'}",
    "mixed set": "{None, 1, 'a', (2, 3)}",
    "empty ones": "[(), [], {}, set(), frozenset()]",
    "cyclic": "[1, [… itself]]",
    "Counter": "Counter({'a': 5, 'b': 2, 'r': 2, 'c': 1, 'd': 1})",
    "odd list": "an odd list",
    "dataclass": "Point(x=1, y=Point(x=2, y=None))",
    "pydantic": "Model(a=1, tags=['x'], key=SecretStr('**********'))",
    "attrs": "Attributes(a=1, b='q')",
    "named tuple": "Pair(a=1, b=2)",
    "enum": "Color.RED (value 'r')",
    "thing": "<tests.values.sample_values.Thing object, attributes: size>",
    "with text": "only a text",
    "with address": "<Thing>",
    "own words": "hints: max_chars, multimodal",
    "later words": "**later**, images: True",
    "mock": "<Mock>",
    "time": "2024-01-02 03:04:00",
    "decimal": "1.50",
    "no path": "a/b",
    "missing path": "nothing/here (does not exist)",
    "generator": "generator generator, created (not consumed)",
    "map": "map, an iterator (not consumed)",
    "lock": "<unlocked _thread.lock object>",
    "thread": "threading.Thread 'worker', not alive",
    "socket": "socket.socket, AF_INET, SOCK_STREAM, closed, not read",
    "regex": "re.compile('a+', flags re.IGNORECASE)",
    "numpy number": "3.5",
    "array": "numpy.ndarray, shape (2, 3), int64\nmin 0, max 5, mean 2.5\n[[0, 1, 2], [3, 4, 5]]",
    "small frame": (
        "pandas.DataFrame, 2 rows x 2 columns\n"
        "Columns (nulls, if any):\n"
        "a: int64\n"
        "b: str, 1 null\n"
        "Rows:\n"
        "   a  b\n"
        "0  1  x\n"
        "1  2  nan"
    ),
    "polars frame": (
        "polars.DataFrame, 3 rows x 3 columns\n"
        "Columns (nulls, if any):\n"
        "n: Int64, 1 null\n"
        "s: String\n"
        "l: List(Int64)\n"
        "Rows:\n"
        "   n     s  l\n"
        "0  1     a  list of 1\n"
        "1  2     b  list of 2\n"
        "2  None  c  list of 0"
    ),
    "picture": "PIL.Image, 2000 x 1000 pixels, mode RGB",
    "plotly": (
        "plotly.Figure, 1 trace, titled 'Measured'\n"
        "1. scatter, 'measured', x: 2 values, y: 2 values\n"
        "(Not drawn: the package kaleido is not imported.)"
    ),
    "dict of frames": (
        "dict of 2 items:\n"
        "['small']: pandas.DataFrame, 1 row x 1 column\n"
        "Columns (nulls, if any):\n"
        "a: int64\n"
        "Rows:\n"
        "   a\n"
        "0  1\n"
        "['n']: 3"
    ),
}


def test_small_value_is_described_whole(subtests: pytest.Subtests) -> None:
    for name, expected in EXPECTED.items():
        if name in VALUES or name not in OPTIONAL:
            with subtests.test(name=name):
                assert text_of(name) == expected


def test_omitted_parts_are_named_with_an_expression_for_them(subtests: pytest.Subtests) -> None:
    rows = [
        ("long text", "characters omitted; value["),
        ("long bytes", "bytes, 40,000 bytes: b'\\x00abc"),
        ("huge int", "(an integer of 332,193 bits, about 100,001 digits)"),
        ("many numbers", "list of 1,000,000 items:\n0, 1, 2, 3"),
        ("many numbers", "more items; value["),
        ("rows", "[0] {'id': 0, 'name': 'n0'"),
        ("large dict", "list(value) has all keys"),
        ("many in a set", "'s0', 's1', 's10', 's100'"),
        ("too many in a set", "sorted(value, key=str)[:20] has 20 of them"),
        ("pandas frame", "f: float64, 7 nulls"),
        ("pandas frame", "… 990 more rows; value[5:25] has the next"),
        ("pandas frame", "999  999  1.0          text 999"),
        ("wide frame", "col0, col1, col2"),
        ("wide frame", "more columns; value.columns has all"),
        ("indexed frame", "index MultiIndex s, n"),
        ("pandas series", "pandas.Series f, 1,000 values, float64, 7 nulls\nmin 0.0, max 1.0"),
        ("pandas series", "… 980 more values; value[10:30] has the next"),
        # With such an index, `value[10:30]` would select the labels from 10.0 to 30.0.
        ("series by float", "… 980 more values; value.iloc[10:30] has the next"),
        ("frame by float", "… 990 more rows; value.iloc[5:25] has the next"),
        ("lazy frame", "polars.LazyFrame, not computed, 2 columns: n: Int64, s: String\nPlan:"),
        ("large array", "(in a sample of at most 200,000 elements, evenly spaced)"),
        ("large array", "1,000,000 elements in total; value[0, :20] has the first of them"),
        ("record array", "fields a int32, b float64"),
        (
            "figure",
            "matplotlib.Figure, 600 x 400 pixels, 1 axes\n1. Axes, title 'Growth', x 'time'",
        ),
        ("failing words", "(Its _ai_repr_ failed: ValueError: no words)"),
        ("exception", "ValueError: a bad value\na note\n"),
        ("exception", 'in error: raise ValueError("a bad value") from exc\nCaused by:\nKeyError'),
        ("function", "function tests.values.sample_values.function(a: 'int', b: 'int' = 2, *rest"),
        ("function", "Do something with `a`."),
        ("class", "Point(x: 'int', y: 'object' = None, hidden: 'str' = 's') -> None\nA place."),
        ("large module", "module numpy, version"),
        ("large module", "more names; dir(value) has all"),
        ("file", "sample_values.py', mode 'r', closed"),
        ("text and figure", "[0]: See:\n[1]: matplotlib.Figure"),
    ]
    for name, part in rows:
        if name in VALUES or name not in OPTIONAL:
            with subtests.test(name=name):
                assert part in text_of(name)


def test_all_columns_of_a_wide_frame_are_named_in_a_large_budget() -> None:
    text = text_of("wide frame", 20_000)
    assert all(f"col{number}: float64" in text for number in range(500))


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
_NESTED = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.frozensets(_LEAVES)
    ),
)


BUDGETED = (_NESTED, st.integers(0, 400), st.sampled_from(["", "rows", "x" * 200]))


def check_budget(value: Any, chars: int, name: str) -> None:
    described = describe_value(value, chars=chars, name=name)
    assert len(described.text) <= chars
    assert described == describe_value(value, chars=chars, name=name)


@given(*BUDGETED)
def test_any_description_keeps_to_its_budget(value: Any, chars: int, name: str) -> None:
    check_budget(value, chars, name)


@example({"k" * 500: None})
@given(_NESTED.filter(lambda value: not isinstance(value, str | bytes)))
def test_plain_data_is_described_by_its_repr(value: Any) -> None:
    def has_sets(part: Any) -> bool:
        inner = part.values() if isinstance(part, dict) else part
        nested = isinstance(part, list | tuple | dict) and any(map(has_sets, inner))
        return isinstance(part, frozenset) or nested

    if not has_sets(value) and len(repr(value)) < 5_000:
        assert jp.describe(value).text == repr(value)


def test_hidden_parts_are_not_described() -> None:
    import pandas as pd

    secret = "geheim-4711"
    values = [
        {"password": secret, "inner": [{"password": secret}]},
        {b"password": secret},
        pd.DataFrame({"a": [1], "password": [secret]}),
        pd.Series({"password": secret, "a": "b"}),
        pd.Series([secret], name="password"),
        {"frame": pd.DataFrame({"a": [1]}), "password": secret},
    ]
    for value in values:
        text = describe_value(value, hide=["password"]).text
        assert "(hidden)" in text
        assert secret not in text


def test_environment_variables_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "geheim-4711")
    text = describe_value(os.environ, chars=200_000, hide=["MY_API_KEY"]).text
    assert "'MY_API_KEY': (hidden)" in text
    assert "geheim-4711" not in text
