"""Tests that notebook tools show no secret, for many values and paths."""

from __future__ import annotations

import collections
import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

import jp_nb as jp
from jp_nb.toolkit.builtin.notebook_variables import list_variables, read_variable
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets
from tests.toolkit.secret_holders import (
    NOT_SEARCHED,
    PIECE,
    PIN,
    SECRET,
    copies,
    holders,
    machinery,
    paths,
)

ENVIRONMENT = "outside-4711-of-the-notebook"
PIECES = [SECRET[start : start + PIECE] for start in range(len(SECRET) - PIECE + 1)]
MANY = 80
"""Number of longer paths into one value in the deep tests."""
PARTS: list[Any] = [("head", 2), ("tail", 2), ("sample", 2)]


@pytest.fixture(autouse=True)
def environment_with_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_PASSWORD", SECRET)
    monkeypatch.setenv("INNOCENT_NAME", ENVIRONMENT)


def answers(names: dict[str, Any], name: str, longer_paths: int) -> Iterator[tuple[str, str]]:
    """Yield paths from a variable with the results: all with one step, and some longer ones."""
    hide = NotebookSecrets(names)
    written = list(paths(name, names[name], 1))
    deepest = 3 if longer_paths else 1
    longer = [path for path in paths(name, names[name], deepest) if path not in set(written)]
    written += random.Random(name).sample(longer, min(longer_paths, len(longer)))
    for path in written:
        for part in [None, *PARTS] if path == name else [None]:
            try:
                yield f"{path} {part}", read_variable(names, path, part, hide).content
            except jp.ToolError as exc:
                yield f"{path} {part}", str(exc)
    yield "the list", list_variables(names, "", 0, hide).content


def has_leak(answer: str) -> bool:
    shown = answer.replace("(set, not shown)", "")
    return any(text in shown for text in (*PIECES, str(PIN), str(PIN + 1), ENVIRONMENT))


def find_leaks(names: dict[str, Any], name: str, longer_paths: int) -> list[str]:
    """Return the paths from a variable whose results show a secret."""
    return [path for path, answer in answers(names, name, longer_paths) if has_leak(answer)]


def check_all(subtests: pytest.Subtests, longer_paths: int) -> None:
    """Check each holder alone, then copies and other values next to known secrets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SERVICE_PASSWORD")
        for name, value in holders().items():
            with subtests.test(name=name):
                assert not find_leaks({name: value}, name, longer_paths)
    for name, value in copies().items():
        with subtests.test(name=name):
            names = {name: value, "pin": PIN, "db_pin": PIN + 1}
            assert not find_leaks(names, name, longer_paths)
    for name, value in machinery().items():
        with subtests.test(name=name):
            assert not find_leaks({name: value, "own": holders()["own"]}, name, longer_paths)


def test_no_value_shows_a_secret_by_name_or_by_copy(subtests: pytest.Subtests) -> None:
    check_all(subtests, longer_paths=0)


def test_secret_of_any_value_is_hidden_in_another_variable(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SERVICE_PASSWORD")
    for name, value in holders().items():
        if name in NOT_SEARCHED:
            continue
        with subtests.test(name=name):
            names = {name: value, "note": f"see {SECRET} there"}
            content = read_variable(names, "note", None, NotebookSecrets(names)).content
            assert "see " in content
            assert not has_leak(content)


@pytest.mark.deep
def test_no_value_shows_a_secret_on_many_paths(subtests: pytest.Subtests) -> None:
    check_all(subtests, longer_paths=MANY)


def test_paths_lead_only_through_data(subtests: pytest.Subtests) -> None:
    names = {**holders(), **machinery(), "_oh": {1: SECRET}}
    names |= {"Out": {1: InteractiveShell.__new__(InteractiveShell)}, "environ": os.environ}
    hide = NotebookSecrets(names)
    refusals = "never shown|private|cannot pass through|has no stored attribute"
    rows = [
        "os.environ", "os.sys.modules['posix'].environ", "os.sys.stdout.session.key",
        "modules['posix'].environ", "function.__globals__", "function.__wrapped__",
        "method.__self__", "python_frame.f_globals", "code.co_consts",
        "generator.gi_frame.f_locals", "partial.keywords", "own.shown", "own.method.__self__",
        "own[0]", "_oh[1]", "Out[1].user_ns", "environ['INNOCENT_NAME']", "views.mapping",
        "where.obj",
    ]  # fmt: skip
    for path in rows:
        with subtests.test(path=path):
            with pytest.raises(jp.ToolError, match=refusals) as caught:
                read_variable(names, path, None, hide)
            assert not has_leak(str(caught.value))


def test_parts_next_to_secrets_are_shown(subtests: pytest.Subtests) -> None:
    names = holders()
    hide = NotebookSecrets(names)
    for path, value in [
        ("frame.columns", "0: user"),
        ("frame.user", "0: ada"),
        ("frame.T", "3 rows x 2 columns"),
        ("frame.values", "[['ada', '(set, not shown)', '(set, not shown)'], ['bob', "),
        ("frame.iloc[1, 0]", "bob"),
        ("frame[0:1]", "1 row x 3 columns"),
        ("row['user']", "ada"),
        ("structured['user'][0]", "ada"),
        ("nested_structured['login']['user'][0]", "ada"),
        ("record.user", "ada"),
        ("slots.user", "ada"),
        ("model.user", "ada"),
        ("attributes.user", "ada"),
        ("named[0]", "ada"),
        ("named[:]", "('ada', '(set, not shown)', '(set, not shown)')"),
        ("own.inner['db']", "{'password': (set, not shown)}"),
        ("own.limit", "3"),
        ("own_class.limit", "3"),
        ("levels_class.LOW.value", "1"),
        ("chain['user']", "ada"),
        ("pairs[0][1]", "ada"),
        ("table[0]", "['user', 'password']"),
        ("sqlite_row[0]", "ada"),
        ("failed.args[0]", "login with (set, not shown) failed"),
    ]:
        with subtests.test(path=path):
            assert value in read_variable(names, path, None, hide).content


def test_parts_of_a_polars_frame_next_to_secrets_are_shown() -> None:
    pytest.importorskip("polars", reason="pip install -e '.[tiers]'")
    names = holders()
    shown = read_variable(
        names, "pl_frame['login'][0]['user']", None, NotebookSecrets(names)
    ).content
    assert "ada" in shown


def test_reading_adds_no_key_to_a_defaultdict() -> None:
    names: dict[str, Any] = {"seen": collections.defaultdict(list)}
    with pytest.raises(jp.ToolError, match="key 'a' does not exist"):
        read_variable(names, "seen['a']", None, NotebookSecrets(names))
    assert not names["seen"]


def test_words_in_a_variable_called_tokens_are_no_secrets() -> None:
    names: dict[str, Any] = {
        "tokens": ["describe", "the", "house", 4711],
        "words": pd.DataFrame({"token": ["describe", "house"] * 100}),
        "text": "describe the house 4711",
    }
    hide = NotebookSecrets(names)
    assert "describe the house 4711" in read_variable(names, "text", None, hide).content
    assert hide("words.describe()", code=True) == "words.describe()"


@pytest.mark.deep
def test_large_notebook_is_searched_for_secrets_in_bounded_time() -> None:
    cycle: list[Any] = []
    cycle.append({"inner": cycle})
    names: dict[str, Any] = {
        "rows": [{"id": n, "password": f"geheim-{n}"} for n in range(100_000)],
        "numbers": list(range(1_000_000)),
        "frame": pd.DataFrame({"token": [f"key{n}x" for n in range(100_000)]}),
        "cycle": cycle,
    }
    started = time.process_time()
    NotebookSecrets(names)
    assert time.process_time() - started < 5


def test_secret_number_with_very_many_digits_is_hidden() -> None:
    secret = 7**9_999
    hide = NotebookSecrets({"password": secret, "again": secret})
    with pytest.raises(jp.ToolError, match="Secrets are never shown"):
        read_variable({"password": secret}, "password", None, hide)
    assert "(set, not shown)" in read_variable({"again": secret}, "again", None, hide).content


def test_secret_that_is_not_valid_unicode_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    # Python reads a byte of a variable that is not UTF-8 as half a surrogate pair.
    of_environment = "outside\udcff4711secret"
    of_notebook = "inside\ud8004711secret"
    monkeypatch.setenv("SERVICE_PASSWORD", of_environment)

    hide = NotebookSecrets({"password": of_notebook})

    shown = hide(f"found {of_environment} and {of_notebook}")
    assert "4711" not in shown
