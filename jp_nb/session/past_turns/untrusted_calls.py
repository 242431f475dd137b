"""Ask the user before tool calls of an untrusted record run again.

A record is untrusted if it is not signed with the user's key, so someone else may have added its
calls. `%jp replay` and `%jp call --last` run recorded calls after one prompt about all of them.
`%jp resume` has a prompt of its own for each call, which only begins with the same sentence.

Source: `docs/security.md`, `docs/decisions.md` D100.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.agent.prompting.prompt_ends import Answered, Unavailable
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, PromptDetail
from jp_nb.errors import PromptCancelled, PromptUnavailable
from jp_nb.record.entries.events import ToolCallRequest
from jp_nb.rendering.prompt_texts.prompt_text import spell_name
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.questions.cell_questions import CellQuestions

_CANCEL: Final = Action("c", "Do not run it", "cancel")
_RUN_HERE: Final = Action("r", "Run it here", "run")


def confirm_untrusted_calls(
    active: ActiveConversation, cell_questions: CellQuestions, calls: Sequence[ToolCallRequest]
) -> None:
    """Ask the user in the cell to permit `calls`, if the record is untrusted.

    Raises:
        UsageError: A turn is running.
        PromptUnavailable: No user is available to decide. Nothing has run.
        PromptCancelled: The user does not want them to run.
    """
    distrust = active.trust.why_not
    if distrust is None:
        return

    # While a turn runs, the calls would be refused after the user has decided.
    active.refuse_while_running()

    match cell_questions.ask_action(_make_prompt(calls, distrust)):
        case Answered(value="run"):
            return
        case Unavailable(reason=reason):
            raise PromptUnavailable(
                "the history of this notebook is not trusted, and only a user can decide "
                f"whether its tool calls run; no user is available: {reason}. Nothing was run. "
                "`%jp trust` in a live session shows its settings, and asks",
                reason=reason,
            )

    raise PromptCancelled("nothing was run")


def _make_prompt(calls: Sequence[ToolCallRequest], distrust: str) -> ActionPrompt:
    """Return the prompt with all calls and their arguments. Not to run them is the first choice."""
    if len(calls) == 1:
        sentence = describe_untrusted_call(calls[0].name, distrust)
        text = f"{sentence}. If it runs, it runs here, with your rights."
    else:
        text = (
            f"This notebook's history is not trusted ({distrust}), so these {len(calls)} calls "
            "may have been added by someone else. If they run, they run here, with your rights."
        )

    exhibits = tuple(
        PromptDetail(f"{number}. {spell_name(call.name)}", call.arguments or "(no arguments)")
        for number, call in enumerate(calls, start=1)
    )
    return ActionPrompt(text, (_CANCEL, _RUN_HERE), exhibits=exhibits, last_line="Run?")


def describe_untrusted_call(name: str, distrust: str) -> str:
    """Return the first sentence of a prompt about a call of the tool `name`, without a period."""
    return (
        f"This notebook's history is not trusted ({distrust}), so the call of {spell_name(name)} "
        "may have been added by someone else"
    )
