"""A tool called on the bench in a page: its question, its proposal, its result."""

from __future__ import annotations

import pytest

from tests.support.browser import OpenNotebook
from tests.support.page_actions import click, in_page, picture

pytestmark = pytest.mark.browser

LOAD = '''
%load_ext jp_nb
import jp_nb as jp

@jp.tool
def rename(title: str, ctx: jp.ToolContext) -> jp.Outcome:
    """Rename the notebook.

    Args:
        title: The new title.
    """
    if "sure" in ctx.answers:
        return jp.Success(f"Renamed to {title}: {ctx.answers['sure']}.")
    return jp.NeedsInput(jp.Question.boolean("sure", f"Rename it to {title}?"))

@jp.tool(access=[jp.ConfigRule("assistant.model", write=True)])
def change_model(target: str) -> jp.Success:
    """Switch to another model.

    Args:
        target: Its name.
    """
    return jp.Success("The model was changed.", config={"assistant": {"model": {"id": target}}})
'''


def test_question_and_a_change_of_a_bench_call_are_decided_in_the_cell(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(
        LOAD, "%jp call rename title=Dunes", "%jp call change_model target=scripted/strong"
    )
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    page.form().get_by_text("Rename it to Dunes?").wait_for()
    picture(page, "bench-question")
    click(page, "Yes")
    text = page.output_text(1, contains="Renamed to Dunes: True.")
    assert '✓ rename(title="Dunes")' in text
    assert "The model reads (" in text
    page.run_cell(2)
    page.form().get_by_text("Configuration delta proposed by tool").wait_for()
    click(page, "Apply")
    text = page.output_text(2, contains="The model was changed.")
    assert "approved by you (form); not applied outside a turn" in text
    picture(page, "bench-change")
    assert page.page.locator(".jp-nb-form:visible").count() == 0
    assert in_page(page) is None  # nothing of it is in the record
