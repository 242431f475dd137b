"""A notebook that is opened again: with a new kernel, with changes or text by someone else."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from tests.support.browser import Lab, OpenNotebook
from tests.support.page_actions import LOAD, answer, assert_harmless, click, load, question

pytestmark = pytest.mark.browser


ONE = (
    question(question="Ship it?", answer_type="boolean")
    + '[[replies]]\nwhen = \'"answer":true\'\ntext = "Shipped."\n'
    + '[[replies]]\nwhen = \'"answer":false\'\ntext = "Not shipped."\n'
    + '[[replies]]\nwhen = "cancelled by user"\ntext = "Not shipped."\n'
    + '[[replies]]\nwhen = "an interrupt closed it"\ntext = "Not shipped."\n'
) * 2
TEXT = 2 * '[[replies]]\ntext = "An answer."\n'


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in {"text": TEXT, "one": ONE, "hostile": hostile_script()}.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def test_new_kernel_continues_the_conversation_and_no_form_of_the_old_one_is_live(
    open_notebook: OpenNotebook,
) -> None:
    cells = ["%%jp -m scripted/text\nGo.", "%%jp -m scripted/one\nAnd again.", "%jp log"]
    page = open_notebook(LOAD, *cells)
    page.command("notebook:run-all-cells", wait=False)
    page.output_text(0, contains="new conversation")
    page.output_text(1, contains="An answer.")
    page.form()
    page.wait_for_record("record.events.filter(e => e.type === 'turn_start').length === 2")
    page.save()
    page.restart_kernel()
    dead = page.page.locator(".jp-nb-form")
    assert dead.locator("button:visible, input:visible").count() == 0
    words = "element => getComputedStyle(element, '::before').content"
    assert dead.evaluate(words) == '"This prompt is no longer open."'
    assert not page.page.title().startswith("● ")
    page.reopen()
    assert page.cell(2).get_by_role("button", disabled=False).count() == 0
    plain = page.saved().cells[2].outputs[-1]["data"]["text/plain"]
    assert plain.endswith(
        "[You can answer only while the form is shown. Without a form, you are asked as text.]"
    )

    load(page, contains="model scripted/one · conversation restored (2 turns)")
    page.run_cell(2)
    click(page, "Replace: continue from before this turn, in a branch")
    answer(page, "No")
    page.output_text(2, contains="Not shipped.")
    page.wait_for_record("record.events.at(-1).message === 'Not shipped.'")
    page.save()
    page.run_cell(3)
    log = page.output_text(3, contains="And again.")
    assert "Go." in log

    # Run All in one more kernel: the record is restored before the next cell runs.
    page.restart_kernel()
    page.command("notebook:run-all-cells", wait=False)
    page.output_text(0, contains="conversation restored (2 turns)")
    page.output_text(1, contains="new conversation started")
    answer(page, "Yes")
    page.output_text(2, contains="Shipped.")
    page.wait_for_kernel_status("idle")
    page.wait_for_record("record.others?.length === 2")  # with the turn that was replaced
    page.save()
    assert len(page.saved().metadata["jp"]["others"]) == 2


# --- hostile text ----------------------------------------------------------------------------

ATTACKS = (
    "<img src=x onerror='window.pwned=1'>",
    "<script>window.pwned=1</script>",
    "<style>body{display:none}</style>",
    "[a](javascript:window.pwned=1)",
    "![a](x:y)",
    "$\\href{javascript:window.pwned=1}{a}$",
    "</div></div><h1>big</h1>",
    "\x1b[31mred\x1b[0m \u202egnihsif",
    "W" * 5000,
)
ATTACK = " ".join(ATTACKS)


def test_settings_by_someone_else_take_effect_once_the_user_trusts_them(
    open_notebook: OpenNotebook,
) -> None:
    show = "%jp config providers.llm.openai.base_url"
    page = open_notebook(LOAD, "%jp config user.name=me", "%jp trust", show)
    load(page)
    page.run_cell(1)
    page.cell(1).get_by_text("[2]:").wait_for()
    page.wait_for_record("record.events.length && record.signature")
    page.save()
    notebook = page.saved()
    assert notebook.metadata["jp"]["signature"].startswith("2:")
    evil = {"providers": {"llm": {"openai": {"base_url": "http://evil.example"}}}}
    notebook.metadata["jp"]["events"][-1]["delta"] = evil
    nbformat.write(notebook, page.path)

    page.restart_kernel()
    page.reopen()
    text = load(page, contains="ignored until")
    assert "providers.llm.openai.base_url" in text
    page.run_cell(3)
    assert "evil" not in page.output_text(3, contains="api.openai.com")
    page.run_cell(2)
    form = page.form()
    assert "http://evil.example" in page.output_text(2)
    form.get_by_role("button", name="No", exact=True).click()
    page.output_text(2, contains="remains untrusted")
    page.run_cell(2)
    answer(page, "Yes")
    page.output_text(2, contains="signed with your key")
    page.run_cell(3)
    page.output_text(3, contains="http://evil.example")
    page.wait_for_record("record.signature")
    page.save()

    page.restart_kernel()
    assert "ignored" not in load(page)
    page.run_cell(3)
    page.output_text(3, contains="http://evil.example")


def hostile_script() -> str:
    text = ATTACK.replace("\x1b", "\\u001B").replace("\\href", "\\\\href")
    options = [attack.replace("\x1b", "") for attack in ATTACKS[:6]]
    return (
        f'[[replies]]\ntext = """\n- ```\n  x\n  ```\n{text}\n\n| ` | {text} ` |\n|---|---|\n"""\n'
        f"reasoning = {json.dumps(ATTACK)}\n"
        'tool_calls = [{ name = "echo", arguments = { text = "x" } }, '
        f"{{ name = {json.dumps(ATTACKS[0])}, arguments = {{ a = {json.dumps(ATTACK)} }} }}]\n"
        + question(
            question=ATTACK,
            context=ATTACK + "\n" + ATTACK,
            answer_type="select",
            options=options,
            default=options[0],
        )
        + f"[[replies]]\ntext = {json.dumps(ATTACK + ' The end.')}\n"
    )


TOOL = f"""
import jp_nb as jp

@jp.tool
def echo(text: str) -> str:
    raise ValueError({ATTACK!r})
"""


def test_hostile_text_of_a_turn_runs_nothing(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    page = open_notebook(LOAD, TOOL, "%%jp -m scripted/hostile\nGo.", "%jp log", "%jp tools")
    load(page)
    page.run_cell(1)
    page.run_cell(2)
    form = page.form()
    assert_harmless(page)
    assert form.bounding_box()["width"] <= page.cell(2).bounding_box()["width"]  # type: ignore[index]
    form.get_by_role("button", name="Submit").click()
    page.output_text(2, contains="The end.")
    for cell in (3, 4):
        page.run_cell(cell)
    page.output_text(4, contains="ask_user")
    page.save()
    page.reopen()
    page.output_text(2, contains="The end.")
    assert_harmless(page)
