"""Show the user the list of a batch's open decisions, and ask about them, prompt by prompt.

`InboxDialogue` knows no front end. It makes the prompts of the other parts of `jp_nb`, and gets the
end of each from `ask`: forms in the running cell, or lines on a terminal.

    list ── Answer one after another ──> a decision (`decision_dialogue.py`)
         ├─ Choose one … ──> the same
         └─ Filter …

Source: `docs/many-notebooks.md`, `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

from jp_nb.agent.prompting.prompts import Action, ActionPrompt, PromptDetail, QuestionPrompt
from jp_nb.batch.inboxes.decision_details import join_detail_lines
from jp_nb.batch.inboxes.decision_dialogue import AskPrompt, DecisionDialogue, DialogueEnded
from jp_nb.batch.inboxes.inbox import Inbox
from jp_nb.batch.inboxes.inbox_text import format_group_status, format_inbox_heading, format_place
from jp_nb.batch.results.decision_groups import DecisionGroup, filter_groups
from jp_nb.exact_form import spell_invisible
from jp_nb.text import one_line
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.question_types.select_answer import SelectAnswer
from jp_nb.toolkit.question_types.select_options import Option
from jp_nb.toolkit.question_types.text_answer import TextAnswer

PAGE_SIZE: Final = 25
"""Number of decisions in the list at a time."""


class InboxDialogue:
    """Shows the list of an `inbox`, page by page, and lets the user choose. `ask` shows prompts."""

    def __init__(self, inbox: Inbox, ask: AskPrompt) -> None:
        self._inbox = inbox
        self._decisions = DecisionDialogue(inbox, ask)
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
        except DialogueEnded:
            return

    def _show_list(self) -> bool:
        """Show a page of the list, and do what the user chooses. Return False at the end."""
        matching = list(filter_groups(self._inbox.groups, self._filter))
        page_count = max(1, ceil(len(matching) / PAGE_SIZE))
        # Fewer decisions may match since the filter has changed.
        self._page = min(max(self._page, 0), page_count - 1)
        start = self._page * PAGE_SIZE
        shown = matching[start : start + PAGE_SIZE]

        is_last = self._page == page_count - 1
        match self._decisions.ask(self._make_list_prompt(matching, shown, start, is_last=is_last)):
            case "answer":
                self._decisions.decide_each(self._list_unanswered(matching))
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
            details = (PromptDetail(caption, join_detail_lines(rows), size_text=place),)

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
        chosen = self._decisions.ask(QuestionPrompt(question, label="Inbox", submit="Show it"))
        if isinstance(chosen, str):
            self._decisions.decide_each([shown[int(chosen)]])

    def _change_filter(self) -> None:
        """Ask for the words that the decisions in the list have to contain."""
        text = "Show decisions that contain these words (* shows all)"
        question = Question.text("filter", text).model_copy(
            update={"answer_type": TextAnswer(lines=False)}
        )
        typed = self._decisions.ask(QuestionPrompt(question, label="Inbox", submit="Filter"))
        if isinstance(typed, str):
            self._filter = "" if typed.strip() == "*" else typed.strip()
            self._page = 0
