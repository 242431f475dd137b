"""`jp-nb demo` in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

PATIENCE = 120.0


@pytest.mark.parametrize("is_root", [True, False])
def test_the_demo_opens_for_root_too_and_says_so(tmp_path: Path, is_root: bool) -> None:
    code = (
        f"import os; os.geteuid = lambda: {0 if is_root else 1000}\n"
        "import subprocess\n"
        "subprocess.call = lambda command: print(command[1:3], command[4:]) or 0\n"
        "from jp_nb.cli import main; raise SystemExit(main(['demo']))"
    )
    env = {**os.environ, "DISPLAY": ":0", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    command = f"['-m', 'jupyterlab'] {['--allow-root'] if is_root else []}"
    assert done.stdout.splitlines()[-1] == command
    assert ("You are root" in done.stdout) is is_root


def test_jupyterlab_runs_for_whoever_starts_it(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    env = {
        **os.environ, "DISPLAY": ":0", "BROWSER": "true", "TMPDIR": str(tmp_path),
        "JUPYTER_RUNTIME_DIR": str(runtime), "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "jp_nb.cli", "demo"],
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        until = time.monotonic() + PATIENCE
        while not (found := list(runtime.glob("jpserver-*.json"))):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.1)
        while True:
            try:
                server = json.loads(found[0].read_text())
                address = f"{server['url']}api/status?token={server['token']}"
                with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                    assert answer.status == 200
                break
            except (ValueError, OSError):
                assert time.monotonic() < until
                time.sleep(0.1)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE)
    assert ("You are root" in out) is (os.geteuid() == 0)
