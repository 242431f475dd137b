"""A form on stdin: its questions one by one, and all answers before they are sent.

An answer is typed in a line. The keys below are lines that are not answers.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, assert_never

from pydantic import JsonValue

from jp_nb.agent.prompting.form_draft import BLANK, PageDraft, Screen
from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import FormPrompt, QuestionPrompt
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import (
    HELP_KEY,
    STDIN,
    Console,
    Parsed,
    StdinChannel,
    StdinDialogue,
    bar_lines,
    choose,
    converse,
    make_empty_confirmation,
)
from jp_nb.notebook.prompt.stdin_prompts.stdin_prompt import StdinPrompt
from jp_nb.notebook.prompt.stdin_prompts.stdin_questions import (
    make_page_dialogue,
)
from jp_nb.record.reading.recorded_answers import EMPTY
from jp_nb.rendering.prompt_texts import form_text, prompt_text
from jp_nb.text import lower_first, one_line, upper_first
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.answer_types import BooleanAnswer, SecretAnswer, TextAnswer

KEEP_KEY: Final = ""  # an empty line: keep the answer, or leave the question open
BACK_KEY: Final = "<"  # to the previous question
LEAVE_KEY: Final = "!"  # cancel, decline, or reply
CLEAR_KEY: Final = "-"  # clear the answer: the question is then open again
SEND_KEY: Final = "s"
DECLINE_KEY: Final = "d"
LEFT_OPEN: Final = "Not answered."
LEFT_FOR_NOW: Final = f"Not answered. {form_text.DEMANDED}"
IS_FIRST: Final = "This is the first question."
BACK_TO_QUESTIONS: Final = "Go back to the questions"


class StdinForm(StdinPrompt):
    """A form with at least one page."""

    def __init__(self, prompt: FormPrompt, console: Console, channel: StdinChannel) -> None:
        super().__init__(prompt, console, channel)
        self._prompt = prompt
        self._fields: dict[int, dict[str, JsonValue]] = {}  # answers by page and id of the field
        # The answer to a single question is sent at once.
        self._reviews = len(prompt.pages) > 1 or _has_fields(prompt.pages[0])
        self._exit_description = "reply to the assistant, or stop" if prompt.menu else "cancel"

        if prompt.declines:
            self._exit_description = "decline or cancel"

    def _write_head(self) -> None:
        first = self._prompt.pages[0]
        if head := prompt_text.format_head_line(first):
            self._write(head)

        if self._prompt.pages[1:]:
            self._write(f"{len(self._prompt.pages)} questions.")

    def _ask_screen(self, screen: Screen) -> None:
        match screen:
            case "page":
                self._ask_page()
            case "summary":
                self._review()
            case "menu":
                self._ask_menu()
            case "discard":
                self._ask_discard()
            case other:
                assert_never(other)

    def _handle_end_of_input(self) -> None:
        self._write("")
        if not self._prompt.menu:
            self._draft.discard()
        elif self._draft.screen == "menu":  # without a choice in the menu, the turn stops
            self._draft.stop()
        else:
            self._draft.cancel()

    def _ask_page(self) -> None:
        draft = self._draft
        page = draft.question
        kind = page.question.answer_type
        self._write(*self._format_page(page))

        if isinstance(kind, FormAnswer) and kind.fields:
            typed: Answered | str = self._ask_fields(kind)
        else:
            may_stay_open = self._prompt.partial or not page.question.required
            typed = self._ask(page, draft.pages[draft.page].answer, may_stay_open=may_stay_open)
            if isinstance(typed, Answered):
                draft.store_draft(PageDraft(typed))
            elif typed == CLEAR_KEY:
                draft.store_draft(BLANK)

        self._follow_key(typed)

    def _follow_key(self, typed: Answered | str) -> None:
        """Go where the typed key leads from a page. An answer leads to the next page."""
        draft = self._draft
        if typed == LEAVE_KEY:
            self._leave(on_page=True)
        elif typed == BACK_KEY and draft.is_first and not draft.reviewed:
            self._write(IS_FIRST)
        elif typed == BACK_KEY and not draft.reviewed:
            draft.back()
        elif typed != BACK_KEY and not (draft.is_last or draft.reviewed):
            draft.next()
        elif self._reviews or draft.pages[0].answer is None:
            draft.review()
        else:
            draft.submit()

    def _format_page(self, page: QuestionPrompt) -> Iterator[str]:
        if self._reviews:
            yield ""

        label = prompt_text.format_header(page)
        if label == prompt_text.format_header(self._prompt.pages[0]):
            label = None  # already shown above the first question

        title = (
            form_text.format_progress(self._draft),
            label,
            form_text.format_page_header(page),
        )
        if line := " · ".join(filter(None, title)):
            yield line

        yield from _format_context(page)
        yield prompt_text.format_question(page)
        if self._draft.must_answer:
            problem = self._draft.pages[self._draft.page].problem
            yield upper_first(problem) or form_text.DEMANDED

    def _ask(
        self, page: QuestionPrompt, current: Answered | None, *, may_stay_open: bool
    ) -> Answered | str:
        """Ask a page or a field once; return its answer, or the key that the user typed instead."""
        kind = page.question.answer_type
        proposed = page
        if current is not None and not isinstance(kind, BooleanAnswer | SecretAnswer):
            # The dialogue proposes the earlier answer, which Enter sends.
            question = page.question.with_default(current.value).with_exclusive(False)
            proposed = replace(page, question=question)

        dialogue = make_page_dialogue(proposed)
        if isinstance(kind, TextAnswer):
            dialogue = _make_confirming_dialogue(dialogue)

        default = current or dialogue.default or self._find_preselected(page)
        enter = "Enter skips the question" if may_stay_open else "Enter skips the question for now"
        if default is not None:
            enter = self._describe_enter(page, default, is_kept=current is not None)

        other_keys = self._list_keys(can_clear=current is not None)
        legend = [enter, *(f"{key} {name}" for key, name, _ in other_keys), f"{HELP_KEY} help"]
        help_lines = [
            f"  {enter}.",
            *(f"  {key}  {meaning}" for key, _, meaning in other_keys),
            f'  To answer with the text of a key, type it in quotes, such as "{LEAVE_KEY}".',
        ]
        dialogue = replace(dialogue, legend=[*dialogue.legend, f"  {' · '.join(legend)}"])
        keys = [KEEP_KEY, *(key for key, _, _ in other_keys)]
        typed = converse(self._console, dialogue, keys=keys, help=help_lines)

        if typed == CLEAR_KEY or (typed == KEEP_KEY and default is None):
            self._write(LEFT_OPEN if may_stay_open else LEFT_FOR_NOW)

        answer = typed
        if typed == KEEP_KEY and default is not None:
            answer = default
        return answer if isinstance(answer, str) else replace(answer, channel=self._channel)

    def _find_preselected(self, page: QuestionPrompt) -> Answered | None:
        """Return the answer that an empty line gives to a yes-or-no question of a long form."""
        is_boolean = isinstance(page.question.answer_type, BooleanAnswer)
        if not (is_boolean and self._reviews) or page.question.exclusive:
            return None

        preset = prompt_text.get_preselected(page)
        return None if preset is None else Answered(preset, STDIN)

    def _describe_enter(self, page: QuestionPrompt, answer: Answered, *, is_kept: bool) -> str:
        """Return the effect of an empty line: `Enter keeps: Delft`."""
        verb = "answers" if self._reviews else "sends"
        if is_kept:
            verb = "keeps"
        shown = one_line(prompt_text.format_prompt_answer(page, answer), limit=200) or EMPTY
        return f"Enter {verb}: {shown}"

    def _list_keys(self, *, can_clear: bool) -> list[tuple[str, str, str]]:
        """Return the keys that are not answers: the key, its name, and its meaning."""
        keys = []
        if self._reviews and self._draft.reviewed:
            keys.append((BACK_KEY, "back", "show all answers"))
        elif self._reviews:
            keys.append((BACK_KEY, "back", "go back to the previous question"))
        if can_clear:
            keys.append((CLEAR_KEY, "clear", "clear the answer"))

        return [*keys, (LEAVE_KEY, "leave", self._exit_description)]

    def _ask_fields(self, kind: FormAnswer) -> str:
        """Ask the fields of the page in rounds, until all fit; return the key that ended them.

        The first round asks all fields. A further one asks those with problems again, until they
        fit or the user changes nothing.
        """
        values = self._fields.setdefault(self._draft.page, {})
        preset = prompt_text.get_preselected(self._draft.question)
        if not values and isinstance(preset, dict):
            values |= preset

        fields = list(kind.fields)
        values_before = dict(values)
        index = 0
        earlier_problems: Mapping[str, str] = {}  # of the answers before this round

        while True:
            typed, problems = self._ask_field(kind, fields[index], values, earlier_problems)
            if typed == LEAVE_KEY or (typed == BACK_KEY and index == 0):
                return typed

            index += -1 if typed == BACK_KEY else 1
            if index < len(fields):
                continue
            if not problems or values == values_before:
                return KEEP_KEY

            if form_problem := problems.get(""):
                self._write(upper_first(one_line(form_problem)))

            fields = [field for field in kind.fields if field.id in problems] or list(kind.fields)
            earlier_problems = problems
            values_before = dict(values)
            index = 0

    def _ask_field(
        self,
        kind: FormAnswer,
        field: Question,
        values: dict[str, JsonValue],
        earlier_problems: Mapping[str, str],
    ) -> tuple[str, Mapping[str, str]]:
        """Ask `field`, and store the draft of all fields.

        Return the typed key ("" for an answer), and the problems of the current `values`.
        """
        number = kind.fields.index(field)
        page = self._draft.question.fields[number]
        self._write(
            f"Field {number + 1} of {len(kind.fields)}: {prompt_text.format_question(page)}"
        )
        self._write(*_format_context(page))

        if field.id in earlier_problems:
            self._write(f"  ✗ {upper_first(one_line(earlier_problems[field.id]))}")

        current = Answered(values[field.id], STDIN) if field.id in values else None
        typed = self._ask(page, current, may_stay_open=not field.required)
        if isinstance(typed, Answered):
            values[field.id] = typed.value
        elif typed == CLEAR_KEY:
            del values[field.id]

        problems = kind.problems(values) if values else {}
        self._draft.store_draft(self._make_draft(kind, values, problems))
        if isinstance(typed, Answered):
            return "", problems
        return typed, problems

    def _make_draft(
        self, kind: FormAnswer, values: Mapping[str, JsonValue], problems: Mapping[str, str]
    ) -> PageDraft:
        """Return the draft of a page with fields: its values, or the first problem of a field."""
        if not values:
            return BLANK
        if not problems:
            return PageDraft(Answered({**values}, self._channel))

        first = next((field for field in kind.fields if field.id in problems), None)
        if first is None:  # a problem of the whole form
            return PageDraft(problem=one_line(next(iter(problems.values()))))
        question = prompt_text.format_question(QuestionPrompt(first))
        return PageDraft(problem=f"{question}: {one_line(problems[first.id])}")

    def _review(self) -> None:
        """Show all answers, and ask whether to send or change them."""
        draft = self._draft
        count = len(self._prompt.pages)
        lines = enumerate(form_text.summarize_form(draft), start=1)
        width = len(str(count))
        above = ["", "Your answers:"]
        above += [f"  {number:>{width}}  {line.asked} → {line.answer}" for number, line in lines]

        if (blocking := draft.blocking_page) is not None:
            above.append(f"Question {blocking + 1} is required. Answer it before you send.")
        elif left := len(draft.open_pages):
            above.append(f"Not answered: {left} of {count}. {SEND_KEY} sends the others.")

        # The keys, and the numbers of the questions.
        meanings = {SEND_KEY: "send it", "1": "change it"}
        if count > 1:
            meanings = {SEND_KEY: "send them", f"1-{count}": "change that answer"}

        label = self._prompt.pages[0].submit
        if label is not None:
            meanings[SEND_KEY] = lower_first(label)

        meanings |= {BACK_KEY: "go back to the last question", LEAVE_KEY: self._exit_description}
        numbers = {str(number): number - 1 for number in range(1, count + 1)}
        typed = choose(self._console, above, meanings, {*numbers, SEND_KEY, BACK_KEY, LEAVE_KEY})
        if typed == SEND_KEY:
            draft.submit()
            draft.send()  # the user has seen which questions are open
        elif typed == LEAVE_KEY:
            self._leave(on_page=False)
        else:
            draft.go(numbers.get(typed, count - 1))

    def _leave(self, *, on_page: bool) -> None:
        """Cancel the form, or decline a page if the form offers that."""
        if not self._prompt.declines:
            self._draft.cancel()
            return

        several = len(self._prompt.pages) > 1
        declined = "decline this question" if several else "decline: say no"
        ways = {DECLINE_KEY: declined, "c": "cancel", "b": BACK_TO_QUESTIONS}
        if not on_page:  # the question is not on screen
            del ways[DECLINE_KEY]

        chosen = choose(self._console, [form_text.MENU_QUESTION], ways)
        if chosen == DECLINE_KEY:
            self._draft.decline()
        elif chosen == "c":
            self._draft.cancel()
        else:
            self._resume()

    def _ask_menu(self) -> None:
        ways = {
            "r": form_text.REPLY_BUTTON_LABEL,
            "s": form_text.STOP_TURN_LABEL,
            "b": BACK_TO_QUESTIONS,
        }
        chosen = choose(self._console, [form_text.MENU_QUESTION], ways)
        if chosen == "r":
            self._write(form_text.REPLY_LABEL, "  An empty line goes back.")
            if (text := self._console.read("Your reply: ", secret=False)).strip():
                self._draft.reply(text)
        elif chosen == "s":
            self._draft.stop()
        else:
            self._resume()

    def _ask_discard(self) -> None:
        ways = {"y": form_text.DISCARD_LABEL, "n": BACK_TO_QUESTIONS}
        above = [f"{form_text.DISCARD_WARNING} {form_text.DISCARD_LABEL}?"]
        if choose(self._console, above, ways) == "y":
            self._draft.discard()
        else:
            self._resume()

    def _resume(self) -> None:
        """Go back to the summary if the user has seen it, else to the page."""
        if self._draft.reviewed:
            self._draft.review()
        else:
            self._draft.resume()


def _has_fields(page: QuestionPrompt) -> bool:
    kind = page.question.answer_type
    return isinstance(kind, FormAnswer) and bool(kind.fields)


def _make_confirming_dialogue(dialogue: StdinDialogue) -> StdinDialogue:
    """Return `dialogue` with a question before it sends an empty text."""

    def parse(line: str) -> Parsed:
        typed = dialogue.parse(line)
        if isinstance(typed, Answered) and isinstance(typed.value, str) and not typed.value.strip():
            return make_empty_confirmation(typed, asked)
        return typed

    asked = replace(dialogue, parse=parse)
    return asked


def _format_context(page: QuestionPrompt) -> Iterator[str]:
    context = prompt_text.format_context(page)
    lines = context.split("\n") if context else ()
    return bar_lines(lines)
