"""The dialogue on stdin of a question or decision that is no form: one for each kind.

A dialogue parses a typed line (`StdinDialogue`). Its `parse` returns the answer, another dialogue,
or a text that refuses the line. `stdin.py` runs it. Texts, options, and decisions have modules of
their own (`stdin_text.py`, `stdin_selection.py`, `stdin_decision.py`).

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import ActionPrompt, QuestionPrompt, SimplePrompt
from jp_nb.notebook.prompt.stdin_prompts.stdin_decision import format_decision, make_action_dialogue
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import (
    HELP_KEY,
    STDIN,
    StdinDialogue,
    make_key_dialogue,
)
from jp_nb.notebook.prompt.stdin_prompts.stdin_selection import SelectionDialogues
from jp_nb.notebook.prompt.stdin_prompts.stdin_text import (
    format_caption,
    format_typing_hint,
    make_text_dialogue,
)
from jp_nb.rendering.prompt_texts import address_text, prompt_text
from jp_nb.rendering.prompt_texts.boolean_choices import find_suggested_choice, list_choices
from jp_nb.toolkit.question import FormAnswer
from jp_nb.toolkit.question_types.answer_types import (
    AnswerType,
    BooleanAnswer,
    SecretAnswer,
    UrlAnswer,
)
from jp_nb.toolkit.question_types.number_answer import IntegerAnswer, NumberAnswer
from jp_nb.toolkit.question_types.select_answer import SelectAnswer
from jp_nb.toolkit.question_types.text_answer import TextAnswer

SHOW_AGAIN: Final = "a"


def make_single_dialogue(prompt: SimplePrompt) -> StdinDialogue:
    """Return the dialogue of a prompt that is no form. It names the answer that Enter sends."""
    if isinstance(prompt, ActionPrompt):
        dialogue = make_action_dialogue(prompt)
    else:
        dialogue = make_page_dialogue(prompt)

    if dialogue.default is None:
        return dialogue

    caption = dialogue.prompt.removesuffix(": ")
    words = f"{caption} (Enter sends: {dialogue.default_words}): "
    return replace(dialogue, prompt=words)


def make_page_dialogue(page: QuestionPrompt) -> StdinDialogue:
    """Return the dialogue of a question, also if it is a form without fields."""
    kind = page.question.answer_type
    if isinstance(kind, FormAnswer):  # without fields
        return make_key_dialogue({"y": "yes"}, {"y": Answered({}, STDIN)})
    return STDIN_DIALOGUES[type(kind)](page)


def format_single_head(prompt: SimplePrompt) -> Iterator[str]:
    """Yield the lines above the dialogue of a prompt that is no form."""
    question = prompt_text.format_question(prompt)
    if prompt_text.format_header(prompt):
        yield prompt_text.format_head_line(prompt)
    elif by := prompt_text.format_origin(prompt):
        question = f"{question} ({by})"

    if isinstance(prompt, QuestionPrompt):
        if context := prompt_text.format_context(prompt):
            yield context
        yield question
    else:
        yield from format_decision(prompt, question)


def _make_boolean_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    """Return the dialogue of a yes-or-no question. An empty line does not send its default."""
    offered = list_choices(prompt)
    answers = {choice.key: Answered(choice.value, STDIN, choice.remember) for choice in offered}
    answers |= {"yes": answers["y"], "no": answers["n"]}
    meanings = {choice.key: choice.meaning for choice in offered}
    hint = ""

    if (suggested := find_suggested_choice(prompt)) is not None:
        hint = f" ({suggested.key} {prompt_text.SUGGESTED})"
        meanings[suggested.key] += f" ({prompt_text.SUGGESTED})"

    return make_key_dialogue(meanings, answers, hint=hint)


def _make_number_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    """Return the dialogue of a number.

    Enter sends a default, but not that of an exclusive question, which only the user may answer,
    and explicitly.
    """
    kind = prompt.question.answer_type
    assert isinstance(kind, NumberAnswer)
    preset = prompt_text.get_preselected(prompt)
    default = None if prompt.question.exclusive else preset

    def parse(line: str) -> Answered | str:
        try:
            number = kind.from_text(line)
        except ValueError:
            return format_typing_hint(kind)
        if kind.misfit(number):
            return format_typing_hint(kind)
        return Answered(number, STDIN)

    suggested = f" ({prompt_text.SUGGESTED}: {preset})" if preset != default else ""
    dialogue = StdinDialogue(
        prompt=f"{format_caption(kind)}{suggested}: ",
        parse=parse,
        key_help={HELP_KEY: [f"  Type {prompt_text.describe_expected(kind)}."]},
    )
    if default is None:
        return dialogue
    return replace(dialogue, default=Answered(default, STDIN), default_words=str(default))


def _make_url_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    lines = address_text.format_address_lines(prompt)
    meanings = {"y": "done", SHOW_AGAIN: "try again: show the address again"}
    dialogue = make_key_dialogue(meanings, {"y": Answered(True, STDIN)}, above=lines)
    return replace(dialogue, key_help={**dialogue.key_help, SHOW_AGAIN: lines})


STDIN_DIALOGUES: Final[dict[type[AnswerType], Callable[[QuestionPrompt], StdinDialogue]]] = {
    BooleanAnswer: _make_boolean_dialogue,
    SelectAnswer: lambda prompt: SelectionDialogues(prompt).make_first(),
    TextAnswer: make_text_dialogue,
    SecretAnswer: lambda _: StdinDialogue(
        prompt="Secret: ",
        parse=lambda line: Answered(line, STDIN) if line else "Nothing was typed.",
        key_help={HELP_KEY: []},
        secret=True,
    ),
    NumberAnswer: _make_number_dialogue,
    IntegerAnswer: _make_number_dialogue,
    UrlAnswer: _make_url_dialogue,
}
"""Dialogue by answer type. The fields of a `form` are asked one by one."""
