"""What a turn shows while a form has its output."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.agent.ports import ShowText
from jp_nb.notebook import turn_display
from jp_nb.notebook.cell_loop import CellLoop
from jp_nb.notebook.transcript import Transcript
from jp_nb.notebook.turn_display import CHARS_PER_INTERVAL, TurnDisplay


def test_a_form_is_given_what_was_shown_as_it_was_shown() -> None:
    published: list[dict[str, Any]] = []
    so_far: list[dict[str, str]] = []
    display = TurnDisplay(
        Transcript(), CellLoop(), lambda: lambda bundle, **_: published.append(bundle)
    )
    display(ShowText("message", "Some **advice**."))
    display.show({"text/plain": "asks", "application/x": {}}, so_far.append)
    shown = {"text/markdown": "Some **advice**.", "text/plain": "Some **advice**."}
    assert so_far == [shown]
    assert published == [{"text/plain": "Some **advice**.\nasks", "application/x": {}}]
    display(ShowText("message", " More."))
    display._update()
    more = "Some **advice**. More."
    assert so_far[-1] == {"text/markdown": more, "text/plain": more}
    display.end(None, None)
    assert published[-1]["text/markdown"].startswith(more)
    assert so_far[-1] == {"text/markdown": more, "text/plain": more}


def test_what_stands_above_a_form_is_updated_less_often_the_longer_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(turn_display, "monotonic", lambda: now)
    display = TurnDisplay(Transcript(), CellLoop(), lambda: lambda *_, **__: None, interval=0.1)
    display.show({"text/plain": ""}, lambda _: None)
    display(ShowText("message", "x" * 9 * CHARS_PER_INTERVAL))
    display._update()
    assert display._next == pytest.approx(1.0)
