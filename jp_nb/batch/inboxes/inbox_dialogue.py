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
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.prompting.prompts import (
    Action,
    ActionPrompt,
    Answered,
    AnyEnd,
    AnyPrompt,
    FormEnd,
    PromptDetail,
    QuestionPrompt,
    Unavailable,
    is_back,
    make_prompt,
)
from jp_nb.batch.inboxes.inbox import EXCLUSIVE_NOTE, Inbox, format_place
from jp_nb.batch.inboxes.inbox_answers import InboxAnswer
from jp_nb.batch.results.open_decisions import (
    MAX_SHOWN_CONTEXTS,
    AskedContext,
    DecisionGroup,
    filter_groups,
)
from jp_nb.errors import PromptUnavailable
from jp_nb.storage.configuration.answers_file import EnvironmentVariable
from jp_nb.text import one_line, pluralize, spell_invisible, upper_first
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.answer_types import TextAnswer
from jp_nb.toolkit.question_types.select_answer import Option, SelectAnswer

AskPrompt = Callable[[AnyPrompt], AnyEnd]
"""Shows a prompt to the user, and returns its end."""

PAGE_SIZE: Final = 25
"""Number of decisions in the list at a time."""
_CONSENT_LABELS: Final = {
    "permission": ("Run this call", "Skip this call"),
    "result": ("Deliver the result", "Withhold the result"),
    "change": ("Apply the change", "Reject the change"),
    "edit": ("Apply the edit", "Reject the edit"),
    "plan": ("Approve the plan", "Reject the plan"),
}
_COVERED: Final = {
    "permission": "exactly this call of {}",
    "result": "each result of {}",
    "change": "each configuration change that {} proposes",
    "edit": "each edit of a cell with the name {}",
    "plan": "each plan that a turn submits with {}",
}
"""Scope of an answer to a decision other than a question."""
_NOT_SENT: Final = frozenset({"auto", "timed_out"})
"""Marks of answers that the user did not send."""
_VARIABLE: Final = TextAnswer(lines=False, pattern="^[A-Za-z_][A-Za-z0-9_]*$")
_VARIABLE_HELP: Final = "the name of an environment variable of the runs, not the secret itself"


class _Ended(Exception):  # noqa: N818 - not an error
    """A time limit or an interrupt ended a prompt."""


class InboxDialogue:
    """Asks the user about the decisions of an `inbox`, whose answers it writes."""

    def __init__(self, inbox: Inbox, ask: AskPrompt) -> None:
        self._inbox = inbox
        self._ask_user = ask
        self._filter = ""
        self._page = 0

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
        """Return the answer or the chosen action; None if the user closed the prompt."""
        end = self._ask_user(prompt)
        if isinstance(end, FormEnd):
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
            case _ if is_back(end):
                return None
        raise _Ended

    # --- the list --------------------------------------------------------------------------------

    def _show_list(self) -> bool:
        """Show a page of the list, and do what the user chooses. Return False at the end."""
        found = list(filter_groups(self._inbox.groups, self._filter))
        pages = max(1, -(-len(found) // PAGE_SIZE))
        self._page = min(max(self._page, 0), pages - 1)
        start = self._page * PAGE_SIZE
        shown = found[start : start + PAGE_SIZE]

        prompt = self._make_list_prompt(found, shown, start, is_last=self._page == pages - 1)
        match self._ask(prompt):
            case "answer":
                self._decide_each(self._list_open(found))
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

    def _list_open(self, groups: Sequence[DecisionGroup]) -> list[DecisionGroup]:
        count = self._inbox.count_answered
        return [group for group in groups if count(group) < len(group.runs)]

    def _make_list_prompt(
        self,
        found: Sequence[DecisionGroup],
        shown: Sequence[DecisionGroup],
        start: int,
        *,
        is_last: bool,
    ) -> ActionPrompt:
        actions = []
        takes_answers = not self._inbox.distrust
        if takes_answers and self._list_open(found):
            actions.append(Action("a", "Answer one after another", "answer"))
        if shown:
            label = "Choose one …" if takes_answers else "Show one …"
            actions.append(Action("c", label, "choose"))
        if start:
            actions.append(Action("p", "Previous page", "previous", is_separated=True))
        if not is_last:
            actions.append(Action("n", "Next page", "next", is_separated=not start))
        if self._filter or len(found) > PAGE_SIZE:
            actions.append(Action("f", "Filter …", "filter", is_separated=True))
        actions.append(Action("q", "Close", "close", is_separated=True))

        folder = one_line(spell_invisible(self._inbox.folder.name), limit=80)
        text = f"{folder}: {self._inbox.format_heading()}"
        if self._inbox.distrust:
            text = f"{text}. No answers are taken: {one_line(self._inbox.distrust)}"

        exhibits: tuple[PromptDetail, ...] = ()
        if shown:
            caption = f"Decisions {start + 1:,} to {start + len(shown):,} of {len(found):,}"
            if self._filter:
                caption += f" that contain “{one_line(self._filter, limit=60)}”"
            rows = list(self._format_rows(shown, start))
            exhibits = (PromptDetail(caption, _join_lines(rows)),)

        return ActionPrompt(text, tuple(actions), label="Inbox", exhibits=exhibits)

    def _format_rows(self, shown: Sequence[DecisionGroup], start: int) -> Iterator[str]:
        for number, group in enumerate(shown, start=start + 1):
            status = self._inbox.format_status(group)
            yield f"{number}. {one_line(group.description, limit=200)} ({status})"

    def _choose(self, shown: Sequence[DecisionGroup]) -> None:
        options = tuple(
            Option(
                value=str(index),
                label=one_line(group.description, limit=200),
                description=f"{format_place(group)}: {self._inbox.format_status(group)}",
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
        for number, group in enumerate(groups, start=1):
            label = f"Decision {number} of {len(groups)}" if len(groups) > 1 else "Decision"
            if not self._decide(group, label):
                return

    def _decide(self, group: DecisionGroup, label: str) -> bool:
        """Ask about `group` in all its runs. Return False if the user goes back to the list."""
        choices = _Choices(group, group.runs, takes_answers=not self._inbox.distrust)
        contexts = group.list_contexts()
        covered = "in these runs"
        if self._inbox.is_for_batch(group):
            covered = "in these runs and in later runs of this batch"
        exhibits = (*_show_call(group, covered), *_show_contexts(group, contexts))

        while True:
            prompt = _make_decision_prompt(group, label, exhibits, choices.make_actions())
            match self._ask(prompt):
                case "each":
                    self._decide_one_by_one(group)
                    return True
                case "open":
                    self._inbox.leave_open(group, group.runs)
                    return True
                case "next":
                    return True
                case str(choice) if choice in ("answer", "agree", "decline"):
                    if self._take(group, group.runs, choice):
                        return True
                case _:
                    return False

    def _decide_one_by_one(self, group: DecisionGroup) -> None:
        for number, run in enumerate(group.runs, start=1):
            label = f"Run {number} of {len(group.runs)}"
            if not self._decide_run(group, run, label):
                return

    def _decide_run(self, group: DecisionGroup, run: str, label: str) -> bool:
        asked = [AskedContext(asking, context, (run,)) for asking, context in group.askings[run]]
        covered = "in this run"
        if self._inbox.is_for_batch(group):
            covered += ", and in later runs of this batch if all waiting runs get the same answer"
        exhibits = (
            PromptDetail("Run", spell_invisible(run)),
            *_show_call(group, covered),
            *_show_contexts(group, asked),
        )
        choices = _Choices(group, (run,), takes_answers=True, is_single=True)

        while True:
            prompt = _make_decision_prompt(group, label, exhibits, choices.make_actions())
            match self._ask(prompt):
                case "open":
                    self._inbox.leave_open(group, [run])
                    return True
                case str(choice) if choice in ("answer", "agree", "decline"):
                    if self._take(group, (run,), choice):
                        return True
                case _:
                    return False

    def _take(self, group: DecisionGroup, runs: Sequence[str], choice: str) -> bool:
        """Write the user's decision. Return False if the user closed the question."""
        answer: InboxAnswer | None = InboxAnswer(skip=choice == "decline")
        if choice == "answer":
            answer = self._ask_question(group, runs)
        if answer is None:
            return False

        self._inbox.answer(group, runs, answer)
        return True

    def _ask_question(self, group: DecisionGroup, runs: Sequence[str]) -> InboxAnswer | None:
        assert group.question is not None
        count = len(runs)
        label = f"For {count:,} {pluralize('run', count)}"
        question = _make_answerable(group.question)
        value = self._ask(make_prompt((QuestionPrompt(question, label=label),)))
        if value is None:
            return None
        return InboxAnswer(_with_variables(group.question, value))


@dataclass(frozen=True, slots=True)
class _Choices:
    """The buttons of a decision about `runs`; `is_single` while the runs are asked one by one."""

    group: DecisionGroup
    runs: Sequence[str]
    takes_answers: bool
    is_single: bool = False

    def make_actions(self) -> tuple[Action, ...]:
        return tuple(self._list_actions())

    def _list_actions(self) -> Iterator[Action]:
        if not self.takes_answers:
            yield Action("b", "Back to the list", "back")
            return

        count = len(self.runs)
        answered = "" if count == 1 else f" for all {count:,} runs"
        where = "" if count == 1 else f" in all {count:,} runs"
        if self.group.question is not None:
            yield Action("a", f"Answer{answered} …", "answer")
        elif self.group.is_answerable:
            agree, decline = _CONSENT_LABELS[self.group.kind]
            yield Action("y", f"{agree}{where}", "agree")
            yield Action("n", f"{decline}{where}", "decline", is_separated=True)

        if count > 1 and self.group.is_answerable:
            yield Action("o", "One by one …", "each", is_separated=True)
        yield Action("l", "Leave open", "open", is_separated=True)
        if self.group.question is not None:
            yield Action("d", f"Decline it{where}", "decline", is_separated=True)
        back = "Stop here" if self.is_single else "Back to the list"
        yield Action("b", back, "back", is_separated=True)


def _make_decision_prompt(
    group: DecisionGroup,
    label: str,
    exhibits: Sequence[PromptDetail],
    actions: tuple[Action, ...],
) -> ActionPrompt:
    text = upper_first(group.subject)
    if group.question is not None and group.question.exclusive:
        text = f"{text} ({EXCLUSIVE_NOTE})"
    return ActionPrompt(text, actions, label=label, exhibits=tuple(exhibits))


def _show_call(group: DecisionGroup, covered: str) -> Iterator[PromptDetail]:
    """Yield where the decision was asked, the exact arguments of a call, and the covered runs."""
    count = len(group.runs)
    where = f"{count:,} {pluralize('run', count)} of {format_place(group)}"
    yield PromptDetail("Asked by", f"{spell_invisible(group.tool)}, in {where}")
    if group.misfits:
        reason = next(iter(group.misfits.values()))
        yield PromptDetail("The last answer did not fit", spell_invisible(reason))
    if group.arguments is not None:
        yield PromptDetail("Arguments, exactly", dict(group.arguments))
    elif not group.is_answerable:
        yield PromptDetail("Arguments", "too long to show: permit the call in an answers file")
    if group.kind in _COVERED and group.is_answerable:
        subject = _COVERED[group.kind].format(spell_invisible(group.tool))
        yield PromptDetail("An answer covers", f"{subject} {covered}")


def _show_contexts(
    group: DecisionGroup, contexts: Sequence[AskedContext]
) -> Iterator[PromptDetail]:
    """Yield up to five differing contexts: the model's last words, and the content beside it."""
    for number, each in enumerate(contexts[:MAX_SHOWN_CONTEXTS], start=1):
        lines = list(_format_context(each))
        if not lines:
            continue

        caption = "Context"
        if len(contexts) > 1:
            runs = f"{len(each.runs):,} {pluralize('run', len(each.runs))}"
            first = one_line(spell_invisible(each.runs[0]), limit=80)
            caption = f"Context {number} of {len(contexts):,} ({runs}, such as {first})"
        yield PromptDetail(caption, _join_lines(lines))


def _join_lines(lines: Sequence[str]) -> str:
    """Return one line, or lines that all end with a line break."""
    return lines[0] if len(lines) == 1 else "".join(f"{line}\n" for line in lines)


def _format_context(each: AskedContext) -> Iterator[str]:
    if each.asking.words:
        yield f"The model said: {each.asking.words}"
    if each.context:
        yield each.context
    if each.asking.result is not None:
        yield f"Result: {each.asking.result}"
    yield from each.asking.detail


def _make_answerable(question: Question) -> Question:
    """Return the question as the inbox asks it: a secret by the name of a variable."""
    kind = question.answer_type
    if isinstance(kind, FormAnswer):
        fields = tuple(map(_name_secret, kind.fields))
        kind = kind.model_copy(update={"fields": fields})
        question = question.model_copy(update={"answer_type": kind})
    return _name_secret(question).model_copy(update={"required": True, "exclusive": True})


def _name_secret(question: Question) -> Question:
    if not question.answer_type.secret:
        return question
    text = f"{question.text} ({_VARIABLE_HELP})"
    return question.model_copy(update={"text": text, "answer_type": _VARIABLE})


def _with_variables(
    question: Question, value: JsonValue
) -> JsonValue | EnvironmentVariable | dict[str, JsonValue | EnvironmentVariable]:
    kind = question.answer_type
    if kind.secret:
        return EnvironmentVariable(str(value))
    if not isinstance(kind, FormAnswer) or not isinstance(value, dict):
        return value

    secrets = {each.id for each in kind.fields if each.answer_type.secret}
    fields: dict[str, JsonValue | EnvironmentVariable] = {}
    for name, given in value.items():
        if given is None:  # an optional field that the user left empty
            continue
        fields[name] = EnvironmentVariable(str(given)) if name in secrets else given
    return fields
