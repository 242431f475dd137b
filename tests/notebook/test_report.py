"""Tables and logs whose content somebody else wrote."""

from __future__ import annotations

import mistune

from jp_nb.notebook import report
from jp_nb.record.document import Document
from jp_nb.record.timestamps import utc_now
from jp_nb.record.turn_view import ConfigChange, Inquiry, Turn

RENDER = mistune.create_markdown(escape=False, plugins=["table"])
HOSTILE = "$ | <img src=x> | `\x1b[31m\nfake: line"


def rendered(markdown: str) -> str:
    return str(RENDER(markdown))


def test_a_cell_of_a_table_stays_one_cell() -> None:
    markdown = report.table(("path", "value"), [("assistant.name", HOSTILE)]).markdown
    row = markdown.splitlines()[-1]
    assert row.replace("\\|", "").count("|") == 3
    assert "\x1b" not in markdown
    assert "<img" not in rendered(markdown)
    assert rendered(markdown).count("<td>") == 2


def test_every_line_of_a_log_is_one_line_and_plain() -> None:
    turn = Turn(
        number=0,
        request="Go.",
        inquiries=(Inquiry("i", HOSTILE, "answered", HOSTILE, channel=HOSTILE),),
        config_changes=(ConfigChange({"a": HOSTILE}, (HOSTILE,)),),
    )
    shown = report.log(Document.new(clock=utc_now, made="live"), [turn])
    assert "\x1b" not in shown.text + shown.markdown
    assert len(shown.text.splitlines()) == 3
    assert "<img" not in rendered(shown.markdown)
