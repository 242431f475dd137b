"""`%jp code` in a kernel: what a front end is told to put into a new cell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cells import calls, error, kernel_with, run
from tests.support.kernel_client import FrontEnd

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

ONE = "Try this:\n\n```python\nx = 40 + 2\nx\n```\n"
TWO = "First:\n```python\na = 1\n```\nthen\n```bash\necho \u202ehi\n```\n"
TOOLS = """
import jp_nb as jp
from datetime import date

@jp.tool
def weather(city: str, days: int = 1) -> str:
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"sunny in {city} for {days}"

@jp.tool
def on(day: date) -> str:
    return f"{day.year}"
"""
SCRIPTS = {
    "one": f"[[replies]]\ntext = {json.dumps(ONE)}\n",
    "two": f"[[replies]]\ntext = {json.dumps(TWO)}\n",
    "none": '[[replies]]\ntext = "Nothing."\n',
    "calls": calls(
        ("weather", {"city": "Delft", "days": "2"}),
        ("weather", {"city": "Atlantis"}),
        ("on", {"day": "2026-11-23"}),
    )
    + '[[replies]]\ntext = "Done."\n',
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path_factory.mktemp("code"), SCRIPTS, TOOLS) as user:
        yield user


def code(user: FrontEnd, line: str, **fields: Any) -> tuple[list[Any], str, str]:
    """What the reply tells the front end to do, what is printed, and the error."""
    request = user.start(f"%jp code {line}".strip(), **fields)
    user.finish(request)
    failed = error(user, request)
    payload = user.replied[request]["content"].get("payload", [])
    return payload, user.printed(request), "" if failed is None else failed["evalue"]


def cell(text: str) -> list[Any]:
    return [{"source": "set_next_input", "text": text, "replace": False}]


def test_the_only_block_becomes_a_cell_as_it_is(kernel: FrontEnd) -> None:
    run(kernel, "one")
    payload, printed, _ = code(kernel, "")
    assert payload == cell("x = 40 + 2\nx")
    assert printed == (
        "jp_nb: a new cell has block 1 of the last answer (python, 2 lines). It has not run.\n"
    )
    assert code(kernel, "1")[0] == payload


def test_of_several_blocks_one_is_named(kernel: FrontEnd) -> None:
    run(kernel, "two")
    payload, _, failed = code(kernel, "")
    assert payload == []
    assert failed == (
        "which block of the last answer? `%jp code N`, with N of\n"
        "  1  python, 1 line: a = 1\n  2  bash, 1 line: echo ⟨U+202E⟩hi"
    )
    assert "2 blocks of code, not 3" in code(kernel, "3")[2]
    payload, printed, _ = code(kernel, "2")
    assert payload == cell("echo \u202ehi")
    assert "which says that it is bash, not Python" in printed
    assert "look before you run it: line 1 has characters that cannot be seen" in printed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "has no block of code"),
        ("0", "takes the number of a block, from 1, at least 1, found '0'"),
        ("x", "takes the number of a block"),
        ("--call", "the model has called no tool in this conversation"),
        ("1 --call", "not both"),
        ("--call x 2", "not both"),
    ],
)
def test_what_cannot_be_done_is_said(kernel: FrontEnd, line: str, said: str) -> None:
    run(kernel, "none")
    payload, _, failed = code(kernel, line)
    assert payload == []
    assert said in failed


def test_where_nobody_is_there_the_code_is_printed(kernel: FrontEnd) -> None:
    run(kernel, "one")
    payload, printed, _ = code(kernel, "", allow_stdin=False)
    assert payload == []
    assert "nobody is there to get a new cell" in printed
    assert printed.endswith(":\n\nx = 40 + 2\nx\n")


def test_a_call_becomes_a_cell_that_runs(kernel: FrontEnd) -> None:
    run(kernel, "calls")
    ids = json.loads(kernel.run(
        "import json; print(json.dumps([c.id for c in jp.conversation().turns[-1].tool_calls]))"
    ))  # fmt: skip
    written = [code(kernel, f"--call {name}")[0][0]["text"] for name in ids]
    assert written == [
        "weather(city='Delft', days=2)",
        "# failed: ValueError: no such city\nweather(city='Atlantis')",
        "jp.call('on', day='2026-11-23')",
    ]
    assert code(kernel, "--call")[0][0]["text"] == written[-1]
    assert kernel.run(f"print({written[0]})") == "sunny in Delft for 2\n"
    again = kernel.start(written[1])
    kernel.finish(again)
    failed = error(kernel, again)
    assert failed is not None
    assert failed["ename"] == "ValueError"
    assert kernel.run(f"outcome = {written[2]}\nprint(outcome.content)").endswith("2026\n")
    assert (
        "no call in this conversation has an id that begins with zzz"
        in code(kernel, "--call zzz")[2]
    )
