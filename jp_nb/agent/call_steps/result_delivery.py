"""Delivery of a result to the model, which the user may review, edit, or withhold.

The setting `result` of a tool decides if the user is asked: `ask` shows the result with buttons,
`edit` opens an editor before that.

Source: `docs/turns.md`, `docs/decisions.md` D10, D52.
"""

from __future__ import annotations

from dataclasses import dataclass

from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.call_decisions import CallDecisions, describe_missing_decision
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.display import Waits
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prompting.prompt_ends import Answered, NotAnswered, PromptEnd, Unavailable, is_back
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, PromptDetail, QuestionPrompt
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.agent.turn_state import TurnContext
from jp_nb.exact_form import spell_invisible
from jp_nb.images import Image
from jp_nb.toolkit.question import Question

DELIVERY_ACTIONS = (
    Action("y", "Deliver the result", "deliver"),
    Action("n", "Withhold the result", "skip", is_separated=True),
    Action("e", "Edit the result …", "edit", is_separated=True),
)
DELIVER_EDITED_LABEL = "Deliver this text"

NOT_DELIVERED_TEXT = "Result delivery skipped by user."
UNDELIVERED_TEXT = "The tool ran. Its result is not delivered: {}."
RESULT_EDIT_CANCELLED_TEXT = "Result edit cancelled."
IMAGES_CAPTION = "Images (delivered unless you edit the text)"
IMAGES_AND_PDFS_CAPTION = "Images and PDFs (delivered unless you edit the text)"


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result that the model gets. `images` are sent only with an unedited text."""

    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


class DeliveryRequests:
    """Asks the user for the delivery of results, call by call."""

    def __init__(self, turn: TurnContext, screen: ScreenQueue, decisions: CallDecisions) -> None:
        self._turn = turn
        self._screen = screen
        self._decisions = decisions

    async def request_delivery(self, call: Call, tool: OfferedTool, result: Delivery) -> Delivery:
        """Return the result that the user, or the answers file, lets the model read.

        The mode `edit` edits it first. An editor that is closed or emptied decides nothing: the
        question follows.

        Raises:
            CallEnded: The result is withheld, or no user is available.
        """
        # The answers file decides, if it can. `CallEnded` is raised if no user can decide either.
        is_permitted = self._decisions.decide_without_prompt("result", tool, call.state)
        if is_permitted is not None:
            if not is_permitted:
                raise CallEnded(NOT_DELIVERED_TEXT, skipped=True)
            return result

        call.state.result.is_under_review = True
        self._turn.display(
            Waits(call.key, f"your decision on the result of {call.title}", person=True)
        )
        async with self._screen.take_screen(after_run=True) as ask:
            if tool.result == "edit":
                edited = await _edit_result(ask, tool, result)
                if isinstance(edited, Unavailable):
                    raise self._make_end_without_user(call, tool, edited.reason)
                if edited is not None:
                    return edited
            return await self._ask_delivery(ask, call, tool, result)

    async def _ask_delivery(
        self, ask: SafeAsk, call: Call, tool: OfferedTool, result: Delivery
    ) -> Delivery:
        """Show the result until the user delivers, edits, or withholds it."""
        caption = "Error" if result.is_error else "Result"
        exhibits = [PromptDetail(caption, result.content)]
        if result.images:
            has_pdf = any(image.noun == "PDF" for image in result.images)
            title = IMAGES_AND_PDFS_CAPTION if has_pdf else IMAGES_CAPTION
            exhibits.append(PromptDetail(title, "\n".join(map(repr, result.images))))

        prompt = ActionPrompt(
            text=f"Deliver {spell_invisible(tool.name)} result to assistant?",
            actions=DELIVERY_ACTIONS,
            exhibits=tuple(exhibits),
            only_buttons=True,
        )

        while True:
            end = await ask(prompt)
            match end:
                case Unavailable(reason=reason):
                    raise self._make_end_without_user(call, tool, reason)
                case Answered(value="deliver"):
                    return result
                case Answered(value="edit"):
                    edited = await _edit_result(ask, tool, result)
                    if isinstance(edited, Unavailable):  # after the user was there to choose it
                        raise CallEnded(RESULT_EDIT_CANCELLED_TEXT, skipped=True)
                    if edited is not None:
                        return edited
                case _:
                    raise _make_undelivered_end(end)

    def _make_end_without_user(self, call: Call, tool: OfferedTool, reason: str) -> CallEnded:
        """Return the end of the call, which says that a user has to decide about the result."""
        state = call.state
        return self._decisions.make_end_without_user(
            tool, "result", reason, arguments=state.arguments, result=state.result.delivered
        )


async def _edit_result(
    ask: SafeAsk, tool: OfferedTool, result: Delivery
) -> Delivery | Unavailable | None:
    """Return the edited result; None if the text was emptied, or the user went back.

    Raises:
        CallEnded: The prompt ended in another way, such as an interrupt.
    """
    text = f"Result of {spell_invisible(tool.name)}, as sent to the model:"
    question = Question.text("result", text).with_default(result.content)
    # `consents`: an empty line on stdin must not deliver the result.
    end = await ask(QuestionPrompt(question, consents=True, submit=DELIVER_EDITED_LABEL))

    if isinstance(end, Unavailable):
        return end
    if isinstance(end, NotAnswered) and not is_back(end):
        raise _make_undelivered_end(end)

    edited = str(end.value) if isinstance(end, Answered) else ""
    if not edited.strip():
        return None
    return Delivery(edited) if edited != result.content else result


def _make_undelivered_end(end: PromptEnd[Answered]) -> CallEnded:
    """Return the end of a call whose result is withheld, or was not decided about."""
    why = describe_missing_decision(end)
    content = NOT_DELIVERED_TEXT if why is None else UNDELIVERED_TEXT.format(why)
    return CallEnded(content, skipped=True)
