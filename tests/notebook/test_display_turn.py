"""Display of a turn while a form uses its output."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from jp_nb.notebook.display import update_clock
from jp_nb.notebook.display.turn_display import TurnDisplay
from jp_nb.rendering import markdown
from jp_nb.rendering import transcript as rendered_turn
from jp_nb.rendering.transcript import Transcript
from jp_nb.session.cell_loop import CellLoop
from tests.kit.screens import display_event

CHARS_PER_INTERVAL = 20_000


def test_form_gets_the_text_above_it() -> None:
    published: list[dict[str, Any]] = []
    so_far: list[dict[str, str]] = []
    display = TurnDisplay(
        Transcript(), CellLoop(), lambda: lambda bundle, **_: published.append(bundle)
    )
    display(display_event("show_text", "message", "Some **advice**."))
    display.show({"text/plain": "asks", "application/x": {}}, so_far.append)
    shown = {"text/markdown": "Some **advice**.", "text/plain": "Some **advice**."}
    assert so_far == [shown]
    assert published == [{"text/plain": "Some **advice**.\nasks", "application/x": {}}]
    display(display_event("show_text", "message", " More."))
    display._update()
    more = "Some **advice**. More."
    assert so_far[-1] == {"text/markdown": more, "text/plain": more}
    display.end(None, None)
    assert published[-1]["text/markdown"].startswith(more)
    assert so_far[-1] == {"text/markdown": more, "text/plain": more}


def test_text_above_a_form_is_updated_less_often_the_longer_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(update_clock, "monotonic", lambda: now)
    display = TurnDisplay(Transcript(), CellLoop(), lambda: lambda *_, **__: None, interval=0.1)
    display.show({"text/plain": ""}, lambda _: None)
    display(display_event("show_text", "message", "x" * 9 * CHARS_PER_INTERVAL))
    display._update()
    assert display._clock.next_allowed == pytest.approx(1.0)


# --- several parts -----------------------------------------------------------------------------


class Showing:
    """Replaces `ToolOutput`: every tool has output."""

    watches = False
    function_has_image = False

    def open(self) -> None: ...

    def close(self) -> None: ...

    def send_now(self) -> None: ...

    def function_begins(self) -> None: ...

    def function_ends(self) -> bool:
        return True

    def function_has_output(self) -> bool:
        return False

    def others_have_output(self) -> bool:
        return True

    def take(self, *, of_function: bool) -> list[Any]:
        return []


class Watched:
    """A display with a manual clock that updates whenever it is due.

    Attributes:
        rendered: Characters of text that were made safe to show.
        sent: Characters that were published.
        outputs: What each output shows.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.rendered = self.sent = 0
        self.outputs: list[str] = []
        monkeypatch.setattr(update_clock, "monotonic", lambda: self.now)
        sanitize_markdown = markdown.sanitize_markdown

        def counted(text: str, **settings: Any) -> str:
            self.rendered += len(text)
            return sanitize_markdown(text, **settings)

        monkeypatch.setattr(rendered_turn, "sanitize_markdown", counted)
        tools: Any = Showing()
        self.display = TurnDisplay(Transcript(), CellLoop(), self.new_output, tools=tools)

    def new_output(self) -> Any:
        number = len(self.outputs)
        self.outputs.append("")

        def publish(bundle: dict[str, Any], *, update: bool, final: bool) -> None:
            self.outputs[number] = bundle.get("text/markdown", "")
            self.sent += len(self.outputs[number])

        return publish

    def sees(self, *events: Any) -> None:
        for event in events:
            self.display(event)
            self.now += 0.01
            if self.now >= self.display._clock.next_allowed:
                self.display._update()


def ends(call_id: str) -> Any:
    return display_event("tool_ends", call_id, "t", "", is_error=False, seconds=0.0, hidden=False)


def text_events(count: int) -> list[Any]:
    return [display_event("show_text", "message", "x" * 100) for _ in range(count)]


def of_long_parts(watched: Watched, deltas: int) -> int:
    """Two long texts with a tool in between that has shown something."""
    watched.sees(
        *text_events(deltas // 2),
        display_event("end_of_text"),
        display_event("tool_begins", "c", "t", {}),
        ends("c"),
    )
    watched.sees(*text_events(deltas // 2))
    watched.display.finish()
    assert len(watched.outputs) == 2
    return watched.rendered + watched.sent


@pytest.mark.deep
def test_million_characters_in_several_parts_are_rendered_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deltas = 10_000
    chars = 1_000_000
    # 100 s of text: one update in 0.1 s, and of a long part one less often.
    assert of_long_parts(Watched(monkeypatch), deltas) < 50 * chars


def test_finished_part_is_rendered_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(monkeypatch)
    watched.sees(
        *text_events(1_000),
        display_event("end_of_text"),
        display_event("tool_begins", "c", "t", {}),
        ends("c"),
        *text_events(1),
    )
    watched.display._update()
    before = watched.rendered
    watched.sees(*text_events(20))
    watched.now += 100
    watched.display._update()
    assert watched.rendered - before < 100 * 100


def test_work_for_many_functions_that_print_is_linear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(monkeypatch)
    texts: list[int] = []
    render = rendered_turn.render_call

    def counted(*args: Any) -> Any:
        texts.append(1)
        return render(*args)

    monkeypatch.setattr(rendered_turn, "render_call", counted)
    for n in range(200):
        call_id = f"c{n}"
        watched.sees(
            display_event("tool_begins", call_id, "t", {}),
            display_event("function_begins", call_id, "t"),
        )
        watched.sees(display_event("function_ends", call_id), ends(call_id))
    watched.display._update()
    assert len(watched.outputs) > 100
    assert len(texts) <= 200 * 2


def test_earlier_part_shows_the_end_of_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    watched.sees(
        display_event("tool_begins", "a", "first", {}), display_event("tool_begins", "b", "t", {})
    )
    watched.sees(
        display_event("function_begins", "b", "t"), display_event("function_ends", "b"), ends("b")
    )
    running = watched.outputs[0]
    assert "first" in running
    assert running.count("✓") < 2
    watched.now += 100
    watched.sees(ends("a"))
    watched.display._update()
    assert watched.outputs[0] != running
    assert watched.outputs[0].count("✓") == 2


def test_adjacent_texts_of_a_kind_are_displayed_completely_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(monkeypatch)
    for event in (
        display_event("show_text", "message", "a"),
        display_event("show_text", "message", "b"),
        display_event("show_text", "reasoning", "why"),
        display_event("show_text", "message", "c"),
        display_event("end_of_text"),
        display_event("show_text", "message", "d"),
    ):
        watched.display(event)
    watched.display._update()
    [shown] = watched.outputs
    assert [shown.index(text) for text in ("ab", "why", "\n\nc", "\n\nd")] == sorted(
        shown.index(text) for text in ("ab", "why", "\n\nc", "\n\nd")
    )


def test_text_discarded_after_a_finished_part_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(monkeypatch)
    watched.sees(
        display_event("tool_begins", "a", "t", {}),
        ends("a"),
        *text_events(1),
        display_event("discard_text"),
    )
    watched.sees(display_event("show_text", "message", "instead"))
    watched.now += 100
    watched.display._update()
    watched.display.finish()
    assert "xxx" not in "".join(watched.outputs)
    assert "instead" in watched.outputs[-1]


# --- a form among several parts ----------------------------------------------------------------

FORM = {"text/plain": "asks", "application/x": {}}


class Cell:
    """A cell that shows a turn, with tools that print.

    Attributes:
        outputs: The MIME bundle of each output, by a name.
        above_form: The text above the form.
    """

    def __init__(self) -> None:
        self.outputs: dict[str, dict[str, Any]] = {}
        self.above_form = ""
        self._made = 0
        tools: Any = Showing()
        self.display = TurnDisplay(Transcript(), CellLoop(), self._new_output, tools=tools)

    def _new_output(self) -> Any:
        self._made += 1
        name = f"part {self._made}"

        def publish(bundle: dict[str, Any], *, update: bool, final: bool) -> None:
            assert update == (name in self.outputs), f"{name} is shown twice"
            assert update or not final, f"{name} is final when it is first shown"
            self.outputs[name] = bundle

        return publish

    def open_form(self) -> None:
        self.display.show(FORM, self._show_above_form)

    def _show_above_form(self, bundle: dict[str, str]) -> None:
        self.above_form = bundle["text/markdown"]

    def run_function(self, call_id: str) -> None:
        """Have a function print, on the cell's thread."""
        self.display(display_event("function_begins", call_id, call_id))
        self.outputs[f"printed by {call_id}"] = {}
        self.display(display_event("function_ends", call_id))

    def forms(self) -> list[str]:
        return [name for name, bundle in self.outputs.items() if "application/x" in bundle]

    def texts(self) -> dict[str, str]:
        return {name: bundle.get("text/markdown", "") for name, bundle in self.outputs.items()}


def gated_batch() -> Cell:
    """A cell that asks for permission to run `gated`, beside functions that may run at once."""
    cell = Cell()
    for call_id in ("first", "second", "gated"):
        cell.display(display_event("tool_begins", call_id, call_id, {}))
    cell.display(display_event("waits", "gated", "your permission", person=True))
    cell.open_form()
    return cell


def test_form_keeps_its_output_when_functions_print_below_it() -> None:
    cell = gated_batch()
    above = cell.above_form
    assert "gated" in above
    for call_id in ("first", "second"):
        cell.run_function(call_id)
        assert cell.forms() == ["part 1"]
        cell.display(display_event("tool_ends", call_id, call_id, "", is_error=False, seconds=1.0))
        cell.display._update()
    assert cell.forms() == ["part 1"]
    assert cell.above_form.count("✓") == 2
    assert list(cell.outputs) == ["part 1", "printed by first", "printed by second"]


def test_text_after_a_split_form_is_shown_below_the_output_of_tools() -> None:
    cell = gated_batch()
    cell.run_function("first")
    cell.display.end(None, None)
    assert cell.forms() == []
    assert "gated" in cell.texts()["part 1"]
    cell.run_function("second")
    cell.run_function("gated")
    for call_id in ("first", "second", "gated"):
        cell.display(display_event("tool_ends", call_id, call_id, "", is_error=False, seconds=1.0))
    cell.display(display_event("show_text", "message", "All done."))
    cell.display._update()
    cell.display.finish()
    assert list(cell.outputs) == [
        *("part 1", "printed by first", "printed by second", "printed by gated", "part 2")
    ]
    texts = cell.texts()
    assert texts["part 2"] == "All done."
    assert texts["part 1"].count("✓") == 3
    assert "Waiting" not in texts["part 1"]


def test_form_without_text_above_it_is_followed_by_the_output_of_tools() -> None:
    cell = Cell()
    cell.display(display_event("tool_begins", "first", "first", {}))
    cell.run_function("first")
    cell.display(display_event("tool_ends", "first", "first", "", is_error=False, seconds=1.0))
    cell.open_form()
    cell.run_function("second")
    cell.display.end(None, None)
    cell.display(display_event("show_text", "message", "All done."))
    cell.display.finish()
    assert [name for name, text in cell.texts().items() if "All done." in text] == ["part 3"]
    assert list(cell.outputs)[-1] == "part 3"


def test_pictures_of_results_never_take_the_output_of_a_form() -> None:
    cell = Cell()
    cell.display(display_event("tool_begins", "first", "first", {}))
    cell.open_form()
    picture = jp.Image("image/png", b"picture")
    cell.display(
        display_event(
            "tool_ends", "first", "first", "", is_error=False, seconds=1.0, images=(picture,)
        )
    )
    cell.display._update()
    assert cell.forms() == ["part 1"]
    assert [name for name, shown in cell.outputs.items() if "image/png" in shown] == ["part 2"]


def test_cleared_outputs_are_shown_again_in_their_order() -> None:
    cell = gated_batch()
    cell.run_function("first")
    picture = jp.Image("image/png", b"picture")
    cell.display.end(None, None)
    for call_id in ("first", "second", "gated"):
        cell.display(
            display_event(
                "tool_ends", call_id, call_id, "", is_error=False, seconds=1.0, images=(picture,)
            )
        )
    cell.display(display_event("show_text", "message", "All done."))
    cell.display._update()
    before = [name for name in cell.outputs if name.startswith("part")]
    cell.outputs.clear()
    cell.display._show_again()
    assert list(cell.outputs) == before
