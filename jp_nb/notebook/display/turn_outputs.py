"""Outputs of the cell that show the parts of a transcript, also around a form.

`DisplayPublisher` publishes them in the running cell.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

from jp_nb.notebook.display.output_origin import mark_as_ours
from jp_nb.notebook.display.pending_output import flush_streams
from jp_nb.notebook.display.tool_output import SendOutput
from jp_nb.notebook.running_cells import RunningCells
from jp_nb.rendering.transcript import Transcript, TranscriptPart


class Publish(Protocol):
    """Publisher of one output."""

    def __call__(self, bundle: dict[str, Any], *, update: bool, final: bool) -> None:
        """Show a MIME bundle in the cell; with `update`, in place of the previous one.

        With `final`, no update follows.
        """


class DisplayPublisher:
    """Factory of outputs in the running cell, `of_turn` or of a tool.

    Each output has a display id. Until the output is final, its metadata contain this id, so that
    a reloaded page finds the output. `RunningCells` keeps the output for such pages. `publish` is
    the method of IPython's publisher. Create the factory on the cell's thread.
    """

    def __init__(
        self, publish: Callable[..., None], kernel: Any = None, *, of_turn: bool = False
    ) -> None:
        self._publish = publish
        self._context = mark_as_ours if of_turn else nullcontext
        self._prefix = f"jp-nb-{uuid4().hex}"
        self._count = 0
        self._cells = RunningCells.of(kernel)
        self._request = kernel.get_parent("shell") if self._cells is not None else {}

    def __call__(self) -> Publish:
        """Return the publisher of a new output."""
        display_id = f"{self._prefix}-{self._count}"
        self._count += 1

        def show(bundle: dict[str, Any], *, update: bool, final: bool) -> None:
            metadata = {} if final else {"jp_nb": {"display_id": display_id}}
            transient = {"display_id": display_id}
            if self._cells is not None:
                if not update:
                    flush_streams()  # text that was printed before is above the output
                self._cells.set_output(self._request, display_id, bundle, metadata, update=update)

            with self._context():
                self._publish(data=bundle, metadata=metadata, transient=transient, update=update)

        return show


ShowAbove = Callable[[dict[str, Any]], None]
"""Shows a bundle above a form."""


@dataclass(slots=True)
class _CellOutput:
    """An output of the cell. `shown` is None until it is published."""

    publish: Publish
    shown: dict[str, Any] | None = None

    def show(self, bundle: dict[str, Any], *, final: bool = False) -> None:
        if final or bundle != self.shown:
            self.publish(bundle, update=self.shown is not None, final=final)
            self.shown = bundle


@dataclass(slots=True)
class _PartOutput:
    """One part of the turn, and its output.

    Attributes:
        held: Output of tools above the part that was not sent yet.
        images: Images of results below `held`, each in a separate output.
        show_above_form: While a form occupies the output: shows the part above the form.
    """

    part: TranscriptPart
    output: _CellOutput
    held: list[SendOutput] = field(default_factory=list)
    images: list[tuple[_CellOutput, dict[str, Any]]] = field(default_factory=list)
    show_above_form: ShowAbove | None = None

    def release(self, *, final: bool = False) -> None:
        """Send the held output, and then the images."""
        held = self.held
        self.held = []

        for send in held:
            send()

        for output, bundle in self.images:
            if output.shown is not bundle:
                output.show(bundle, final=final)

    def update(
        self, *, status: str | None = None, queue_line: str = "", is_earlier: bool = False
    ) -> dict[str, str]:
        """Show the part as it is now, and return its bundle.

        Above a form, the queue line about later questions replaces the status line. With
        `is_earlier`, an empty part is published too, to keep the order of the outputs.
        """
        if self.show_above_form is not None:
            bundle = self.part.bundle(live=True, status=queue_line)
            bundle["text/plain"] = "\n".join(filter(None, (bundle["text/plain"], queue_line)))
            self.show_above_form(bundle)
            return bundle

        bundle = self.part.bundle(live=True, status=status)
        if is_earlier or bundle["text/markdown"] or self.output.shown is not None:
            self.output.show(bundle)

        return bundle


class TurnOutputs:
    """Outputs of a transcript, one for each part.

    A form occupies the output of one part from `show_form` to `end_form`. Meanwhile, later parts
    appear below the form. `final_count` is the number of first parts that are shown and cannot
    change.
    """

    def __init__(self, transcript: Transcript, new_output: Callable[[], Publish]) -> None:
        self._transcript = transcript
        self._new_output = new_output
        self._parts: list[_PartOutput] = []
        self.final_count = 0
        self._add_part()

    def _add_part(self) -> None:
        self._parts.append(_PartOutput(self._transcript.parts[-1], _CellOutput(self._new_output())))

    @property
    def last_is_shown(self) -> bool:
        """True if the output of the last part was published."""
        return self._parts[-1].output.shown is not None

    @property
    def has_form(self) -> bool:
        """True while a form occupies one of the outputs."""
        return any(part.show_above_form for part in self._parts)

    def cut(
        self,
        held: list[SendOutput],
        call_id: str | None = None,
        images: Iterable[dict[str, Any]] = (),
    ) -> None:
        """Start a new part, below the `held` output of tools and `images`.

        The cut is after the line of the tool call `call_id`. If there is a form, it is after the
        form, so that its buttons do not move when the user is about to click.
        """
        behind_form = self._parts[-1].show_above_form is not None
        if behind_form:
            is_new = self._transcript.cut(None, always=True)
        else:
            is_new = self._transcript.cut(call_id, always=False)
        if is_new:
            self._add_part()

        last = self._parts[-1]
        last.held += held

        for bundle in images:  # they take the output of the part, and the part gets a new one
            last.images.append((last.output, bundle))
            last.output = _CellOutput(self._new_output())

    def show_form(self, bundle: dict[str, Any], show_above: ShowAbove, *, queue_line: str) -> None:
        """Show a form in the last output; `show_above` shows the part's text above it."""
        self.show_earlier()
        last = self._parts[-1]
        last.show_above_form = show_above
        above = last.update(queue_line=queue_line)
        plain = "\n".join(filter(None, (above["text/plain"], bundle["text/plain"])))
        last.output.show({**bundle, "text/plain": plain})

    def end_form(self) -> None:
        """Release the output of the form. The next update shows the part in it."""
        for part in self._parts:
            part.show_above_form = None

    def show_earlier(self, *, queue_line: str = "", status: str | None = None) -> int:
        """Update all parts before the last one that may have changed; return their characters.

        The status line is below the part before the last one, unless that is final.
        """
        size = 0
        for number in range(self.final_count, len(self._parts) - 1):
            each = self._parts[number]
            each.release()
            is_final = each.part.is_final and each.show_above_form is None
            is_final = is_final and number == self.final_count
            self.final_count += is_final
            below = status if number == len(self._parts) - 2 and not is_final else None
            shown = each.update(status=below, queue_line=queue_line, is_earlier=True)
            size += len(shown["text/markdown"])

        self._parts[-1].release()
        return size

    def show_all(self, *, status: str, queue_line: str, tools_run: bool) -> int:
        """Update all parts that may have changed, and return the number of rendered characters.

        The status line is shown while no form is open. While `tools_run`, an empty last part is
        not published, because their output comes first.
        """
        last = self._parts[-1]
        if tools_run and not self.last_is_shown and not last.part.pieces:
            return self.show_earlier(queue_line=queue_line, status=status)

        size = self.show_earlier(queue_line=queue_line)
        return size + len(last.update(status=status, queue_line=queue_line)["text/markdown"])

    def show_again(self) -> None:
        """Publish all outputs again, in order, because a tool has cleared the cell."""
        for part in self._parts:
            for output in (*(image for image, _ in part.images), part.output):
                if output.shown is not None:
                    output.publish(output.shown, update=False, final=False)

    def show_final(self) -> None:
        """Publish the parts before the first one that is not final. Used in headless runs."""
        for each in self._parts:
            each.release(final=True)
            if each is self._parts[-1] or not each.part.is_final:
                return
            if each.output.shown is None:
                each.output.show(each.part.bundle(), final=True)

    def finish(self, *, live: bool) -> None:
        """Replace all outputs by final ones, without status lines and display ids."""
        self.end_form()
        if live:
            # Publish new parts in order first, and not as final: a reloaded page ignores an output
            # that is final when it first appears.
            self.show_earlier()
            if not self.last_is_shown:
                self._parts[-1].update()

        # From the last to the first if live: a reloaded page places an unknown part after the
        # previous ones, which it recognizes only while they are not final.
        parts = list(reversed(self._parts)) if live else self._parts
        for each in parts:
            if not live:
                each.release(final=True)

            if live or each.output.shown is None:
                bundle = each.part.bundle()
                if any(bundle.values()) or each.output.shown is not None:
                    each.output.show(bundle, final=True)

            if live:
                for output, image in reversed(each.images):
                    output.show(image, final=True)
