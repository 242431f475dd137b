"""Send a structured answer that does not fit its schema back to the model.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from jp_nb.agent.display import Notice
from jp_nb.agent.provider_events import FinishReason
from jp_nb.agent.turn_state import TurnContext
from jp_nb.record.entries.events import Entry
from jp_nb.record.reading.marks import is_schema_retry, make_schema_retry
from jp_nb.text import one_line

RETRIES_SETTING: Final = "assistant.request.max_schema_retries"
MISFIT_MESSAGE: Final = """\
Your answer does not fit the JSON schema:

{}

Answer again with exactly one JSON value that fits the schema, and no other text."""

AnswerCheck = Callable[[Sequence[Entry]], Sequence[str]]
"""Returns the problems of the last structured answer in some entries; none if it fits."""


class AnswerRetries:
    """Checks the structured answer of a turn at its end, and asks the model for another one.

    `check` runs on the cell's thread, because a schema can have validators, which are user code. It
    also keeps the answer for the cell, so it runs for each answer, also a final one. Without
    `check`, the turn needs no structured answer.
    """

    def __init__(self, turn: TurnContext, check: AnswerCheck | None) -> None:
        self._turn = turn
        self._check = check
        self._retry_count = 0

    async def reject_answer(self, *, max_retries: int, finish: FinishReason) -> bool:
        """Add a message about the problems of the answer; return False if the answer is final.

        The caller sends the next request, which contains the message. An answer is final if it
        fits, if it was cut or refused (`finish`), at the token limit of the turn, or after
        `max_retries`.

        Raises:
            CallInterrupted: An interrupt ended a validator.
        """
        if self._check is None:
            return False

        check = self._check
        entries = self._list_answer_entries()
        problems = await self._turn.cell.call(lambda: check(entries))

        can_improve = finish in ("completed", "other") and not self._turn.tokens.is_over_limit
        if not problems or not can_improve or self._retry_count >= max_retries:
            return False

        self._retry_count += 1
        first = one_line(problems[0], limit=300).rstrip(". ")
        number = f"{self._retry_count} of {max_retries}, {RETRIES_SETTING}"
        self._turn.display(
            Notice(
                f"⚠ The answer does not fit the schema: {first}. "
                f"The model is asked for another answer ({number})"
            )
        )
        listed = "\n".join(f"- {problem}" for problem in problems)
        # A validator may quote a value that is a secret.
        message = self._turn.secrets.hide(MISFIT_MESSAGE.format(listed))
        self._turn.record.add(make_schema_retry(message))
        return True

    def _list_answer_entries(self) -> list[Entry]:
        """Return the entries of the turn since the last rejected answer, if there is one."""
        turn = self._turn.record.stream.current_turn()
        newest = list(takewhile(lambda entry: not is_schema_retry(entry), reversed(turn)))
        return newest[::-1]
