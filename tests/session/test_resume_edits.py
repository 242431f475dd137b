"""`%jp resume` of a turn whose kernel was killed while the page applied edits of cells."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jp_nb.session.session import Session
from tests.kit.kinds import make
from tests.session.killed_edits import THIS, run_killed_edits
from tests.session.killed_session import NOTEBOOK, read_saved_notebook
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter, yes
from tests.support.sessions import run_line

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL")


class Restarted:
    """The notebook in a new kernel, whose user makes the `choices`."""

    def __init__(self, folder: Path, *choices: str) -> None:
        saved = json.loads((folder / "page.json").read_text())
        self.cells = make("edited_cells", "").from_json(saved)
        self.user = FakePrompter(*map(yes, choices))
        self.host = FakeHost(
            self.user, FakeHome(folder / NOTEBOOK, stored=read_saved_notebook(folder))
        )
        self.host.edited = self.cells
        self.session = Session(self.host)

    def resume(self) -> Any:
        """Run `%jp resume`, and return the result that the model reads."""
        run_line(self.session, "resume")
        turn = self.session.document.conversation.current_turn()
        [found] = [entry for entry in turn if entry.type == "tool_call_response"]
        self.session.close()
        return found

    @property
    def notices(self) -> list[str]:
        events = [event for output in self.host.person.outputs for event in output.events]
        return [event.text for event in events if type(event).__name__ == "Notice"]


@pytest.mark.req("CELL-45")
def test_edits_that_the_page_had_applied_are_reported_and_not_applied_again(
    clean_folder: Path,
) -> None:
    run_killed_edits(clean_folder, "applied", "apply")
    restarted = Restarted(clean_folder)
    assert restarted.cells.sources == ["uno", "three", THIS, "new"]

    found = restarted.resume()
    assert restarted.cells.sources == ["uno", "three", THIS, "new"]
    assert restarted.cells.changes == 0
    assert restarted.user.asked == []  # no question whether it runs again
    version = restarted.cells.version
    assert found.content.split("\n") == [
        "This call was interrupted after the page had applied its edits. They were not applied "
        "again. The cells as they are now:",
        f"1. applied: cell `a`, version {version('a')}.",
        f"2. applied: cell `made-0-1`, version {version('made-0-1')}.",
        "3. applied: cell `b` is deleted.",
    ]
    assert not found.is_error
    assert any("had applied 3 edits of this call" in notice for notice in restarted.notices)

    kept = found.metadata["structured"]
    assert [edit["cell"] for edit in kept["edits"]] == ["a", "made-0-1", "b"]
    assert kept["edits"][2]["source_before"] == "two"


@pytest.mark.req("CELL-45")
def test_edits_that_the_page_had_not_applied_are_reviewed_again_and_applied_once(
    clean_folder: Path,
) -> None:
    run_killed_edits(clean_folder, "consented", "apply")
    restarted = Restarted(clean_folder, "apply")
    assert restarted.cells.sources == ["one", "two", "three", THIS]

    found = restarted.resume()
    assert [prompt.text for prompt in restarted.user.asked] == ["Apply 3 edits to this notebook?"]
    assert restarted.cells.changes == 1
    assert restarted.cells.sources == ["uno", "three", THIS, "new"]
    assert found.content.startswith("Applied 3 of 3 edits.")
    assert any("had not applied the edits" in notice for notice in restarted.notices)


@pytest.mark.req("CELL-45")
def test_cells_that_changed_since_are_reported_as_they_are(clean_folder: Path) -> None:
    run_killed_edits(clean_folder, "applied", "apply_run")
    restarted = Restarted(clean_folder)
    restarted.cells.set("a", source="one")  # the user's undo
    restarted.cells.set("made-0-1", source="newer")

    text = restarted.resume().content
    version = restarted.cells.version
    assert f"1. applied, and taken back since: cell `a` has version {version('a')} again." in text
    changed = f"cell `made-0-1` has changed since: its version is {version('made-0-1')}."
    assert f"2. applied, but {changed}" in text
    assert text.endswith("It is unknown whether its cells ran. They were not run again.")


@pytest.mark.req("CELL-45")
def test_mark_of_another_operation_says_nothing_about_the_call(clean_folder: Path) -> None:
    run_killed_edits(clean_folder, "applied", "apply")
    restarted = Restarted(clean_folder, "reject")
    restarted.cells.operation = "0" * 32
    found = restarted.resume()
    assert found.is_error  # the old versions do not fit: nothing is proposed twice
    assert "is old: cell 1 (`a`)" in found.content
    assert restarted.user.asked == []
    assert restarted.cells.changes == 0
    twin = "already has a cell with the source of edit 2: `made-0-1`"
    assert any(twin in notice for notice in restarted.notices)


@pytest.mark.req("CELL-45")
def test_without_a_page_the_outcome_is_unknown(clean_folder: Path) -> None:
    run_killed_edits(clean_folder, "applied", "apply")
    restarted = Restarted(clean_folder)
    restarted.host.edited = None
    found = restarted.resume()
    assert found.is_error
    assert "it is unknown whether its edits were applied" in found.content


@pytest.mark.req("CELL-45")
def test_lost_journal_leaves_the_mark_of_the_page(clean_folder: Path) -> None:
    run_killed_edits(clean_folder, "applied", "apply")
    [path] = (clean_folder / "data" / "jp" / "journal").iterdir()
    kept = [line for line in path.read_text().splitlines(keepends=True) if '"call"' not in line]
    path.write_text("".join(kept))

    restarted = Restarted(clean_folder)
    found = restarted.resume()
    assert restarted.cells.changes == 0
    assert "They were not applied again." in found.content
    assert "New cells: `made-0-1`." in found.content


@pytest.mark.req("CELL-36", "CELL-45")
def test_tools_that_were_on_for_a_killed_fix_only_are_off_after_it_is_resumed(
    clean_folder: Path,
) -> None:
    run_killed_edits(clean_folder, "consented", "apply", command="fix")
    restarted = Restarted(clean_folder, "apply")
    conversation = restarted.session.config.conversation
    assert conversation.get_tool_state("edit_cells")[0]

    restarted.resume()
    assert restarted.cells.sources == ["uno", "three", THIS, "new"]
    conversation = restarted.session.config.conversation
    assert not conversation.get_tool_state("edit_cells")[0]
    assert not conversation.get_tool_state("notebook_search")[0]
