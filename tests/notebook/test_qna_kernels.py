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


@pytest.fixture
def users(tmp_path: Path) -> Iterator[tuple[FrontEnd, FrontEnd]]:
    (tmp_path / ".jp").mkdir()
    (tmp_path / ".jp" / "config.toml").write_text(CONFIGURED)
    with ExitStack() as stack:
        made = []
        for name in ("a", "b"):
            (folder := tmp_path / name).mkdir()
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
def test_what_one_kernel_was_told_another_one_lists_and_its_model_reads(
    users: tuple[FrontEnd, FrontEnd], tmp_path: Path
) -> None:
    one, two = users
    answer(one, "Postgres")
    answer(two, "SQLite")
    assert [(e["id"], e["answer"], e["channel"]) for e in kept(tmp_path)] == [
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
def test_a_kernel_that_is_killed_while_it_asks_leaves_the_log_to_the_others(
    users: tuple[FrontEnd, FrontEnd], tmp_path: Path
) -> None:
    one, two = users
    answer(one, "Postgres")
    ask(one)
    one.manager.signal_kernel(signal.SIGKILL)
    answer(two, "SQLite")
    assert [(e["id"], e["answer"]) for e in kept(tmp_path)] == [(1, "Postgres"), (2, "SQLite")]
