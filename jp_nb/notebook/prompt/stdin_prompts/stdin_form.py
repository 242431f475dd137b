"""A form on stdin: its questions one by one, and all answers before they are sent.

An answer is typed in a line. Keys are lines that are not answers (`form_questions.py`), such as `-`
(`CLEAR_KEY`), which removes the earlier answer of a page. `FormDraft` decides which screen is asked
next: a page, the summary of all answers, the menu of Cancel, or the question before input is
discarded.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from jp_nb.agent.prompting.form_draft import Screen
from jp_nb.agent.prompting.page_drafts import BLANK, PageDraft
from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import FormPrompt, QuestionPrompt
from jp_nb.notebook.prompt.stdin_prompts.barred_lines import bar_text
from jp_nb.notebook.prompt.stdin_prompts.form_questions import (
    BACK_KEY,
    CLEAR_KEY,
    LEAVE_KEY,
    FormQuestions,
)
from jp_nb.notebook.prompt.stdin_prompts.input_console import Console
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import StdinChannel, choose
from jp_nb.notebook.prompt.stdin_prompts.stdin_fields import StdinFields
from jp_nb.notebook.prompt.stdin_prompts.stdin_prompt import StdinPrompt
from jp_nb.rendering.prompt_texts import form_text, prompt_text
from jp_nb.text import lower_first, upper_first
from jp_nb.toolkit.question import FormAnswer

SEND_KEY: Final = "s"
DECLINE_KEY: Final = "d"
IS_FIRST: Final = "This is the first question."
BACK_TO_QUESTIONS: Final = "Go back to the questions"


class StdinForm(StdinPrompt):
    """A form with at least one page.

    The base class runs the loop over the screens. It calls `_write_head` once, `_ask_screen` for
    each screen, and `_handle_end_of_input` if there is no input. A page has one question, or
    several fields, which `StdinFields` asks.
    """

    def __init__(self, prompt: FormPrompt, console: Console, channel: StdinChannel) -> None:
        super().__init__(prompt, console, channel)
        self._prompt = prompt
        # The answer to a single question is sent at once, without the summary.
        self._has_summary = len(prompt.pages) > 1 or _has_fields(prompt.pages[0])
        self._exit_description = _describe_exit(prompt)
        self._questions = FormQuestions(
            console,
            self._draft,
            channel,
            has_summary=self._has_summary,
            exit_description=self._exit_description,
        )
        self._fields = StdinFields(console, self._draft, channel, self._questions)

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
        """Cancel the form, or show its menu. Without a choice in the menu, the turn stops."""
        self._write("")
        if not self._prompt.menu:
            self._draft.discard()
        elif self._draft.screen == "menu":
            self._draft.stop()
        else:
            self._draft.cancel()

    def _ask_page(self) -> None:
        """Ask the current page, store its answer, and continue as the user typed."""
        draft = self._draft
        page = draft.question
        kind = page.question.answer_type
        self._write(*self._format_page(page))

        typed: Answered | str
        if isinstance(kind, FormAnswer) and kind.fields:
            typed = self._fields.ask(kind)
        else:
            may_stay_open = self._prompt.partial or not page.question.required
            current = draft.pages[draft.page].answer
            typed = self._questions.ask(page, current, may_stay_open=may_stay_open)
            if isinstance(typed, Answered):
                draft.store_draft(PageDraft(typed))
            elif typed == CLEAR_KEY:
                draft.store_draft(BLANK)

        self._follow_key(typed)

    def _follow_key(self, typed: Answered | str) -> None:
        """Go where the typed answer or key leads from a page.

        - `!` leaves the form, or declines the page.
        - `<` leads to the previous page.
        - An answer, or any other key, leads to the next page, and from the last one to the summary.
        - Once the user has seen the summary, all but `!` lead back to it.

        A form without a summary is submitted in its place, if it has an answer.
        """
        draft = self._draft
        goes_back = typed == BACK_KEY and not draft.reviewed
        goes_on = typed != BACK_KEY and not draft.reviewed
        if typed == LEAVE_KEY:
            self._leave(on_page=True)
        elif goes_back and draft.is_first:
            self._write(IS_FIRST)
        elif goes_back:
            draft.back()
        elif goes_on and not draft.is_last:
            draft.next()
        elif self._has_summary or draft.pages[0].answer is None:
            draft.review()
        else:
            draft.submit()

    def _format_page(self, page: QuestionPrompt) -> Iterator[str]:
        """Yield the lines above the dialogue of a page."""
        if self._has_summary:
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

        yield from bar_text(prompt_text.format_context(page))
        yield prompt_text.format_question(page)
        if self._draft.must_answer:
            problem = self._draft.pages[self._draft.page].problem
            yield upper_first(problem) or form_text.DEMANDED

    def _review(self) -> None:
        """Show all answers, and let the user send or change them."""
        draft = self._draft
        count = len(self._prompt.pages)
        lines = enumerate(form_text.summarize_form(draft), start=1)
        width = len(str(count))
        above = ["", "Your answers:"]
        above += [f"  {number:>{width}}  {line.asked} → {line.answer}" for number, line in lines]

        if (blocking := draft.blocking_page) is not None:
            above.append(f"Question {blocking + 1} is required. Answer it before you send.")
        elif open_count := len(draft.open_pages):
            above.append(f"Not answered: {open_count} of {count}. {SEND_KEY} sends the others.")

        # The legend has one line for the numbers of all questions, each of which is a key.
        meanings = self._describe_summary_keys(count)
        pages = {str(number): number - 1 for number in range(1, count + 1)}
        typed = choose(self._console, above, meanings, {*pages, SEND_KEY, BACK_KEY, LEAVE_KEY})
        if typed == SEND_KEY:
            draft.submit()
            draft.send()  # the user has seen which questions are open
        elif typed == LEAVE_KEY:
            self._leave(on_page=False)
        else:
            draft.go(pages.get(typed, count - 1))  # `BACK_KEY` leads to the last page

    def _describe_summary_keys(self, count: int) -> dict[str, str]:
        """Return the keys of the summary of `count` questions, with their meanings."""
        meanings = {SEND_KEY: "send it", "1": "change it"}
        if count > 1:
            meanings = {SEND_KEY: "send them", f"1-{count}": "change that answer"}

        label = self._prompt.pages[0].submit
        if label is not None:
            meanings[SEND_KEY] = lower_first(label)

        return {
            **meanings,
            BACK_KEY: "go back to the last question",
            LEAVE_KEY: self._exit_description,
        }

    def _leave(self, *, on_page: bool) -> None:
        """Cancel the form. If it can be declined, let the user choose.

        Only a question `on_page`, which is on the screen, can be declined; the summary is not one.
        """
        if not self._prompt.declines:
            self._draft.cancel()
            return

        several = len(self._prompt.pages) > 1
        declined = "decline this question" if several else "decline: say no"
        ways = {DECLINE_KEY: declined, "c": "cancel", "b": BACK_TO_QUESTIONS}
        if not on_page:
            del ways[DECLINE_KEY]

        chosen = choose(self._console, [form_text.MENU_QUESTION], ways)
        if chosen == DECLINE_KEY:
            self._draft.decline()
        elif chosen == "c":
            self._draft.cancel()
        else:
            self._resume()

    def _ask_menu(self) -> None:
        """Let the user reply to the model, stop the turn, or go back."""
        ways = {
            "r": form_text.REPLY_BUTTON_LABEL,
            "s": form_text.STOP_TURN_LABEL,
            "b": BACK_TO_QUESTIONS,
        }
        chosen = choose(self._console, [form_text.MENU_QUESTION], ways)
        if chosen == "r":
            self._write(form_text.REPLY_LABEL, "  An empty line goes back.")
            text = self._console.read("Your reply: ", secret=False)
            if text.strip():  # else the menu is asked again
                self._draft.reply(text)
        elif chosen == "s":
            self._draft.stop()
        else:
            self._resume()

    def _ask_discard(self) -> None:
        """Ask before the input is discarded."""
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


def _describe_exit(prompt: FormPrompt) -> str:
    """Return the effect of `LEAVE_KEY`."""
    if prompt.declines:
        return "decline or cancel"
    return "reply to the assistant, or stop" if prompt.menu else "cancel"


def _has_fields(page: QuestionPrompt) -> bool:
    kind = page.question.answer_type
    return isinstance(kind, FormAnswer) and bool(kind.fields)
