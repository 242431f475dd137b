"""Position of result images among the outputs of a turn, in live and headless runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.notebook.display.turn_display import TurnDisplay
from jp_nb.rendering.transcript import Transcript
from jp_nb.session.cell_loop import CellLoop
from tests.kit.screens import display_event
from tests.support.images import figure, pdf

ONE = figure("one", shade=1)
TWO = figure("two", shade=2)


class CellOutput:
    """The outputs of a cell, in the order in which they were first shown, as a page keeps them."""

    def __init__(self) -> None:
        self.shown: dict[object, str] = {}
        self.final: dict[object, bool] = {}

    def new_output(self) -> Any:
        key = object()

        def publish(bundle: dict[str, Any], *, update: bool, final: bool) -> None:
            assert update == (key in self.shown)
            self.shown[key] = bundle.get("text/plain", "")
            self.final[key] = final
            if "image/png" in bundle:
                self.shown[key] = {ONE.text: "<one>", TWO.text: "<two>"}[bundle["image/png"]]

        return publish

    def prints(self, text: str) -> None:
        self.shown[object()] = text

    @property
    def texts(self) -> list[str]:
        return [text for text in self.shown.values() if text]


class Tools:
    """Replaces `ToolOutput`: functions print or show a figure on request."""

    watches = False
    function_has_image = False

    def __init__(self, cell: CellOutput, *, live: bool) -> None:
        self.cell = cell
        self.live = live
        self.held: list[Callable[[], None]] = []
        self.seen = False

    def prints(self, text: str, *, pictured: bool = False) -> None:
        self.seen = True
        self.function_has_image = pictured
        if self.live:
            self.cell.prints(text)
        else:
            self.held.append(lambda: self.cell.prints(text))

    def open(self) -> None: ...

    def close(self) -> None: ...

    def function_begins(self) -> None:
        self.seen = self.function_has_image = False

    def function_ends(self) -> bool:
        return self.seen

    def function_has_output(self) -> bool:
        return False

    def others_have_output(self) -> bool:
        return False

    def take(self, *, of_function: bool) -> list[Any]:
        taken, self.held = (self.held, []) if of_function else ([], self.held)
        return taken


class Turn:
    """A turn in a cell, updated after each event if it is live."""

    def __init__(self, *, live: bool, transcript: Transcript | None = None) -> None:
        self.cell = CellOutput()
        self.live = live
        self.tools = Tools(self.cell, live=live)
        tools: Any = self.tools
        self.display = TurnDisplay(
            transcript or Transcript(), CellLoop(), self.cell.new_output, tools=tools, live=live
        )

    def sees(self, *events: Any) -> None:
        for event in events:
            self.display(event)
            if self.live:
                self.display._update()

    def runs(self, call: str, text: str, *, pictured: bool = False) -> None:
        self.sees(display_event("function_begins", call, "t"))
        self.tools.prints(text, pictured=pictured)
        self.sees(display_event("function_ends", call))

    def end(self) -> list[str]:
        self.display.finish()
        assert all(self.cell.final.values())
        return self.cell.texts


def begins(call: str, *, hidden: bool = False) -> Any:
    return display_event("tool_begins", call, call, {}, hidden)


def ends(call: str, *images: jp.Image, hidden: bool = False) -> Any:
    return display_event(
        "tool_ends", call, call, "", is_error=False, seconds=0.0, hidden=hidden, images=images
    )


def shown_text(text: str) -> Any:
    return display_event("show_text", "message", text)


both = pytest.mark.parametrize("live", [True, False])


@both
def test_images_are_below_the_calls_of_their_batch_and_above_the_next_text(live: bool) -> None:
    turn = Turn(live=live)
    turn.sees(shown_text("Look."), begins("a"), begins("b"), ends("a", ONE))
    assert "<one>" not in turn.cell.texts  # the line of the other call still changes
    turn.sees(ends("b", TWO), shown_text("Seen."))
    lines = "Look.\n✓ a() · 1 image\n✓ b() · 1 image"
    assert turn.end() == [lines, "<one>", "<two>", "Seen."]


def test_live_images_are_shown_at_once() -> None:
    turn = Turn(live=True)
    turn.sees(begins("a"), ends("a", ONE))
    assert turn.cell.texts[-1] == "<one>"


@both
def test_images_are_below_the_prints_of_the_function(live: bool) -> None:
    turn = Turn(live=live)
    turn.sees(begins("a"))
    turn.runs("a", "(printed)")
    turn.sees(ends("a", ONE), shown_text("Seen."))
    assert turn.end() == ["✓ a() · 1 image", "(printed)", "<one>", "Seen."]


@both
def test_pdf_is_named_and_not_embedded(live: bool) -> None:
    turn = Turn(live=live)
    turn.sees(begins("a"), ends("a", ONE, pdf()), shown_text("Seen."))
    assert turn.end() == ["✓ a() · 1 image · 1 PDF", "<one>", f"[PDF: {pdf().words}]", "Seen."]


@both
def test_status_line_moves_below_an_image(live: bool) -> None:
    turn = Turn(live=live)
    turn.sees(begins("a"))
    turn.runs("a", "(printed)")
    if live:
        turn.display._outputs.show_all(status="(waits)", queue_line="", tools_run=False)
    turn.sees(ends("a", ONE, TWO))
    turn.sees(shown_text("Seen."))
    assert turn.end() == ["✓ a() · 2 images", "(printed)", "<one>", "<two>", "Seen."]


@both
def test_images_are_not_repeated_after_a_function_that_showed_one(live: bool) -> None:
    turn = Turn(live=live)
    turn.sees(begins("a"))
    turn.runs("a", "(a figure)", pictured=True)
    turn.sees(ends("a", ONE), begins("b"), ends("b", TWO))
    shown = turn.end()
    assert "<one>" not in shown
    assert shown[-1] == "<two>"


@both
def test_images_of_hidden_calls_are_not_shown(live: bool) -> None:
    turn = Turn(live=live)
    turn.sees(begins("a", hidden=True), ends("a", ONE, hidden=True), shown_text("Seen."))
    assert turn.end() == ["Seen."]
    silent = Turn(live=live, transcript=Transcript(show_tools=False))
    silent.sees(begins("a"), ends("a", ONE), shown_text("Seen."))
    assert silent.end() == ["Seen."]


@both
def test_interrupted_turn_shows_its_images(live: bool) -> None:
    turn = Turn(live=live)
    turn.sees(begins("a"), begins("b"), ends("a", ONE))
    assert turn.end()[-1] == "<one>"
