"""The pace of requests that the kernels of a batch share, through files in one folder.

The batch makes the folder, and each kernel gets its path in `JP_NB_PACE`. Before a request, a
kernel waits until the provider's limits allow it, and after a 429 it holds the requests of all
kernels.

    limits.json             {"per_minute": {"anthropic": 60}, "concurrent": {"anthropic": 4}}
    anthropic.json          {"resume_at": 1767225600.0, "starts": […]}: times of the last minute
    anthropic.lock          locked while a kernel reads and writes that state
    anthropic.slot-0        locked by a kernel while its request runs, one file for each slot

Locks end with their process, so a killed kernel frees its slot.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

from pydantic import JsonValue

from jp_nb.file_reading import read_regular
from jp_nb.json_reading import read_json
from jp_nb.json_values import as_object
from jp_nb.storage import environment
from jp_nb.storage.file_locks import hold_file_lock, try_lock

LIMITS_NAME: Final = "limits.json"
WINDOW_S: Final = 60.0
"""Time in which `per_minute` requests may start."""
DEFAULT_HOLD_S: Final = 1.0
"""Seconds for which a 429 without `Retry-After` holds the other kernels."""
MAX_HOLD_S: Final = 600.0
"""Longest time for which a 429 holds the other kernels."""
MAX_PACE_BYTES: Final = 10_000_000
"""Size limit of a file of this folder. A larger one counts as empty."""
_SLOT_PAUSE_S: Final = 0.05
"""Time between two tries to lock a slot."""
_LONGEST_PAUSE_S: Final = 1.0
"""Longest time between two looks at the state, which another kernel may have changed."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits by provider: requests that start in a minute, and requests that run at once."""

    per_minute: Mapping[str, int] = field(default_factory=dict)
    concurrent: Mapping[str, int] = field(default_factory=dict)


@contextmanager
def make_pace_folder(limits: RequestLimits) -> Iterator[str]:
    """Make the folder of a batch with these limits, and remove it at the end of the block."""
    with TemporaryDirectory(prefix="jp-nb-pace-", ignore_cleanup_errors=True) as folder:
        write_limits(Path(folder), limits)
        yield folder


def write_limits(folder: Path, limits: RequestLimits) -> None:
    """Write the limits of a batch to its folder."""
    content = {"per_minute": dict(limits.per_minute), "concurrent": dict(limits.concurrent)}
    (folder / LIMITS_NAME).write_text(json.dumps(content), encoding="utf-8")


def get_shared_pace() -> SharedPace | None:
    """Return the pace of the batch that runs this kernel; None outside of a batch."""
    folder = os.environ.get(environment.PACE_VARIABLE)
    if not folder or not os.path.isdir(folder):
        return None
    return SharedPace(Path(folder))


class SharedPace:
    """Lets requests start at the pace of a batch. `folder` is that of the batch.

    The state of a provider is read and written under the lock of its file `PROVIDER.lock`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._limits = _read_object(folder / LIMITS_NAME)

    @asynccontextmanager
    async def running(self, provider: str) -> AsyncIterator[None]:
        """Wait until the request in the `with` block may start."""
        slot = await self._take_slot(provider)
        try:
            while (pause := self._try_start(provider)) > 0:  # noqa: ASYNC110 - other processes
                await asyncio.sleep(min(pause, _LONGEST_PAUSE_S))
            yield
        finally:
            if slot is not None:
                os.close(slot)

    def hold(self, provider: str, seconds: float | None) -> None:
        """Let no kernel start a request for `seconds`: the server refused one with a 429."""
        pause = DEFAULT_HOLD_S if seconds is None else min(seconds, MAX_HOLD_S)
        resume_at = time.time() + pause
        with hold_file_lock(self._path(provider, "lock")):
            state = _read_object(self._path(provider, "json"))
            state["resume_at"] = max(resume_at, _as_number(state.get("resume_at")))
            self._write(provider, state)

    def _try_start(self, provider: str) -> float:
        """Note the start of a request and return 0, or return the seconds until the next try."""
        limit = self._get_limit("per_minute", provider)
        with hold_file_lock(self._path(provider, "lock")):
            state = _read_object(self._path(provider, "json"))
            now = time.time()
            resume_at = _as_number(state.get("resume_at"))
            if resume_at > now:
                return resume_at - now
            if limit is None:
                return 0.0

            stored = state.get("starts")
            times = map(_as_number, stored) if isinstance(stored, list) else ()
            recent = [start for start in times if start > now - WINDOW_S]
            if len(recent) >= limit:
                # When the oldest of the last `limit` starts is out of the window.
                return recent[-limit] + WINDOW_S - now
            state["starts"] = [*recent, now]
            self._write(provider, state)
        return 0.0

    async def _take_slot(self, provider: str) -> int | None:
        """Wait for a slot and return its open file; None if any number of requests may run."""
        limit = self._get_limit("concurrent", provider)
        if limit is None:
            return None

        while True:
            for number in range(limit):
                path = self._path(provider, f"slot-{number}")
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                if try_lock(descriptor):
                    return descriptor
                os.close(descriptor)
            await asyncio.sleep(_SLOT_PAUSE_S)

    def _get_limit(self, kind: str, provider: str) -> int | None:
        value = as_object(self._limits.get(kind)).get(provider)
        return value if isinstance(value, int) else None

    def _path(self, provider: str, suffix: str) -> Path:
        return self._folder / f"{quote(provider, safe='')}.{suffix}"

    def _write(self, provider: str, state: Mapping[str, JsonValue]) -> None:
        self._path(provider, "json").write_text(json.dumps(dict(state)), encoding="utf-8")


def _read_object(path: Path) -> dict[str, JsonValue]:
    """Return the JSON object in a file; an empty one if a killed kernel has cut it."""
    try:
        text = read_regular(path, max_bytes=MAX_PACE_BYTES).decode("utf-8")
        return dict(as_object(read_json(text)))
    except (OSError, ValueError):
        return {}


def _as_number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
