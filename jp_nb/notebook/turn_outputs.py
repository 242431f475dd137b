"""The outputs of a turn: one for each part of its transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jp_nb.notebook.display_publisher import Publish
from jp_nb.notebook.tool_output import Send
from jp_nb.rendering.transcript import Transcript

ShowAbove = Callable[[dict[str, str]], None]
"""Shows a bundle above a form."""


@dataclass(slots=True)
class _PartOutput:
    """The output of one part of the turn.

    Attributes:
        above: What tools have shown above it and nobody has seen yet.
        pictures: Images of results, below that, each in an output of its own.
        shown: What it shows; None if it was not published yet.
        show_above_form: While a form has the output, takes what the part would show.
    """

    publish: Publish
    above: list[Send] = field(default_factory=list)
    shown: dict[str, Any] | None = None
    pictures: list[tuple[_PartOutput, dict[str, Any]]] = field(default_factory=list)
    show_above_form: ShowAbove | None = None

    def show(self, bundle: dict[str, Any], *, final: bool = False) -> None:
        if final or bundle != self.shown:
            self.publish(bundle, update=self.shown is not None, final=final)
            self.shown = bundle

    def release(self, *, final: bool = False) -> None:
        """Send what was held back, and then the images."""
        above, self.above = self.above, []
        for send in above:
            send()
        for picture, bundle in self.pictures:
            if picture.shown is not bundle:
                picture.show(bundle, final=final)


class TurnOutputs:
    """Shows each part of a transcript in an output of its own.

    A form has the output of one part from `show_form` to `end_form`. Nothing else is shown in that
    output meanwhile, and what comes later is shown below it.

    Args:
        transcript: Has the parts.
        new_output: Makes what publishes one output.
    """

    def __init__(self, transcript: Transcript, new_output: Callable[[], Publish]) -> None:
        self._transcript = transcript
        self._new_output = new_output
        self._parts = [_PartOutput(new_output())]
        self._settled = 0  # so many of them were shown as they will stay

    @property
    def last_is_shown(self) -> bool:
        """True if something stands where the next text goes."""
        return self._parts[-1].shown is not None

    @property
    def has_form(self) -> bool:
        """True while a form has one of the outputs."""
        return any(part.show_above_form for part in self._parts)

    def cut(
        self, held: list[Send], call_id: str | None = None, pictures: Iterable[dict[str, Any]] = ()
    ) -> None:
        """Begin another part, behind what tools have shown and was `held` back, and `pictures`.

        It begins behind the line of `call_id`; or behind a form, with all that is above it: the
        buttons stay where the user is about to click.
        """
        behind_form = self._parts[-1].show_above_form is not None
        if self._transcript.cut(None if behind_form else call_id, always=behind_form):
            self._parts.append(_PartOutput(self._new_output()))
        part = self._parts[-1]
        part.above += held
        for bundle in pictures:  # in the place of this part, which is empty yet and moves down
            part.pictures.append((_PartOutput(part.publish, shown=part.shown), bundle))
            part.publish, part.shown = self._new_output(), None

    def look_at_all(self) -> None:
        """Show every part again: what was settled may have changed."""
        self._settled = 0

    # --- a form ------------------------------------------------------------------------------

    def show_form(self, bundle: dict[str, Any], show_above: ShowAbove, *, more: str) -> None:
        """Give the last output to a form, below all that was shown.

        Args:
            bundle: The form.
            show_above: Shows above the form what the output would show.
            more: A line for that, about other decisions.
        """
        self.show_earlier()
        part = self._parts[-1]
        part.show_above_form = show_above
        above = self._above_form(-1, more)
        show_above(above)
        plain = "\n".join(filter(None, (above["text/plain"], bundle["text/plain"])))
        part.show({**bundle, "text/plain": plain})

    def end_form(self) -> None:
        """Take the output of the form back; the next update shows the part in it."""
        for part in self._parts:
            part.show_above_form = None

    def _above_form(self, number: int, more: str) -> dict[str, str]:
        bundle = self._transcript.bundle(number, live=True, status=more)
        plain = "\n".join(filter(None, (bundle["text/plain"], more)))
        return {**bundle, "text/plain": plain}

    # --- while the turn runs -----------------------------------------------------------------

    def show_earlier(self, *, more: str = "", status: str | None = None) -> int:
        """Show the parts behind which another one has begun, those that may have changed.

        Args:
            more: A line above a form, about other decisions.
            status: A last line of the part before the last one, while that may change.

        Returns how much was looked at for that.
        """
        size = 0
        for number in range(self._settled, len(self._parts) - 1):
            part = self._parts[number]
            part.release()
            if part.show_above_form is not None:
                size += self._show_above_form(number, part.show_above_form, more)
                continue
            settles = number == self._settled and self._transcript.is_final(number)
            self._settled += settles
            below = status if number == len(self._parts) - 2 and not settles else None
            bundle = self._transcript.bundle(number, live=True, status=below)
            part.show(dict(bundle))
            size += len(bundle["text/markdown"])
        self._parts[-1].release()
        return size

    def show_all(self, *, status: str, more: str, tools_run: bool) -> int:
        """Show every part as it is now.

        Args:
            status: A last line, while nothing is asked.
            more: A line above a form, about other decisions.
            tools_run: What tools show next comes below what is shown now.

        Returns how much was looked at for that.
        """
        last = self._parts[-1]
        if last.show_above_form is not None:
            return self.show_earlier() + self._show_above_form(-1, last.show_above_form, more)
        if tools_run and last.shown is None and self._transcript.is_empty(-1):
            return self.show_earlier(more=more, status=status)
        size = self.show_earlier(more=more)
        bundle = self._transcript.bundle(live=True, status=status)
        if bundle["text/markdown"] or last.shown is not None:
            last.show(dict(bundle))
        return size + len(bundle["text/markdown"])

    def _show_above_form(self, number: int, show_above: ShowAbove, more: str) -> int:
        bundle = self._above_form(number, more)
        show_above(bundle)
        return len(bundle["text/markdown"])

    def show_again(self) -> None:
        """Show anew, in order, what is shown: a tool has cleared the outputs of the cell."""
        for output in self._outputs():
            if output.shown is not None:
                output.publish(output.shown, update=False, final=False)

    def _outputs(self) -> Iterator[_PartOutput]:
        for part in self._parts:
            yield from (picture for picture, _ in part.pictures)
            yield part

    # --- when it is done ---------------------------------------------------------------------

    def show_final(self) -> None:
        """Show, with nobody there, the first parts that cannot change any more."""
        for number, part in enumerate(self._parts):
            part.release(final=True)
            if not self._transcript.is_final(number):
                return
            if part.shown is None:
                part.show(dict(self._transcript.bundle(number)), final=True)

    def finish(self, *, live: bool) -> None:
        """Replace whatever was shown by static outputs, which have nothing volatile in them."""
        self.end_form()
        if live:
            # In their order, what nobody has seen yet; a page that was loaded again takes up no
            # output that is final when it is first shown.
            self.show_earlier()
            bundle = self._transcript.bundle(live=True)
            if not self.last_is_shown and any(bundle.values()):
                self._parts[-1].show(dict(bundle))
        numbers = range(len(self._parts))
        # Live from the last to the first: a page that was loaded again finds a part that it has
        # never seen by the ones before it, as long as those are not final.
        for number in reversed(numbers) if live else numbers:
            part = self._parts[number]
            if not live:
                part.release(final=True)
            if live or part.shown is None:
                bundle = self._transcript.bundle(number)
                if any(bundle.values()) or part.shown is not None:
                    part.show(dict(bundle), final=True)
            for picture, bundle in reversed(part.pictures) if live else ():
                picture.show(bundle, final=True)
