"""A few runs of the kill loop; `python -m tools.kill_loop` has any number of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = 12


@pytest.mark.deep
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_sessions_lose_and_duplicate_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.kill_loop", "--runs", str(RUNS), "--seed", "2"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["runs"] == RUNS
    assert found["recovered"] > 0
    assert found["resumed"] > 0
