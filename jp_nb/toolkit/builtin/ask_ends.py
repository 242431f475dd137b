"""A question of the built-in tool `ask` after it ended: its outcome, and the answer.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.toolkit.builtin.ask_arguments import CheckedQuestion
from jp_nb.toolkit.question_types.select_answer import Picks
from jp_nb.toolkit.tool_context import ToolContext


@dataclass(frozen=True, slots=True)
class EndedQuestion:
    """One question of the call, after it ended.

    Attributes:
        asked: The question, and the fields of the call that had no effect.
        outcome: How it ended, who answered, and marks such as `timed_out`.
        picks: The indexes of the picked options, and the user's own text (`custom`), which is the
            answer to a free text; None without an answer.
    """

    asked: CheckedQuestion
    outcome: QuestionOutcome
    picks: Picks | None

    @classmethod
    def read(cls, asked: CheckedQuestion, context: ToolContext) -> EndedQuestion:
        """Return the question with its outcome and answer in `context`."""
        question_id = asked.question.id
        outcome = context.ends[question_id]
        if not outcome.is_answered:
            return cls(asked, outcome, None)

        choice = asked.choice
        value = context.answers.get(question_id)
        picks = choice.read_picks(value) if choice else Picks(custom=str(value))
        return cls(asked, outcome, picks)
