"""The text of an open prompt, for readers who do not see its form.

The output of the cell has it in place of the form, for example in a saved notebook, or on a page
without widgets. `prompt_summary.py` replaces it after the prompt has ended.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jp_nb.agent.prompting.prompts import (
    AnyPrompt,
    FormPrompt,
    QuestionPrompt,
)
from jp_nb.exact_form import spell_invisible
from jp_nb.rendering.prompt_texts.address_text import ADDRESS_AT, find_address
from jp_nb.rendering.prompt_texts.card_text import format_card_lines
from jp_nb.rendering.prompt_texts.prompt_text import (
    format_head_line,
    format_question,
    format_titled_question,
)
from jp_nb.rendering.prompt_texts.question_card import make_question_card

OPEN_ONLY = "[You can answer only while the form is shown. Without a form, you are asked as text.]"


def format_without_form(prompt: AnyPrompt) -> str:
    """Return the questions and options, for readers who do not see the form."""
    lines: list[str] = []
    if isinstance(prompt, FormPrompt):
        # One tool asks all pages, so the first one names it.
        if head := format_head_line(prompt.pages[0]):
            lines.append(head)

        for number, page in enumerate(prompt.pages, start=1):
            lines += [f"{number}. {format_question(page)}", *_list_option_lines(page)]

        return "\n".join([*lines, OPEN_ONLY])

    question = format_titled_question(prompt)  # in one line, after its title and asking tool
    if isinstance(prompt, QuestionPrompt):
        lines += _list_option_lines(prompt)
    if not lines:
        return f"{question} {OPEN_ONLY}"

    return "\n".join([question, *lines, OPEN_ONLY])


def _list_option_lines(page: QuestionPrompt) -> Iterator[str]:
    """Yield the lines below an open question: the host of its URL, its options, or its fields."""
    # Of a URL only the host: a page may make a link of the whole text.
    address = find_address(page)
    if address is not None and address.host:
        yield f"    {ADDRESS_AT.format(spell_invisible(address.host))}"

    card = make_question_card(page.question.answer_type.to_record(), answered=False)
    yield from (f"    {line}" for line in format_card_lines(card))
