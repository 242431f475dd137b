"""The dialogue on stdin of each kind of question, and of a decision. `stdin.py` runs them.

A dialogue parses a typed line (`StdinDialogue`). Its `parse` returns the answer, another dialogue,
or a text that refuses the line.

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import ActionPrompt, QuestionPrompt, SimplePrompt
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import (
    EMPTY_TEXT_KEY,
    HELP_KEY,
    STDIN,
    UNCHANGED,
    Parsed,
    StdinDialogue,
    bar_lines,
    make_key_dialogue,
)
from jp_nb.notebook.prompt.stdin_prompts.stdin_selection import SelectionDialogues
from jp_nb.rendering.prompt_texts import address_text, prompt_text
from jp_nb.rendering.prompt_texts.change_text import NOW_WHOLE, PROPOSED_WHOLE, spell_change
from jp_nb.rendering.text_diff import diff_change
from jp_nb.text import one_line, plain, spell_invisible
from jp_nb.toolkit.question import FormAnswer
from jp_nb.toolkit.question_types.answer_types import (
    AnswerType,
    BooleanAnswer,
    SecretAnswer,
    TextAnswer,
    UrlAnswer,
)
from jp_nb.toolkit.question_types.number_answer import IntegerAnswer, NumberAnswer
from jp_nb.toolkit.question_types.select_answer import SelectAnswer

DETAILS_KEY: Final = "d"
SHOW_AGAIN: Final = "a"
END: Final = "."
"""Line that ends a text. Valid Python code rarely contains such a line."""


def make_single_dialogue(prompt: SimplePrompt) -> StdinDialogue:
    """Return the dialogue of a prompt that is no form. It names the answer that Enter sends."""
    if isinstance(prompt, ActionPrompt):
        dialogue = _make_action_dialogue(prompt)
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
        yield from _format_decision(prompt, question)


def _format_decision(prompt: ActionPrompt, question: str) -> Iterator[str]:
    """Yield all that the user decides about, and the question.

    An *exhibit* is a part of it that is shown exactly, such as the new source of a cell.
    """
    if context := prompt_text.format_context(prompt):
        yield from bar_lines(context.split("\n"))
    yield f"{question}:" if prompt.changes else question
    exhibits = zip(prompt.exhibits, prompt_text.list_exhibits(prompt), strict=True)
    for exhibit, (caption, lines) in exhibits:
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
        if difference is None:
            yield f"  {exact}"
            continue

        yield f"  {exact.path}: {difference.sizes}"
        for line in bar_lines(map(str, difference.lines)):
            yield f"  {line}"


def _format_full_values(prompt: ActionPrompt) -> Iterator[str]:
    """Yield the full values of changes of which only the difference is shown."""
    for change in prompt.changes:
        difference = diff_change(change)
        if difference is None or not difference.is_folded:
            continue

        values = {NOW_WHOLE: difference.now, PROPOSED_WHOLE: difference.proposed}
        for title, value in values.items():
            if value:
                path = spell_change(change).path
                yield f"  {path}: {title[0].lower()}{title[1:]}"
                yield from (f"  {line}" for line in bar_lines(value))


def _make_action_dialogue(prompt: ActionPrompt) -> StdinDialogue:
    """Return the dialogue of a decision: a key for each action, and one for full values.

    A prompt with a `last_line` shows it before the keys, and takes keys in upper case too.
    """
    answers = {action.key: Answered(action.value, STDIN) for action in prompt.actions}
    meanings = {action.key: one_line(action.label) for action in prompt.actions}
    details = [] if DETAILS_KEY in answers else [*_format_full_values(prompt)]
    if details:
        meanings[DETAILS_KEY] = "Show the full values, before and after"

    dialogue = make_key_dialogue(meanings, answers)
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
        legend = ()  # `Apply delta? [y/n/?]` (R078-76) needs none

    return replace(
        dialogue,
        prompt=f"{one_line(prompt.last_line)} {dialogue.prompt}",
        parse=lambda line: dialogue.parse(line.lower()),
        legend=legend,
        key_help=key_help,
    )


def _make_boolean_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    """Return the dialogue of a yes-or-no question. An empty line does not send its default."""
    offered = prompt_text.list_choices(prompt)
    answers = {choice.key: Answered(choice.value, STDIN, choice.remember) for choice in offered}
    answers |= {"yes": answers["y"], "no": answers["n"]}
    meanings = {choice.key: choice.meaning for choice in offered}
    hint = ""

    if (suggested := prompt_text.find_suggested_choice(prompt)) is not None:
        hint = f" ({suggested.key} {prompt_text.SUGGESTED})"
        meanings[suggested.key] += f" ({prompt_text.SUGGESTED})"

    return make_key_dialogue(meanings, answers, hint=hint)


def _make_text_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    """Return the dialogue of a text in one line, or of code.

    A default is sent by Enter. But an exclusive question and a consent need an explicit answer: the
    key `=` sends their default.
    """
    if prompt.is_code:
        return _make_code_dialogue(prompt)

    kind = prompt.question.answer_type
    assert isinstance(kind, TextAnswer)
    preset = prompt_text.get_preselected(prompt)
    draft = prompt_text.make_editable_text(prompt)
    default = preset if isinstance(preset, str) else ""
    is_shown_above = "\n" in default or prompt.consents
    default_words = _describe_default(default, is_shown_above=is_shown_above)

    sent_by_enter = bool(default) and not prompt.consents and not prompt.question.exclusive
    sent_by_key = prompt.consents or (bool(default) and not sent_by_enter)

    def parse(line: str) -> Answered | str:
        typed = line.strip()
        if not typed:
            return _format_refusal(kind, suggests=sent_by_key)

        if typed == UNCHANGED and sent_by_key:
            text = default
        elif typed == EMPTY_TEXT_KEY:
            text = ""
        elif kind.format:
            text = draft.unspell_edited(typed)
        else:
            text = draft.unspell_edited(line)

        return _format_refusal(kind) if kind.misfit(text) else Answered(text, STDIN)

    is_restricted = kind.expects != TextAnswer().expects
    expected = "one line of text"
    caption = "Text"
    if is_restricted:
        expected = prompt_text.describe_expected(kind)
        caption = _format_caption(kind)

    help_lines = [f"  Type {expected}."]

    suggested = ""
    if sent_by_key:
        suggested = f" ({UNCHANGED} sends: {default_words})"
        help_lines.append(f"  {UNCHANGED} sends: {default_words}")

    if not kind.misfit(""):
        help_lines.append(f"  Type {EMPTY_TEXT_KEY} for an empty text.")

    lines_above = draft.shown.split("\n") if is_shown_above else []
    answer_of_enter = Answered(default, STDIN) if sent_by_enter else None

    return StdinDialogue(
        prompt=f"{caption}{suggested}: ",
        parse=parse,
        above=_format_lines_above(draft, lines_above),
        key_help={HELP_KEY: help_lines},
        default=answer_of_enter,
        default_words=default_words,
    )


def _describe_default(default: str, *, is_shown_above: bool) -> str:
    if is_shown_above:
        return "the text above"
    return plain(spell_invisible(default), limit=80)


def _make_code_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    """Return the dialogue of a text of several lines: each line has a dialogue of its own."""
    draft = prompt_text.make_editable_text(prompt)
    preset = prompt_text.get_preselected(prompt)
    lines = draft.shown.split("\n")
    width = len(str(len(lines)))
    numbered = [f"{number:>{width}} {line}" for number, line in enumerate(lines, start=1)]
    help_lines = [
        f"  Type {UNCHANGED} to keep the text above.",
        "  To replace it, type the new text line by line. Empty lines are part of the text.",
        f"  A line with only {END} ends the text. As the first line, it cancels the edit.",
    ]
    typed_lines: list[str] = []

    def parse(line: str) -> Parsed:
        if line.strip() == UNCHANGED and not typed_lines:
            return Answered(preset, STDIN)
        if line.strip() == END:
            return Answered(draft.unspell_edited("\n".join(typed_lines)), STDIN)

        # The dialogue of the next line has no keys, because any line may be a part of the text.
        typed_lines.append(line)
        number = len(typed_lines) + 1
        return StdinDialogue(prompt=f"{number}: ", parse=parse, key_help={}, inner=True)

    return StdinDialogue(
        prompt=f"Text [{UNCHANGED} keeps it, {END} ends a new text]: ",
        parse=parse,
        above=_format_lines_above(draft, numbered),
        key_help={HELP_KEY: help_lines},
    )


def _format_lines_above(draft: prompt_text.EditableText, lines: Iterable[str]) -> list[str]:
    hint = [draft.hint] if draft.hint else []
    return [*hint, *bar_lines(lines)]


def _format_caption(kind: AnswerType) -> str:
    wanted = prompt_text.describe_expected(kind)
    return f"{wanted[:1].upper()}{wanted[1:]}"


def _format_refusal(kind: AnswerType, *, suggests: bool = False) -> str:
    """Return what the user may type. If the dialogue `suggests` a text, `=` sends it."""
    ways = [prompt_text.describe_expected(kind)]
    if suggests:
        ways.append(f"{UNCHANGED} for the suggested text")
    if isinstance(kind, TextAnswer) and not kind.misfit(""):
        ways.append(f"{EMPTY_TEXT_KEY} for an empty text")
    return f"Please type {', '.join(ways)}, or ? for help."


def _make_number_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    kind = prompt.question.answer_type
    assert isinstance(kind, NumberAnswer)
    preset = prompt_text.get_preselected(prompt)
    default = None if prompt.question.exclusive else preset

    def parse(line: str) -> Answered | str:
        try:
            number = kind.from_text(line)
        except ValueError:
            return _format_refusal(kind)
        if kind.misfit(number):
            return _format_refusal(kind)
        return Answered(number, STDIN)

    suggested = f" ({prompt_text.SUGGESTED}: {preset})" if preset != default else ""
    answer_of_enter = None if default is None else Answered(default, STDIN)
    return StdinDialogue(
        prompt=f"{_format_caption(kind)}{suggested}: ",
        parse=parse,
        key_help={HELP_KEY: [f"  Type {prompt_text.describe_expected(kind)}."]},
        default=answer_of_enter,
        default_words=str(default),
    )


def _make_url_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    lines = address_text.format_address_lines(prompt)
    meanings = {"y": "done", SHOW_AGAIN: "try again: show the address again"}
    dialogue = make_key_dialogue(meanings, {"y": Answered(True, STDIN)}, above=lines)
    return replace(dialogue, key_help={**dialogue.key_help, SHOW_AGAIN: lines})


STDIN_DIALOGUES: Final[dict[type[AnswerType], Callable[[QuestionPrompt], StdinDialogue]]] = {
    BooleanAnswer: _make_boolean_dialogue,
    SelectAnswer: lambda prompt: SelectionDialogues(prompt).make_first(),
    TextAnswer: _make_text_dialogue,
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
