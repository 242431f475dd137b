"""Ask a prompt on stdin until it ends: by an answer, at its deadline, or because it is withdrawn.

The dialogue blocks the cell's thread, and with it the loop. So the deadline of the prompt
interrupts this thread, as the stop button does, and its `with` block turns the interrupt into
`Expired` (`running_cell/deadlines.py`). `withdraw` of `OpenPrompt` does the same: another thread
calls it if no code waits for the answer any more.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from typing import Any

from jp_nb.agent.prompting.prompt_ends import AnyEnd, NotAnswered, Unavailable, add_sender
from jp_nb.agent.prompting.prompts import FormPrompt
from jp_nb.notebook.prompt.open_prompt import OpenPrompt
from jp_nb.notebook.prompt.running_cell.current_page import find_sender
from jp_nb.notebook.prompt.running_cell.deadlines import Expired
from jp_nb.notebook.prompt.running_cell.running_kernel import get_running_kernel
from jp_nb.notebook.prompt.stdin_prompts.input_console import InputConsole
from jp_nb.notebook.prompt.stdin_prompts.stdin import ask_on_stdin
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import StdinChannel
from jp_nb.session.threads.cell_loop import CellLoop


class Withdrawn(Exception):  # noqa: N818 - not an error
    """The asking code no longer waits for the answer."""


class TimedConsole(InputConsole):
    """A console that gives each line of a form its own deadline."""

    def __init__(self, kernel: object | None, open_prompt: OpenPrompt[Any], timeout: float) -> None:
        super().__init__(kernel)
        self._open_prompt = open_prompt
        self._timeout = timeout

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return the line typed.

        Raises:
            Expired: The time of the line is over. The form continues (`StdinPrompt.run`).
            Withdrawn: The prompt was withdrawn, which ends the form.
        """
        try:
            with self._open_prompt.begin_deadline(self._timeout):
                return super().read(prompt, secret=secret)
        except Expired:
            if self._open_prompt.withdrawn:
                raise Withdrawn from None
            raise


def ask_until_end(
    open_prompt: OpenPrompt[Any], channel: StdinChannel, loop: CellLoop, *, timeout_s: float
) -> AnyEnd:
    """Ask a prompt on stdin, on the cell's thread, and return its end."""
    try:
        end = _ask_with_deadline(open_prompt, channel, loop, timeout_s)
    except Expired:  # its time is over, or `withdraw` has expired its deadline
        if open_prompt.withdrawn:
            return NotAnswered("cancelled", channel)
        return NotAnswered("timed_out", channel)
    except Withdrawn:
        return NotAnswered("cancelled", channel)
    except NotImplementedError:  # the kernel's StdinNotImplementedError
        return Unavailable("the front end does not allow input")

    if channel == "stdin":  # the input box is in the page that ran the cell
        return add_sender(end, find_sender("execute_request"))
    return end


def _ask_with_deadline(
    open_prompt: OpenPrompt[Any], channel: StdinChannel, loop: CellLoop, timeout_s: float
) -> AnyEnd:
    """Ask on stdin. Each line of a form has its own time; another prompt has one in all.

    Raises:
        Expired: The time of another prompt than a form is over, or it was withdrawn.
        Withdrawn: The prompt was withdrawn while a line of a form was read.
    """
    kernel = None if channel == "terminal" else get_running_kernel()
    # An interrupt ends the read at once. That of the deadline does not count as the user's.
    with loop.interrupts.allow(open_prompt.is_expired):
        if isinstance(open_prompt.prompt, FormPrompt):
            timed = TimedConsole(kernel, open_prompt, timeout_s)
            return ask_on_stdin(open_prompt.prompt, timed, channel)

        with open_prompt.begin_deadline(timeout_s):
            return ask_on_stdin(open_prompt.prompt, InputConsole(kernel), channel)
