"""The outputs of a turn: one for each part of its transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from jp_nb.notebook.display_publisher import Publish
from jp_nb.notebook.tool_output import Send
from jp_nb.rendering.transcript import Transcript


@dataclass(slots=True)
class _PartOutput:
    """The output of one part of the turn.

    Attributes:
        above: What tools have shown above it and nobody has seen yet.
        pictures: Images of results, below that, each in an output of its own.
        shown: What it shows; None if it was not published yet.
    """

    publish: Publish
    above: list[Send] = field(default_factory=list)
    shown: dict[str, Any] | None = None
    pictures: list[tuple[_PartOutput, dict[str, Any]]] = field(default_factory=list)

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

    def cut(
        self, held: list[Send], call_id: str | None = None, pictures: Iterable[dict[str, Any]] = ()
    ) -> None:
        """Begin another part, behind what tools have shown and was `held` back, and `pictures`."""
        if self._transcript.cut(call_id):
            self._parts.append(_PartOutput(self._new_output()))
        part = self._parts[-1]
        part.above += held
        for bundle in pictures:  # in the place of this part, which is empty yet and moves down
            part.pictures.append((_PartOutput(part.publish, shown=part.shown), bundle))
            part.publish, part.shown = self._new_output(), None

    def look_at_all(self) -> None:
        """Show every part again: what was settled may have changed."""
        self._settled = 0

    def show_earlier(self) -> int:
        """Show the parts behind which another one has begun, those that may have changed.

        Returns how much was looked at for that.
        """
        size = 0
        for number in range(self._settled, len(self._parts) - 1):
            if number == self._settled and self._transcript.is_final(number):
                self._settled += 1
            bundle = self._transcript.bundle(number, live=True)
            self._parts[number].release()
            self._parts[number].show(dict(bundle))
            size += len(bundle["text/markdown"])
        self._parts[-1].release()
        return size

    def show_again(self) -> None:
        """Show anew, in order, what is shown: the outputs of the cell were cleared."""
        for part in self._parts:
            if part.shown is not None:
                part.publish(part.shown, update=False, final=False)

    def show_last(self, bundle: dict[str, Any]) -> None:
        """Show `bundle` in the last output."""
        self._parts[-1].show(bundle)

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
        if live:
            self.show_earlier()  # in their order, what nobody has seen yet
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
