"""Ask the user whether an interrupted tool call runs again: `%jp resume`.

No tool runs a second time without a question, as it may already have had its effect.

Source: `docs/guide.md`, `docs/decisions.md` D124.
"""

from __future__ import annotations

from typing import Final

from jp_nb.agent.prompting.prompt_ends import Answered, NotAnswered, PromptEnd, Unavailable
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, PromptDetail
from jp_nb.errors import PromptCancelled, PromptUnavailable
from jp_nb.record.entries.events import ToolCallRequest
from jp_nb.rendering.prompt_texts.prompt_text import spell_name
from jp_nb.session.past_turns.untrusted_calls import describe_untrusted_call

_RUN: Final = Action("r", "Run it again", "run")
_RUN_HERE: Final = Action("r", "Run it here", "run")
_SKIP: Final = Action("s", "Skip it and tell the model", "skip")
_LATER: Final = Action("d", "Decide later", "later")


def read_resume_decision(end: PromptEnd[Answered]) -> bool:
    """Return True if the call runs, and False if it is skipped; raise without a decision."""
    match end:
        case Answered(value="run"):
            return True
        case Answered(value="skip"):
            return False
        case Unavailable(reason=reason):
            raise PromptUnavailable(
                "a tool call of this turn was interrupted, and only a user can decide whether "
                f"it runs; no user is available: {reason}. Nothing was run. Resume the turn in "
                "a live session, or ask something new: the call is skipped then",
                reason=reason,
            )
        case NotAnswered(end="timed_out"):
            raise PromptCancelled("no answer in time: the turn is unchanged")
    raise PromptCancelled("the turn is unchanged")


def make_resume_prompt(
    call: ToolCallRequest, number: int, count: int, *, distrust: str | None = None
) -> ActionPrompt:
    """Return the prompt about `call`, with its `number` of `count`.

    `distrust` is the reason why the record is not trusted: then skipping is the first choice.
    """
    position = f" ({number} of {count})" if count > 1 else ""
    exhibits = (PromptDetail("arguments", call.arguments),) if call.arguments else ()

    if distrust is not None:
        about = describe_untrusted_call(call.name, distrust)
        text = f"{about}{position}. If it runs, it runs here, with your rights."
        return ActionPrompt(
            text, (_SKIP, _LATER, _RUN_HERE), exhibits=exhibits, last_line="What do you want to do?"
        )

    name = spell_name(call.name)
    text = f"{name} was interrupted{position} and may already have run, fully or partly."
    return ActionPrompt(text, (_RUN, _SKIP, _LATER), exhibits=exhibits, last_line="Run it again?")
