"""A real terminal: an unfinished line is not part of the next answer."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from time import monotonic

import pytest

pty = pytest.importorskip("pty", reason="there are no such terminals on Windows")

PATIENCE = 30.0
ASKS_TWICE = """
from jp_nb.notebook.prompt.running_cell.deadlines import Deadline, Expired
from jp_nb.notebook.prompt.stdin_prompts.input_console import InputConsole

console = InputConsole(None)
try:
    with Deadline(3.0):
        console.read("first: ", secret=False)
except Expired:
    console.write("over")
print("heard", repr(console.read("second: ", secret=False)))
"""


def read_until(terminal: int, text: str) -> str:
    shown = ""
    until = monotonic() + PATIENCE
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], until - monotonic())
        assert ready, f"{text!r} is not in {shown!r}"
        shown += os.read(terminal, 4096).decode()
    return shown


def test_half_a_line_does_not_begin_the_next_answer() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", ASKS_TWICE],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            read_until(ours, "first: ")
            os.write(ours, b"half")
            assert "over" in read_until(ours, "second: ")
            os.write(ours, b"whole\n")
            assert "heard 'whole'" in read_until(ours, "whole'")
        finally:
            process.kill()
            os.close(ours)
