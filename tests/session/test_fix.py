"""`%jp fix`: the model explains the last error, and proposes an edit of the cell that failed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import jp_nb
from jp_nb.session.session import Session
from tests.kit.kinds import make
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter, yes
from tests.support.sessions import run_line

FAILED = "ages = {}\nages['Ada']"
FIXED = "ages = {'Ada': 36}\nages['Ada']"
TEXT = "The dictionary has no such key."
CELLS = ("edit_cells", "notebook_cells", "notebook_cell", "notebook_search")


def open_session(folder: Path, *choices: str, cell_id: str | None = "a") -> tuple[Session, Any]:
    """Open a session in which cell `a` has failed, and whose model replaces it."""
    cells = make("edited_cells", FAILED, "%jp fix")
    edit = {"op": "replace", "cell": "a", "version": cells.version("a"), "source": FIXED}
    arguments = {"edits": [edit], "why": "Add the key."}
    called = f"{{name = 'edit_cells', arguments = {_to_toml(arguments)}}}"
    script = f"[[replies]]\ntext = '{TEXT}'\ntool_calls = [{called}]\n[[replies]]\ntext = 'Done.'\n"
    (folder / "mends.toml").write_text(script)

    host = FakeHost(FakePrompter(*map(yes, choices)), FakeHome(folder / "talk.ipynb"))
    host.edited = cells
    try:
        exec(FAILED, {})
    except KeyError as exc:
        host.failed = make("last_error", exc, lambda file: None, FAILED, cell_id)
    session = Session(host)
    session.configure(model="scripted/mends")
    return session, host


def _to_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_to_toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_to_toml, value))}]"
    return json.dumps(value)


def states(session: Session) -> list[bool]:
    conversation = session.config.conversation
    return [bool(conversation.get_tool_state(name)[0]) for name in CELLS]


@pytest.mark.req("CELL-36")
def test_explanation_is_shown_and_the_edit_is_reviewed_and_applied(clean_folder: Path) -> None:
    session, host = open_session(clean_folder, "apply")
    run_line(session, "fix Ada is 36.")

    [prompt] = host.person.prompter.asked
    assert prompt.text == "Apply 1 edit to this notebook?"
    assert host.edited.sources[0] == FIXED
    turn = session.last_turn
    assert turn is not None
    assert turn.text.startswith(TEXT)

    [request] = session.document.conversation.requests
    assert request.content.startswith("Ada is 36.\nExplain this error in a few sentences.")
    version = make("edited_cells", FAILED).version("a")
    assert f"The cell that failed has the id `a` and the version {version}." in request.content
    assert "KeyError: 'Ada'" in request.content
    assert "1 you: Ada is 36.\n    fix: KeyError: 'Ada'" in run_line(session, "log")
    session.close()


@pytest.mark.req("CELL-36")
def test_toolset_is_on_for_this_turn_only(clean_folder: Path) -> None:
    session, _ = open_session(clean_folder, "reject")
    assert states(session) == [False] * 4
    run_line(session, "fix")
    assert states(session) == [False] * 4
    names = [call.name for call in session.conversations.log()[0].tool_calls]
    assert names == ["edit_cells"]
    session.close()


@pytest.mark.req("CELL-36")
def test_toolset_that_was_on_stays_on(clean_folder: Path) -> None:
    session, _ = open_session(clean_folder, "reject")
    session.configure(directive("tool", "cells"))
    run_line(session, "fix")
    assert states(session) == [True] * 4
    session.close()


@pytest.mark.req("CELL-36")
def test_toolset_is_off_after_a_turn_that_failed(clean_folder: Path) -> None:
    session, _ = open_session(clean_folder)
    (clean_folder / "broken.toml").write_text("[[replies]]\nerror = { status = 404 }\n")
    session.configure(model="scripted/broken")
    with pytest.raises(jp_nb.ProviderError):
        run_line(session, "fix")
    assert states(session) == [False] * 4
    session.close()


@pytest.mark.req("CELL-36")
def test_cell_without_a_known_id_is_found_by_the_model(clean_folder: Path) -> None:
    session, _ = open_session(clean_folder, "reject", cell_id=None)
    run_line(session, "fix")
    [request] = session.document.conversation.requests
    assert "Find the cell with notebook_cells first." in request.content
    session.close()


@pytest.mark.req("CELL-36")
def test_fix_without_an_error_is_refused_and_changes_no_setting(clean_folder: Path) -> None:
    session, host = open_session(clean_folder)
    host.failed = None
    with pytest.raises(jp_nb.UsageError, match="no cell has failed"):
        run_line(session, "fix")
    assert states(session) == [False] * 4
    session.close()


def kill_in_review(folder: Path, *choices: str) -> tuple[Session, Any]:
    """Let the kernel die while the review of `%jp fix` is open; return a session of a new one."""
    saved: list[Any] = []

    async def save() -> Any:
        saved.append(json.loads(json.dumps(session.document.to_json())))
        return yes("reject")

    session, host = open_session(folder)
    host.person.prompter = FakePrompter(save)
    run_line(session, "fix")
    session.close()
    for journal in Path(os.environ["XDG_DATA_HOME"]).rglob("*.jsonl"):
        journal.unlink()  # it has the end of the turn, which the killed kernel did not reach

    restarted = FakeHost(
        FakePrompter(*map(yes, choices)), FakeHome(folder / "talk.ipynb", stored=saved[0])
    )
    restarted.edited = host.edited
    (folder / "after.toml").write_text("[[replies]]\ntext = 'Nothing.'\n")
    return Session(restarted), restarted


@pytest.mark.req("CELL-36")
def test_toolset_is_off_in_the_next_turn_after_the_kernel_died(clean_folder: Path) -> None:
    session, _ = kill_in_review(clean_folder)
    assert states(session) == [True] * 4
    session.configure(model="scripted/after")
    run_line(session, "q What now?")
    assert states(session) == [False] * 4
    session.close()


@pytest.mark.req("CELL-36")
def test_toolset_is_off_after_the_turn_is_resumed(clean_folder: Path) -> None:
    session, host = kill_in_review(clean_folder, "apply")
    run_line(session, "resume")
    assert host.edited.sources[0] == FIXED
    assert states(session) == [False] * 4
    session.close()


@pytest.mark.req("CELL-36")
def test_toolset_that_the_user_switched_on_after_the_kernel_died_stays_on(
    clean_folder: Path,
) -> None:
    session, _ = kill_in_review(clean_folder)
    session.configure(directive("tool", "cells"))
    session.configure(directive("no_tool", "notebook_search"))
    session.configure(model="scripted/after")
    run_line(session, "q What now?")
    assert states(session) == [True, True, True, False]
    session.close()
