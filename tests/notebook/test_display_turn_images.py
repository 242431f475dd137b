"""Position of result images among the outputs of a turn, in live and headless runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.screens import display_event
from tests.kit.turn_screen import TurnScreen
from tests.support.images import figure, pdf

ONE = figure("one", shade=1)
TWO = figure("two", shade=2)
IMAGES = {ONE.text: "<one>", TWO.text: "<two>"}


def texts_of(screen: TurnScreen) -> list[str]:
    """Return the text of each output that is not empty, or the name of its image."""
    texts = []
    for bundle in screen.outputs.values():
        text = bundle.get("text/plain", "")
        if "image/png" in bundle:
            text = IMAGES[bundle["image/png"]]
        texts.append(text)

    return [text for text in texts if text]


def end_of(screen: TurnScreen) -> list[str]:
    """End the turn. Return the text of each output."""
    parts = {name for name in screen.finish() if name.startswith("part")}
    assert screen.final == parts
    return texts_of(screen)


def begins(call: str, *, hidden: bool = False) -> Any:
    return display_event("tool_begins", call, call, {}, hidden)


def ends(call: str, *images: jp.Image, hidden: bool = False) -> Any:
    return display_event(
        "tool_ends", call, call, "", is_error=False, seconds=0.0, hidden=hidden, images=images
    )


def shown_text(text: str) -> Any:
    return display_event("show_text", "message", text)


OpenScreen = Callable[..., TurnScreen]


@pytest.fixture
def open_screen(monkeypatch: pytest.MonkeyPatch) -> OpenScreen:
    def start(**options: bool) -> TurnScreen:
        return TurnScreen(monkeypatch, **options)

    return start


both = pytest.mark.parametrize("live", [True, False])


@both
def test_images_are_below_the_calls_of_their_batch_and_above_the_next_text(
    open_screen: OpenScreen, live: bool
) -> None:
    turn = open_screen(live=live)
    turn.show(shown_text("Look."), begins("a"), begins("b"), ends("a", ONE))
    if live:
        turn.update()
    assert "<one>" not in texts_of(turn)  # the line of the other call still changes
    turn.show(ends("b", TWO), shown_text("Seen."))
    lines = "Look.\n✓ a() · 1 image\n✓ b() · 1 image"
    assert end_of(turn) == [lines, "<one>", "<two>", "Seen."]


def test_live_images_are_shown_at_once(open_screen: OpenScreen) -> None:
    turn = open_screen(live=True)
    turn.show(begins("a"), ends("a", ONE))
    turn.update()
    assert texts_of(turn)[-1] == "<one>"


@both
def test_images_are_below_the_prints_of_the_function(open_screen: OpenScreen, live: bool) -> None:
    turn = open_screen(live=live)
    turn.show(begins("a"))
    turn.run_function("a", prints="(printed)")
    turn.show(ends("a", ONE), shown_text("Seen."))
    assert end_of(turn) == ["✓ a() · 1 image", "(printed)", "<one>", "Seen."]


@both
def test_pdf_is_named_and_not_embedded(open_screen: OpenScreen, live: bool) -> None:
    turn = open_screen(live=live)
    turn.show(begins("a"), ends("a", ONE, pdf()), shown_text("Seen."))
    assert end_of(turn) == ["✓ a() · 1 image · 1 PDF", "<one>", f"[PDF: {pdf().words}]", "Seen."]


@both
def test_status_line_moves_below_an_image(open_screen: OpenScreen, live: bool) -> None:
    turn = open_screen(live=live)
    turn.show(begins("a"))
    turn.run_function("a", prints="(printed)")
    if live:
        turn.update(after=1)
        turn.show(display_event("waits", "model", "openai/m"))
        turn.update(after=1)
        assert "openai/m" in str(turn.outputs)
    turn.show(ends("a", ONE, TWO))
    turn.show(shown_text("Seen."))
    assert end_of(turn) == ["✓ a() · 2 images", "(printed)", "<one>", "<two>", "Seen."]


@both
def test_images_are_not_repeated_after_a_function_that_showed_one(
    open_screen: OpenScreen, live: bool
) -> None:
    turn = open_screen(live=live)
    turn.show(begins("a"))
    turn.run_function("a", prints="(a figure)", has_image=True)
    turn.show(ends("a", ONE), begins("b"), ends("b", TWO))
    shown = end_of(turn)
    assert "<one>" not in shown
    assert shown[-1] == "<two>"


@both
def test_images_of_hidden_calls_are_not_shown(open_screen: OpenScreen, live: bool) -> None:
    turn = open_screen(live=live)
    turn.show(begins("a", hidden=True), ends("a", ONE, hidden=True), shown_text("Seen."))
    assert end_of(turn) == ["Seen."]
    silent = open_screen(live=live, show_tools=False)
    silent.show(begins("a"), ends("a", ONE), shown_text("Seen."))
    assert end_of(silent) == ["Seen."]


@both
def test_interrupted_turn_shows_its_images(open_screen: OpenScreen, live: bool) -> None:
    turn = open_screen(live=live)
    turn.show(begins("a"), begins("b"), ends("a", ONE))
    assert end_of(turn)[-1] == "<one>"
