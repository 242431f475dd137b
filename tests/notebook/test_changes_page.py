"""A configuration change that a tool proposes, in a page of JupyterLab."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jp_nb.record.proposals import PROPOSED_BY
from tests.support.browser import Lab, NotebookPage
from tests.support.page_actions import (
    IN_SIGHT,
    MODEL,
    assert_harmless,
    click,
    in_page,
    keys,
    outputs,
    picture,
    stop,
)
from tests.support.prompt_pages import Opened

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser


def calling(*calls: str) -> str:
    named = ", ".join(f'{{ name = "{name}" }}' for name in calls)
    return f"[[replies]]\ntool_calls = [{named}]\n"


SCRIPTS = {
    "weak": calling("change_model")
    + '[[replies]]\nwhen = "user_rejected"\ntext = "I go on myself."\n'
    + '[[replies]]\ntext = "Still the weak one."\n',
    "strong": '[[replies]]\nexpect = "The model was changed."\ntext = "The strong one here."\n'
    + '[[replies]]\ntext = "Still the strong one."\n',
    "batch": calling("be_sure", "change_model"),
    "evil": calling("rename") + '[[replies]]\ntext = "The end."\n',
}
NAME = "<img src=x onerror='window.pwned=1'> \x1b[31mred\x1b[0m \u202egnihsif `$\\href{x:y}{a}$`"
KEY = "<script>window.pwned=1</script><h1>k</h1>"
PROMPT = " ".join(f"rule{n:05}" for n in range(500)) + " THE END"
FIRST_CELL = f"""
%load_ext jp_nb
import jp_nb as jp

@jp.tool(access=[jp.ConfigRule("assistant.model", read=True, write=True, delete=True)])
def change_model(ctx: jp.ToolContext) -> jp.Success:
    if ctx.delta_rejection:
        return jp.Success(f"The model was kept: {{ctx.delta_rejection.reason}}.")
    model = {{"id": "scripted/strong"}}
    return jp.Success("The model was changed.", config={{"assistant": {{"model": model}}}})

@jp.tool
def be_sure(ctx: jp.ToolContext) -> jp.Outcome:
    if "sure" not in ctx.answers:
        return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"))
    return jp.Success(f"Sure: {{ctx.answers['sure']}}")

@jp.tool(access=[
    jp.ConfigRule("assistant", write=True), jp.ConfigRule("template.values", write=True),
])
def rename() -> jp.Success:
    assistant = {{"name": {NAME!r}, "system_prompt": {PROMPT!r}}}
    values = {{{KEY!r}: {NAME!r}}}
    config = {{"assistant": assistant, "template": {{"values": values}}}}
    return jp.Success("Renamed.", config=config)
"""
PROPOSED = "Configuration delta proposed by tool"
CHANGE = 'change_model: assistant.model.id: "scripted/weak" → "scripted/strong"'
ASKED = ["turn_start", "chat_request", "tool_call_request"]
APPLIED = [*ASKED, "tool_call_response", "config_delta", "chat_response"]
REJECTED = [*ASKED, "tool_call_response", "chat_response"]


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in SCRIPTS.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def ask(script: str) -> str:
    """A turn in a conversation of its own whose `script` calls tools."""
    return f"%%jp -n -m scripted/{script}\nGo."


def change_form(page: NotebookPage) -> Locator:
    """The form with a proposed change, once it is the one on the page."""
    page.form().get_by_text(PROPOSED).wait_for()
    assert page.page.locator(".jp-nb-form:visible").count() == 1
    return page.form()


def rows(form: Locator) -> list[list[str]]:
    """The table of a form, its head included; a long value is a row of one cell."""
    found: list[list[str]] = form.locator("tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    return found


def last_turn(page: NotebookPage, *kinds: str) -> list[dict[str, Any]]:
    """The entries of the last turn in the page's notebook, once they are of those kinds."""
    page.page.wait_for_function(
        f"""kinds => {{
            const found = {MODEL}.getMetadata("jp")?.events.map(event => event.type) ?? [];
            return found.slice(found.lastIndexOf("turn_start")).join() === kinds.join();
        }}""",
        arg=kinds,
    )
    events: list[dict[str, Any]] = in_page(page)["events"]
    return events[-len(kinds) :]


def proposed_entries(document: Any) -> list[Any]:
    """The entries that tools led to."""
    return [event for event in document["events"] if PROPOSED_BY in event.get("metadata", {})]


def assert_nothing_is_kept(page: NotebookPage) -> None:
    """Neither the page's notebook nor the file has the proposed model."""
    page.save()
    for document in (in_page(page), page.saved().metadata["jp"]):
        assert document["events"][-1]["type"] in ("tool_call_request", "chat_response")
        assert not proposed_entries(document)
        conversation = {key: value for key, value in document.items() if key != "others"}
        assert "strong" not in json.dumps(conversation)


def assert_applied(page: NotebookPage) -> None:
    """The change counts, is told of in the output and is one entry after the call's response."""
    text = page.output_text(1, contains="The strong one here.")
    assert f"⟳ {CHANGE} — applied by you (form)" in text
    assert page.page.locator(".jp-nb-form:visible").count() == 0
    *_, response, entry, _ = last_turn(page, *APPLIED)
    assert response["content"] == "The model was changed."
    model = {"provider": "scripted", "name": "strong"}
    paths = [f"assistant.model.id.{part}" for part in model]
    assert entry["delta"] == {"assistant": {"model": {"id": model}}}
    assert entry["claims"] == dict.fromkeys(paths)
    assert entry["metadata"][PROPOSED_BY] == [
        {
            "tool": "change_model",
            "call_id": response["id"],
            "paths": paths,
            "applied_by": "person",
            "channel": "form",
        }
    ]
    assert proposed_entries(in_page(page)) == [entry]


# --- decided ---------------------------------------------------------------------------------


@pytest.mark.req("R078-75", "R078-77", "R078-128", "R078-129")
def test_change_is_applied_by_a_click_and_the_turn_continues_with_the_other_model(
    opened: Opened,
) -> None:
    page = opened(ask("weak"), "%%jp\nAgain.")
    page.run_cell(1)
    form = change_form(page)
    assert rows(form) == [
        ["path", "now", "proposed"],
        ["assistant.model.id", '"scripted/weak"', '"scripted/strong"'],
    ]
    last_turn(page, *ASKED)
    assert_nothing_is_kept(page)
    picture(page, "changes-form")
    click(page, "Apply")
    assert_applied(page)
    picture(page, "changes-applied")
    page.run_cell(2)
    page.output_text(2, contains="Still the strong one.")
    page.save()
    (output,) = outputs(page, 1)
    assert set(output["data"]) == {"text/markdown", "text/plain"}
    assert output["data"]["text/plain"].splitlines() == [
        "✓ change_model()",
        f"⟳ {CHANGE} — applied by you (form)",
        "The strong one here.",
    ]


@pytest.mark.req("R078-77")
def test_change_is_rejected_by_a_click_and_applied_by_a_chosen_button(opened: Opened) -> None:
    page = opened(ask("weak"))
    page.run_cell(1)
    change_form(page)
    click(page, "Reject")
    text = page.output_text(1, contains="I go on myself.")
    assert f"⟳ {CHANGE} — rejected by you (form)" in text
    assert "Config delta rejected. Tool re-invoked." in text
    *_, response, _ = last_turn(page, *REJECTED)
    assert response["content"] == "The model was kept: user_rejected."
    assert_nothing_is_kept(page)
    page.run_cell(1)
    form = change_form(page)
    keys(page, "Escape")  # leaves the form and decides nothing
    form.locator(".jp-nb-question").click()
    keys(page, "Enter", "Space", "Control+Enter")
    form.get_by_text("Nothing is chosen yet").wait_for()
    assert_nothing_is_kept(page)
    keys(page, "ArrowRight", "Enter")
    assert_applied(page)


def test_question_and_a_change_of_one_batch_come_one_after_the_other(opened: Opened) -> None:
    page = opened(ask("batch"))
    page.run_cell(1)
    form = page.form()
    form.get_by_text("Sure?").wait_for()
    assert page.page.locator(".jp-nb-form:visible").count() == 1
    form.get_by_role("button", name="Yes", exact=True).click()
    change_form(page)
    click(page, "Apply")
    page.output_text(1, contains="The strong one here.")
    entries = last_turn(
        page,
        *("turn_start", "chat_request", "tool_call_request", "tool_call_request"),
        *("inquiry_request", "inquiry_response", "tool_call_response", "tool_call_response"),
        *("config_delta", "chat_response"),
    )
    responses = [event for event in entries if event["type"] == "tool_call_response"]
    assert [event["content"] for event in responses] == ["Sure: True", "The model was changed."]
    assert len(proposed_entries(in_page(page))) == 1


# --- interrupted, reloaded -------------------------------------------------------------------


def test_interrupt_decides_nothing(opened: Opened) -> None:
    page = opened(ask("weak"), "print(6 * 7)", "%%jp\nWho is it?")
    page.run_cell(1)
    change_form(page)
    stop(page)
    assert page.page.get_by_text(PROPOSED).locator("visible=true").count() == 0
    click(page, "Continue")
    change_form(page)
    last_turn(page, *ASKED)
    assert_nothing_is_kept(page)
    click(page, "Apply")
    assert_applied(page)

    page.run_cell(1)
    change_form(page)
    keys(page)
    page.cell(2).locator(".jp-InputPrompt").click()  # the form's own cell would leave it the focus
    page.page.keyboard.press("i")
    page.page.keyboard.press("i")
    page.form().get_by_text("Interrupted: ").wait_for()
    click(page, "End the turn")
    text = page.output_text(1, contains="⊘ change_model() — The user cancelled")
    assert "applied" not in text
    assert "rejected" not in text
    last_turn(page, *ASKED, "tool_call_response")
    assert not proposed_entries(in_page(page))
    assert page.page.locator(".jp-nb-form:visible").count() == 0
    page.run_cell(2)
    page.output_text(2, contains="42")
    page.run_cell(3)
    page.output_text(3, contains="Still the weak one.")


def test_reloaded_page_shows_the_change_again(opened: Opened) -> None:
    page = opened(ask("weak"), "print(6 * 7)")
    page.run_cell(1)
    change_form(page)
    page.save()
    page.reload(status="")
    form = change_form(page)
    assert rows(form)[1:] == [["assistant.model.id", '"scripted/weak"', '"scripted/strong"']]
    last_turn(page, *ASKED)
    assert_nothing_is_kept(page)
    click(page, "Apply")
    assert_applied(page)
    page.run_cell(2)
    page.output_text(2, contains="42")
    page.save()
    (output,) = outputs(page, 1)
    assert f"⟳ {CHANGE} — applied by you (form)" in output["data"]["text/plain"]
    assert len(proposed_entries(page.saved().metadata["jp"])) == 1


# --- hostile text ----------------------------------------------------------------------------


@pytest.mark.req("R078-75")
def test_hostile_values_run_nothing_and_are_shown_exactly(opened: Opened) -> None:
    page = opened(ask("evil"))
    page.run_cell(1)
    form = change_form(page)
    name = json.dumps(NAME)  # which escapes what nobody would see
    shown = {path: proposed for path, _, proposed in (row for row in rows(form) if row[1:])}
    assert shown["assistant.name"] == name
    assert shown[f'template.values["{KEY}"]'] == name
    (long,) = (row for (row,) in (row for row in rows(form) if not row[1:]))
    assert long.split("\n")[0] == "assistant.system_prompt text, 1 line → text, 1 line"
    assert long.split("\n")[-1] == PROMPT
    assert form.locator("img, script, h1, a, mjx-container").count() == 0
    assert_harmless(page)
    picture(page, "changes-evil")
    prompt = form.locator("bdi", has_text="THE END").last
    assert prompt.evaluate(IN_SIGHT)
    click(page, "Apply")
    text = page.output_text(1, contains="The end.")
    assert "<img src=x onerror=" in text
    assert KEY in text
    assert_harmless(page)
    picture(page, "changes-evil-applied")
    entry = last_turn(page, *APPLIED)[-2]
    assert entry["delta"]["assistant"]["name"] == NAME
    assert entry["delta"]["template"] == {"values": {KEY: NAME}}
    page.save()
    assert "\x1b" not in json.dumps(outputs(page, 1), ensure_ascii=False)
    page.reload()
    page.output_text(1, contains="The end.")
    assert_harmless(page)
