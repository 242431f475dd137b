"""A form on stdin: its questions one after the other.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from jp_nb.agent.prompts import FormEnd, FormPrompt, NotAnswered
from jp_nb.notebook.prompt.stdin import Console, StdinChannel, ask_on_stdin


def ask_form_on_stdin(
    prompt: FormPrompt, console: Console, channel: StdinChannel
) -> FormEnd | NotAnswered:
    """Put the questions of `prompt` to the person at `console` and return what comes of it."""
    return FormEnd(tuple(ask_on_stdin(page, console, channel) for page in prompt.pages))
