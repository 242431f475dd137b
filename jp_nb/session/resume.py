"""Resume an interrupted turn, and ask the user about its open tool calls.

No tool runs a second time without a question, as it may already have had its effect.

Source: `docs/guide.md`, `docs/decisions.md` D124.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from jp_nb.agent.prompts import (
    Action,
    ActionPrompt,
    Answered,
    NotAnswered,
    PromptDetail,
    PromptEnd,
    Unavailable,
)
from jp_nb.agent.questions import RecordedAnswer
from jp_nb.errors import PromptCancelled, PromptUnavailable, UsageError
from jp_nb.record.events import ToolCallRequest, ToolCallResponse
from jp_nb.record.journal import OpenCall
from jp_nb.record.stream import NoAnswer, make_no_answer
from jp_nb.record.turns import InterruptedTurn, find_interrupted_turn
from jp_nb.rendering.prompts import one_name
from jp_nb.session.bench import BenchTools, recorded_answers, untrusted_call
from jp_nb.session.conversation import ActiveConversation

ABANDONED: Final = (
    "This tool call was interrupted and may have run, fully or partly. The user chose not to run "
    "it again."
)
UNTRUSTED_SKIPPED: Final = "The user chose not to run this tool call."
_RUN: Final = Action("r", "Run it again", "run")
_RUN_HERE: Final = Action("r", "Run it here", "run")
_SKIP: Final = Action("s", "Skip it and tell the model", "skip")
_LATER: Final = Action("d", "Decide later", "later")
_UNFINISHED: Final = ("failed", "interrupted", "stopped")


class TurnResumption:
    """Continues the last turn of the active conversation: `%jp resume`."""

    def __init__(
        self, active: ActiveConversation, turn_statuses: Mapping[tuple[str, int], str]
    ) -> None:
        self._active = active
        self._turn_statuses = turn_statuses

    def find_turn(self) -> InterruptedTurn | None:
        """Return the turn that can be resumed, if there is one."""
        stream = self._active.document.conversation
        status = self._turn_statuses.get((stream.id, stream.turn_count - 1))
        foreign = self._active.settings.projection.untrusted_count
        progress = self._active.call_progress
        return find_interrupted_turn(
            stream, ended_early=status in _UNFINISHED, untrusted_count=foreign, progress=progress
        )

    @staticmethod
    def refuse_missing_tools(found: InterruptedTurn, tools: BenchTools) -> None:
        """Check that the tool of each open call can run here.

        Raises:
            UsageError: A tool cannot run. The message says what to do.
        """
        for name in dict.fromkeys(call.request.name for call in found.open_calls):
            if reason := _missing_reason(name, tools):
                raise UsageError(
                    f"{reason}, then `%jp resume`. Without this call: ask something new instead"
                )

    def ask_user(
        self, found: InterruptedTurn, ask: Callable[[ActionPrompt], PromptEnd]
    ) -> tuple[list[OpenCall], list[OpenCall]]:
        """Return the open calls that run, and those that are skipped.

        The user decides about calls that may have run, and about all calls of an untrusted record.
        Other calls run with the usual permissions.

        Raises:
            PromptUnavailable: No user is available to decide.
            PromptCancelled: The user decides later.
        """
        distrust = self._active.trust.why_not
        undecided = [call for call in found.open_calls if distrust is not None or call.may_have_run]
        skipped: list[OpenCall] = []
        for number, call in enumerate(undecided, start=1):
            prompt = resume_prompt(call.request, number, len(undecided), distrust=distrust)
            if not self._is_run(ask(prompt)):
                skipped.append(call)
        return [call for call in found.open_calls if call not in skipped], skipped

    def responses(self, skipped: Iterable[OpenCall]) -> list[ToolCallResponse]:
        """Return the responses of skipped calls."""
        text = ABANDONED if self._active.trust.trusted else UNTRUSTED_SKIPPED
        return [
            ToolCallResponse(id=call.request.id, content=text, is_error=True) for call in skipped
        ]

    @staticmethod
    def _is_run(end: PromptEnd) -> bool:
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

    @contextmanager
    def reapply_options(self, found: InterruptedTurn) -> Iterator[None]:
        """Apply the options of a failed turn again, unless the block fails."""
        stream, changes = self._active.document.conversation, found.taken_back
        stream.append(*(change.stamped("") for change in changes))
        try:
            yield
        except BaseException:
            if changes:
                stream.append(make_no_answer(NoAnswer("failed", len(changes))))
            raise

    def answers(self, calls: Sequence[OpenCall]) -> dict[str, RecordedAnswer]:
        """Return the recorded answers to questions of `calls`, by inquiry.

        Answers of an untrusted record are not used, as someone else may have added them.
        """
        if not calls or not self._active.trust.trusted:
            return {}
        answers = recorded_answers(self._active.document.conversation.current_turn())
        prefixes = tuple(f"{call.request.id}." for call in calls)
        return {name: answer for name, answer in answers.items() if name.startswith(prefixes)}


def _missing_reason(name: str, tools: BenchTools) -> str | None:
    """Return why the tool `name` cannot run, and what to do; None if it can run."""
    if name in tools.offered.tools:
        return None
    shown = one_name(name)
    if name in tools.possible.tools:
        turn_on = f"`%jp config conversation.tools.{shown}.enable=true`"
        return f"`{shown}` is turned off: turn it on with {turn_on}"
    if (reason := tools.possible.missing.get(name)) is not None:
        return f"`{shown}` cannot run: {reason}. Change that"
    return f"`{shown}` is not defined in this kernel. Run the cell that defines it"


def resume_prompt(
    call: ToolCallRequest, number: int, count: int, *, distrust: str | None = None
) -> ActionPrompt:
    """Return the prompt about `call`, with its `number` of `count`.

    `distrust` is the reason that the record is not trusted; None if it is.
    """
    which, name = f" ({number} of {count})" if count > 1 else "", one_name(call.name)
    exhibits = (PromptDetail("arguments", call.arguments),) if call.arguments else ()
    if distrust is not None:
        about = untrusted_call(call.name, distrust)
        text = f"{about}{which}. If it runs, it runs here, with your rights."
        return ActionPrompt(
            text, (_SKIP, _LATER, _RUN_HERE), exhibits=exhibits, last_line="What do you want to do?"
        )
    text = f"{name} was interrupted{which} and may already have run, fully or partly."
    return ActionPrompt(text, (_RUN, _SKIP, _LATER), exhibits=exhibits, last_line="Run it again?")
