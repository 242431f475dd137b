"""`jp-nb demo` opens the quickstart in JupyterLab."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path

import pytest

from jp_nb.cli import main
from jp_nb.headless.commands.demo import copy_tutorials

CHECKOUT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
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
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_demo_starts_a_jupyterlab_server_and_stops_it(
    tmp_path: Path, number: signal.Signals
) -> None:
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
        process.send_signal(number)  # to the command alone
        out, _ = process.communicate(timeout=PATIENCE_S)  # JupyterLab has closed the pipe, too
    assert process.returncode == 128 + number
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=PATIENCE_S)
    assert ("You are root" in out) is (os.geteuid() == 0)


LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def test_demo_copies_all_tutorials_and_the_targets_of_their_links(tmp_path: Path) -> None:
    copy_tutorials(tmp_path)
    notebooks = sorted(tmp_path.glob("*.ipynb"))
    assert [each.name for each in notebooks] == sorted(each.name for each in TUTORIALS)
    links = [
        (notebook.name, link)
        for notebook in notebooks
        for link in LINK.findall(markdown_of(notebook))
        if "://" not in link
    ]
    assert len(links) > 10
    assert [(name, link) for name, link in links if not (tmp_path / link).is_file()] == []


def markdown_of(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return "\n".join(texts)


@pytest.mark.parametrize("name", ["scripts/tools.toml", "commands/word_count.sh", "forms.png"])
def test_demo_copies_the_files_beside_the_tutorials(tmp_path: Path, name: str) -> None:
    copy_tutorials(tmp_path)
    assert (tmp_path / name).read_bytes() == (CHECKOUT / "notebooks" / name).read_bytes()


def test_wheel_has_the_tutorials_and_the_pages_that_they_link() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {"notebooks": "jp_nb/notebooks", "docs": "jp_nb/docs"}
