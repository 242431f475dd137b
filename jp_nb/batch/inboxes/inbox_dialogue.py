"""Ask the user about the open decisions of a batch, prompt by prompt.

`InboxDialogue` knows no front end. It makes the prompts of the other parts of `jp_nb`, and gets the
end of each from `ask`: forms in the running cell, or lines on a terminal.

    list ── Answer one after another ──> a decision ── Answer for all 37 runs ──> its question
         └─ Choose one …, Filter …                  ├─ One by one ──> each run
                                                    └─ Leave open

Only a button, or an answer that the user sends, decides. A closed prompt leads back, and a time
limit or an interrupt ends the dialogue. Each decision is written at once, so nothing is lost then.

Source: `docs/many-notebooks.md`, `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil
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
from jp_nb.batch.inboxes.decision_details import (
    join_lines,
    list_call_details,
    list_context_details,
)
from jp_nb.batch.inboxes.inbox import Inbox
from jp_nb.batch.inboxes.inbox_answers import InboxAnswer
from jp_nb.batch.inboxes.inbox_text import (
    EXCLUSIVE_NOTE,
    format_group_status,
    format_inbox_heading,
    format_place,
)
from jp_nb.batch.inboxes.secret_variables import (
    make_inbox_question,
    read_inbox_answer,
)
from jp_nb.batch.results.open_decisions import (
    AskedContext,
    DecisionGroup,
    filter_groups,
)
from jp_nb.errors import PromptUnavailable
from jp_nb.exact_form import spell_invisible
from jp_nb.text import one_line, pluralize, upper_first
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.question_types.answer_types import TextAnswer
from jp_nb.toolkit.question_types.select_answer import SelectAnswer
from jp_nb.toolkit.question_types.select_options import Option

AskPrompt = Callable[[AnyPrompt], AnyEnd]
"""Shows a prompt to the user, and returns its end."""

PAGE_SIZE: Final = 25
"""Number of decisions in the list at a time."""
_NOT_SENT: Final = frozenset({"auto", "timed_out"})
"""Marks of answers that something else than the user has sent, such as a time limit."""


class _Ended(Exception):  # noqa: N818 - not an error
    """A time limit or an interrupt ended a prompt."""


class InboxDialogue:
    """Asks the user about the decisions of an `inbox`, whose answers it writes.

    `ask` shows the prompts. The buttons of a decision, and their values, are those of
    `decision_actions.py`.
    """

    def __init__(self, inbox: Inbox, ask: AskPrompt) -> None:
        self._inbox = inbox
        self._ask_user = ask
        self._filter = ""  # words that the decisions in the list contain
        self._page = 0  # number of the shown page of the list, from 0

    def run(self) -> None:
        """Ask until the user closes the list, or a time limit or an interrupt ends a prompt.

        Raises:
            PromptUnavailable: No user is available.
            StorageError: An answer cannot be written. Earlier answers are in the file.
        """
        try:
            while self._show_list():
                pass
        except _Ended:
            return

    def _ask(self, prompt: AnyPrompt) -> JsonValue:
        """Return the answer or the chosen action; None if the user closed the prompt.

        Raises:
            PromptUnavailable: No user is available.
            _Ended: A time limit or an interrupt ended the prompt, or the user did not answer.
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
        raise _Ended

    # --- the list --------------------------------------------------------------------------------

    def _show_list(self) -> bool:
        """Show a page of the list, and do what the user chooses. Return False at the end."""
        matching = list(filter_groups(self._inbox.groups, self._filter))
        page_count = max(1, ceil(len(matching) / PAGE_SIZE))
        # Fewer decisions may match since the filter has changed.
        self._page = min(max(self._page, 0), page_count - 1)
        start = self._page * PAGE_SIZE
        shown = matching[start : start + PAGE_SIZE]

        is_last = self._page == page_count - 1
        match self._ask(self._make_list_prompt(matching, shown, start, is_last=is_last)):
            case "answer":
                self._decide_each(self._list_unanswered(matching))
            case "choose":
                self._choose(shown)
            case "filter":
                self._change_filter()
            case "next":
                self._page += 1
            case "previous":
                self._page -= 1
            case _:
                return False
        return True

    def _list_unanswered(self, groups: Sequence[DecisionGroup]) -> list[DecisionGroup]:
        """Return the groups with a run that has no answer."""
        count = self._inbox.count_answered
        return [group for group in groups if count(group) < len(group.runs)]

    def _make_list_prompt(
        self,
        matching: Sequence[DecisionGroup],
        shown: Sequence[DecisionGroup],
        start: int,
        *,
        is_last: bool,
    ) -> ActionPrompt:
        """Return a page of the list.

        `shown` are the decisions on this page, those from position `start` in `matching`. `is_last`
        is True for the last page.
        """
        folder = one_line(spell_invisible(self._inbox.folder.name), limit=80)
        text = f"{folder}: {format_inbox_heading(self._inbox)}"
        if self._inbox.distrust:
            text = f"{text}. No answers are taken: {one_line(self._inbox.distrust)}"

        details: tuple[PromptDetail, ...] = ()
        if shown:
            caption = "Decisions that the runs wait for"
            if self._filter:
                caption += f" and that contain “{one_line(self._filter, limit=60)}”"
            place = f"{start + 1:,} to {start + len(shown):,} of {len(matching):,}"
            rows = list(self._format_rows(shown, start))
            details = (PromptDetail(caption, join_lines(rows), size_text=place),)

        actions = tuple(self._list_page_actions(matching, shown, start, is_last=is_last))
        return ActionPrompt(text, actions, label="Inbox", exhibits=details)

    def _list_page_actions(
        self,
        matching: Sequence[DecisionGroup],
        shown: Sequence[DecisionGroup],
        start: int,
        *,
        is_last: bool,
    ) -> Iterator[Action]:
        """Yield the buttons of a page of the list. The first of them is the default."""
        takes_answers = not self._inbox.distrust
        if takes_answers and self._list_unanswered(matching):
            yield Action("a", "Answer one after another", "answer")
        if shown:
            label = "Choose one …" if takes_answers else "Show one …"
            yield Action("c", label, "choose")

        if start:
            yield Action("p", "Previous page", "previous", is_separated=True)
        if not is_last:
            yield Action("n", "Next page", "next", is_separated=not start)
        if self._filter or len(matching) > PAGE_SIZE:
            yield Action("f", "Filter …", "filter", is_separated=True)
        yield Action("q", "Close", "close", is_separated=True)

    def _format_rows(self, shown: Sequence[DecisionGroup], start: int) -> Iterator[str]:
        for number, group in enumerate(shown, start=start + 1):
            status = format_group_status(self._inbox, group)
            yield f"{number}. {one_line(group.description, limit=200)} ({status})"

    def _choose(self, shown: Sequence[DecisionGroup]) -> None:
        """Let the user choose one of the `shown` decisions, and ask about it."""
        options = tuple(
            Option(
                value=str(index),
                label=one_line(group.description, limit=200),
                description=f"{format_place(group)}: {format_group_status(self._inbox, group)}",
            )
            for index, group in enumerate(shown)
        )
        question = Question.model_validate(
            {
                "id": "decision",
                "text": "Which decision?",
                "answer_type": SelectAnswer(options=options),
            }
        )
        chosen = self._ask(QuestionPrompt(question, label="Inbox", submit="Show it"))
        if isinstance(chosen, str):
            self._decide_each([shown[int(chosen)]])

    def _change_filter(self) -> None:
        """Ask for the words that the decisions in the list have to contain."""
        text = "Show decisions that contain these words (* shows all)"
        question = Question.text("filter", text).model_copy(
            update={"answer_type": TextAnswer(lines=False)}
        )
        typed = self._ask(QuestionPrompt(question, label="Inbox", submit="Filter"))
        if isinstance(typed, str):
            self._filter = "" if typed.strip() == "*" else typed.strip()
            self._page = 0

    # --- one decision ----------------------------------------------------------------------------

    def _decide_each(self, groups: Sequence[DecisionGroup]) -> None:
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
            match self._ask(prompt):
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
            match self._ask(prompt):
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
        value = self._ask(make_prompt((QuestionPrompt(question, label=label),)))
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
