"""Choose the number of workers: one for each core, if the free memory is enough for their kernels.

The limits of a container (cgroup v2) count, because the system's numbers are those of its host.
Files that it read count as used memory in `memory.current`, although the kernel drops them first.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

WORKER_BYTES: Final = 300_000_000
"""Free memory for each worker: its process, its kernel, and a small notebook."""
CGROUP: Final = Path("/sys/fs/cgroup")
MEMORY: Final = Path("/proc/meminfo")


def choose_worker_count(*, cgroup: Path = CGROUP, memory: Path = MEMORY) -> int:
    """Return the number of cores, at most free memory divided by `WORKER_BYTES`, and at least 1."""
    count = _count_cores(cgroup)
    free = _read_free_bytes(cgroup, memory)
    if free is not None:
        count = min(count, free // WORKER_BYTES)
    return max(1, count)


def _count_cores(cgroup: Path) -> int:
    """Return the number of cores that this process, and its container, may use."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))

    with suppress(OSError, ValueError):
        quota, period = (cgroup / "cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def _read_free_bytes(cgroup: Path, memory: Path) -> int | None:
    """Return the free memory; None if the system does not tell."""
    free = None
    with suppress(OSError):
        match = re.search(r"^MemAvailable:\s+(\d+) kB$", memory.read_text(), re.M)
        if match is not None:
            free = int(match[1]) * 1024

    with suppress(OSError, ValueError):
        limit = int((cgroup / "memory.max").read_text())  # `max` is no number
        left = max(0, limit - _read_used_bytes(cgroup))
        free = left if free is None else min(free, left)
    return free


def _read_used_bytes(cgroup: Path) -> int:
    """Return the memory that the container uses, without the cache that the kernel can reclaim."""
    used = int((cgroup / "memory.current").read_text())

    with suppress(OSError):  # a container may hide the statistics
        match = re.search(r"^inactive_file (\d+)$", (cgroup / "memory.stat").read_text(), re.M)
        if match is not None:
            used = max(0, used - int(match[1]))
    return used
