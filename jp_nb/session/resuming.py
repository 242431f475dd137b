"""Goes on with a turn that was cut short: what is open in it, and what the person says of that.

No tool runs again silently: it may have done its work before nobody heard of it.

Source: `docs/guide.md`, `docs/decisions.md` D124.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from jp_nb.agent.prompts import (
    Action,
    ActionPrompt,
    Answered,
    Exhibit,
    NotAnswered,
    PromptEnd,
    Unavailable,
)
from jp_nb.agent.questions import RecordedAnswer
from jp_nb.errors import PromptCancelled, PromptUnavailable
from jp_nb.record.cut_short import CutShort, cut_short
from jp_nb.record.events import ToolCallRequest, ToolCallResponse
from jp_nb.record.unanswered import NoAnswer, no_answer_mark
from jp_nb.rendering.wording import one_name
from jp_nb.safe_text import one_line
from jp_nb.session.active_conversation import ActiveConversation
from jp_nb.session.tool_replay import answers_of

ABANDONED: Final = (
    "Tool call was interrupted, and the user does not have it run again: what it did until then "
    "may stand."
)
NOTHING: Final = (
    "there is nothing to resume: the last turn came to its end. `%jp retry` asks it again"
)
STRANGE: Final = (
    "what had been set for this turn does not count again: the record is not yours (`%jp trust`)"
)
_RUN: Final = Action("r", "Run it again", "run")
_RUN_STRANGE: Final = Action("r", "Run it here", "run")
_ABANDON: Final = Action("a", "Abandon it: the model is told", "abandon")
_CANCEL: Final = Action("c", "Cancel: leave the turn as it is", "cancel")
MAX_NAMED: Final = 10
"""Of calls that are abandoned."""
_EARLY: Final = ("failed", "interrupted", "stopped")


class Resuming:
    """Says what `%jp resume` does with the active conversation.

    Args:
        active: The active conversation.
        known: The status of the turns that ran in this kernel, by conversation and number.
    """

    def __init__(self, active: ActiveConversation, known: Mapping[tuple[str, int], str]) -> None:
        self._active = active
        self._known = known

    def found(self) -> CutShort | None:
        """Return the turn that can go on; None if there is none."""
        stream = self._active.document.conversation
        status = self._known.get((stream.id, stream.turn_count - 1))
        foreign = self._active.settings.projection.foreign
        return cut_short(stream, ended_early=status in _EARLY, foreign=foreign)

    def decided(
        self, found: CutShort, ask: Callable[[ActionPrompt], PromptEnd]
    ) -> tuple[list[ToolCallRequest], list[ToolCallResponse]]:
        """Return which of the open calls run again, and the responses to the others.

        Raises:
            PromptUnavailable: If nobody can be asked.
            PromptCancelled: If the person wants the turn left as it is.
        """
        doubt = self._active.trust.why_not
        again: list[ToolCallRequest] = []
        abandoned: list[ToolCallResponse] = []
        for number, call in enumerate(found.open_calls, start=1):
            prompt = resume_prompt(call, number, len(found.open_calls), doubt=doubt)
            if self._runs(ask(prompt)):
                again.append(call)
            else:
                abandoned.append(ToolCallResponse(id=call.id, content=ABANDONED, is_error=True))
        return again, abandoned

    @staticmethod
    def told(found: CutShort, abandoned: Sequence[ToolCallResponse]) -> str:
        """Return what is said of the calls that are `abandoned`; "" if none is."""
        ids = {response.id for response in abandoned}
        names = [one_line(call.name, limit=60) for call in found.open_calls if call.id in ids]
        if more := names[MAX_NAMED:]:
            names[MAX_NAMED:] = [f"{len(more)} more"]
        return f"not run again, which the model is told: {', '.join(names)}" if names else ""

    @staticmethod
    def _runs(end: PromptEnd) -> bool:
        match end:
            case Answered(value="run"):
                return True
            case Answered(value="abandon"):
                return False
            case Unavailable(reason=reason):
                raise PromptUnavailable(
                    "a tool call of this turn was cut short, and whether it runs again needs a "
                    f"person's decision; nobody can be asked: {reason}. Nothing was run: resume "
                    "it in a live session, or ask something new, which abandons the call",
                    reason=reason,
                )
            case NotAnswered(end="timed_out"):
                raise PromptCancelled("nobody answered in time: the turn is left as it was")
        raise PromptCancelled("the turn is left as it was")

    @contextmanager
    def changes_again(self, found: CutShort) -> Iterator[None]:
        """Have what was taken back with the turn count again, unless the block fails."""
        stream, changes = self._active.document.conversation, found.taken_back
        stream.append(*(change.stamped("") for change in changes))
        try:
            yield
        except BaseException:
            if changes:
                stream.append(no_answer_mark(NoAnswer("failed", len(changes))))
            raise

    def answers(self, again: Sequence[ToolCallRequest]) -> dict[str, RecordedAnswer]:
        """Return what was answered to the questions of the calls `again`, by inquiry.

        In a record that is not trusted they may be nobody's: then there are none.
        """
        if not again or not self._active.trust.trusted:
            return {}
        found = answers_of(self._active.document.conversation.current_turn())
        begins = tuple(f"{call.id}." for call in again)
        return {name: answer for name, answer in found.items() if name.startswith(begins)}


def resume_prompt(
    call: ToolCallRequest, number: int, count: int, *, doubt: str | None = None
) -> ActionPrompt:
    """Return the question what becomes of `call`, the `number`th of `count` without an answer.

    `doubt` says why the record does not count as the person's own; None if it does.
    """
    which, name = f" ({number} of {count})" if count > 1 else "", one_name(call.name)
    text = (
        f"The call of {name} has no result: the turn was cut short{which}. It may have done "
        "its work, in part or whole."
    )
    actions, last_line = (_RUN, _ABANDON, _CANCEL), "Run it again?"
    if doubt is not None:
        text = (
            f"This record does not count as yours ({doubt}): anybody may have written this call of "
            f"{name}{which}, which has no result. If it runs, it runs here, in your name."
        )
        actions, last_line = (_ABANDON, _CANCEL, _RUN_STRANGE), "What becomes of it?"
    exhibits = (Exhibit("arguments", call.arguments),) if call.arguments else ()
    return ActionPrompt(text, actions, exhibits=exhibits, last_line=last_line)
