"""The outputs of the cell that show the parts of a turn's transcript, also around a form.

Each part of the transcript has one output. `TurnDisplay` starts a new part below each output of a
tool. Only parts that may have changed are updated. A part *is final* if it cannot change any more.

In a live cell, outputs are shown as early as possible, and replaced when the turn ends. In a
headless run, an output is published once, when its part is final. So output of tools is *held*
until the part above it is published.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from jp_nb.notebook.display.cell_output import Publish, ShownOutput
from jp_nb.notebook.display.tool_output import SendOutput
from jp_nb.rendering.transcripts.transcript import Transcript, TranscriptPart

ShowAbove = Callable[[dict[str, Any]], None]
"""Shows a bundle above a form."""


@dataclass(slots=True)
class _ResultImage:
    """An image of a tool's result, and its output."""

    output: ShownOutput
    bundle: dict[str, Any]

    @property
    def is_shown(self) -> bool:
        """True if the output shows the image, and not the part that had the output before."""
        return self.output.bundle is self.bundle


@dataclass(slots=True)
class _PartOutput:
    """One part of the turn, and its output.

    Attributes:
        part: The part of the transcript, which renders its pieces as a bundle.
        output: The output of the cell that shows it.
        held: Output of tools above the part that was not sent yet.
        images: Images of results below `held`, each in a separate output.
        show_above_form: While a form occupies the output: shows the part above the form.
    """

    part: TranscriptPart
    output: ShownOutput
    held: list[SendOutput] = field(default_factory=list)
    images: list[_ResultImage] = field(default_factory=list)
    show_above_form: ShowAbove | None = None

    def show_tool_output(self, *, final: bool = False) -> None:
        """Send the held output, and then the images that are not shown yet."""
        held = self.held
        self.held = []

        for send in held:
            send()

        for image in self.images:
            if not image.is_shown:
                image.output.show(image.bundle, final=final)

    def update_live(
        self, *, status: str | None = None, queue_line: str = "", is_earlier: bool = False
    ) -> dict[str, str]:
        """Show the part as it is now, and return its bundle.

        Above a form, the queue line about later questions replaces the status line. With
        `is_earlier`, an empty part is published too, to keep the order of the outputs.
        """
        if self.show_above_form is not None:
            bundle = self.part.render(live=True, status=queue_line)
            bundle["text/plain"] = "\n".join(filter(None, (bundle["text/plain"], queue_line)))
            self.show_above_form(bundle)
            return bundle

        bundle = self.part.render(live=True, status=status)
        if is_earlier or bundle["text/markdown"] or self.output.is_shown:
            self.output.show(bundle)

        return bundle

    def show_final(self) -> None:
        """Show the final state of the part. An empty part that was never shown stays hidden."""
        bundle = self.part.render()
        if any(bundle.values()) or self.output.is_shown:
            self.output.show(bundle, final=True)


class TurnOutputs:
    """Outputs of a transcript, one for each part.

    A form occupies the output of one part from `show_form` to `end_form`. Meanwhile, later parts
    appear below the form.
    """

    def __init__(self, transcript: Transcript, new_output: Callable[[], Publish]) -> None:
        self._transcript = transcript
        self._new_output = new_output
        self._parts: list[_PartOutput] = []
        self._final_count = 0  # number of the first parts that are shown and cannot change
        self._add_part()

    def _add_part(self) -> None:
        part = self._transcript.parts[-1]
        self._parts.append(_PartOutput(part, self._add_output()))

    def _add_output(self) -> ShownOutput:
        return ShownOutput(self._new_output())

    @property
    def last_is_shown(self) -> bool:
        """True if the output of the last part was published."""
        return self._parts[-1].output.is_shown

    @property
    def has_form(self) -> bool:
        """True while a form occupies one of the outputs."""
        return any(part.show_above_form for part in self._parts)

    # --- new parts and forms -----------------------------------------------------------------

    def start_part(
        self,
        held: list[SendOutput],
        call_id: str | None = None,
        images: Iterable[dict[str, Any]] = (),
    ) -> None:
        """Put the `held` output of tools and `images` above the next piece of the transcript.

        They start a new part, after the line of the tool call `call_id`. If the last part is empty,
        they are put above that part instead. If there is a form, the new part starts after the
        form, so that its buttons do not move when the user is about to click.
        """
        # `start_part` returns False, and starts none, if no piece would stay in the last part.
        is_behind_form = self._parts[-1].show_above_form is not None
        if is_behind_form:
            is_new = self._transcript.start_part(None, always=True)
        else:
            is_new = self._transcript.start_part(call_id)
        if is_new:
            self._add_part()

        last = self._parts[-1]
        last.held += held
        for bundle in images:
            self._insert_image_above(last, bundle)

    def _insert_image_above(self, part: _PartOutput, bundle: dict[str, Any]) -> None:
        # Outputs are in the order in which they were made: the image takes that of the part, and
        # the part gets a new one.
        part.images.append(_ResultImage(part.output, bundle))
        part.output = self._add_output()

    def reopen_parts(self) -> None:
        """Update all parts again, also final ones, because text was discarded."""
        self._final_count = 0

    def show_form(self, bundle: dict[str, Any], show_above: ShowAbove, *, queue_line: str) -> None:
        """Show a form in the last output; `show_above` shows the part's text above it."""
        self.show_earlier()
        last = self._parts[-1]
        last.show_above_form = show_above
        above = last.update_live(queue_line=queue_line)
        plain = "\n".join(filter(None, (above["text/plain"], bundle["text/plain"])))
        last.output.show({**bundle, "text/plain": plain})

    def end_form(self) -> None:
        """Release the output of the form. The next update shows the part in it."""
        for part in self._parts:
            part.show_above_form = None

    # --- updates of a live cell --------------------------------------------------------------

    def show_all_live(self, *, status: str, queue_line: str, tools_run: bool) -> int:
        """Update all parts that may have changed, and return the number of rendered characters.

        The status line is shown while no form is open. While `tools_run`, an empty last part is
        not published, because their output comes first.
        """
        last = self._parts[-1]
        output_comes_first = tools_run and not self.last_is_shown and not last.part.pieces
        if output_comes_first:
            return self.show_earlier(queue_line=queue_line, status=status)

        earlier_chars = self.show_earlier(queue_line=queue_line)
        shown = last.update_live(status=status, queue_line=queue_line)

        return earlier_chars + len(shown["text/markdown"])

    def show_earlier(self, *, queue_line: str = "", status: str | None = None) -> int:
        """Update all parts before the last one that may have changed; return their characters.

        The status line is below the part before the last one, unless that is final.
        """
        chars = 0
        last_number = len(self._parts) - 1

        for number in range(self._final_count, last_number):
            part = self._parts[number]
            part.show_tool_output()

            is_final = part.part.is_final and part.show_above_form is None
            part_status = None
            # A final part below one that is not final is updated again: only a count is kept.
            if is_final and number == self._final_count:
                self._final_count += 1  # this is its last update
            elif number == last_number - 1:
                part_status = status

            shown = part.update_live(status=part_status, queue_line=queue_line, is_earlier=True)
            chars += len(shown["text/markdown"])

        self._parts[-1].show_tool_output()
        return chars

    def show_again(self) -> None:
        """Publish all outputs again, in order, because a tool has cleared the cell."""
        for part in self._parts:
            for image in part.images:
                image.output.show_again()

            part.output.show_again()

    # --- final outputs -----------------------------------------------------------------------

    def publish_final_parts(self) -> None:
        """Publish the parts before the first one that is not final. Used in headless runs."""
        for part in self._parts:
            part.show_tool_output(final=True)
            if part is self._parts[-1] or not part.part.is_final:
                return
            if not part.output.is_shown:
                part.output.show(part.part.render(), final=True)

    def finish_headless(self) -> None:
        """Publish all outputs that are not published yet."""
        self.end_form()
        for part in self._parts:
            part.show_tool_output(final=True)
            if not part.output.is_shown:
                part.show_final()

    def finish_live(self) -> None:
        """Replace all outputs by final ones, without status lines and display ids."""
        self.end_form()

        # Publish new parts in order first, and not as final: a reloaded page ignores an output that
        # is final when it first appears.
        self.show_earlier()
        if not self.last_is_shown:
            self._parts[-1].update_live()

        # From the last to the first: a reloaded page places an unknown part after the previous
        # ones, which it recognizes only while they are not final.
        for part in reversed(self._parts):
            part.show_final()
            for image in reversed(part.images):
                image.output.show(image.bundle, final=True)
