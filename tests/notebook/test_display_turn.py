"""Display of a turn: its outputs, also around a form."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.kit.screens import display_event
from tests.kit.turn_screen import TurnScreen

FORM = {"text/plain": "asks", "application/x": {}}


def begin(call_id: str, name: str = "t") -> Any:
    return display_event("tool_begins", call_id, name, {})


def end(call_id: str, *images: jp.Image) -> Any:
    return display_event("tool_ends", call_id, "t", "", is_error=False, seconds=1.0, images=images)


def say(text: str) -> Any:
    return display_event("show_text", "message", text)


def say_often(count: int) -> list[Any]:
    return [say("x" * 100) for _ in range(count)]


def texts_of(screen: TurnScreen) -> dict[str, str]:
    return {name: bundle.get("text/markdown", "") for name, bundle in screen.outputs.items()}


def forms_of(screen: TurnScreen) -> list[str]:
    return [name for name, bundle in screen.outputs.items() if "application/x" in bundle]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> TurnScreen:
    return TurnScreen(monkeypatch)


def test_form_gets_the_text_above_it(screen: TurnScreen) -> None:
    screen.add(say("Some **advice**."))
    screen.open_form(FORM)
    advice = "Some **advice**."
    assert screen.above_form == {"text/markdown": advice, "text/plain": advice}
    assert screen.outputs == {"part 1": FORM | {"text/plain": f"{advice}\nasks"}}

    screen.add(say(" More."))
    screen.update()
    more = {"text/markdown": f"{advice} More.", "text/plain": f"{advice} More."}
    assert screen.above_form == more

    screen.close_form()
    assert texts_of(screen)["part 1"].startswith(f"{advice} More.")
    assert screen.above_form == more


def test_text_above_a_form_is_updated_less_often_the_longer_it_is(screen: TurnScreen) -> None:
    screen.open_form(FORM)
    screen.add(say("x" * 180_000))
    screen.update()
    assert screen.seconds_to_update == pytest.approx(1.0)


# --- several parts -----------------------------------------------------------------------------


@pytest.mark.deep
def test_million_characters_in_several_parts_are_rendered_a_bounded_number_of_times(
    screen: TurnScreen,
) -> None:
    screen.show(*say_often(5_000), display_event("end_of_text"), begin("c"))
    screen.print_beside()
    screen.show(end("c"), *say_often(5_000))
    assert len(screen.finish()) == 2
    # 100 s of text: one update in 0.1 s, and of a long part one less often.
    assert screen.rendered + screen.sent < 50 * 1_000_000


def test_finished_part_is_rendered_once(screen: TurnScreen) -> None:
    screen.show(*say_often(1_000), display_event("end_of_text"), begin("c"))
    screen.print_beside()
    screen.show(end("c"), *say_often(1))
    screen.update()
    before = screen.rendered
    screen.show(*say_often(20))
    screen.update(after=100)
    assert screen.rendered - before < 100 * 100


def test_work_for_many_functions_that_print_is_linear(screen: TurnScreen) -> None:
    for number in range(200):
        call = f"c{number}"
        screen.show(begin(call))
        screen.run_function(call, prints="…")
        screen.show(end(call))
    screen.update()
    assert len([name for name in screen.outputs if name.startswith("part")]) > 100
    assert screen.rendered_calls <= 200 * 2


def test_earlier_part_shows_the_end_of_its_call(screen: TurnScreen) -> None:
    screen.show(begin("a", "first"), begin("b"))
    screen.run_function("b", prints="…")
    screen.show(end("b"))
    running = texts_of(screen)["part 1"]
    assert "first" in running
    assert running.count("✓") < 2
    screen.update(after=100)
    screen.show(end("a"))
    screen.update()
    ended = texts_of(screen)["part 1"]
    assert ended != running
    assert ended.count("✓") == 2


def test_adjacent_texts_of_a_kind_are_displayed_completely_and_in_order(
    screen: TurnScreen,
) -> None:
    screen.add(
        say("a"),
        say("b"),
        display_event("show_text", "reasoning", "why"),
        say("c"),
        display_event("end_of_text"),
        say("d"),
    )
    screen.update()
    [shown] = texts_of(screen).values()
    places = [shown.index(text) for text in ("ab", "why", "\n\nc", "\n\nd")]
    assert places == sorted(places)


def test_text_discarded_after_a_finished_part_is_not_shown(screen: TurnScreen) -> None:
    screen.show(begin("a"))
    screen.print_beside()
    screen.show(end("a"), *say_often(1), display_event("discard_text"), say("instead"))
    screen.update(after=100)
    screen.finish()
    texts = list(texts_of(screen).values())
    assert "xxx" not in "".join(texts)
    assert "instead" in texts[-1]


# --- a form among several parts ----------------------------------------------------------------


@pytest.fixture
def gated(screen: TurnScreen) -> TurnScreen:
    """A cell that asks for permission to run `gated`, beside functions that may run at once."""
    screen.add(*(begin(call, call) for call in ("first", "second", "gated")))
    screen.add(display_event("waits", "gated", "your permission", person=True))
    screen.open_form(FORM)
    return screen


def test_form_keeps_its_output_when_functions_print_below_it(gated: TurnScreen) -> None:
    assert "gated" in gated.above_form["text/markdown"]
    for call in ("first", "second"):
        gated.run_function(call, prints="…")
        assert forms_of(gated) == ["part 1"]
        gated.add(end(call))
        gated.update()
    assert forms_of(gated) == ["part 1"]
    assert gated.above_form["text/markdown"].count("✓") == 2
    assert list(gated.outputs) == ["part 1", "printed by first", "printed by second"]


def test_text_after_a_split_form_is_shown_below_the_output_of_tools(gated: TurnScreen) -> None:
    gated.run_function("first", prints="…")
    gated.close_form()
    assert forms_of(gated) == []
    assert "gated" in texts_of(gated)["part 1"]
    gated.run_function("second", prints="…")
    gated.run_function("gated", prints="…")
    gated.add(*map(end, ("first", "second", "gated")), say("All done."))
    gated.update()
    gated.finish()
    assert list(gated.outputs) == [
        "part 1",
        "printed by first",
        "printed by second",
        "printed by gated",
        "part 2",
    ]
    texts = texts_of(gated)
    assert texts["part 2"] == "All done."
    assert texts["part 1"].count("✓") == 3
    assert "Waiting" not in texts["part 1"]


def test_form_without_text_above_it_is_followed_by_the_output_of_tools(screen: TurnScreen) -> None:
    screen.add(begin("first", "first"))
    screen.run_function("first", prints="…")
    screen.add(end("first"))
    screen.open_form(FORM)
    screen.run_function("second", prints="…")
    screen.close_form()
    screen.add(say("All done."))
    screen.finish()
    assert [name for name, text in texts_of(screen).items() if "All done." in text] == ["part 3"]
    assert list(screen.outputs)[-1] == "part 3"


def test_pictures_of_results_never_take_the_output_of_a_form(screen: TurnScreen) -> None:
    screen.add(begin("first", "first"))
    screen.open_form(FORM)
    screen.add(end("first", jp.Image("image/png", b"picture")))
    screen.update()
    assert forms_of(screen) == ["part 1"]
    assert [name for name, shown in screen.outputs.items() if "image/png" in shown] == ["part 2"]


def test_cleared_outputs_are_shown_again_in_their_order(gated: TurnScreen) -> None:
    gated.run_function("first", prints="…")
    picture = jp.Image("image/png", b"picture")
    gated.close_form()
    gated.add(*(end(call, picture) for call in ("first", "second", "gated")), say("All done."))
    gated.update()
    before = [name for name in gated.outputs if name.startswith("part")]
    gated.clear()
    assert list(gated.outputs) == before
