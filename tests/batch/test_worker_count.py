"""The default number of workers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.batches import BatchBench

MUCH = "MemTotal: 1 kB\nMemAvailable:   64000000 kB\n"
LIMITED = {"meminfo": MUCH, "memory_max": "1000000000", "memory_current": "900000000"}
"""A container that uses nine tenths of its memory."""


@pytest.mark.req("BATCH-5")
@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"meminfo": MUCH}, 8),
        ({}, 8),
        ({"meminfo": "MemAvailable: 1000000 kB\n"}, 3),
        ({"meminfo": "MemAvailable: 1000 kB\n"}, 1),
        ({"meminfo": MUCH, "cpu_max": "200000 100000\n"}, 2),
        ({"meminfo": MUCH, "cpu_max": "50000 100000\n"}, 1),
        ({"meminfo": MUCH, "cpu_max": "max 100000\n"}, 8),
        ({"meminfo": MUCH, "memory_max": "1000000000", "memory_current": "300000000"}, 2),
        ({"meminfo": MUCH, "memory_max": "max", "memory_current": "3"}, 8),
        (LIMITED | {"memory_stat": "anon 1\ninactive_file 600000000\nactive_file 2\n"}, 2),
        (LIMITED | {"memory_stat": "inactive_file 999000000\n"}, 3),
        (LIMITED | {"memory_stat": "anon 1\ntotal_inactive_file 600000000\n"}, 1),
        (LIMITED | {"memory_stat": ""}, 1),
        (LIMITED, 1),
    ],
)
def test_cores_and_free_memory_bound_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], count: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert BatchBench.count_workers(tmp_path, **files) == count
