"""Two real kernels in one workspace, each with a person at its prompt: one history for both."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernel_client import FrontEnd, front_end

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
    pytest.mark.kernel,
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL"),
]

CONFIGURED = '[prompt]\nchannel = "stdin"\n'
ASKS = """
[[replies]]
tool_calls = [{name = "ask_user", arguments = {question = "Which database?"}}]
[[replies]]
text = "Noted."
"""
READS = """
[[replies]]
tool_calls = [{name = "ask_user_read", arguments = {action = "query", text = "database"}}]
[[replies]]
text = "Looked up."
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("qna")


@pytest.fixture(scope="module")
def users(workspace: Path) -> Iterator[tuple[FrontEnd, FrontEnd]]:
    (workspace / ".jp").mkdir()
    (workspace / ".jp" / "config.toml").write_text(CONFIGURED)
    with ExitStack() as stack:
        made = []
        for name in ("a", "b"):
            (folder := workspace / name).mkdir()
            (folder / "asks.toml").write_text(ASKS)
            (folder / "reads.toml").write_text(READS)
            user = stack.enter_context(front_end(folder))
            user.run("%load_ext jp_nb")
            made.append(user)
        yield made[0], made[1]


def ask(user: FrontEnd) -> str:
    """Begin a turn that asks; return the cell, in which the question waits."""
    cell = user.start("%%jp -n -m scripted/asks\nSet it up.")
    user.input_request()
    return cell


def answer(user: FrontEnd, text: str) -> None:
    cell = ask(user)
    user.type(text)
    user.finish(cell)


def kept(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / ".jp" / "context" / "qna.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.req("RCP-38", "RCP-55", "RCP-27", "HB-14")
def test_answers_of_one_kernel_are_listed_in_another_and_read_by_its_model(
    users: tuple[FrontEnd, FrontEnd], workspace: Path
) -> None:
    one, two = users
    answer(one, "Postgres")
    answer(two, "SQLite")
    assert [(e["id"], e["answer"], e["channel"]) for e in kept(workspace)] == [
        (1, "Postgres", "stdin"), (2, "SQLite", "stdin"),
    ]  # fmt: skip
    cell = two.start("%jp qna")
    two.finish(cell)
    (shown,) = two.displays(cell)
    assert "1   Which database?  Postgres  the user" in shown["text/plain"]
    assert "| 2 | Which database? | SQLite | the user |" in shown["text/markdown"]
    two.run("%%jp -n -m scripted/reads\nWhat did we decide?")
    read = two.run("print(_jp.tool_calls[0].content)")
    assert [(x["id"], x["answer"]) for x in json.loads(read)["entries"]] == [
        (1, "Postgres"), (2, "SQLite"),
    ]  # fmt: skip


@pytest.mark.req("RCP-55")
def test_kernel_killed_while_it_asks_does_not_block_the_log(
    users: tuple[FrontEnd, FrontEnd], workspace: Path
) -> None:
    one, two = users
    answer(one, "MySQL")
    ask(one)
    one.manager.signal_kernel(signal.SIGKILL)
    answer(two, "DuckDB")
    newest = [(e["id"], e["answer"]) for e in kept(workspace)][-2:]
    first = newest[0][0]
    assert newest == [(first, "MySQL"), (first + 1, "DuckDB")]
