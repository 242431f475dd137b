"""Record the cassettes of the tutorials 06 to 10 from a loopback server with the replies below.

python -m tools.record_tutorial
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from jp_nb.headless.runner import run_notebook
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall
from tools.cell_replies import reply_to_cleaning
from tools.refresh_notebooks import NOTEBOOKS, refresh
from tools.review_replies import reply_to_review
from tools.walk_replies import reply_about_walk

NOTE = "Tables can be saved as CSV, reports show the right dates, and there is a dark theme."
IN_CI = (
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
MCP = (
    Reply(tool_calls=(ToolCall("library__find_books", {"max_pages": 250}),)),
    Reply(text="**Persuasion** has 249 pages, and **Sanditon** 128."),
    Reply(tool_calls=(ToolCall("library__reserve", {"title": "Sanditon"}),)),
    Reply(text="Sanditon is reserved for Ada. Fetch it on Thursday."),
)
LIBRARY_ANSWERS = """
[permissions]
library__find_books = "run"
library__reserve = "run"

[questions.library__reserve]
"__main__:ask_for_pickup" = { day = "Thursday", name = "Ada" }
"""


@dataclass(frozen=True)
class Recording:
    """A tutorial and the replies of its model.

    Attributes:
        left_out: Beginnings of cells that are not on the cassette.
        answers: Content of an answers file that only the recording has.
    """

    notebook: str
    replies: Sequence[Reply] | Callable[[Received], Reply]
    left_out: tuple[str, ...]
    answers: str = ""


CI_RECORDING = Recording("06-in-ci.ipynb", IN_CI, ("try:\n    jp.query(",))
MCP_RECORDING = Recording("07-mcp.ipynb", MCP, ("%jp cassette off", "%jp call"), LIBRARY_ANSWERS)

ROWS_RECORDING = Recording("08-rows.ipynb", reply_to_review, ("%jp cassette off",))


def cassette_of(recording: Recording | RunRecording) -> Path:
    return (NOTEBOOKS / recording.notebook).with_suffix(".cassette.jsonl")


def record_cassette(recording: Recording) -> bytes:
    """Run the tutorial with its tools and servers, and return the recorded cassette."""
    tutorial = NOTEBOOKS / recording.notebook
    notebook = nbformat.read(tutorial, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("%jp cassette replay", "%jp cassette record")
        if cell.source.startswith(recording.left_out):
            cell.source = ""

    with tempfile.TemporaryDirectory() as folder, LoopbackServer(recording.replies) as server:
        copy = Path(folder) / "notebooks"
        shutil.copytree(NOTEBOOKS, copy)
        nbformat.write(notebook, copy / tutorial.name)
        settings = {"providers.llm.llamacpp.base_url": server.url}
        if recording.answers:
            (copy / "recording.toml").write_text(recording.answers, encoding="utf-8")
            settings["prompt.answers"] = "recording.toml"
        result = run_notebook(copy / tutorial.name, settings=settings)
        if result.failure is not None:
            raise SystemExit(f"{tutorial.name}: {result.failure}")
        return (copy / cassette_of(recording).name).read_bytes()


@dataclass(frozen=True)
class RunRecording:
    """A tutorial that runs another notebook in a temporary folder, and the replies of its model.

    Attributes:
        cassette: Name of the other notebook's cassette in that folder.
    """

    notebook: str
    replies: Callable[[Received], Reply]
    cassette: str


BATCH_RECORDING = RunRecording("09-many-notebooks.ipynb", reply_about_walk, "walk.cassette.jsonl")
EDITS_RECORDING = RunRecording("10-edit-cells.ipynb", reply_to_cleaning, "messy.cassette.jsonl")


def record_run_cassette(recording: RunRecording) -> bytes:
    """Run the tutorial, and return the cassette that the runs of the other notebook record."""
    notebook = nbformat.read(NOTEBOOKS / recording.notebook, as_version=4)

    with tempfile.TemporaryDirectory() as folder, LoopbackServer(recording.replies) as server:
        work = Path(folder) / "work"
        work.mkdir()
        recorded = {
            "tempfile.mkdtemp()": repr(str(work)),
            "shutil.copy(": "(",  # the cassette to replay
            "--replay": f"--replay-or-record -c providers.llm.llamacpp.base_url={server.url}",
        }
        for cell in notebook.cells:
            for now, then in recorded.items():
                cell.source = cell.source.replace(now, then)

        copy = Path(folder) / recording.notebook
        nbformat.write(notebook, copy)
        result = run_notebook(copy)
        if result.failure is not None:
            raise SystemExit(f"{recording.notebook}: {result.failure}")
        return (work / recording.cassette).read_bytes()


if __name__ == "__main__":
    for run_recording in (BATCH_RECORDING, EDITS_RECORDING):
        cassette_of(run_recording).write_bytes(record_run_cassette(run_recording))
        refresh(NOTEBOOKS / run_recording.notebook)
    for each in (CI_RECORDING, MCP_RECORDING, ROWS_RECORDING):
        cassette_of(each).write_bytes(record_cassette(each))
        refresh(NOTEBOOKS / each.notebook)
