"""Turns that begin with a plan: nothing changes before the user has approved it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind, select_kind
from tests.kit.questions import not_answered
from tests.kit.sessions import current_session
from tests.session.killed_session import environment
from tests.support.fakes import yes
from tests.support.sessions import AskedNotebook, bare_folder, note_requests, run_line, write

__all__ = ["bare_folder"]

PLAN = "1. Read the price.\n2. Raise it.\n"
EDITED = "1. Read the price.\n2. Raise it by 5 %.\n"


def call(name: str, **arguments: Any) -> str:
    """Return a call of a script's reply."""
    given = ", ".join(f"{key} = {json.dumps(value)}" for key, value in arguments.items())
    return f'{{name = "{name}", arguments = {{{given}}}}}'


def replies(*calls: list[str]) -> str:
    """Return a script: a reply for each list of calls, and a text at the end."""
    parts = [f"[[replies]]\ntool_calls = [{', '.join(each)}]\n" for each in calls]
    return "".join([*parts, '[[replies]]\ntext = "Done."\n'])


class Shop:
    """Tools with a price: `read_price` changes nothing, `set_price` does."""

    def __init__(self) -> None:
        self.price = 10
        self.log: list[str] = []

    def define(self) -> None:
        @jp.tool(read_only=True)
        def read_price() -> str:
            """Return the price."""
            self.log.append("read")
            return f"The price is {self.price}."

        @jp.tool
        def set_price(price: int) -> str:
            """Change the price."""
            self.log.append(f"set {price}")
            self.price = price
            return f"The price is {price} now."


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    made.define()
    yield made
    for name in ("read_price", "set_price"):
        jp.remove_tool(name)


SUBMIT = call("submit_plan", plan=PLAN)
READ = call("read_price")
SET = call("set_price", price=12)
STEPS = replies([READ], [SUBMIT], [SET])


def run_plan(notebook: AskedNotebook, script: str, *ends: Any, **options: Any) -> jp.Turn:
    """Run a turn that begins with a plan, with the model of `script` and these `ends`."""
    name = f"plan-{len(list(notebook.folder.glob('plan-*.toml')))}"
    write(notebook.folder / f"{name}.toml", script)
    notebook.ends += ends
    notebook.host.start_cell(f"plan-cell-{name}", "run")
    turn: jp.Turn = notebook.session.turns.run(
        "Raise the price.", model=f"scripted/{name}", plan=True, **options
    )
    assert not notebook.ends, "the user was not asked"
    return turn


def contents(turn: jp.Turn) -> list[str]:
    return [call.content or "" for call in turn.tool_calls]


def last_responses(notebook: AskedNotebook) -> list[Any]:
    entries = notebook.session.document.conversation.current_turn()
    return [entry for entry in entries if entry.type == "tool_call_response"]


def notices(notebook: AskedNotebook) -> list[str]:
    [*_, output] = notebook.host.person.outputs
    return [event.text for event in output.events if is_kind(event, "notice")]


def test_changing_tool_runs_only_after_the_plan_is_approved(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    script = replies([SET], [READ], [SUBMIT], [SET])
    turn = run_plan(notebook, script, yes("approve"))
    refused, read, approved, changed = contents(turn)

    assert refused.startswith("set_price did not run: it may change something")
    assert "read_price" in refused
    assert "Submit your plan with submit_plan" in refused
    assert read == "The price is 10."
    assert approved.startswith("The user approved the plan without changes.")
    assert changed == "The price is 12 now."
    assert shop.log == ["read", "set 12"]

    [prompt] = notebook.person.asked
    assert prompt.document == PLAN
    assert prompt.only_buttons
    assert [action.value for action in prompt.actions] == ["approve", "edit", "reject", "reason"]
    assert not notices(notebook)


def test_plan_stays_in_the_record(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    run_plan(notebook, STEPS, yes("approve"))
    entries = notebook.session.document.conversation.current_turn()
    [request] = select_kind(entries, "chat_request")
    [plan] = [e for e in select_kind(entries, "tool_call_request") if e.name == "submit_plan"]

    assert plan.arguments == {"plan": PLAN}
    assert request.metadata["plan_first"] is True
    assert request.metadata["typed"] == "Raise the price."
    assert request.content.startswith("Raise the price.\n[Plan first: ")
    _, approved, _ = last_responses(notebook)
    assert approved.metadata["plan_approved"] is True


def test_calls_of_the_same_response_as_the_plan_are_refused(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    turn = run_plan(notebook, replies([SUBMIT, SET], [SET]), yes("approve"))
    approved, refused, changed = contents(turn)
    assert approved.startswith("The user approved")
    assert "did not run" in refused
    assert changed == "The price is 12 now."


def test_two_plans_of_one_response_are_asked_about_once(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    turn = run_plan(notebook, replies([SUBMIT, call("submit_plan", plan="2")]), yes("approve"))
    assert contents(turn)[1].startswith("The user has already approved a plan")


def test_model_reads_exactly_how_the_user_edited_the_plan(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    turn = run_plan(notebook, STEPS, yes("edit"), yes(EDITED))
    plan = turn.tool_calls[1]
    assert plan.content is not None
    assert "edited the plan, and approved it" in plan.content
    assert "\n 1. Read the price.\n-2. Raise it.\n+2. Raise it by 5 %.\n" in plan.content
    assert plan.content.endswith(f"The approved plan:\n\n{EDITED}")
    assert plan.arguments == {"plan": EDITED}

    edited = last_responses(notebook)[1].metadata
    assert edited["edited_arguments"] == {"plan": EDITED}
    _, editor = notebook.person.asked
    assert editor.question.default == PLAN
    assert editor.is_code


def test_changed_line_end_of_the_plan_is_named(bare_folder: Path, shop: Shop) -> None:
    turn = run_plan(AskedNotebook(bare_folder), STEPS, yes("edit"), yes(PLAN.rstrip()))
    plan = turn.tool_calls[1].content or ""
    assert "-2. Raise it.\n+2. Raise it.\n\\ No newline at end of file\n" in plan


def test_plan_that_the_user_leaves_as_it_is_was_not_edited(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    turn = run_plan(notebook, STEPS, yes("edit"), yes(PLAN))
    assert contents(turn)[1].startswith("The user approved the plan without changes.")
    assert "edited_arguments" not in last_responses(notebook)[1].metadata


def test_closed_or_emptied_editor_decides_nothing(bare_folder: Path, shop: Shop) -> None:
    back = not_answered("cancelled", "form")
    ends = [yes("edit"), back, yes("edit"), yes("  "), yes("reason"), back, yes("approve")]
    turn = run_plan(AskedNotebook(bare_folder), STEPS, *ends)
    assert contents(turn)[1].startswith("The user approved the plan without changes.")


def test_rejected_plan_keeps_changing_tools_refused(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    turn = run_plan(
        notebook, replies([SUBMIT], [SET], [SUBMIT]), yes("reason"), yes("Too much."), yes("reject")
    )
    reason, refused, rejected = contents(turn)
    assert reason.startswith("The user rejected the plan: Too much.\n\n")
    assert "did not run" in refused
    assert rejected.startswith("The user rejected the plan. Tools")
    assert shop.log == []
    assert [entry.metadata.get("skipped") for entry in last_responses(notebook)] == [
        True,
        None,
        True,
    ]
    assert notices(notebook) == [
        "▸ The turn ended without an approved plan, so no tool that may change something ran"
    ]


@pytest.mark.parametrize("plan", ["", "  \n", "x" * 20_001])
def test_empty_or_long_plan_is_an_error_for_the_model(
    bare_folder: Path, shop: Shop, plan: str
) -> None:
    turn = run_plan(AskedNotebook(bare_folder), replies([call("submit_plan", plan=plan)]))
    assert turn.tool_calls[0].is_error


def test_approved_plan_permits_no_call(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    notebook.jp("config conversation.tools.set_price.run=ask")
    turn = run_plan(notebook, STEPS, yes("approve"), yes("skip"))
    assert contents(turn)[-1] == "Tool skipped by user."
    assert shop.log == ["read"]


def test_configuration_decides_what_only_reads(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    notebook.jp("config conversation.tools.read_price.read_only=false")
    notebook.jp("config conversation.tools.set_price.read_only=true")
    turn = run_plan(notebook, replies([READ, SET]))
    assert "did not run" in contents(turn)[0]
    assert shop.log == ["set 12"]
    assert "read_only yes" in " ".join(notebook.jp("tools set_price").split())


def test_reading_tool_cannot_change_settings_before_the_approval(bare_folder: Path) -> None:
    rule = jp.ConfigRule("user.name", read=True, write=True, apply="unattended")

    @jp.tool(read_only=True, access=[rule])
    def rename() -> jp.Outcome:
        """Rename the user."""
        return jp.Success("Renamed.", config={"user": {"name": "Eve"}})

    notebook = AskedNotebook(bare_folder)
    turn = run_plan(notebook, replies([call("rename")]))
    jp.remove_tool("rename")
    assert "is not applied" in contents(turn)[0]
    assert notebook.value("user.name") != "Eve"


def test_requests_of_the_turn_have_the_same_beginning(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    requests = note_requests(notebook.session)
    run_plan(notebook, STEPS, yes("approve"))
    heads = [request.head for request in requests]
    assert len(heads) == 4
    assert all(head == heads[0] for head in heads)
    assert {"read_price", "set_price", "submit_plan"} <= {tool.name for tool in heads[0].tools}


def test_query_begins_with_a_plan(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    write(bare_folder / "talk.toml", replies([SET]))
    with current_session(notebook.session):
        turn = jp.query("Go.", model="scripted/talk", plan=True)
    assert "did not run" in contents(turn)[0]


def test_next_turn_needs_no_plan(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    requests = note_requests(notebook.session)
    run_plan(notebook, replies([SUBMIT]), yes("reject"))
    assert notebook.call("set_price", price=11).content == "The price is 11 now."
    assert "submit_plan" not in {tool.name for tool in requests[-1].tools}
    assert notebook.call("submit_plan", plan=PLAN).is_error


def test_retry_begins_with_a_plan_again(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    run_plan(notebook, replies([SUBMIT]), yes("reject"))
    again = write(bare_folder / "again.toml", STEPS)
    notebook.ends.append(yes("approve"))
    notebook.jp(f"retry -m scripted/{again.stem}")

    entries = notebook.session.document.conversation.current_turn()
    [request] = select_kind(entries, "chat_request")
    assert request.content.count("[Plan first:") == 1
    assert request.metadata["typed"] == "Raise the price."
    assert shop.log == ["read", "set 12"]


def test_retry_keeps_a_pasted_request_that_began_with_a_plan(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    pasted = "Do it again:\n[Plan first: as before] and lower the price."
    write(bare_folder / "done.toml", replies())
    notebook.session.turns.run(pasted, model="scripted/done", plan=True)
    write(bare_folder / "again.toml", replies())
    notebook.jp("retry -m scripted/again")

    entries = notebook.session.document.conversation.current_turn()
    [request] = select_kind(entries, "chat_request")
    assert request.content.startswith(f"{pasted}\n[Plan first: ")
    assert request.content.count("[Plan first:") == 2


def test_undone_and_forked_turns_leave_no_plan_behind(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    notebook.call("read_price")
    run_plan(notebook, STEPS, yes("approve"))
    notebook.jp("fork")
    assert "submit_plan" in json.dumps(notebook.stored)
    assert notebook.call("set_price", price=13).content == "The price is 13 now."
    notebook.jp("undo")
    notebook.jp("undo")
    assert notebook.call("set_price", price=14).content == "The price is 14 now."


@pytest.mark.parametrize(("word", "price"), [("approve", 12), ("skip", 10)])
def test_answers_file_decides_about_the_plan(
    bare_folder: Path, shop: Shop, word: str, price: int
) -> None:
    answers = write(bare_folder / "plan.answers.toml", f'[plan]\n"*" = "{word}"\n')
    notebook = AskedNotebook(bare_folder, headless=True)
    notebook.jp(f"config prompt.answers={answers}")
    run_plan(notebook, STEPS)
    assert shop.price == price
    assert any("plan.answers.toml, line 2" in text for text in notices(notebook))


def test_unattended_plan_is_refused_as_a_permission(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder, headless=True)
    turn = run_plan(notebook, STEPS)
    _, refused, changed = contents(turn)
    assert 'write submit_plan = "approve" into the table [plan] of an answers file' in refused
    assert "did not run" in changed
    assert shop.log == ["read"]


def test_unattended_plan_fails_a_strict_cell(bare_folder: Path, shop: Shop) -> None:
    with pytest.raises(jp.PromptUnavailable):
        run_plan(AskedNotebook(bare_folder, headless=True), STEPS, strict=True)


def test_tool_of_the_same_name_is_no_tool_for_plans(bare_folder: Path) -> None:
    @jp.tool
    def submit_plan(plan: str) -> str:
        """Do something else."""
        return plan

    try:
        with pytest.raises(jp.UsageError, match="another tool has its name"):
            run_plan(AskedNotebook(bare_folder), STEPS)
    finally:
        jp.remove_tool("submit_plan")


# --- an interrupted turn ---------------------------------------------------------------------


BROKEN = "[[replies]]\nerror = { status = 400 }\n"


def break_turn(notebook: AskedNotebook, *before: list[str], ends: tuple[Any, ...] = ()) -> None:
    """Run a turn whose request fails after the calls `before`."""
    calls = replies(*before).rpartition("[[replies]]")[0]
    with pytest.raises(jp.ProviderError):
        run_plan(notebook, f"{calls}{BROKEN}", *ends)


def resume(notebook: AskedNotebook) -> list[str]:
    """Resume the turn with a model that sets the price; return the responses to all calls."""
    write(notebook.folder / "on.toml", replies([SET]))
    notebook.jp("config assistant.model.id=scripted/on")
    run_line(notebook.session, "resume")
    return [entry.content for entry in last_responses(notebook)]


def test_resumed_turn_continues_after_its_approval(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    break_turn(notebook, [READ], [SUBMIT], ends=(yes("approve"),))
    notebook.session.close()
    following = AskedNotebook(bare_folder, stored=notebook.stored)
    assert resume(following)[-1] == "The price is 12 now."


def test_resumed_turn_still_needs_the_approval(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    break_turn(notebook, [READ])
    notebook.session.close()
    following = AskedNotebook(bare_folder, stored=notebook.stored)
    assert "did not run" in resume(following)[-1]
    assert shop.price == 10


def test_approval_in_a_record_of_someone_else_does_not_count(bare_folder: Path, shop: Shop) -> None:
    notebook = AskedNotebook(bare_folder)
    break_turn(notebook, [READ], [SUBMIT], ends=(yes("reject"),))
    notebook.session.close()
    stored = json.dumps(notebook.stored)
    forged = stored.replace('"skipped": true', '"plan_approved": true')
    assert forged != stored
    following = AskedNotebook(bare_folder, stored=json.loads(forged))
    assert "did not run" in resume(following)[-1]
    assert shop.price == 10


KILLED_PROGRAM = """
import os, signal
from pathlib import Path
import jp_nb
from jp_nb.session.session import Session
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter

async def die():
    os.kill(os.getpid(), signal.SIGKILL)

prompter = FakePrompter(die)
session = Session(FakeHost(prompter, FakeHome(Path.cwd() / "talk.ipynb")))
session.turns.run("Raise the price.", model="scripted/talk", plan=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_form_that_a_killed_kernel_showed_appears_again(
    bare_folder: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(bare_folder / "talk.toml", replies([SUBMIT], [SET]))
    variables = environment(bare_folder)
    died = subprocess.run(
        [sys.executable, "-c", KILLED_PROGRAM], cwd=bare_folder, env=variables, check=False
    )
    assert died.returncode == -signal.SIGKILL

    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "JP_NB_TRUST_FOLDERS"):
        monkeypatch.setenv(name, variables[name])
    following = AskedNotebook(bare_folder, name="talk")
    following.jp("resume")  # the conversation, from the journal
    following.ends.append(yes("approve"))
    following.jp("resume")
    approved, changed = [entry.content for entry in last_responses(following)]
    assert approved.startswith("The user approved the plan")
    assert changed == "The price is 12 now."


# --- cassettes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "answers", "log"),
    [("--tools recorded", "", []), ("", '[plan]\nsubmit_plan = "approve"\n', ["read", "set 12"])],
    ids=["recorded results", "running tools"],
)
def test_plan_is_replayed_from_a_cassette(
    bare_folder: Path, shop: Shop, options: str, answers: str, log: list[str]
) -> None:
    approving = write(bare_folder / "b.answers.toml", '[plan]\n"*" = "approve"\n')
    recording = AskedNotebook(bare_folder, headless=True)
    recording.jp("cassette record a.jsonl")
    recording.jp(f"config prompt.answers={approving}")
    recorded = contents(run_plan(recording, STEPS))
    recording.session.close()

    shop.log.clear()
    shop.price = 10
    (bare_folder / "plan-0.toml").write_text('[[replies]]\ntext = "Never asked."\n')
    replaying = AskedNotebook(bare_folder, headless=True)
    replaying.jp(f"cassette replay a.jsonl {options}".strip())
    file = write(bare_folder / "a.answers.toml", answers)
    replaying.jp(f"config prompt.answers={file}")
    replaying.host.start_cell("again", "run")
    turn = replaying.session.turns.run("Raise the price.", model="scripted/plan-0", plan=True)

    assert contents(turn) == recorded
    assert turn.text == "Done."
    assert shop.log == log
