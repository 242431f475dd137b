"""The output of the tools that run in a turn: displays, printed text, and images of results.

A *batch* consists of the tool calls of one response of the model (`call_batch.py`). A *function* of
a tool runs on the cell's thread, and occupies it. Three kinds of output are handled here:

- Displays, and text printed by functions, appear in the cell like those of other code. `ToolOutput`
  watches them (`tool_output.py`). So the turn needs a new part below them: `NewPart`.
- Text that other tools print becomes a part of the call's line (`printed.py`).
- Images of results are shown when all calls of the batch have ended.

`TurnDisplay` reports the calls, and adds the result to the turn. When a call has ended, it takes
the images of the batch. It ends a batch that is over only when something else follows: the next
call, or text of the model. So the images are taken before `end_batch` drops the batch.

Source: `docs/guide.md`, "While a turn runs".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jp_nb.agent.display import ToolEnds
from jp_nb.notebook.display.call_batch import CallBatch
from jp_nb.notebook.display.printed import PrintedTexts
from jp_nb.notebook.display.tool_output import SendOutput, ToolOutput


@dataclass(frozen=True, slots=True)
class NewPart:
    """Start of a new part, below the output of tools and the images of their results.

    Attributes:
        held: Output of a headless run, which `ToolOutput` has held back until its place is known.
            In a live cell, output was sent at once.
        images: MIME bundles of images of results.
    """

    held: list[SendOutput] = field(default_factory=list)
    images: list[dict[str, Any]] = field(default_factory=list)


class RunningTools:
    """The tools of one turn. Without a kernel, there is neither `output` nor `printed` text.

    The methods are called in the threads of `TurnDisplay`: functions begin and end on the cell's
    thread, and other calls on the agent's thread.
    """

    def __init__(self, output: ToolOutput | None, printed: PrintedTexts | None) -> None:
        self._output = output
        self._printed = printed
        self._batch = CallBatch()

    def open(
        self, *, on_cleared: Callable[[], None], on_printed: Callable[[], None] | None
    ) -> None:
        """Start to watch the output.

        `on_cleared` is called when a tool has cleared the cell's outputs, and `on_printed` when a
        call has printed text. Any thread may call them.
        """
        if self._output is not None:
            self._output.on_cleared = on_cleared
            self._output.open()

        if self._printed is not None:
            if on_printed is not None:
                self._printed.changed = on_printed
            self._printed.open()

    @property
    def are_running(self) -> bool:
        """True if a call of the batch has begun and has not ended."""
        return self._batch.is_running

    # --- calls -------------------------------------------------------------------------------

    def begin_call(self, call_id: str) -> None:
        """Add a call to the batch. `end_batch` comes before the first call of the next one."""
        self._batch.begin(call_id)
        if self._output is not None:
            self._output.watches = True  # until the end of the batch; other output is not a tool's

    def begin_printing(self, call_id: str) -> None:
        """Take the text that this call prints, for the line of the call."""
        if self._printed is not None:
            self._printed.begin(call_id)

    def end_call(self, call_id: str) -> str | None:
        """Note that a call has ended; return all text that it printed, if that is not shown yet.

        Later text of the call's threads belongs to the cell.
        """
        self._batch.end(call_id)
        return None if self._printed is None else self._printed.end(call_id)

    def take_printed(self) -> Mapping[str, str]:
        """Return the whole text of each open call that has printed since the last time, by id."""
        return {} if self._printed is None else self._printed.take()

    def end_batch(self) -> NewPart | None:
        """End the batch if all its calls have ended; return a part if there is output above it.

        Only the output of other tools than functions is left: that of a function has started a new
        part when the function ended.
        """
        if not self._batch.is_over:
            return None

        self._batch = CallBatch()
        if self._output is None:
            return None

        part = None
        if self._output.check_output_of_others():
            part = NewPart(self._output.take_of_others())

        self._output.watches = False
        return part

    # --- images ------------------------------------------------------------------------------

    def keep_images(self, event: ToolEnds) -> None:
        """Keep the images of a result until `take_images`.

        They are not shown if the function of the tool has displayed an image itself.
        """
        if event.call_id in self._batch.calls_with_image:
            return

        self._batch.images += (
            {**image.display_data, "text/plain": f"[{image.noun}: {image.words}]"}
            for image in event.images
        )

    def take_images(self, *, interrupted: bool = False) -> NewPart | None:
        """Return a part below the images of all results, if there are any, when the batch is over.

        With `interrupted`, calls that have not ended are not awaited.
        """
        is_due = self._batch.is_over or interrupted
        if not is_due or not self._batch.images:
            return None
        return NewPart(images=self._batch.take_images())

    # --- functions ---------------------------------------------------------------------------

    def begin_function(self, call_id: str) -> None:
        """Note that the function of a call begins, on this thread."""
        if self._output is not None:
            self._output.begin_function()
        if self._printed is not None:
            self._printed.function = call_id

    def end_function(self, call_id: str) -> list[SendOutput] | None:
        """Note that the function has ended; return its held output.

        Return None if it has shown nothing. The list is empty in a live cell, where the output was
        sent at once.
        """
        if self._printed is not None:
            self._printed.function = None
        if self._output is None:
            return None

        has_output = self._output.end_function()
        if self._output.function_has_image:
            self._batch.calls_with_image.add(call_id)
        if not has_output:
            return None

        if self._printed is not None:
            # The function may have returned an awaitable. Its text is printed below this output,
            # not in the line of the call, which is above: so it is taken no more.
            self._printed.end(call_id)

        return self._output.take_of_function()

    def check_function_output(self) -> bool:
        """Return True if the running function has shown anything since the last call."""
        return self._output is not None and self._output.check_function_output()

    # --- sending and closing -----------------------------------------------------------------

    def send_now(self) -> None:
        """Send the output that waits for the next batch of messages."""
        if self._output is not None:
            self._output.send_now()

    def close_printed(self) -> None:
        """Stop taking printed text."""
        if self._printed is not None:
            self._printed.close()

    def close_output(self) -> list[SendOutput]:
        """Stop watching; return the output that is still held."""
        if self._output is None:
            return []

        self._output.close()
        return self._output.take_of_function() + self._output.take_of_others()
