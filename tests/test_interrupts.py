"""Interrupts reach the tests however they were started."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import signal
import tests.conftest
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_tests_that_a_script_started_in_the_background_can_be_interrupted() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.stdout == "True\n"
