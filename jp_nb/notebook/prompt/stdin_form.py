"""Forms on stdin: ask the questions one by one, and show all answers before sending them.

    Question 2 of 4 · Stores
    Which store?
      1  Postgres (recommended)
      2  Redis
      3  Other (type your own)
    Number:

An empty line keeps the user's earlier answer. Without an earlier answer, it accepts the default,
unless only the user may answer (`Question.exclusive`). Without a default, the question stays open.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, assert_never

from pydantic import JsonValue

from jp_nb.agent.form_state import BLANK, FormDraft, PageDraft
from jp_nb.agent.prompts import Answered, FormEnd, FormPrompt, PromptEnd, QuestionPrompt
from jp_nb.notebook.prompt.presence import Expired
from jp_nb.notebook.prompt.stdin import (
    HELP,
    STDIN,
    STDIN_DIALOGUES,
    Console,
    Parsed,
    StdinChannel,
    StdinDialogue,
    bar_lines,
    choose,
    confirm_empty,
    converse,
)
from jp_nb.record.question_log import EMPTY
from jp_nb.rendering import forms as form_text
from jp_nb.rendering import prompts as prompt_text
from jp_nb.text import one_line
from jp_nb.tools.answer_types import BooleanAnswer, SecretAnswer, TextAnswer
from jp_nb.tools.question import FormAnswer, Question

Values = dict[str, JsonValue]
"""Answers to the fields of a page, by id."""
KEEP: Final = ""
BACK: Final = "<"
LEAVE: Final = "!"
CLEAR: Final = "-"
"""Key that clears an answer. The question is then open again."""
KEYS: Final = (KEEP, BACK, LEAVE)
SEND: Final = "s"
LEFT_OPEN: Final = "Not answered."
LEFT_FOR_NOW: Final = f"Not answered. {form_text.DEMANDED}"
TIME_IS_OVER: Final = "The time to answer is over."
IS_FIRST: Final = "This is the first question."
BACK_TO_QUESTIONS: Final = "Go back to the questions"


def ask_form_on_stdin(
    prompt: FormPrompt, console: Console, channel: StdinChannel
) -> PromptEnd[FormEnd]:
    """Ask the questions of `prompt` at `console` and return the end of the form.

    If `console` raises `Expired`, the time for the question is over, and the form asks the
    next one.
    """
    return _StdinForm(prompt, console, channel).run()


class _StdinForm:
    """One form, which the user controls by typing lines."""

    def __init__(self, prompt: FormPrompt, console: Console, channel: StdinChannel) -> None:
        self._prompt = prompt
        self._console = console
        self._channel = channel
        self._draft = FormDraft(prompt, channel)
        self._fields: dict[int, Values] = {}  # by page
        # The answer to a single question is sent at once.
        kind = prompt.pages[0].question.answer_type
        self._reviews = len(prompt.pages) > 1 or isinstance(kind, FormAnswer)
        self._keys = KEYS if self._reviews else (KEEP, LEAVE)

    def run(self) -> PromptEnd[FormEnd]:
        self._write(*self._head_lines())
        while self._draft.end is None:
            try:
                self._run_screen()
            except Expired:
                self._write("", TIME_IS_OVER)  # below the unfinished line
                self._draft.expire()
            except EOFError:
                self._write("")
                self._handle_end_of_input()
        return self._draft.end

    def _run_screen(self) -> None:
        match self._draft.screen:
            case "page":
                self._ask_page()
            case "summary":
                self._review()
            case "menu":
                self._menu()
            case "discard":
                self._discard()
            case other:
                assert_never(other)

    def _handle_end_of_input(self) -> None:
        # Without a menu, or inside it, the end of the input leaves the form.
        if self._prompt.menu and self._draft.screen != "menu":
            self._draft.cancel()
        elif self._prompt.menu:
            self._draft.stop()
        else:
            self._draft.discard()

    # --- title and question ------------------------------------------------------------------

    def _write(self, *lines: str) -> None:
        for line in lines:
            self._console.write(line)

    def _head_lines(self) -> Iterator[str]:
        first, count = self._prompt.pages[0], len(self._prompt.pages)
        header, by = prompt_text.header(first), prompt_text.asked_by(first)
        if header or by:
            yield f"{header} ({by})" if header and by else header or by or ""
        if count > 1:
            yield f"{count} questions."

    def _page_lines(self) -> Iterator[str]:
        page = self._draft.asked
        if self._reviews:
            yield ""
        label = prompt_text.header(page)
        if label == prompt_text.header(self._prompt.pages[0]):
            label = None  # already shown above the first question
        title = (form_text.progress(self._draft), label, form_text.page_header(page))
        if line := " · ".join(filter(None, title)):
            yield line
        yield from _context_lines(page)
        yield prompt_text.question(page)
        if self._draft.demanded:
            yield self._draft.pages[self._draft.page].problem or form_text.DEMANDED

    # --- questions ------------------------------------------------------------------------

    def _ask_page(self) -> None:
        self._write(*self._page_lines())
        page, current = self._draft.asked, self._draft.pages[self._draft.page].answer
        kind = page.question.answer_type
        if isinstance(kind, FormAnswer):
            typed: Answered | str = self._ask_fields(kind)
        else:
            typed = self._ask(page, current, may_stay_open=self._may_stay_open(page.question))
            if isinstance(typed, Answered):
                self._draft.hold(PageDraft(typed))
            elif typed == CLEAR:
                self._draft.hold(BLANK)
        if typed == BACK:
            self._go_back()
        elif typed == LEAVE:
            self._draft.cancel()
        else:
            self._go_forward()

    def _may_stay_open(self, question: Question) -> bool:
        return self._prompt.partial or not question.required

    def _go_back(self) -> None:
        if self._draft.reviewed:
            self._draft.review()
        elif self._draft.is_first:
            self._write(IS_FIRST)
        else:
            self._draft.back()

    def _go_forward(self) -> None:
        if not (self._draft.is_last or self._draft.reviewed):
            self._draft.next()
        elif self._reviews or self._draft.pages[0].answer is None:
            self._draft.review()
        else:
            self._draft.submit()

    def _ask(
        self, page: QuestionPrompt, current: Answered | None, *, may_stay_open: bool
    ) -> Answered | str:
        dialogue = self._make_dialogue(page, current)
        default = current or dialogue.default or self._get_suggestion(page)
        enter = f"Enter {self._describe_enter(page, current, default, may_stay_open)}"
        others = [f"{BACK} back"] if BACK in self._keys else []
        others += [f"{CLEAR} clear"] if current is not None else []
        legend = "  " + " · ".join((enter, *others, f"{LEAVE} leave", f"{HELP} help"))
        dialogue = replace(dialogue, legend=[*dialogue.legend, legend])
        keys = self._keys if current is None else (*self._keys, CLEAR)
        help_lines = self._help_lines(enter, current)
        typed = converse(self._console, dialogue, keys=keys, help=help_lines)
        if typed == CLEAR or (typed == KEEP and default is None):
            self._write(LEFT_OPEN if may_stay_open else LEFT_FOR_NOW)
        answer = default or KEEP if typed == KEEP else typed
        return answer if isinstance(answer, str) else replace(answer, channel=self._channel)

    def _describe_enter(
        self,
        page: QuestionPrompt,
        current: Answered | None,
        default: Answered | None,
        may_stay_open: bool,
    ) -> str:
        if default is None:
            return "skips the question" if may_stay_open else "skips the question for now"
        verb = "keeps" if current is not None else "answers" if self._reviews else "sends"
        return f"{verb}: {_describe_answer(page, default)}"

    def _get_suggestion(self, page: QuestionPrompt) -> Answered | None:
        preset = prompt_text.preselected(page)
        is_boolean = isinstance(page.question.answer_type, BooleanAnswer)
        if preset is None or not is_boolean or not self._reviews or page.question.exclusive:
            return None
        return Answered(preset, STDIN)

    def _make_dialogue(self, page: QuestionPrompt, current: Answered | None) -> StdinDialogue:
        kind = page.question.answer_type
        if current is not None and not isinstance(kind, BooleanAnswer | SecretAnswer):
            own = page.question.with_default(current.value).with_exclusive(False)
            page = replace(page, question=own)
        dialogue = STDIN_DIALOGUES[type(kind)](page)
        return _confirm_empty_answer(dialogue) if isinstance(kind, TextAnswer) else dialogue

    def _help_lines(self, enter: str, current: Answered | None) -> list[str]:
        back = "show all answers" if self._draft.reviewed else "go back to the previous question"
        return [
            f"  {enter}.",
            *([f"  {BACK}  {back}"] if BACK in self._keys else []),
            *([f"  {CLEAR}  clear the answer"] if current is not None else []),
            f"  {LEAVE}  {self._exit_description}",
            f'  To answer with the text of a key, type it in quotes, such as "{LEAVE}".',
        ]

    @property
    def _exit_description(self) -> str:
        return "reply to the assistant, or stop" if self._prompt.menu else "cancel"

    # --- a page of fields --------------------------------------------------------------------

    def _ask_fields(self, kind: FormAnswer) -> str:
        # Asks fields with errors again, until nothing changes.
        given = self._fields.setdefault(self._draft.page, {})
        if not given and (current := prompt_text.preselected(self._draft.asked)) is not None:
            given |= current if isinstance(current, dict) else {}
        problems: Mapping[str, str] = {}
        while True:
            before = dict(given)
            typed = self._ask_each(kind, given, problems)
            problems = kind.problems(given) if given else {}
            if typed != KEEP or not problems or given == before:
                return typed
            if form_problem := problems.get(""):
                self._write(one_line(form_problem))

    def _ask_each(self, kind: FormAnswer, given: Values, problems: Mapping[str, str]) -> str:
        fields = [x for x in kind.fields if x.id in problems] or list(kind.fields)
        at = 0
        while at < len(fields):
            field = fields[at]
            self._write(*_field_lines(kind, field, problems.get(field.id)))
            page = QuestionPrompt(field)
            current = Answered(given[field.id], STDIN) if field.id in given else None
            typed = self._ask(page, current, may_stay_open=not field.required)
            if isinstance(typed, Answered):
                given[field.id] = typed.value
            elif typed == CLEAR:
                del given[field.id]
            self._keep_fields(kind, given)
            if typed == LEAVE or (typed == BACK and at == 0):
                return str(typed)
            at += -1 if typed == BACK else 1
        return KEEP

    def _keep_fields(self, kind: FormAnswer, given: Values) -> None:
        problems = kind.problems(given) if given else {}
        if not given:
            self._draft.hold(BLANK)
        elif problems:
            self._draft.hold(PageDraft(problem=_first_problem(kind, problems)))
        else:
            self._draft.hold(PageDraft(Answered({**given}, self._channel)))

    # --- the summary of all answers ----------------------------------------------------------

    def _review(self) -> None:
        numbers = [str(n) for n in range(1, len(self._prompt.pages) + 1)]
        several = len(numbers) > 1
        meanings = {
            SEND: "send them" if several else "send it",
            f"1-{len(numbers)}" if several else "1": "change that answer"
            if several
            else "change it",
            BACK: "go back to the last question",
            LEAVE: self._exit_description,
        }
        above = ("", "Your answers:", *self._summary_lines())
        typed = choose(self._console, above, meanings, {*numbers, SEND, BACK, LEAVE})
        if typed == SEND:
            self._draft.submit()
            self._draft.send()  # the user has seen which questions are open
        elif typed == LEAVE:
            self._draft.cancel()
        elif typed == BACK:
            self._draft.go(len(numbers) - 1)
        else:
            self._draft.go(int(typed) - 1)

    def _summary_lines(self) -> Iterator[str]:
        width = len(str(len(self._prompt.pages)))
        for number, line in enumerate(form_text.summary(self._draft), start=1):
            yield f"  {number:>{width}}  {line.asked} → {line.answer}"
        if (blocked := self._draft.blocked) is not None:
            yield f"Question {blocked + 1} is required. Answer it before you send."
        elif count := len(self._draft.open_pages):
            yield f"Not answered: {count} of {len(self._prompt.pages)}. {SEND} sends the others."

    # --- the menu ----------------------------------------------------------------------------

    def _menu(self) -> None:
        ways = {"r": form_text.REPLY, "s": form_text.STOP, "b": BACK_TO_QUESTIONS}
        match choose(self._console, [form_text.MENU], ways):
            case "r":
                self._reply()
            case "s":
                self._draft.stop()
            case _:
                self._resume()

    def _reply(self) -> None:
        self._write(form_text.REPLY_LABEL, "  An empty line goes back.")
        text = self._console.read("Your reply: ", secret=False)
        if text.strip():
            self._draft.reply(text)

    def _discard(self) -> None:
        ways = {"y": form_text.DISCARD, "n": BACK_TO_QUESTIONS}
        if choose(self._console, [f"{form_text.DISCARDED} {form_text.DISCARD}?"], ways) == "y":
            self._draft.discard()
        else:
            self._resume()

    def _resume(self) -> None:
        if self._draft.reviewed:
            self._draft.review()
        else:
            self._draft.resume()


def _describe_answer(page: QuestionPrompt, answer: Answered) -> str:
    return one_line(prompt_text.format_answer(page, answer), limit=200) or EMPTY


def _confirm_empty_answer(dialogue: StdinDialogue) -> StdinDialogue:
    def parse(line: str) -> Parsed:
        typed = dialogue.parse(line)
        if isinstance(typed, Answered) and isinstance(typed.value, str) and not typed.value.strip():
            return confirm_empty(typed, asked)
        return typed

    asked = replace(dialogue, parse=parse)
    return asked


def _context_lines(page: QuestionPrompt) -> Iterator[str]:
    context = prompt_text.context(page)
    return bar_lines(context.split("\n")) if context else iter(())


def _field_lines(kind: FormAnswer, field: Question, problem: str | None) -> Iterator[str]:
    page, number = QuestionPrompt(field), kind.fields.index(field) + 1
    yield f"Field {number} of {len(kind.fields)}: {prompt_text.question(page)}"
    yield from _context_lines(page)
    if problem:
        yield f"  ✗ {one_line(problem)}"


def _first_problem(kind: FormAnswer, problems: Mapping[str, str]) -> str:
    for field in kind.fields:
        if field.id in problems:
            return f"{prompt_text.question(QuestionPrompt(field))}: {one_line(problems[field.id])}"
    return one_line(next(iter(problems.values())))
