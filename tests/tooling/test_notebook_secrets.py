"""Notebook tools show no secret, whatever kind of value holds it and whatever path leads to it."""

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

from jp_nb.errors import ToolError
from jp_nb.tooling.known_secrets import KnownSecrets
from jp_nb.tooling.variable_reports import variable, variables
from tests.support.secret_holders import PIECE, PIN, SECRET, copies, holders, machinery, paths

ENVIRONMENT = "outside-4711-of-the-notebook"
PIECES = [SECRET[start : start + PIECE] for start in range(len(SECRET) - PIECE + 1)]
LONGER = 250
PARTS: list[Any] = [("head", 2), ("tail", 2), ("sample", 2)]


@pytest.fixture(autouse=True)
def environment_with_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_PASSWORD", SECRET)
    monkeypatch.setenv("INNOCENT_NAME", ENVIRONMENT)


def answers(names: dict[str, Any], name: str) -> Iterator[tuple[str, str]]:
    """Yield paths from a variable with the answers: all of one step, and some longer ones."""
    hide = KnownSecrets(names)
    written = list(paths(name, names[name], 1))
    longer = [path for path in paths(name, names[name], 3) if path not in set(written)]
    written += random.Random(name).sample(longer, min(LONGER, len(longer)))
    for path in written:
        for part in [None, *PARTS] if path == name else [None]:
            try:
                yield f"{path} {part}", variable(names, path, part, hide).content
            except ToolError as exc:
                yield f"{path} {part}", str(exc)
    yield "the list", variables(names, "", 0, hide).content


def leaks(answer: str) -> bool:
    shown = answer.replace("(set, not shown)", "")
    return any(text in shown for text in (*PIECES, str(PIN), str(PIN + 1), ENVIRONMENT))


@pytest.mark.parametrize("name", holders())
def test_no_path_leads_to_a_part_with_the_name_of_a_secret(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SERVICE_PASSWORD")
    names = {name: holders()[name]}
    found = [path for path, answer in answers(names, name) if leaks(answer)]
    assert not found


def test_a_known_secret_is_hidden_under_any_name(subtests: pytest.Subtests) -> None:
    for name in copies():
        with subtests.test(name=name):
            names = {name: copies()[name], "pin": PIN, "db_pin": PIN + 1}
            found = [path for path, answer in answers(names, name) if leaks(answer)]
            assert not found


def test_a_path_passes_only_through_data(subtests: pytest.Subtests) -> None:
    for path in [
        "os.environ",
        "os.sys.modules['posix'].environ",
        "os.sys.stdout.session.key",
        "modules['posix'].environ",
        "function.__globals__",
        "function.__wrapped__",
        "method.__self__",
        "python_frame.f_globals",
        "code.co_consts",
        "generator.gi_frame.f_locals",
        "partial.keywords",
        "own.shown",
        "own.method.__self__",
        "own[0]",
        "_oh[1]",
        "Out[1].user_ns",
        "environ['INNOCENT_NAME']",
        "views.mapping",
        "where.obj",
    ]:
        with subtests.test(path=path):
            names = {**holders(), **machinery(), "_oh": {1: SECRET}}
            names |= {"Out": {1: InteractiveShell.__new__(InteractiveShell)}, "environ": os.environ}
            refusals = "never shown|private|cannot pass through|has no stored attribute"
            with pytest.raises(ToolError, match=refusals) as caught:
                variable(names, path, None, KnownSecrets(names))
            assert not leaks(str(caught.value))


def test_parts_beside_secrets_are_shown(subtests: pytest.Subtests) -> None:
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
        ("pl_frame['login'][0]['user']", "ada"),
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
            names = holders()
            assert value in variable(names, path, None, KnownSecrets(names)).content


def test_looking_adds_no_key_to_a_dictionary_with_defaults() -> None:
    names: dict[str, Any] = {"seen": collections.defaultdict(list)}
    with pytest.raises(ToolError, match="there is no key 'a'"):
        variable(names, "seen['a']", None, KnownSecrets(names))
    assert not names["seen"]


def test_words_of_a_text_are_no_secrets_because_they_are_called_tokens() -> None:
    names: dict[str, Any] = {
        "tokens": ["describe", "the", "house", 4711],
        "words": pd.DataFrame({"token": ["describe", "house"] * 100}),
        "text": "describe the house 4711",
    }
    hide = KnownSecrets(names)
    assert "describe the house 4711" in variable(names, "text", None, hide).content
    assert hide("words.describe()", code=True) == "words.describe()"


def test_a_large_notebook_is_searched_for_secrets_in_bounded_time() -> None:
    cycle: list[Any] = []
    cycle.append({"inner": cycle})
    names: dict[str, Any] = {
        "rows": [{"id": n, "password": f"geheim-{n}"} for n in range(100_000)],
        "numbers": list(range(1_000_000)),
        "frame": pd.DataFrame({"token": [f"key{n}x" for n in range(100_000)]}),
        "cycle": cycle,
    }
    started = time.process_time()
    KnownSecrets(names)
    assert time.process_time() - started < 5


def test_modules_functions_and_streams_lead_to_no_secret(subtests: pytest.Subtests) -> None:
    for name in machinery():
        with subtests.test(name=name):
            names = {name: machinery()[name], "own": holders()["own"]}
            found = [path for path, answer in answers(names, name) if leaks(answer)]
            assert not found
