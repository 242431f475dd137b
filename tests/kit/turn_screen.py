"""The outputs of a cell that shows a turn, with a clock that a test moves."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import pytest

from jp_nb.notebook.display import update_clock
from jp_nb.notebook.display.console_printer import ConsolePrinter
from jp_nb.notebook.display.turn_display import TurnDisplay
from jp_nb.rendering.transcripts import transcript as transcript_module
from jp_nb.rendering.transcripts.transcript import Transcript
from jp_nb.session.threads.cell_loop import CellLoop
from tests.kit.screens import display_event

EVENT_SECONDS = 0.01
"""Time between two events of a turn."""


class _Tools:
    """Replaces `ToolOutput`: the test says which output a tool has."""

    watches = False
    function_has_image = False

    def __init__(self) -> None:
        self.on_cleared: Callable[[], None] = lambda: None
        self.held: list[Callable[[], None]] = []
        self.function_printed = False
        self.others_printed = False

    def open(self) -> None: ...

    def close(self) -> None: ...

    def send_now(self) -> None: ...

    def begin_function(self) -> None:
        self.function_printed = self.function_has_image = False

    def end_function(self) -> bool:
        return self.function_printed

    def check_function_output(self) -> bool:
        return False

    def check_output_of_others(self) -> bool:
        printed = self.others_printed
        self.others_printed = False
        return printed

    def take_of_function(self) -> list[Any]:
        taken = self.held
        self.held = []
        return taken

    def take_of_others(self) -> list[Any]:
        return []


class TurnScreen:
    """The outputs of a cell that shows a turn. In a live turn, they are updated when it is due.

    Attributes:
        outputs: The MIME bundle of each output by its name, in the order of the page: `part 1`,
            `part 2` of the turn, and `printed by CALL` of a tool.
        final: The names of the outputs that cannot change any more.
        above_form: The text above the open form, as a bundle.
        sent: Number of published characters of Markdown.
        rendered: Number of characters of answers that were rendered.
        rendered_calls: How often the line of a call was rendered.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, live: bool = True, **options: Any
    ) -> None:
        self.outputs: dict[str, dict[str, Any]] = {}
        self.final: set[str] = set()
        self.above_form: dict[str, str] = {}
        self.sent = self.rendered = self.rendered_calls = 0
        self._now = 0.0
        self._made = 0
        self._live = live
        self._tools = _Tools()
        self._count_rendering(monkeypatch)
        monkeypatch.setattr(update_clock, "monotonic", lambda: self._now)

        tools: Any = self._tools
        self._display = TurnDisplay(
            Transcript(**options), CellLoop(), self._new_output, tools=tools, live=live
        )
        self._display.begin()

    def add(self, *events: Any) -> None:
        """Show `events`, without an update."""
        for event in events:
            self._display(event)

    def show(self, *events: Any) -> None:
        """Show `events`, and update the outputs whenever it is due."""
        for event in events:
            self._display(event)
            self._now += EVENT_SECONDS
            if self._live and self.seconds_to_update <= 0:
                self._display._update()

    def update(self, after: float = 0.0) -> None:
        """Update the outputs after so many seconds."""
        self._now += after
        self._display._update()

    @property
    def seconds_to_update(self) -> float:
        """Seconds until the next update is due."""
        return self._display._clock.next_allowed - self._now

    def run_function(self, call: str, *, prints: str, has_image: bool = False) -> None:
        """Show that the function of `call` runs on the cell's thread, and prints a text."""
        name = f"printed by {call}"
        output = {name: {"text/plain": prints}}

        self.show(display_event("function_begins", call, call))
        self._tools.function_printed = True
        self._tools.function_has_image = has_image
        if self._live:
            self.outputs.update(output)
        else:
            self._tools.held.append(lambda: self.outputs.update(output))
        self.show(display_event("function_ends", call))

    def print_beside(self) -> None:
        """Let a tool that is no function print something."""
        self._tools.others_printed = True

    def clear(self) -> None:
        """Clear the outputs of the cell, as a tool does."""
        self.outputs.clear()
        self._tools.on_cleared()

    def open_form(self, bundle: dict[str, Any]) -> None:
        """Show a form."""
        self._display.show(bundle, self.above_form.update)

    def close_form(self) -> None:
        """Release the output of the form."""
        self._display.end(None, None)

    def finish(self) -> dict[str, dict[str, Any]]:
        """End the turn, and return its final outputs."""
        self._display.finish()
        return self.outputs

    @staticmethod
    def print(*events: Any, show_tools: bool = True) -> list[str]:
        """Return the text that a console prints for each event, and at the end."""
        printer = ConsolePrinter(show_tools=show_tools)
        steps: list[Callable[[], object]] = [partial(printer.apply, event) for event in events]
        steps.append(printer.end_line)
        texts: list[str] = []
        for step in steps:
            printed = io.StringIO()
            with redirect_stdout(printed):
                step()
            texts.append(printed.getvalue())

        return texts

    def _new_output(self) -> Any:
        self._made += 1
        name = f"part {self._made}"

        def publish(bundle: dict[str, Any], *, update: bool, final: bool) -> None:
            assert update == (name in self.outputs), f"{name} is shown twice"
            assert update or not final or not self._live, f"{name} is final when it is first shown"
            self.outputs[name] = bundle
            self.sent += len(bundle.get("text/markdown", ""))
            if final:
                self.final.add(name)

        return publish

    def _count_rendering(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module: Any = transcript_module
        sanitize_markdown = module.sanitize_markdown
        render_call = module.render_call

        def count_text(text: str, **settings: Any) -> Any:
            self.rendered += len(text)
            return sanitize_markdown(text, **settings)

        def count_call(*values: Any) -> Any:
            self.rendered_calls += 1
            return render_call(*values)

        monkeypatch.setattr(module, "sanitize_markdown", count_text)
        monkeypatch.setattr(module, "render_call", count_call)
