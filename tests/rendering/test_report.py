"""Tables and notes with hostile content."""

from __future__ import annotations

from tests.kit.renderings import render
from tests.rendering.reports import HOSTILE, rendered


def test_hostile_text_in_a_table_stays_in_its_cell() -> None:
    markdown = render("table", ("path", "value"), [("assistant.name", HOSTILE)]).markdown
    row = markdown.splitlines()[-1]
    assert row.replace("\\|", "").count("|") == 3
    assert "\x1b" not in markdown
    assert "<img" not in rendered(markdown)
    assert rendered(markdown).count("<td>") == 2


def test_only_commands_of_a_note_become_code() -> None:
    text = "4 less; `%jp compact --undo` takes *that* back, `<b>` and `%jp log\x00` are text"
    assert rendered(render("note", text).markdown).strip() == (
        "<p><em>4 less; <code>%jp compact --undo</code> takes *that* back, "
        "`&lt;b&gt;` and `%jp log\x00` are text</em></p>"
    )
    formula = rendered(render("note", "$a `%jp undo` b$").markdown)
    assert "<code>$a `%jp undo` b$</code>" in formula
    assert "<img" not in rendered(render("note", f"`%jp log` {HOSTILE}").markdown)
