"""Ask any prompt on stdin: a form (`stdin_form.py`), or a single question or decision.

On stdin, the user types lines, either in the input box of a front end or in IPython's terminal. The
`StdinChannel` says which of both it is.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from dataclasses import replace

from jp_nb.agent.prompting.form_draft import Screen
from jp_nb.agent.prompting.prompt_ends import Answered, AnyEnd
from jp_nb.agent.prompting.prompts import AnyPrompt, FormPrompt, SimplePrompt
from jp_nb.notebook.prompt.stdin_prompts.input_console import Console
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import StdinChannel, converse
from jp_nb.notebook.prompt.stdin_prompts.stdin_form import (
    StdinForm,
)
from jp_nb.notebook.prompt.stdin_prompts.stdin_prompt import StdinPrompt
from jp_nb.notebook.prompt.stdin_prompts.stdin_questions import (
    format_single_head,
    make_single_dialogue,
)


def ask_on_stdin(prompt: AnyPrompt, console: Console, channel: StdinChannel) -> AnyEnd:
    """Ask `prompt` at `console` and return its end: an answer, or the reason why there is none.

    `console` may raise `Expired` (`deadlines.py`): the time for one question is over. Then the
    question ends without an answer, and a form turns to its next one.
    """
    if isinstance(prompt, FormPrompt):
        return StdinForm(prompt, console, channel).run()
    return _StdinSingle(prompt, console, channel).run()


class _StdinSingle(StdinPrompt):
    """A question or a decision that is no form: its first answer ends it.

    `StdinPrompt` (`stdin_prompt.py`) has a `FormDraft`, the state of the prompt, and asks the
    screens that it names until it has an end. A single question has one screen. The class calls
    `_write_head` once, `_ask_screen` for each screen, and `_handle_end_of_input` if no more input
    comes, or none that is an answer.
    """

    def __init__(self, prompt: SimplePrompt, console: Console, channel: StdinChannel) -> None:
        super().__init__(prompt, console, channel)
        self._prompt = prompt

    def _write_head(self) -> None:
        self._write(*format_single_head(self._prompt))

    def _ask_screen(self, screen: Screen) -> None:
        # `converse` writes the dialogue's lines, and reads until a line is an answer.
        answered = converse(self._console, make_single_dialogue(self._prompt))
        assert isinstance(answered, Answered)  # without `keys`, it returns no key
        self._draft.decide(replace(answered, channel=self._channel))

    def _handle_end_of_input(self) -> None:
        self._draft.discard()  # ends the prompt as not answered
