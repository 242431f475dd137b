"""Servers end with the process that started them, however that ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("mcp")


from jp_nb.mcp.connections.connection import Connection
from tests.kit.kinds import is_kind
from tests.mcp.helpers import list_group, scripted
from tests.mcp.scripted_server import Json
from tests.support.tiers import mostly_deep

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")

LIMIT_S = 5.0
PROGRAM = """
import asyncio, os, sys, time
from jp_nb.mcp.connections.connection import Connection
from jp_nb.mcp.transports.launches import StdioLaunch

async def main():
    connection = Connection("test", StdioLaunch(sys.argv[2], tuple(sys.argv[3:])))
    await connection.start()
    if sys.argv[1] == "fork" and not os.fork():
        time.sleep(30)  # a worker of `multiprocessing` holds the pipes of its parent, too
        os._exit(0)
    print(connection.pid, flush=True)
    if sys.argv[1] == "exit":
        sys.exit()
    await asyncio.sleep(60)

asyncio.run(main())
"""
STUBBORN: Json = {"ignores_end": True, "ignores_signals": True}
CASES: list[tuple[str, signal.Signals | None, Json]] = [
    ("exit", None, STUBBORN),
    ("exit", None, {"child": True}),
    ("wait", signal.SIGTERM, STUBBORN),
    ("wait", signal.SIGKILL, {}),
    ("wait", signal.SIGKILL, STUBBORN),
    ("wait", signal.SIGKILL, {"child": True}),
    ("fork", signal.SIGKILL, {}),
    ("fork", signal.SIGKILL, STUBBORN),
]
QUICK_CASES = [CASES[1], CASES[2], CASES[-1]]


@pytest.mark.parametrize(("mode", "number", "settings"), mostly_deep(CASES, quick=QUICK_CASES))
@pytest.mark.req("R-MCP-7", "R-MCP-93")
def test_no_server_is_left_five_seconds_after_the_kernel(
    tmp_path: Path, mode: str, number: signal.Signals | None, settings: Json
) -> None:
    launch = scripted(tmp_path, calls={}, **settings).launch
    assert is_kind(launch, "stdio_launch")
    command = [sys.executable, "-c", PROGRAM, mode, launch.command, *launch.arguments]
    kernel = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert kernel.stdout is not None
    group = 0
    try:
        group = int(kernel.stdout.readline())
        if number is not None:
            assert list_group(group)
            kernel.send_signal(number)
        kernel.wait(30)
        until = time.monotonic() + LIMIT_S
        while list_group(group) and time.monotonic() < until:
            time.sleep(0.05)
        assert not list_group(group)
    finally:
        kernel.kill()
        kernel.stdout.close()
        for process in list_group(group):
            os.kill(process, signal.SIGKILL)


def test_loop_that_closes_while_a_server_ends_leaves_no_zombie(tmp_path: Path) -> None:
    connection = Connection("test", scripted(tmp_path, **STUBBORN).launch)

    async def start_and_begin_to_end() -> None:
        await connection.start()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connection.aclose()

    asyncio.run(start_and_begin_to_end())

    assert connection.pid is not None
    assert not Path(f"/proc/{connection.pid}").exists()
