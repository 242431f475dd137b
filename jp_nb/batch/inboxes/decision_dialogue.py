"""Ask the user about an open decision of a batch: in all its runs at once, or run by run.

    a decision ── Answer for all 37 runs ──> its question
               ├─ One by one ──> each run
               └─ Leave open

Only a button, or an answer that the user sends, decides. A closed prompt leads back, and a time
limit or an interrupt ends the dialogue. Each decision is written at once, so nothing is lost then.

Source: `docs/many-notebooks.md`, `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.prompting.prompt_ends import Answered, AnyEnd, FormEnd, Unavailable, is_back
from jp_nb.agent.prompting.prompts import (
    Action,
    ActionPrompt,
    AnyPrompt,
    PromptDetail,
    QuestionPrompt,
    make_prompt,
)
from jp_nb.batch.inboxes.decision_actions import DecisionActions
from jp_nb.batch.inboxes.decision_answers import InboxAnswer
from jp_nb.batch.inboxes.decision_details import list_call_details, list_context_details
from jp_nb.batch.inboxes.inbox import Inbox
from jp_nb.batch.inboxes.inbox_text import EXCLUSIVE_NOTE
from jp_nb.batch.inboxes.secret_variables import make_inbox_question, read_inbox_answer
from jp_nb.batch.results.decision_groups import AskedContext, DecisionGroup
from jp_nb.errors import PromptUnavailable
from jp_nb.exact_form import spell_invisible
from jp_nb.text import pluralize, upper_first

AskPrompt = Callable[[AnyPrompt], AnyEnd]
"""Shows a prompt to the user, and returns its end."""
_NOT_SENT: Final = frozenset({"auto", "timed_out"})
"""Marks of answers that something else than the user has sent, such as a time limit."""


class DialogueEnded(Exception):  # noqa: N818 - not an error
    """A time limit or an interrupt ended a prompt."""


class DecisionDialogue:
    """Asks about the decisions of an `inbox`, whose answers it writes. `ask` shows the prompts.

    The buttons of a decision, and their values, are those of `decision_actions.py`.
    """

    def __init__(self, inbox: Inbox, ask: AskPrompt) -> None:
        self._inbox = inbox
        self._ask_user = ask

    def ask(self, prompt: AnyPrompt) -> JsonValue:
        """Return the answer or the chosen action; None if the user closed the prompt.

        Raises:
            PromptUnavailable: No user is available.
            DialogueEnded: A time limit or an interrupt ended the prompt, or there is no answer.
        """
        end = self._ask_user(prompt)
        if isinstance(end, FormEnd):  # a question with fields is a form of one page
            if end.then != "submitted":
                return None
            [end] = end.ends

        match end:
            case Unavailable(reason=reason):
                raise PromptUnavailable(
                    f"the inbox needs a user, and no user is available: {reason}", reason=reason
                )
            case Answered(value=value, marks=marks) if not marks & _NOT_SENT:
                return value
            case _ if is_back(end):  # the user closed the prompt
                return None
        raise DialogueEnded

    def decide_each(self, groups: Sequence[DecisionGroup]) -> None:
        """Ask about one group after another, until the user goes back to the list."""
        for number, group in enumerate(groups, start=1):
            label = f"Decision {number} of {len(groups)}" if len(groups) > 1 else "Decision"
            if not self._decide(group, label):
                return

    def _decide(self, group: DecisionGroup, label: str) -> bool:
        """Ask about `group` in all its runs. Return False if the user goes back to the list."""
        actions = DecisionActions(group, group.runs, takes_answers=not self._inbox.distrust)
        covered_runs = "in these runs"
        if self._inbox.is_for_batch(group):
            covered_runs = "in these runs and in later runs of this batch"
        details = [
            *list_call_details(group, covered_runs),
            *list_context_details(group.list_contexts()),
        ]

        while True:
            prompt = _make_decision_prompt(group, label, details, actions.make())
            match self.ask(prompt):
                case "each":
                    self._decide_one_by_one(group)
                    return True
                case "open":
                    self._inbox.leave_open(group, group.runs)
                    return True
                case str(choice) if choice in ("answer", "agree", "decline"):
                    if self._write_decision(group, group.runs, choice):
                        return True
                case _:
                    return False

    def _decide_one_by_one(self, group: DecisionGroup) -> None:
        """Ask about `group` in one run after another, until the user stops."""
        for number, run in enumerate(group.runs, start=1):
            label = f"Run {number} of {len(group.runs)}"
            if not self._decide_run(group, run, label):
                return

    def _decide_run(self, group: DecisionGroup, run: str, label: str) -> bool:
        """Ask about `group` in one run. Return False if the user stops."""
        contexts = [
            AskedContext(asked.asking, asked.question_context, (run,))
            for asked in group.askings[run]
        ]
        covered_runs = "in this run"
        if self._inbox.is_for_batch(group):
            covered_runs += (
                ", and in later runs of this batch if all waiting runs get the same answer"
            )
        details = [
            PromptDetail("Run", spell_invisible(run)),
            *list_call_details(group, covered_runs),
            *list_context_details(contexts),
        ]
        # Only an inbox that takes answers has the button "One by one …".
        actions = DecisionActions(group, (run,), takes_answers=True, is_one_by_one=True)

        while True:
            prompt = _make_decision_prompt(group, label, details, actions.make())
            match self.ask(prompt):
                case "open":
                    self._inbox.leave_open(group, [run])
                    return True
                case str(choice) if choice in ("answer", "agree", "decline"):
                    if self._write_decision(group, (run,), choice):
                        return True
                case _:
                    return False

    def _write_decision(self, group: DecisionGroup, runs: Sequence[str], choice: str) -> bool:
        """Write the decision that the button `choice` makes. Return False if it made none.

        The button "Answer" asks the question first, which the user may close.
        """
        answer: InboxAnswer | None
        if choice == "answer":
            answer = self._ask_question(group, runs)
        else:
            answer = InboxAnswer(skip=choice == "decline")
        if answer is None:
            return False

        self._inbox.answer(group, runs, answer)
        return True

    def _ask_question(self, group: DecisionGroup, runs: Sequence[str]) -> InboxAnswer | None:
        """Ask the question of `group`, and return the answer; None if the user closed it."""
        assert group.question is not None
        count = len(runs)
        label = f"For {count:,} {pluralize('run', count)}"
        question = make_inbox_question(group.question)
        value = self.ask(make_prompt((QuestionPrompt(question, label=label),)))
        if value is None:
            return None
        return InboxAnswer(read_inbox_answer(group.question, value))


def _make_decision_prompt(
    group: DecisionGroup,
    label: str,
    details: Sequence[PromptDetail],
    actions: tuple[Action, ...],
) -> ActionPrompt:
    """Return the prompt about one decision, with its details and buttons."""
    text = upper_first(group.subject)
    if group.question is not None and group.question.exclusive:
        text = f"{text} ({EXCLUSIVE_NOTE})"
    return ActionPrompt(text, actions, label=label, exhibits=tuple(details))
