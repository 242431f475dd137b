"""Several pages share one document, through jupyter-collaboration."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from tests.kit.notebook_record import NotebookRecord
from tests.labextension.shared_document import (
    ADA,
    BO,
    BO_SHOWN,
    FORMS,
    SharedPages,
    wait_for_one_form,
    wait_for_one_output,
)
from tests.support.browser import CLOSE, NotebookPage
from tests.support.page_actions import MODEL, busy_processor, click, keys, picture, question
from tests.support.scripted_page import SETUP

pytestmark = pytest.mark.browser

LONG = "for i in range(40): say(f'turn {i}', 'x' * 4000)\nflushed()"
SAVE = "print(in_cell.opened.store.save())"
ASKS = question(question="Which database?", answer_type="select", options=["Postgres", "SQLite"])
DECIDE = ["%load_ext jp_nb", "%%jp -n -m scripted/decides\nDecide."]


@pytest.fixture
def decides(shared_pages: SharedPages) -> SharedPages:
    """The pages, and a script that asks two questions."""
    script = 2 * ASKS + '[[replies]]\ntext = "Noted."\n'
    (shared_pages.lab.root / "decides.toml").write_text(script)
    return shared_pages


def metadata_in(page: NotebookPage) -> Any:
    """Return the metadata that the page has."""
    return page.page.evaluate(f"{MODEL}.metadata")


def contents(record: Any) -> list[str]:
    """Return the user's requests in `record`."""
    return [e["content"] for e in record["events"] if e["type"] == "chat_request"]


def run(page: NotebookPage, cell: int, *, until: str) -> str:
    """Run `cell` in the page and return its output, once it contains `until`."""
    page.run_cell(cell)
    text = page.output_text(cell, contains=until)
    assert f"not {until}" not in text
    return text


@pytest.mark.deep
def test_long_record_is_in_segments_in_both_pages_the_file_and_the_next_kernel(
    shared_pages: SharedPages,
) -> None:
    again = "in_cell.opened.store.close(); begin()"
    anew = "new()\nsay('anew')\nflushed()"
    first, second = shared_pages.open(SETUP, LONG, SAVE, "say('one more')\nflushed()", again, anew)
    assert run(first, 0, until="kept").startswith("kept in this notebook; new")
    run(first, 1, until="flushed")
    metadata = metadata_in(first)
    assert {"jp.1", "jp.2"} <= metadata.keys()
    record: Any = NotebookRecord.read_metadata(metadata)
    assert contents(record) == [f"turn {i}" for i in range(40)]
    second.page.wait_for_function(
        f"""length => {{
            const {{ jp }} = {MODEL}.metadata;
            return jp?.sealed?.reduce((n, seal) => n + seal.length, jp.events.length) === length;
        }}""",
        arg=len(record["events"]),
    )
    assert NotebookRecord.read_metadata(metadata_in(second)) == record
    run(first, 2, until="saved as")
    assert NotebookRecord.read_metadata(first.saved().metadata) == record
    first.restart_kernel()
    second.wait_for_kernel_status("idle")
    assert "restored, 40 turns" in run(second, 0, until="restored")
    run(second, 3, until="flushed")
    after = metadata_in(second)
    assert contents(NotebookRecord.read_metadata(after))[-2:] == ["turn 39", "one more"]
    assert after["jp.1"] == metadata["jp.1"]

    # A damaged segment is named, and kept with its conversation when a new one begins.
    second.page.evaluate(f"() => {{ const m = {MODEL}; m.setMetadata('jp.1', {{}}); }}")
    damaged = metadata_in(second)
    assert "jp.1: a segment is missing or was changed" in run(second, 4, until="kept")
    assert metadata_in(second) == damaged
    run(second, 5, until="flushed")
    record = NotebookRecord.read_metadata(metadata_in(second))
    assert contents(record) == ["anew"]
    assert record["others"][0]["broken"] == 1
    assert "jp.2" in record["others"][0]["segments"]
    assert not [key for key in metadata_in(second) if re.fullmatch("jp[.][1-9][0-9]*", key)]


def test_one_page_writes_each_batch_and_another_one_once_it_is_closed(
    shared_pages: SharedPages,
) -> None:
    cells = [SETUP, *(f"say('{i}')\nflushed(30)" for i in range(4))]
    first, second = shared_pages.open(*cells)
    for page in (first, second):
        page.page.evaluate(
            f"""() => {{
                window.writes = 0;
                const shared = {MODEL}.sharedModel;
                const set = shared.setMetadata.bind(shared);
                shared.setMetadata = (key, value) => {{
                    if (key === "jp") window.writes++;
                    return set(key, value);
                }};
            }}"""
        )
    run(first, 0, until="kept")
    for cell in (1, 2):
        run(first, cell, until="flushed")
    run(second, 3, until="flushed")
    writes = [page.page.evaluate("window.writes") for page in (first, second)]
    assert sorted(map(bool, writes)) == [False, True]
    writer, reader = (first, second) if writes[0] else (second, first)
    assert writer.page.evaluate(CLOSE)
    run(reader, 4, until="flushed")
    assert reader.page.evaluate("window.writes") > 0
    record = NotebookRecord.read_metadata(metadata_in(reader))
    assert contents(record) == ["0", "1", "2", "3"]


def test_two_users_share_questions_answers_queue_and_interrupt(decides: SharedPages) -> None:
    first, second = decides.open(*DECIDE, "print('the next')", "%jp log")
    run(first, 0, until="kept")
    first.run_cell(1)
    wait_for_one_form(first, second)
    second.run_cell(2)
    for page in (first, second):
        page.cell(2).get_by_text("[*]").wait_for()
        assert page.outputs(2).count() == 0
    second.form().get_by_role("radio").nth(1).click()
    click(second, "Submit")
    first.output_text(1, contains="(by")
    wait_for_one_form(first, second)
    keys(first, "Space", "Enter")
    for page in (first, second):
        shown = page.output_text(1, contains="Noted.")
        assert shown.count("Noted.") == shown.count("◉ SQLite") == 1
        assert f"→ SQLite (by {BO_SHOWN})" in shown
        assert f"→ Postgres (by {ADA})" in shown
        page.page.wait_for_function(f"!document.querySelector({FORMS.split(':')[0]!r})")
        page.output_text(2, contains="the next")
        picture(page, f"who-answered-{page is first}")
    first.wait_for_kernel_status("idle")
    logged = run(second, 3, until="Noted.")
    assert f"→ SQLite (by {BO_SHOWN})" in logged
    assert f"→ Postgres (by {ADA})" in logged
    assert f"asked by {ADA}" in logged
    record: Any = NotebookRecord.read_metadata(metadata_in(second))
    ended = [e["metadata"] for e in record["events"] if e["type"] == "inquiry_response"]
    assert len(ended[0]["by"]) < 130
    assert ended[1] == {"end": "answered", "channel": "form", "by": ADA}
    first.run_cell(1)
    second.form()
    second.interrupt()
    for page in (first, second):
        page.form().get_by_text("Interrupted: ").wait_for()
    click(second, "End the turn")
    for page in (first, second):
        page.wait_for_kernel_status("idle")
        page.page.wait_for_function(f"!document.querySelector({FORMS.split(':')[0]!r})")


def assert_noted_once(*pages: NotebookPage, by: str) -> None:
    """Assert that the turn is over on all `pages`, and each shows its last answer once."""
    for page in pages:
        page.output_text(1, contains="Noted.")
        page.wait_for_kernel_status("idle")
        page.cell(1).get_by_text("[*]").wait_for(state="hidden")
    wait_for_one_output(*pages)
    for page in pages:
        shown = page.output_text(1, contains="Noted.")
        assert shown.count("Noted.") == shown.count(f"→ Postgres (by {by})") == 1
        assert page.page.locator(FORMS).count() == 0


@pytest.mark.deep
def test_opened_and_reloaded_pages_show_and_answer_an_open_form(decides: SharedPages) -> None:
    (first,) = decides.open(*DECIDE, pages=1)
    run(first, 0, until="kept")
    first.run_cell(1)
    first.form()
    first.reload(status="busy")
    wait_for_one_form(first)
    first.form().evaluate("form => { form.isAsItWas = true; }")
    second = decides.open_again(first.path, BO, status="busy")
    wait_for_one_form(second, first)
    assert first.form().evaluate("form => form.isAsItWas")
    first.reload(status="busy")  # its `bye` arrives, or is lost with the closing connection
    wait_for_one_form(first, second)
    first.form().get_by_role("radio").nth(1).click()
    click(first, "Submit")
    second.output_text(1, contains=f"→ SQLite (by {ADA})")
    wait_for_one_form(first, second)
    second.form().get_by_role("radio").nth(0).click()
    click(second, "Submit")
    assert_noted_once(first, second, by=BO_SHOWN)


# True once a cell shows this number of answers.
ANSWERS = """([cell, count]) => document.querySelectorAll(".jp-Notebook .jp-Cell")[cell]
    .innerText.split("→ Postgres").length > count"""
COUNT_BYES = """from jp_nb.session import require_session
store = require_session().active.store
receivers = get_ipython().kernel.control_handlers["comm_msg"].receivers
comm_id, receive, types = store._link.comm_id, store._receiver.receive, []
receivers[comm_id] = lambda data: (types.append(data["type"]), receive(data))
"""


def test_page_says_bye_when_its_tab_closes_and_the_other_one_shows_forms_of_its_queued_cells(
    decides: SharedPages,
) -> None:
    load, turn = DECIDE
    count = "print(types.count('bye'), 'byes')"
    first, second = decides.open(load, turn, f"{turn} Again.", COUNT_BYES, count)
    run(first, 0, until="kept")
    first.run_cell(3)
    assert first.page.evaluate(CLOSE)  # only the notebook
    first = decides.open_again(first.path, ADA)
    assert run(first, 4, until="byes").startswith("0 ")

    for cell in (1, 2):
        first.cell(cell).locator(".jp-InputPrompt").click()
        first.command("notebook:run-cell", wait=False)
    wait_for_one_form(first, second)
    with first.page.expect_event("close"):
        first.page.close(run_before_unload=True)

    for cell in (1, 2):
        for asked in (1, 2):
            wait_for_one_form(second, cell=cell)
            keys(second, "Space", "Enter")
            second.page.wait_for_function(ANSWERS, arg=[cell, asked])
        second.output_text(cell, contains="Noted.")
    second.wait_for_kernel_status("idle")
    assert run(second, 4, until="byes").startswith("1 ")


COPY_OUTPUT = f"""() => {{
    const {{ sharedModel }} = {MODEL}.cells.get(1);
    sharedModel.updateOutputs(1, 1, sharedModel.getOutputs());
}}"""


@pytest.mark.deep
def test_page_takes_over_from_one_that_hangs(decides: SharedPages) -> None:
    first, second = decides.open(*DECIDE)
    run(first, 0, until="kept")
    first.run_cell(1)
    wait_for_one_form(first, second)
    debugger = first.page.context.new_cdp_session(first.page)
    debugger.send("Debugger.enable")
    debugger.send("Debugger.pause")  # the page handles no message any more
    second.form().get_by_role("radio").nth(1).click()
    click(second, "Submit")
    second.output_text(1, contains=f"→ SQLite (by {BO_SHOWN})")
    second.form().get_by_role("radio").nth(0).wait_for()
    debugger.send("Debugger.disable")
    debugger.detach()
    first.output_text(1, contains=f"→ SQLite (by {BO_SHOWN})")
    wait_for_one_form(first, second)
    second.page.evaluate(COPY_OUTPUT)  # as if both pages had added it
    wait_for_one_form(first, second)
    first.form().get_by_role("radio").nth(0).click()
    click(first, "Submit")
    assert_noted_once(first, second, by=ADA)
    second.page.evaluate(COPY_OUTPUT)
    assert_noted_once(first, second, by=ADA)


# The page then draws another output than the document holds: JupyterLab appends the output that is
# inserted before the answer, and removes the first one that it draws. The copy lets the page look.
CONFUSE = f"""() => {{
    const {{ sharedModel }} = {MODEL}.cells.get(1);
    const answer = sharedModel.getOutputs();
    const other = {{ output_type: "display_data", data: {{}}, metadata: {{}} }};
    sharedModel.updateOutputs(0, 0, [other]);
    sharedModel.updateOutputs(0, 1, []);
    sharedModel.updateOutputs(1, 1, answer);
}}"""


def test_page_that_draws_another_output_than_the_document_keeps_that_of_the_document(
    decides: SharedPages,
) -> None:
    (page,) = decides.open(*DECIDE, pages=1)
    run(page, 0, until="kept")
    page.run_cell(1)
    for asked in (1, 2):
        keys(page, "Space", "Enter")
        page.page.wait_for_function(ANSWERS, arg=[1, asked])
    page.output_text(1, contains="Noted.")
    page.wait_for_kernel_status("idle")

    page.page.evaluate(CONFUSE)

    wait_for_one_output(page)
    assert page.output_text(1, contains="Noted.").count("Noted.") == 1


@pytest.mark.deep
def test_text_questions_are_answered_in_both_pages_beside_a_busy_processor(
    shared_pages: SharedPages,
) -> None:
    asks = [question(question=f"Name {n}?", answer_type="text") for n in range(4)]
    script = "".join(asks) + '[[replies]]\ntext = "Noted."\n'
    (shared_pages.lab.root / "names.toml").write_text(script)
    cells = ["%load_ext jp_nb", "%%jp -n -m scripted/names\nAsk me."]
    with busy_processor():
        first, second = shared_pages.open(*cells)
        run(first, 0, until="kept")
        first.run_cell(1)
        for number in range(4):
            page = first if number % 2 else second
            page.page.locator(FORMS).get_by_text(f"Name {number}?").wait_for()
            page.form().locator("textarea").fill(f"Answer {number}")
            if number < 2:
                click(page, "Submit")
            else:
                keys(page, "Control+Enter")
        for page in (first, second):
            page.output_text(1, contains="Noted.")
            page.wait_for_kernel_status("idle")
        wait_for_one_output(first, second)
        for page in (first, second):
            shown = page.output_text(1, contains="Noted.")
            assert page.page.locator(FORMS).count() == 0
            for number in range(4):
                by = ADA if number % 2 else BO_SHOWN
                assert shown.count(f"Answer {number} (by {by})") == 1


@pytest.mark.deep
def test_each_of_500_turns_costs_the_shared_document_as_much_as_the_first(
    shared_pages: SharedPages,
) -> None:
    turns = "for i in range({}): say(f'turn {{i}}', 'x' * 500); in_cell.opened.store.flush(30)\n"
    blocks = [f"{turns.format(count)}flushed(30)" for count in (100, 300, 100)]
    (page,) = shared_pages.open(SETUP, *blocks, pages=1)
    run(page, 0, until="kept")
    kept = [shared_pages.store_bytes()]
    for cell in (1, 2, 3):
        run(page, cell, until="flushed")
        page.save()  # by then the server has all of it
        kept.append(shared_pages.store_bytes())
    first, _, last = (after - before for before, after in pairwise(kept))
    record: Any = NotebookRecord.read_metadata(metadata_in(page))
    assert len(contents(record)) == 500
    assert first > 100 * 500  # it was counted at all
    # A segment at most for each of two batches, where all of the record would be 400 KB.
    assert last < 100 * 2 * 16 * 1024
