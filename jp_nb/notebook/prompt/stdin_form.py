"""A form on stdin: its questions one after the other, and all answers before they are sent.

    Question 2 of 4 · Stores
    Which store?
      1  Postgres (recommended)
      2  Redis
      3  Other (type your own)
    Number:

An empty line keeps the user's answer, else takes the tool's default where others than the user may
answer, too, else leaves the question open.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, assert_never

from pydantic import JsonValue

from jp_nb.agent.form_state import BLANK, FormDraft, PageDraft
from jp_nb.agent.prompts import Answered, FormPrompt, FormPromptEnd, QuestionPrompt
from jp_nb.notebook.prompt.presence import Expired
from jp_nb.notebook.prompt.stdin import (
    HELP,
    STDIN_DIALOGUES,
    Console,
    StdinChannel,
    StdinDialogue,
    TryAgain,
    barred,
    choose,
    confirm_empty,
    converse,
    legend_of,
)
from jp_nb.record.question_log import EMPTY
from jp_nb.rendering import forms as form_text
from jp_nb.rendering import prompts as prompt_text
from jp_nb.text import one_line
from jp_nb.tools.answer_types import BooleanAnswer, SecretAnswer, TextAnswer
from jp_nb.tools.question import FormAnswer, Question

KEEP: Final = ""
BACK: Final = "<"
LEAVE: Final = "!"
CLEAR: Final = "-"
"""Takes back an answer: the question is open again."""
KEYS: Final = (KEEP, BACK, LEAVE)
SEND: Final = "s"
LEFT_OPEN: Final = "Not answered."
LEFT_FOR_NOW: Final = f"Not answered. {form_text.DEMANDED}"
TIME_IS_OVER: Final = "The time to answer is over."
IS_FIRST: Final = "This is the first question."
BACK_TO_QUESTIONS: Final = "Go back to the questions"
SECRET_OR_KEY: Final = "This text is also a key of the form. Is it your secret?"


def ask_form_on_stdin(prompt: FormPrompt, console: Console, channel: StdinChannel) -> FormPromptEnd:
    """Put the questions of `prompt` to the person at `console` and return what comes of it.

    Where `console` raises `Expired`, the time for what is up is over: the next question comes.
    """
    return _StdinForm(prompt, console, channel).run()


class _StdinForm:
    """One form, driven by what is typed."""

    def __init__(self, prompt: FormPrompt, console: Console, channel: StdinChannel) -> None:
        self._prompt = prompt
        self._console = console
        self._channel = channel
        self._draft = FormDraft(prompt, channel)
        self._fields: dict[int, dict[str, Answered]] = {}  # by page, then by field
        self._reviewing = False  # every question was up, and all answers are
        self._seen_all = False
        # Of one question alone the answer is sent at once.
        kind = prompt.pages[0].question.answer_type
        self._reviews = len(prompt.pages) > 1 or isinstance(kind, FormAnswer)
        self._keys = KEYS if self._reviews else (KEEP, LEAVE)

    def run(self) -> FormPromptEnd:
        self._write(*self._opening())
        while self._draft.end is None:
            try:
                self._hold_what_is_up()
            except Expired:
                self._write("", TIME_IS_OVER)  # below the line that was being typed
                self._expire()
            except EOFError:
                self._write("")
                self._input_ends()
        return self._draft.end

    def _hold_what_is_up(self) -> None:
        match self._draft.screen:
            case "page" if self._reviewing:
                self._review()
            case "page":
                self._page()
            case "summary":
                self._draft.send()  # what is open was just shown
            case "menu":
                self._menu()
            case "discard":
                self._discard()
            case other:
                assert_never(other)

    def _expire(self) -> None:
        if not self._reviewing:
            self._draft.expire()
            return
        self._draft.submit()
        while self._draft.end is None:
            self._draft.expire()

    def _input_ends(self) -> None:
        """Show the ways out; without any, or where they are up, leave."""
        if self._prompt.menu and self._draft.screen != "menu":
            self._draft.cancel()
        elif self._prompt.menu:
            self._draft.stop()
        else:
            self._draft.discard()

    # --- the lines above ---------------------------------------------------------------------

    def _write(self, *lines: str) -> None:
        for line in lines:
            self._console.write(line)

    def _opening(self) -> Iterator[str]:
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
            label = None  # it stands above all of them
        title = (form_text.progress(self._draft), label, form_text.page_header(page))
        if said := " · ".join(filter(None, title)):
            yield said
        yield from _context(page)
        yield prompt_text.question(page)
        if self._draft.demanded:
            yield self._draft.pages[self._draft.page].problem or form_text.DEMANDED

    # --- one question ------------------------------------------------------------------------

    def _page(self) -> None:
        self._write(*self._page_lines())
        page, held = self._draft.asked, self._draft.pages[self._draft.page].answer
        kind = page.question.answer_type
        if isinstance(kind, FormAnswer):
            said: Answered | str = self._ask_fields(kind)
        else:
            said = self._ask(page, held, may_stay_open=self._may_stay_open(page.question))
            if isinstance(said, Answered):
                self._draft.hold(PageDraft(said))
            elif said == CLEAR:
                self._draft.hold(BLANK)
        if said == BACK:
            self._go_back()
        elif said == LEAVE:
            self._draft.cancel()
        else:
            self._go_on()

    def _may_stay_open(self, question: Question) -> bool:
        return self._prompt.partial or not question.required

    def _go_back(self) -> None:
        if self._seen_all:
            self._reviewing = True
        elif self._draft.is_first:
            self._write(IS_FIRST)
        else:
            self._draft.back()

    def _go_on(self) -> None:
        """Turn to the next question; behind the last one show all answers, or send the only one."""
        if not (self._draft.is_last or self._seen_all):
            self._draft.next()
        elif self._reviews or self._draft.pages[0].answer is None:
            self._reviewing = self._seen_all = True
        else:
            self._draft.submit()

    def _ask(
        self, page: QuestionPrompt, held: Answered | None, *, may_stay_open: bool
    ) -> Answered | str:
        """Return the answer that is typed, or kept; else the key that is typed."""
        dialogue = self._dialogue(page, held)
        default = held or dialogue.default or self._suggested(page)
        enter = f"Enter {self._enter(page, held, default, may_stay_open)}"
        others = [f"{BACK} back"] if BACK in self._keys else []
        others += [f"{CLEAR} clear"] if held is not None else []
        legend = "  " + " · ".join((enter, *others, f"{LEAVE} leave", f"{HELP} help"))
        dialogue = replace(dialogue, legend=[*dialogue.legend, legend])
        keys = self._keys if held is None else (*self._keys, CLEAR)
        said = self._converse(dialogue, keys, self._help(page, held, default, may_stay_open))
        if said == CLEAR or (said == KEEP and default is None):
            self._write(LEFT_OPEN if may_stay_open else LEFT_FOR_NOW)
        return default or KEEP if said == KEEP else said

    def _enter(
        self,
        page: QuestionPrompt,
        held: Answered | None,
        default: Answered | None,
        may_stay_open: bool,
    ) -> str:
        """Return what an empty line does; several answers are shown before they are sent."""
        if default is None:
            return "skips the question" if may_stay_open else "skips the question for now"
        verb = "keeps" if held is not None else "answers" if self._reviews else "sends"
        return f"{verb}: {_in_words(page, default)}"

    def _suggested(self, page: QuestionPrompt) -> Answered | None:
        """Return what is suggested as the answer to a boolean question, if nothing is sent yet."""
        preset = prompt_text.preselected(page)
        is_boolean = isinstance(page.question.answer_type, BooleanAnswer)
        if preset is None or not is_boolean or not self._reviews or page.question.exclusive:
            return None
        return Answered(preset, self._channel)

    def _dialogue(self, page: QuestionPrompt, held: Answered | None) -> StdinDialogue:
        """Return the dialogue of a question; the user's answer takes the place of its default."""
        kind = page.question.answer_type
        if held is not None and not isinstance(kind, BooleanAnswer | SecretAnswer):
            own = page.question.with_default(held.value).with_exclusive(False)
            page = replace(page, question=own)
        dialogue = STDIN_DIALOGUES[type(kind)](page, self._channel)
        if isinstance(kind, SecretAnswer):
            return _with_keys(dialogue)
        return _confirming(dialogue) if isinstance(kind, TextAnswer) else dialogue

    def _converse(
        self, dialogue: StdinDialogue, keys: Sequence[str], help_lines: list[str]
    ) -> Answered | str:
        if not dialogue.secret:
            return converse(self._console, dialogue, keys=keys, help=help_lines)
        said = converse(self._console, dialogue)  # unseen: a key is asked about first
        assert isinstance(said, Answered)
        if said.value not in (*keys, HELP):
            return said
        if said.value != KEEP:
            answer = choose(self._console, [SECRET_OR_KEY], {"y": "send it", "n": "use the key"})
            if answer == "y":
                return said
        if said.value == HELP:
            self._write(*help_lines)
            return self._converse(dialogue, keys, help_lines)
        return str(said.value)

    def _help(
        self,
        page: QuestionPrompt,
        held: Answered | None,
        default: Answered | None,
        may_stay_open: bool,
    ) -> list[str]:
        """Return what an empty line and the keys do on this page."""
        enter = self._enter(page, held, default, may_stay_open)
        back = "show all answers" if self._seen_all else "go back to the previous question"
        return [
            f"  Enter {enter}.",
            *([f"  {BACK}  {back}"] if BACK in self._keys else []),
            *([f"  {CLEAR}  clear the answer"] if held is not None else []),
            f"  {LEAVE}  {self._ways_out}",
            f'  To answer with the text of a key, type it in quotes, such as "{LEAVE}".',
        ]

    @property
    def _ways_out(self) -> str:
        return "reply to the assistant, or stop" if self._prompt.menu else "cancel"

    # --- a page of fields --------------------------------------------------------------------

    def _ask_fields(self, kind: FormAnswer) -> str:
        """Ask field by field, and once more those that something is wrong with; keep the page."""
        given = self._fields.setdefault(self._draft.page, {})
        if not given and (held := prompt_text.preselected(self._draft.asked)) is not None:
            given |= _by_field(held, kind, self._channel)
        problems: Mapping[str, str] = {}
        while True:
            before = dict(given)
            said = self._ask_each(kind, given, problems)
            problems = kind.problems(_values(given)) if given else {}
            if said != KEEP or not problems or given == before:
                return said
            if about_all := problems.get(""):
                self._write(one_line(about_all))

    def _ask_each(
        self, kind: FormAnswer, given: dict[str, Answered], problems: Mapping[str, str]
    ) -> str:
        """Ask the fields, or those with `problems`; return the key that ends it, Enter if none."""
        fields = [x for x in kind.fields if x.id in problems] or list(kind.fields)
        at = 0
        while at < len(fields):
            field = fields[at]
            self._write(*_field_lines(kind, field, problems.get(field.id)))
            page = QuestionPrompt(field)
            said = self._ask(page, given.get(field.id), may_stay_open=not field.required)
            if isinstance(said, Answered):
                given[field.id] = said
            elif said == CLEAR:
                del given[field.id]
            self._hold_fields(kind, given)
            if said == LEAVE or (said == BACK and at == 0):
                return str(said)
            at += -1 if said == BACK else 1
        return KEEP

    def _hold_fields(self, kind: FormAnswer, given: Mapping[str, Answered]) -> None:
        values = _values(given)
        problems = kind.problems(values) if given else {}
        if not given:
            self._draft.hold(BLANK)
        elif problems:
            self._draft.hold(PageDraft(problem=_first_problem(kind, problems)))
        else:
            self._draft.hold(PageDraft(Answered(values, self._channel)))

    # --- before it is sent -------------------------------------------------------------------

    def _review(self) -> None:
        """Show all answers, and turn to one or send them."""
        self._write("", "Your answers:", *self._summary())
        numbers = {str(n): "" for n in range(1, len(self._prompt.pages) + 1)}
        several = f"1-{len(numbers)}" if len(numbers) > 1 else "1"
        meanings = {
            SEND: "send it" if len(numbers) == 1 else "send them",
            several: "change that answer" if len(numbers) > 1 else "change it",
            BACK: "go back to the last question",
            LEAVE: self._ways_out,
        }
        keys = {*numbers, SEND, BACK, LEAVE}
        again = TryAgain(f"Please type one of {', '.join(meanings)}, or {HELP} for help.")
        said = converse(
            self._console,
            StdinDialogue(
                [],
                f"[{'/'.join((*meanings, HELP))}] ",
                {HELP: legend_of(meanings)},
                lambda _: again,
                legend=legend_of(meanings),
                inner=True,
            ),
            keys=keys,
        )
        assert isinstance(said, str)
        self._reviewing = False
        if said == SEND:
            self._draft.submit()
        elif said == LEAVE:
            self._draft.cancel()
        elif said == BACK:
            self._draft.go(len(numbers) - 1)
        else:
            self._draft.go(int(said) - 1)

    def _summary(self) -> Iterator[str]:
        width = len(str(len(self._prompt.pages)))
        for number, line in enumerate(form_text.summary(self._draft), start=1):
            yield f"  {number:>{width}}  {line.asked} → {line.answer}"
        if (blocked := self._draft.blocked) is not None:
            yield f"Question {blocked + 1} is required. Answer it before you send."
        elif count := len(self._draft.open_pages):
            yield f"Not answered: {count} of {len(self._prompt.pages)}. {SEND} sends the others."

    # --- ways out ----------------------------------------------------------------------------

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
        self._draft.resume()
        self._reviewing = self._seen_all


def _in_words(page: QuestionPrompt, answer: Answered) -> str:
    return one_line(prompt_text.given(page, answer), limit=200) or EMPTY


def _confirming(dialogue: StdinDialogue) -> StdinDialogue:
    """Return a dialogue for a text that asks about an empty one."""

    def parse(line: str) -> Answered | TryAgain | StdinDialogue:
        said = dialogue.parse(line)
        if isinstance(said, Answered) and isinstance(said.value, str) and not said.value.strip():
            return confirm_empty(said, asked)
        return said

    asked = replace(dialogue, parse=parse)
    return asked


def _with_keys(dialogue: StdinDialogue) -> StdinDialogue:
    """Return a dialogue for a secret in which an empty line is one, too: it is a key."""

    def parse(line: str) -> Answered | TryAgain | StdinDialogue:
        return Answered(line, "stdin") if not line else dialogue.parse(line)

    return replace(dialogue, parse=parse)


def _context(page: QuestionPrompt) -> Iterator[str]:
    context = prompt_text.context(page)
    return barred(context.split("\n")) if context else iter(())


def _field_lines(kind: FormAnswer, field: Question, problem: str | None) -> Iterator[str]:
    page, number = QuestionPrompt(field), kind.fields.index(field) + 1
    yield f"Field {number} of {len(kind.fields)}: {prompt_text.question(page)}"
    yield from _context(page)
    if problem:
        yield f"  ✗ {one_line(problem)}"


def _first_problem(kind: FormAnswer, problems: Mapping[str, str]) -> str:
    for field in kind.fields:
        if field.id in problems:
            return f"{prompt_text.question(QuestionPrompt(field))}: {one_line(problems[field.id])}"
    return one_line(next(iter(problems.values())))


def _values(given: Mapping[str, Answered]) -> dict[str, JsonValue]:
    return {key: answer.value for key, answer in given.items()}


def _by_field(answer: JsonValue, kind: FormAnswer, channel: StdinChannel) -> dict[str, Answered]:
    given = answer if isinstance(answer, dict) else {}
    return {x.id: Answered(given[x.id], channel) for x in kind.fields if x.id in given}
