"""The form of a plan in JupyterLab: rendered Markdown that runs nothing, and explicit consent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browser import Lab
from tests.support.cells import calls
from tests.support.page_actions import assert_harmless, click, in_page, keys, picture
from tests.support.prompt_pages import Opened

pytestmark = pytest.mark.browser

PLAN = """\
## Clean up the sales table

1. **Read** the columns of `sales`, and count the missing prices.
2. Remove the 3 rows without a price:

   ```python
   sales = sales.dropna(subset=["price"])
   ```

3. Draw the histogram again, and compare it with the old one.

<script>window.pwned=1</script> <img src=x onerror="window.pwned=1"> \u202elive

| check | expected |
| --- | --- |
| rows | 97 |
"""
EDITED = "1. Remove the 3 rows without a price."
SCRIPT = (
    calls(("submit_plan", {"plan": PLAN}))
    + calls(("clean", {}))
    + '[[replies]]\ntext = "The table is clean."\n'
)
FIRST_CELL = """
%load_ext jp_nb
import jp_nb as jp

@jp.tool
def clean() -> str:
    return "3 rows removed"
"""


def test_plan_is_read_edited_and_approved(lab: Lab, opened: Opened) -> None:
    (lab.root / "tidy.toml").write_text(SCRIPT, encoding="utf-8")
    page = opened("%%jp -n -m scripted/tidy --plan\nClean up the table.")
    page.page.set_viewport_size({"width": 800, "height": 900})
    page.run_cell(1)
    form = page.form()
    form.get_by_text("Approve this plan?").wait_for()
    document = form.locator(".jp-nb-context")
    document.locator("h2", has_text="Clean up the sales table").wait_for()
    assert document.locator("li").count() == 3
    assert document.locator("td").all_text_contents() == ["rows", "97"]
    assert "⟨U+202E⟩live" in document.inner_text()
    assert document.locator("img, script").count() == 0
    assert_harmless(page)
    picture(page, "plan-form")

    keys(page, "Enter", "Escape")  # decide nothing
    assert "The table is clean." not in page.cell(1).inner_text()

    click(page, "Edit the plan …")
    area = page.form().locator("textarea")
    area.wait_for()
    assert area.input_value().startswith("## Clean up the sales table\n")
    picture(page, "plan-edit")
    area.fill(EDITED)
    click(page, "Approve this plan")
    text = page.output_text(1, contains="The table is clean.")
    assert EDITED in text
    picture(page, "plan-approved")

    page.wait_for_record("record.events.filter(e => e.type === 'tool_call_response').length === 2")
    events: list[dict[str, Any]] = in_page(page)["events"]
    approved, _ = [each for each in events if each["type"] == "tool_call_response"]
    assert approved["content"].endswith(f"The approved plan:\n\n{EDITED}")
