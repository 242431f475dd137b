"""Record the cassette of the CI tutorial from a loopback server with the replies below.

python -m tests.record_tutorial
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat

from jp_nb.headless.runner import run_notebook
from tests.refresh_notebooks import NOTEBOOKS, refresh
from tests.support.loopback import LoopbackServer, Reply, ToolCall

TUTORIAL = NOTEBOOKS / "06-in-ci.ipynb"
CASSETTE = TUTORIAL.with_suffix(".cassette.jsonl")
NOTE = "Tables can be saved as CSV, reports show the right dates, and there is a dark theme."
REPLIES = (
    Reply(
        text="I read the changes of both versions.",
        tool_calls=(
            ToolCall("changes", {"version": "1.4"}),
            ToolCall("changes", {"version": "1.5"}),
        ),
    ),
    Reply(tool_calls=(ToolCall("publish", {"note": NOTE}),)),
    Reply(text="The note for 1.4 and 1.5 is published for the team."),
    Reply(tool_calls=(ToolCall("sign_as", {"name": "Ada"}),)),
    Reply(text="Ada signs the notes now."),
    Reply(tool_calls=(ToolCall("retract", {}),)),
    Reply(text="I cannot withdraw the note: that needs a reason from a user."),
)


def record() -> None:
    """Run the tutorial once with its cassette being recorded."""
    notebook = nbformat.read(TUTORIAL, as_version=4)
    with tempfile.TemporaryDirectory() as folder, LoopbackServer(REPLIES) as server:
        for cell in notebook.cells:
            cell.source = cell.source.replace("%jp cassette replay", "%jp cassette record")
            if "jp.query(" in cell.source:  # this request must not be on the cassette
                cell.source = ""
        copy = Path(folder) / TUTORIAL.name
        nbformat.write(notebook, copy)
        answers = TUTORIAL.with_suffix(".answers.toml")
        (Path(folder) / answers.name).write_bytes(answers.read_bytes())
        base_url = {"providers.llm.llamacpp.base_url": server.url}
        result = run_notebook(copy, settings=base_url)
        if result.failure is not None:
            raise SystemExit(f"{TUTORIAL.name}: {result.failure}")
        CASSETTE.write_bytes((Path(folder) / CASSETTE.name).read_bytes())


if __name__ == "__main__":
    record()
    refresh(TUTORIAL)
