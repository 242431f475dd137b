"""A session whose process is killed while edits are applied.

It runs as a program: `python -m tests.session.killed_edits`. The page outlives the process: its
cells are in `page.json`, and the record is in `saved.json`. `DIES` is the step of the process's
death: `consented` before the page gets the edits, and `applied` before the kernel gets the answer.
`COMMAND` is the `%jp` command whose turn edits the cells, such as `fix`; without it, the toolset
`cells` is on, and the user asks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from jp_nb.session.session import Session
from tests.kit.kinds import make
from tests.kit.sessions import directive
from tests.session.killed_session import NOTEBOOK, environment
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter, yes
from tests.support.sessions import run_line

THIS = "%%jp\nTidy up."
SOURCES = ("one", "two", "three", THIS)


def run_killed_edits(folder: Path, dies: str, *choices: str, command: str = "") -> None:
    """Run this program in `folder`; the user makes these `choices` in the review."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.session.killed_edits", *choices],
        cwd=folder,
        env={**environment(folder), "DIES": dies, "COMMAND": command},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr + done.stdout


def write_script(folder: Path, document: Any) -> None:
    """Write the replies of the model, which edits three cells of `document`."""
    edits = [
        {"op": "replace", "cell": "a", "version": document.version("a"), "source": "uno"},
        {"op": "insert", "source": "new", "run": True},
        {"op": "delete", "cell": "b", "version": document.version("b")},
    ]
    arguments = {"edits": edits, "why": "It is untidy."}
    called = {"tool_calls": [{"name": "edit_cells", "arguments": arguments}]}
    replies: list[dict[str, Any]] = [{"text": "one"}, called, {"text": "Done."}]
    lines = [f"[[replies]]\n{name} = {_to_toml(x)}" for each in replies for name, x in each.items()]
    (folder / "talk.toml").write_text("\n".join(lines))


def _to_toml(value: Any) -> str:
    if isinstance(value, dict):
        fields = ", ".join(f"{name} = {_to_toml(each)}" for name, each in value.items())
        return f"{{{fields}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_to_toml, value))}]"
    return json.dumps(value)


def main() -> None:
    """Run two turns. The process dies while the edits of the second one are applied."""
    folder = Path.cwd()
    document = make("edited_cells", *SOURCES)
    write_script(folder, document)

    def die(step: str) -> None:
        if step == os.environ["DIES"]:
            (folder / "page.json").write_text(json.dumps(document.to_json()))
            os.kill(os.getpid(), signal.SIGKILL)

    document.on_change = die
    user = FakePrompter(*map(yes, sys.argv[1:]))
    host = FakeHost(user, FakeHome(folder / NOTEBOOK))
    host.edited = document

    command = os.environ["COMMAND"]
    session = Session(host)
    if not command:
        session.configure(directive("tool", "cells"))

    session.turns.run("First.", model="scripted/talk")
    (folder / "saved.json").write_text(json.dumps(session.document.to_json()))

    if command:
        host.failed = make("last_error", NameError("one"), lambda file: None, "one", "a")
        run_line(session, command)
    else:
        session.turns.run("Tidy up.")


if __name__ == "__main__":
    main()
