"""The dialogue on stdin of a decision: all that the user decides about, and a key for each action.

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import ActionPrompt
from jp_nb.notebook.prompt.stdin_prompts.barred_lines import bar_lines, bar_text
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import (
    HELP_KEY,
    STDIN,
    StdinDialogue,
    make_key_dialogue,
)
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.change_text import NOW_WHOLE, PROPOSED_WHOLE, spell_change
from jp_nb.rendering.text_diff import diff_change
from jp_nb.text import one_line

DETAILS_KEY: Final = "d"


def format_decision(prompt: ActionPrompt, question: str) -> Iterator[str]:
    """Yield all that the user decides about, and the question.

    An *exhibit* is a part of it that is shown exactly, such as the new source of a cell.
    """
    yield from bar_text(prompt_text.format_context(prompt))
    yield f"{question}:" if prompt.changes else question

    captioned = prompt_text.list_exhibits(prompt)  # the caption and the lines of each exhibit
    for exhibit, (caption, lines) in zip(prompt.exhibits, captioned, strict=True):
        is_left_out = exhibit.item is not None and not exhibit.item.is_checked
        yield f"{caption} (not chosen)" if is_left_out else caption
        yield from bar_lines(lines)

    if prompt.changes:
        yield ""
        yield from _format_changes(prompt)
        yield ""


def _format_changes(prompt: ActionPrompt) -> Iterator[str]:
    """Yield the changes of settings: a long value as its difference to the present one."""
    for change in prompt.changes:
        exact = spell_change(change)
        difference = diff_change(change)
        if difference is None:  # both values are short
            yield f"  {exact}"
            continue

        yield f"  {exact.path}: {difference.sizes}"
        for line in bar_lines(map(str, difference.lines)):
            yield f"  {line}"


def _format_full_values(prompt: ActionPrompt) -> Iterator[str]:
    """Yield the full values of changes of which only the difference is shown."""
    for change in prompt.changes:
        difference = diff_change(change)
        # A difference that is not folded has all lines of both values.
        if difference is None or not difference.is_folded:
            continue

        values = {NOW_WHOLE: difference.now, PROPOSED_WHOLE: difference.proposed}
        for title, value in values.items():
            if value:
                path = spell_change(change).path
                yield f"  {path}: {title[0].lower()}{title[1:]}"
                yield from (f"  {line}" for line in bar_lines(value))


def make_action_dialogue(prompt: ActionPrompt) -> StdinDialogue:
    """Return the dialogue of a decision: a key for each action, and one for full values.

    A prompt with a `last_line` shows it before the keys, and takes keys in upper case too.
    """
    answers = {action.key: Answered(action.value, STDIN) for action in prompt.actions}
    meanings = {action.key: one_line(action.label) for action in prompt.actions}
    details: list[str] = []
    if DETAILS_KEY not in answers:  # otherwise the key is that of an action
        details = [*_format_full_values(prompt)]
    if details:
        meanings[DETAILS_KEY] = "Show the full values, before and after"

    dialogue = make_key_dialogue(meanings, answers)
    # The lines that are printed for a key that is no answer.
    key_help = {HELP_KEY: [*dialogue.legend]}
    if details:
        key_help[DETAILS_KEY] = details
    if prompt.help:
        key_help[HELP_KEY].append(f"  {one_line(prompt.help)}")

    if prompt.last_line is None:
        return replace(dialogue, key_help=key_help)

    if details:
        key_help[DETAILS_KEY.upper()] = details

    legend = dialogue.legend
    if answers.keys() == {"y", "n"}:
        legend = ()  # `Apply delta? [y/n/?]` says enough

    return replace(
        dialogue,
        prompt=f"{one_line(prompt.last_line)} {dialogue.prompt}",
        parse=lambda line: dialogue.parse(line.lower()),
        legend=legend,
        key_help=key_help,
    )
