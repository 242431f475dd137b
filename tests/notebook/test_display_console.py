"""Turns in a console, which cannot update a display: text is printed as it arrives."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.kit.screens import display_event
from tests.kit.turn_screen import TurnScreen
from tests.support.kernel_client import FrontEnd, front_end

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

SLOW = """
[[replies]]
text = "First words, then more."
chunk_ms = 50
tool_calls = [{ name = "ask_user", arguments = { question = "Ship it?", answer_type = "boolean" } }]

[[replies]]
expect = "true"
text = "Shipped\\u001b[31m as asked."
"""
LOOK = """
[[replies]]
text = "Let me look."
tool_calls = [{ name = "look", arguments = { place = "Delft" } }]

[[replies]]
text = "All fine."
"""
TOOL = """
import jp_nb as jp
@jp.tool
def look(place: str) -> str:
    print("looking at", place)
    return "fine"

"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slow.toml").write_text(SLOW)
    (tmp_path / "look.toml").write_text(LOOK)
    return tmp_path


# --- what is printed -------------------------------------------------------------------------


def printed(*events: Any, **options: bool) -> str:
    """Return the text that is printed for all events."""
    return "".join(TurnScreen.print(*events, **options))


def test_text_is_printed_in_pieces_and_tools_as_they_begin_and_end() -> None:
    assert TurnScreen.print(
        display_event("show_text", "message", "\nLet me"),
        display_event("show_text", "message", " look."),
        display_event("tool_begins", "c", "look", {"place": "Delft"}),
        display_event("tool_ends", "c", "look", "fine", False, 1.0),
    ) == ["Let me", " look.", '\n⚙ look(place="Delft") …\n', '✓ look(place="Delft")\n', ""]


def test_arguments_below_a_call_are_printed_once() -> None:
    begins = display_event("tool_begins", "c", "look", {"place": "Delft"}, parameters="json")
    ends = display_event("tool_ends", "c", "look", "a\nb", False, 1.0, result_lines=None)
    text = printed(begins, begins, ends)
    assert text == '⚙ look …\n    {\n      "place": "Delft"\n    }\n✓ look\n    a\n    b\n'


def test_reasoning_and_hidden_tools_are_not_printed() -> None:
    events: list[Any] = [
        display_event("show_text", "reasoning", "hm"),
        display_event("end_of_text"),
        display_event("tool_begins", "c", "look", {}, hidden=True),
        display_event("function_begins", "c", "a tool"),
        display_event("function_ends", "c"),
        display_event("tool_ends", "c", "look", "", False, 1.0, hidden=True),
        display_event("waits", "model", "anthropic/opus"),
    ]
    assert printed(*events) == ""
    assert printed(display_event("tool_begins", "c", "look", {}), show_tools=False) == ""


def test_structured_data_is_printed_at_once() -> None:
    pieces: list[Any] = [
        display_event("show_text", "structured", '{"a":'),
        display_event("show_text", "structured", " 1}"),
        display_event("end_of_text"),
    ]
    assert printed(*pieces) == '{\n  "a": 1\n}\n'


def test_retries_interrupts_and_notices_are_lines() -> None:
    text = printed(
        display_event("show_text", "message", "So"),
        display_event("waits", "model", "x/y: 429 rate limit, attempt 2 of 5", until=0.0),
        display_event("interrupt_received"),
        display_event("interrupt_received", "stop"),
        display_event("interrupt_received", "stop"),
        display_event("notice", "⚠ cut off"),
    )
    assert text.split("\n") == [
        "So",
        "… x/y: 429 rate limit, attempt 2 of 5, retrying now",
        "Interrupt received",
        "Interrupt received: stopping; the text received so far is kept",
        "⚠ cut off",
        "",
    ]


def test_no_escape_is_printed_wherever_a_chunk_ends() -> None:
    evil = "a\x1b]0;title\x07b\r\nc\x1b[2Jd\x9b31me\u202ef\x00"
    for cut in range(1, len(evil)):
        text = printed(
            display_event("show_text", "message", evil[:cut]),
            display_event("show_text", "message", evil[cut:]),
        )
        assert all(char == "\n" or char.isprintable() for char in text), cut
        assert "[2J" not in text
        assert text.count("\n") == 2


# --- a kernel with a console at the other end ------------------------------------------------


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("console")
    (folder / "slow.toml").write_text(SLOW)
    (folder / "look.toml").write_text(LOOK)
    with front_end(folder) as started:
        started.run("%load_ext jp_nb\n" + TOOL, cell_id=None)
        yield started


@pytest.mark.kernel
def test_console_gets_the_answer_as_text_and_no_display(user: FrontEnd) -> None:
    request = user.start("%%jp -n -m scripted/look\nGo.", cell_id=None)
    user.finish(request)
    [output] = user.outputs(request)
    assert output == {
        "name": "stdout",
        "text": 'Let me look.\n⚙ look(place="Delft") …\nlooking at Delft\n✓ look(place="Delft")\n'
        "All fine.\n",
    }


@pytest.mark.kernel
def test_console_streams_text_before_the_question(user: FrontEnd) -> None:
    request = user.start("%%jp -n -m scripted/slow -c prompt.channel=stdin\nGo.", cell_id=None)
    user.wait(lambda m: "First" in m["content"].get("text", "") and "more" not in str(m["content"]))
    assert user.input_request()["prompt"].startswith("[")
    user.wait(lambda m: "Ship it?" in m["content"].get("text", ""))
    before = user.printed(request)
    assert before.index("First words, then more.") < before.index("Ship it?")
    user.type("y")
    user.finish(request)
    assert user.printed(request).endswith("? Assistant: Ship it? → Yes\nShipped as asked.\n")
    assert not [m for m in user.messages if m["header"]["msg_type"] == "update_display_data"]


# --- IPython in a terminal -------------------------------------------------------------------


@pytest.mark.kernel
def test_terminal_streams_text_before_the_question(folder: Path) -> None:
    argv = [
        "-m",
        "IPython",
        "--no-banner",
        "--colors=NoColor",
        "--simple-prompt",
        "--no-confirm-exit",
    ]
    environment = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "TERM": "dumb"}
    child = pexpect.spawn(
        sys.executable, argv, cwd=str(folder), env=environment, encoding="utf-8", timeout=60
    )
    try:
        child.expect_exact("In [1]: ")
        child.sendline("%load_ext jp_nb")
        child.expect_exact("In [2]: ")
        child.sendline("get_ipython().run_cell_magic('jp', '-m scripted/slow', 'Go.')")
        child.expect_exact("First words")
        child.expect_exact("then more.")
        child.expect_exact("Ship it?")
        child.expect(r"\[y/.*\?\] ")
        child.sendline("y")
        child.expect_exact("Shipped")
        child.expect_exact(" as asked.")
        child.expect_exact("In [3]: ")
        assert "First" not in child.before  # nothing is shown a second time
    finally:
        child.close(force=True)
