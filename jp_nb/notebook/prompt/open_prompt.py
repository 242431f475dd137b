"""A prompt that has not ended, with the future of its end and the deadline of a read from stdin.

Only an interrupt of the kernel ends a read from stdin. So `Deadline` sends one when the time is
over, and when `OpenPrompt.withdraw` expires it.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Generic

from jp_nb.agent.prompting.prompt_ends import Channel, PromptEnd, T
from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    AnyPrompt,
    FormPrompt,
    Prompt,
    QuestionPrompt,
)
from jp_nb.notebook.prompt.running_cell.deadlines import Deadline


class OpenPrompt(Generic[T]):
    """A prompt that has not ended.

    Attributes:
        prompt: The question, the decision, or the form.
        keeps_record: True if a static record of the answer replaces the form.
        channel: The way in which the user is asked now.
        deadline: The deadline of a read from stdin, which blocks the loop; None before the first.
        withdrawn: True if the asking code no longer waits.
        future: Gets the end of the prompt.
    """

    def __init__(self, prompt: Prompt[T], *, keeps_record: bool) -> None:
        # These are all kinds of `Prompt`, which the type checker does not know.
        assert isinstance(prompt, QuestionPrompt | ActionPrompt | FormPrompt)
        self.prompt: AnyPrompt = prompt
        self.keeps_record = keeps_record
        self.channel: Channel = "form"
        self.deadline: Deadline | None = None
        self.withdrawn = False
        self.future: Future[PromptEnd[T]] = Future()
        # Mark as running, so that cancelling the task that awaits the future does not cancel it.
        self.future.set_running_or_notify_cancel()

    def is_expired(self) -> bool:
        """Return True if the deadline has ended the read from stdin, with an interrupt.

        Such an interrupt is not one of the user.
        """
        return self.deadline is not None and self.deadline.expired

    def begin_deadline(self, seconds: float) -> Deadline:
        """Return a new deadline of `seconds`. It is already over if the prompt was withdrawn."""
        self.deadline = Deadline(seconds)
        if self.withdrawn:  # before this deadline existed, so `withdraw` has not expired it
            self.deadline.expire()
        return self.deadline

    def withdraw(self) -> None:
        """Note that the asking code no longer waits, and end a read from stdin; in any thread."""
        self.withdrawn = True
        if (deadline := self.deadline) is not None:
            deadline.expire()
