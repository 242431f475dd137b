"""A batch of many runs that execute nothing: its memory does not grow, and its report is small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.req("BATCH-27")
@pytest.mark.parametrize(("way", "count"), [("pool", 3000), ("dask", 1000)])
def test_memory_is_flat_and_the_report_small(way: str, count: int) -> None:
    command = [sys.executable, "-m", "bench.many_specs", "--one", "--ways", way]
    done = subprocess.run(
        [*command, "--counts", str(count)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    row = json.loads(done.stdout.splitlines()[-1])
    assert row["MB at 100 %"] - row["MB at 10 %"] < 5
    assert row["html MB"] < 20 * count / 100_000
    assert 10 < row["groups"] <= 50
