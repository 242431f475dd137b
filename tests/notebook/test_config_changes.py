"""Tools that change the configuration, in a real kernel: forms, decisions, and the record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cells import (
    asked,
    calls,
    error,
    events,
    interrupted,
    kernel_with,
    run,
    run_command,
    start,
    value,
    well_formed,
)
from tests.support.kernel_client import FrontEnd, Message

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

TOOLS = """
import os
import jp_nb as jp

os.environ.pop("OPENAI_API_KEY", None)
os.environ.pop("OPENAI_BASE_URL", None)
told = []

@jp.tool(access=[jp.ConfigRule("assistant.model", read=True, write=True)])
def change_model(ctx: jp.ToolContext, target: str) -> jp.Outcome:
    if ctx.delta_rejection is not None:
        told.append(ctx.delta_rejection.reason)
        return jp.Success(f"It stays: {ctx.delta_rejection.reason}.")
    was = ctx.config["assistant"]["model"]["id"]["name"]
    change = {"assistant": {"model": {"id": target}}}
    return jp.Success(f"It was {was} and is {target}.", config=change)
"""
CHANGED = "It was first and is scripted/second."
SCRIPTS = {
    "first": calls(("change_model", {"target": "scripted/second"}))
    + '[[replies]]\nwhen = "It stays: "\ntext = "The first continues."\n',
    "second": f'[[replies]]\nexpect = "{CHANGED}"\ntext = "The second continues."\n'
    + '[[replies]]\ntext = "Still the second."\n' * 3,
    "other": '[[replies]]\ntext = "Another answers."\n',
    "test": calls(("change_model", {"target": "test/model-x"})),
}
PROPOSED = "Configuration delta proposed by tool 'change_model'"
CHANGE = 'assistant.model.id: "scripted/first" → "scripted/second"'
PATHS = ["assistant.model.id.provider", "assistant.model.id.name"]
CALL = 'change_model(target="scripted/second")'
STDIN = "-c prompt.channel=stdin"
SECTION_8_5 = f"""\
⟳ {PROPOSED}:

  {CHANGE}

"""
EXPLAINED = """\
  y  Apply changes
  n  Reject changes
  Either all of the changes are applied or none. The tool gets your decision.
"""
APPLIED = """[
    [c.delta, [[p.tool, p.paths, p.applied_by, p.channel] for p in c.proposed_by]]
    for c in jp.last.config_changes if c.proposed_by
]"""
BY_TOOL = "conversation, in turn 1, by tool change_model, applied by you (form)"
ASKED_AGAIN = "Please type one of y, n, or ? for help.\n"
APPLY_DELTA = "Apply delta? [y/n/?] "


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("changes")
    with kernel_with(folder, SCRIPTS, TOOLS) as user:
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    kernel.forget()
    kernel.run("told.clear()")
    return kernel


def decided(user: FrontEnd, label: str, script: str = "first") -> str:
    """Run the turn in which a change is proposed, and click `label`."""
    user.forget(widgets=False)
    request = start(user, script)
    user.form(PROPOSED)
    user.click(label)
    user.finish(request)
    return request


def static(user: FrontEnd, request: str) -> Message:
    """The output that the turn leaves: one, and another behind what was asked on stdin."""
    parts = user.displays(request)
    assert all(set(part) == {"text/plain", "text/markdown"} for part in parts)
    return {kind: "\n".join(part[kind] for part in parts) for kind in parts[0]}


def answer_of_next_turn(user: FrontEnd, cell: str = "another cell") -> str:
    """Return the answer of the next turn."""
    request = user.start("%%jp\nContinue.", cell_id=cell)
    user.finish(request)
    assert error(user, request) is None, error(user, request)
    return str(static(user, request)["text/plain"])


def told(user: FrontEnd) -> Any:
    return value(user, "told")


def deltas(user: FrontEnd) -> list[dict[str, Any]]:
    """Return the changes of tools in the record."""
    return [e for e in events(user) if "proposed_by" in e.get("metadata", {})]


def contents(user: FrontEnd) -> list[str]:
    entries = events(user)
    assert well_formed(entries)
    return [e["content"] for e in entries if e["type"] == "tool_call_response"]


def columns(row: str) -> list[str]:
    return re.split(" {2,}", row.strip())


def model(user: FrontEnd) -> tuple[str, str]:
    """Return the current model, and its source."""
    row = run_command(user, "%jp config assistant.model.id").splitlines()[-1]
    _, in_force, set_by = columns(row)
    return "/".join(json.loads(in_force).values()), set_by


def without_results(markdown: str) -> str:
    """Return the Markdown of a turn without the folded results of its calls."""
    return re.sub(r"<details>.*?</details>\n\n", "", markdown, flags=re.DOTALL)


# --- applied -----------------------------------------------------------------------------------


@pytest.mark.req("R078-128", "R078-129")
def test_tool_changes_the_model_within_a_turn(user: FrontEnd) -> None:
    request = decided(user, "Apply changes")
    assert error(user, request) is None
    shown = static(user, request)
    assert shown["text/plain"].splitlines() == [
        f"✓ {CALL}",
        f"⟳ change_model: {CHANGE} — applied by you (form)",
        "The second continues.",  # its script expects the tool's result in the request
    ]
    assert without_results(shown["text/markdown"]).split("\n\n") == [
        f"✓ `{CALL}`",
        f"⟳ `change_model: {CHANGE}` — applied by you (form)",
        "The second continues.",
    ]
    assert contents(user) == [CHANGED]
    assert sum(entry["type"] == "turn_start" for entry in events(user)) == 1


def test_turn_and_commands_name_the_tool_that_changed_a_setting(user: FrontEnd) -> None:
    decided(user, "Apply changes")
    [(delta, proposed_by)] = value(user, APPLIED)
    assert delta == {"assistant": {"model": {"id": {"provider": "scripted", "name": "second"}}}}
    assert proposed_by == [["change_model", PATHS, "person", "form"]]
    assert (
        "⟳ model scripted/second (proposed by change_model, applied by you (form))"
    ) in run_command(user, "%jp log")
    *_, by_tool, in_force = run_command(
        user, "%jp config --explain assistant.model.id"
    ).splitlines()
    name = json.dumps({"provider": "scripted", "name": "second"})
    assert columns(by_tool) == ["assistant.model.id", BY_TOOL, name]
    assert columns(in_force) == ["assistant.model.id", "effective", name]
    assert model(user) == ("scripted/second", BY_TOOL)


# --- not applied -------------------------------------------------------------------------------


def test_rejected_change_is_shown_in_the_cell_and_not_recorded(user: FrontEnd) -> None:
    request = decided(user, "Reject changes")
    assert error(user, request) is None
    shown = static(user, request)
    assert shown["text/plain"].splitlines() == [
        f"✓ {CALL}",
        f"⟳ change_model: {CHANGE} — rejected by you (form)",
        "Config delta rejected. Tool re-invoked.",
        "The first continues.",
    ]
    assert without_results(shown["text/markdown"]).split("\n\n") == [
        f"✓ `{CALL}`",
        f"⟳ `change_model: {CHANGE}` — rejected by you (form)",
        "*Config delta rejected. Tool re-invoked.*",
        "The first continues.",
    ]
    assert told(user) == ["user_rejected"]
    assert contents(user) == ["It stays: user_rejected."]
    assert deltas(user) == []
    assert model(user) == ("scripted/first", "conversation, for turn 1")


@pytest.mark.req("R078-78", "R078-80")
def test_unattended_change_is_not_applied_and_the_turn_continues(user: FrontEnd) -> None:
    request = run(user, "first", allow_stdin=False)
    assert error(user, request) is None
    call, change, notice, answer = static(user, request)["text/plain"].splitlines()
    assert call == f"✓ {CALL}"
    assert change.startswith(f"⟳ change_model: {CHANGE} — not applied: the front end ")
    assert (notice, answer) == ("Change not applied, tool re-invoked.", "The first continues.")
    assert told(user) == ["confirmation_unavailable"]
    assert deltas(user) == []
    assert not user.models
    assert model(user) == ("scripted/first", "conversation, for turn 1")


# --- over stdin --------------------------------------------------------------------------------


@pytest.mark.req("R078-76")
@pytest.mark.parametrize("keys", [["", "?", "y"], ["N"]], ids=repr)
def test_question_about_a_change_on_stdin(user: FrontEnd, keys: list[str]) -> None:
    request = start(user, "first", STDIN)
    for key in keys:
        asked(user, APPLY_DELTA)
        user.type(key)
    user.finish(request)
    assert error(user, request) is None
    printed = SECTION_8_5 + ASKED_AGAIN * keys.count("") + EXPLAINED * keys.count("?")
    assert user.printed(request) == printed
    applied = keys[-1] in ("y", "Y")
    verdict = f"{'applied' if applied else 'rejected'} by you (stdin)"
    shown = static(user, request)["text/plain"].splitlines()
    assert shown[1] == f"⟳ change_model: {CHANGE} — {verdict}"
    assert shown[-1] == f"The {'second' if applied else 'first'} continues."
    assert told(user) == ([] if applied else ["user_rejected"])
    assert len(deltas(user)) == applied


# --- interrupted -------------------------------------------------------------------------------


def test_change_is_asked_again_after_an_interrupt_of_the_form(user: FrontEnd) -> None:
    request = start(user, "first")
    user.form(PROPOSED)
    interrupted(user)
    user.forget(widgets=False)
    user.click("Continue")
    user.form(PROPOSED)
    user.click("Apply changes")
    user.finish(request)
    assert error(user, request) is None
    assert told(user) == []
    shown = static(user, request)["text/plain"].splitlines()
    assert shown[1:] == [
        f"⟳ change_model: {CHANGE} — applied by you (form)",
        "The second continues.",
    ]
    assert len(deltas(user)) == 1


def test_turn_stopped_at_the_form_changes_nothing(user: FrontEnd) -> None:
    request = start(user, "first")
    user.form(PROPOSED)
    interrupted(user)
    user.click("End the turn")
    user.finish(request)
    failure = error(user, request)
    assert failure is not None
    assert failure["ename"] == "KeyboardInterrupt"
    assert deltas(user) == []
    assert well_formed(events(user))
    assert model(user) == ("scripted/first", "conversation, for turn 1")


# --- what it comes to --------------------------------------------------------------------------


@pytest.mark.req("R078-130", "R078-131", "R078-132")
def test_unavailable_model_ends_the_turn_and_another_setting_fixes_it(
    user: FrontEnd,
) -> None:
    request = decided(user, "Apply changes", "test")
    failure = error(user, request)
    assert failure is not None
    assert failure["ename"] == "ConfigError"
    assert failure["evalue"].startswith("assistant.model.id.provider: ")
    assert "'test' is not available yet" in failure["evalue"]
    assert "%jp config --explain" in failure["evalue"]
    assert contents(user) == ["It was test and is test/model-x."]
    assert events(user)[-1]["delta"]["assistant"]["model"]["id"]["provider"] == "test"
    assert model(user) == ("test/model-x", BY_TOOL)
    user.run("%jp config assistant.model.id=scripted/other", cell_id=None)
    assert answer_of_next_turn(user) == "Another answers."
    assert len(deltas(user)) == 1


@pytest.mark.req("R078-138")
def test_change_is_kept_when_a_later_turn_is_undone(user: FrontEnd) -> None:
    decided(user, "Apply changes")
    assert answer_of_next_turn(user) == "Still the second."
    user.run("%jp undo", cell_id=None)
    assert value(user, "len(jp.conversation().turns)") == 1
    assert len(deltas(user)) == 1
    assert model(user) == ("scripted/second", BY_TOOL)
    assert answer_of_next_turn(user, "a third cell") == "Still the second."


@pytest.mark.req("R078-138")
def test_change_is_undone_with_its_turn(user: FrontEnd) -> None:
    decided(user, "Apply changes")
    user.run("%jp undo", cell_id=None)
    assert deltas(user) == []
    assert model(user)[0] == "scripted/first"  # as -m says, which was not the tool
