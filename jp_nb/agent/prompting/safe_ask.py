"""Ask the user with one prompt, without an error if the prompt fails.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import logging

from jp_nb.agent.prompting.prompt_ends import PromptEnd, T, Unavailable
from jp_nb.agent.prompting.prompts import Prompt, Prompter
from jp_nb.agent.turn_times import TurnTimes
from jp_nb.toolkit.function_tools.tool_errors import summarize_error

log = logging.getLogger(__name__)


class SafeAsk:
    """Displays one prompt and waits. A prompt that fails counts as unavailable.

    `times` measures the waits; None if they are not measured.
    """

    def __init__(self, prompter: Prompter, times: TurnTimes | None = None) -> None:
        self._prompter = prompter
        self._times = TurnTimes() if times is None else times

    async def __call__(self, prompt: Prompt[T], /) -> PromptEnd[T]:
        """Display `prompt` and wait. It raises no error, except for cancellation."""
        try:
            with self._times.waiting_for_user():
                return await self._prompter.ask(prompt)
        except Exception as exc:
            log.exception("A prompt failed")
            return Unavailable(f"the prompt failed: {summarize_error(exc)}")
