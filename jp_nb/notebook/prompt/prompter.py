"""`Prompter` in a notebook: show one prompt at a time, as a form or on stdin, with a deadline.

The cell's thread shows and ends prompts. Another thread hands over a prompt and awaits its end: it
only adds the prompt to the open ones, and posts the rest to the loop of the cell's thread. Code in
the cell serves the loop until its own prompt has ended. `prompt_view.py` shows the prompt.

Source: `docs/prompts.md`, `docs/architecture.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from jp_nb.agent.prompting.prompt_ends import AnyEnd, NotAnswered, PromptEnd, T, Unavailable
from jp_nb.agent.prompting.prompt_queue import PromptQueue
from jp_nb.agent.prompting.prompts import Prompt
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.prompt.forms.form_output import FormOutput
from jp_nb.notebook.prompt.open_prompt import OpenPrompt
from jp_nb.notebook.prompt.prompt_view import PromptView
from jp_nb.notebook.prompt.running_cell.presence import Presence
from jp_nb.rendering.prompt_texts.prompt_summary import summarize_prompt
from jp_nb.session.threads.cell_loop import CellLoop


class NotebookPrompter:
    """Asks the user of the notebook; implements `Prompter` (`agent/prompting/prompts.py`).

    A prompt is *open* from the call that asks it to its end. Meanwhile it waits in the queue, or
    `PromptView` shows it.
    """

    def __init__(self, loop: CellLoop) -> None:
        self._loop = loop
        # The open prompts: a dict in place of a set, to keep the order. The asking thread adds one.
        self._open: dict[OpenPrompt[Any], None] = {}
        self._queue = PromptQueue(self._show)  # which it calls for one prompt at a time
        self._view = PromptView(loop, self._end)

    # --- any thread --------------------------------------------------------------------------

    def unavailable(self) -> Unavailable | None:
        """Return the reason why no user can be asked in the cell; None if one may answer."""
        route = self._view.find_route()
        return route if isinstance(route, Unavailable) else None

    def cell_interrupted(self) -> None:
        """Show no further prompt before `cell_begins` or `ask_in_cell`: the cell has ended."""
        self._view.presence = replace(self._view.presence, runs_cell=False)

    async def ask(self, prompt: Prompt[T]) -> PromptEnd[T]:
        """Show `prompt` and wait for the answer. Cancelling the task removes the prompt.

        No record replaces the form: a turn asks, and its transcript shows the answer.
        """
        if (unavailable := self.unavailable()) is not None:
            return unavailable

        open_prompt = self._hand_over(prompt, keeps_record=False)
        try:
            return await asyncio.wrap_future(open_prompt.future)
        except asyncio.CancelledError:  # leaves the future alone (`OpenPrompt`)
            self._withdraw(open_prompt)
            raise

    def interrupt(self) -> None:
        """End all current prompts as interrupted. Later prompts are shown."""
        # End waiting prompts first: the end of the visible one would show the next.
        pending = [*reversed(self._open)]
        self._loop.post(lambda: self._end_each(pending, "interrupted"))

    # --- the cell's thread -------------------------------------------------------------------

    def cell_begins(self, settings: PromptConfig, place: FormOutput | None = None) -> None:
        """Detect the front end of the running cell. `settings` are valid until the next cell.

        Forms are shown in `place`; if it is None, each form has its own output.
        """
        self._end_all("cancelled")  # in case the previous cell ended without `cell_ends`
        self._view.settings = settings
        self._view.place = place
        self._view.presence = Presence.detect()

    def cell_ends(self) -> None:
        """Remove all open prompts, because no form outlives its cell."""
        self._end_all("cancelled")
        self._view.place = None

    def ask_in_cell(self, prompt: Prompt[T], *, keeps_record: bool = True) -> PromptEnd[T]:
        """Show `prompt` from code that runs in the cell, and wait.

        A static record replaces the form, unless `keeps_record` is False. Prompts that already wait
        are shown first. A worker thread may call this method while the cell serves the loop.

        Raises:
            KeyboardInterrupt: The kernel was interrupted. Every prompt has ended by then.
        """
        if self._loop.is_served_by_other_thread:  # this is a worker thread
            if (unavailable := self.unavailable()) is not None:
                return unavailable
            return self._hand_over(prompt, keeps_record=keeps_record).future.result()

        self._view.presence = Presence.detect()
        if (unavailable := self.unavailable()) is not None:
            return unavailable

        with self._loop.interrupts.defer():
            open_prompt = self._hand_over(prompt, keeps_record=keeps_record)
            try:
                # Jobs of the loop run meanwhile, but no function of a tool: this code occupies the
                # thread.
                self._loop.serve(open_prompt.future.done, tools=False)
            except BaseException:
                self._end_all("interrupted")
                raise

            return open_prompt.future.result()

    # --- one at a time -----------------------------------------------------------------------

    def _hand_over(self, prompt: Prompt[T], *, keeps_record: bool) -> OpenPrompt[T]:
        """Let the cell's thread show `prompt` when it is its turn."""
        open_prompt = OpenPrompt(prompt, keeps_record=keeps_record)
        self._open[open_prompt] = None
        self._loop.post(lambda: self._enqueue(open_prompt))
        return open_prompt

    def _enqueue(self, open_prompt: OpenPrompt[Any]) -> None:
        if open_prompt in self._open:  # else it has ended meanwhile
            self._queue.add(open_prompt)

    def _withdraw(self, open_prompt: OpenPrompt[Any]) -> None:
        """Remove a prompt for whose answer no code waits any more; in any thread."""
        open_prompt.withdraw()
        self._loop.post(lambda: self._end_each([open_prompt], "cancelled"))

    def _show(self, open_prompt: OpenPrompt[Any]) -> None:
        if open_prompt.withdrawn:
            self._end_each([open_prompt], "cancelled")
        else:
            self._view.show(open_prompt)

    def _end(self, open_prompt: OpenPrompt[Any], end: AnyEnd) -> None:
        """End a prompt, and show the next one. The first end counts; later ones are ignored."""
        if open_prompt not in self._open:
            return

        del self._open[open_prompt]
        try:
            was_shown = self._queue.remove(open_prompt)  # False if it was still waiting
            if was_shown:
                record = None
                if open_prompt.keeps_record and not isinstance(end, Unavailable):
                    record = summarize_prompt(open_prompt.prompt, end)
                self._view.remove(record)
        finally:  # an interrupt must not leave the asking code waiting forever
            open_prompt.future.set_result(end)

        self._queue.show_next()
        if self._queue.shown is None:
            self._view.stop_listening()

    def _end_each(
        self, prompts: Sequence[OpenPrompt[Any]], end: Literal["cancelled", "interrupted"]
    ) -> None:
        for open_prompt in prompts:
            self._end(open_prompt, NotAnswered(end, open_prompt.channel))

    def _end_all(self, end: Literal["cancelled", "interrupted"]) -> None:
        """End all open prompts without showing another one."""
        self._queue.clear_waiting()  # otherwise ending one prompt would show the next
        self._end_each([*self._open], end)
        self._view.remove(None)  # in case an interrupt ended the call in `_end` early
        self._view.stop_listening()
