"""`jp-nb demo` opens the quickstart in JupyterLab."""

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

from jp_nb.cli import main

PATIENCE_S = 120.0


@pytest.mark.parametrize("is_root", [True, False])
def test_demo_opens_for_root_too_with_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    is_root: bool,
) -> None:  # fmt: skip
    called: list[list[str]] = []

    def call(command: list[str]) -> int:
        called.append(command)
        return 0

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0 if is_root else 1000)
    monkeypatch.setattr(subprocess, "call", call)
    assert main(["demo"]) == 0
    [[_, *module, notebook, allowed]] = [[*command, ""][:5] for command in called]
    assert module == ["-m", "jupyterlab"]
    assert Path(notebook).is_relative_to(tmp_path)
    assert allowed == ("--allow-root" if is_root else "")
    assert ("You are root" in capsys.readouterr().out) is is_root


@pytest.mark.runners
def test_demo_starts_a_jupyterlab_server(tmp_path: Path) -> None:
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
        until = time.monotonic() + PATIENCE_S
        while not (found := list(runtime.glob("jpserver-*.json"))):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.1)
        while True:
            try:
                server = json.loads(found[0].read_text())
                address = f"{server['url']}api/status?token={server['token']}"
                with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
                    assert answer.status == 200
                break
            except (ValueError, OSError):
                assert time.monotonic() < until
                time.sleep(0.1)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert ("You are root" in out) is (os.geteuid() == 0)
