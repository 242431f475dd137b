"""The progress of rows in a page of JupyterLab that is reloaded while they are asked."""

from __future__ import annotations

from threading import Event

import pytest

from tests.session.rows.row_server import serve_rows
from tests.support.browser import OpenNotebook
from tests.support.loopback import Reply
from tests.support.page_actions import LOAD

pytestmark = pytest.mark.browser

FIRST_ROWS = 5
ROWS = 20


@pytest.mark.req("MAP-4")
def test_reloaded_page_shows_the_progress_and_what_is_printed_after_it(
    open_notebook: OpenNotebook,
) -> None:
    released = Event()

    def answer(prompt: str, earlier: int) -> Reply:
        if int(prompt.split()[-1]) >= FIRST_ROWS:
            assert released.wait(60)
        return Reply(text="Good.")

    with serve_rows(answer) as server:
        code = (
            "import os, jp_nb as jp\n"
            "os.environ['ANTHROPIC_API_KEY'] = 'key'\n"
            f"rows = [f'row {{n}}' for n in range({ROWS})]\n"
            "print('before the rows')\n"
            f"answers = jp.complete_all(rows, **{server.options!r})\n"
            "print('after the rows:', len(answers))"
        )
        try:
            page = open_notebook(LOAD, code)
            page.run_cell(0)
            page.output_text(0, contains="jp_nb")
            page.wait_for_kernel_status("idle")
            page.run_cell(1)
            page.output_text(1, contains=f"{FIRST_ROWS} of {ROWS} rows")

            page.reload(status="busy")
            shown = page.output_text(1, contains=f"{FIRST_ROWS} of {ROWS} rows")
            assert shown.startswith("before the rows")

            released.set()
            page.wait_for_kernel_status("idle")
            shown = page.output_text(1, contains=f"after the rows: {ROWS}")
        finally:
            released.set()  # the server waits for it

    assert shown.count(f"{ROWS} of {ROWS} rows") == 1
    assert shown.count("before the rows") == 1
    page.save()
    outputs = page.saved().cells[1].outputs
    assert [each["output_type"] for each in outputs] == ["stream", "display_data", "stream"]
    assert not outputs[1]["metadata"]
