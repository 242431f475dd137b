"""Tables whose content somebody else wrote."""

from __future__ import annotations

from jp_nb.rendering.report import table
from tests.support.reports import HOSTILE, rendered


def test_a_cell_of_a_table_stays_one_cell() -> None:
    markdown = table(("path", "value"), [("assistant.name", HOSTILE)]).markdown
    row = markdown.splitlines()[-1]
    assert row.replace("\\|", "").count("|") == 3
    assert "\x1b" not in markdown
    assert "<img" not in rendered(markdown)
    assert rendered(markdown).count("<td>") == 2
