"""A session whose process is killed: run as a program, `python -m tests.session.killed_session`.

It asks "First." and keeps the notebook's object then in `saved.json`, as its page would have. With
"Second." the model calls `leave_mark`, which writes a line into `marks` and kills the process if
`DIES` is that line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jp_nb
from jp_nb.session.session import Session
from tests.support.fake_host import FakeHome, FakeHost

NOTEBOOK = "talk.ipynb"
SCRIPT = """
[[replies]]
text = "one"
[[replies]]
text = "Let me see."
tool_calls = [
    {name = "leave_mark", arguments = {word = "a"}},
    {name = "leave_mark", arguments = {word = "b"}},
]
[[replies]]
text = "two"
"""


def environment(folder: Path) -> dict[str, str]:
    """Return environment variables that keep all files of a session below `folder`."""
    given = {name: text for name, text in os.environ.items() if not name.startswith("JP_")}
    root = Path(__file__).parents[2]
    return given | {
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "JP_NB_TRUST_FOLDERS": str(folder),
        "PYTHONPATH": str(root),
    }


def run_killed_session(folder: Path, *, dies: str = "a", **variables: str) -> None:
    """Run this program in `folder`, and check that its tool kills it."""
    (folder / "talk.toml").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "tests.session.killed_session"],
        cwd=folder,
        env={**environment(folder), "DIES": dies, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr + done.stdout


def read_saved_notebook(folder: Path) -> dict[str, Any]:
    """Return the notebook's `jp` object after the first turn."""
    found: dict[str, Any] = json.loads((folder / "saved.json").read_text())
    return found


def define_tool(folder: Path, dies: str = "") -> None:
    """Define the tool `leave_mark`, which writes to `folder`."""

    @jp_nb.tool
    def leave_mark(word: str) -> str:
        with (folder / "marks").open("a") as file:
            file.write(f"{word}\n")
        if word == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"marked {word}"


def main() -> None:
    """Run two turns; a tool kills the process in the second."""
    folder = Path.cwd()
    define_tool(folder, os.environ.get("DIES", ""))
    session = Session(FakeHost(home=FakeHome(folder / NOTEBOOK)))
    session.turns.run("First.", model="scripted/talk")
    (folder / "saved.json").write_text(json.dumps(session.document.to_json()))
    session.turns.run("Second.")


if __name__ == "__main__":
    main()
