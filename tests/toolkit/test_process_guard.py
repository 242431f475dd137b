"""Processes of commands end with the process that started them, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups")

PATIENCE_S = 30.0
RUNS = """
import asyncio, os, signal, sys, time
from jp_nb.toolkit.command_tools.processes import run_process
from jp_nb.toolkit.command_tools.process_guard import ProcessGuard

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup pytest` ignores it

add = ProcessGuard.add
def add_and_report(guard, group):
    add(guard, group)
    if "FORKS" in os.environ and not os.fork():  # as `multiprocessing` does
        time.sleep(60)
        os._exit(0)
    print("started", flush=True)
ProcessGuard.add = add_and_report

async def run(*commands):
    await asyncio.gather(*(run_process(["sh", "-c", x], stdin=b"", cwd="") for x in commands))

asyncio.run(run(*sys.argv[1:]))
"""
STUBBORN = "trap '' TERM HUP; echo $$ > {name}; while :; do sleep 1; done"
WITH_CHILD = "sleep 600 & echo $! > {name}; wait"
PLAIN = "echo $$ > {name}; exec sleep 600"


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Return True if the process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGABRT])
def test_processes_end_with_the_kernel(tmp_path: Path, number: signal.Signals) -> None:
    scripts = {"plain": PLAIN, "child": WITH_CHILD, "stubborn": STUBBORN}
    commands = [text.format(name=tmp_path / name) for name, text in scripts.items()]
    files = [tmp_path / name for name in scripts]
    kernel = subprocess.Popen([sys.executable, "-c", RUNS, *commands], stdout=subprocess.PIPE)
    assert kernel.stdout is not None
    try:
        assert [kernel.stdout.readline() for _ in commands] == [b"started\n"] * 3
        wait_until(lambda: all(each.exists() and each.read_text().strip() for each in files))
        pids = [int(each.read_text()) for each in files]
        assert all(map(is_alive, pids))
    finally:
        kernel.send_signal(number)
        kernel.wait(PATIENCE_S)
        kernel.stdout.close()
    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_processes_end_although_a_forked_process_of_the_kernel_runs(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    kernel = subprocess.Popen(
        [sys.executable, "-c", RUNS, PLAIN.format(name=file)],
        stdout=subprocess.PIPE,
        env={**os.environ, "FORKS": "1"},
        start_new_session=True,
    )
    assert kernel.stdout is not None
    try:
        assert kernel.stdout.readline() == b"started\n"
        wait_until(lambda: file.exists() and file.read_text().strip() != "")
        pid = int(file.read_text())
        kernel.kill()
        kernel.wait(PATIENCE_S)
        wait_until(lambda: not is_alive(pid))
    finally:
        os.killpg(kernel.pid, signal.SIGKILL)  # the forked process
        kernel.stdout.close()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_background_process_of_a_finished_command_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    command = f"sleep 600 >/dev/null 2>&1 & echo $! > {file}"
    kernel = subprocess.Popen([sys.executable, "-c", RUNS, command])
    assert kernel.wait(PATIENCE_S) == 0
    pid = int(file.read_text())
    time.sleep(0.5)  # the guard has ended by then
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_guard_leaves_no_warning_at_the_end_of_the_interpreter() -> None:
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", RUNS, "true"]
    kernel = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, text=True)
    assert (kernel.returncode, kernel.stdout, kernel.stderr) == (0, "started\n", "")


RESTARTS = """
import os, signal
from pathlib import Path
from jp_nb.toolkit.command_tools.process_guard import ProcessGuard

def children():
    pid = os.getpid()
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

def is_zombie(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

guard = ProcessGuard()
guard.start()
(first,) = children()
guard.start()
assert children() == [first]
os.kill(int(first), signal.SIGKILL)
while not is_zombie(first):
    pass
guard.add(2 ** 22)
guard.start()
(second,) = children()
assert second != first
assert not is_zombie(second)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_killed_guard_is_replaced_and_leaves_no_zombie() -> None:
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", RESTARTS]
    kernel = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, text=True)
    assert (kernel.returncode, kernel.stderr) == (0, "")
