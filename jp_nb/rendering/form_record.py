"""What stands beside a form while it is open, and what stays where it was.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jp_nb.agent.prompts import (
    ActionPrompt,
    Answered,
    AnyEnd,
    AnyPrompt,
    FormEnd,
    FormPrompt,
    NotAnswered,
    PromptEnd,
    QuestionPrompt,
    Unavailable,
)
from jp_nb.record.answer_words import LEFT
from jp_nb.rendering import wording
from jp_nb.rendering.question_card import (
    QuestionCard,
    card_markdown,
    card_text,
    marks_in_words,
    question_card,
)
from jp_nb.rendering.wording import StaticRecord, by_in_words, static_record
from jp_nb.safe_text import escape_markdown, one_line
from jp_nb.tooling.question import FormAnswer
from jp_nb.tooling.select_kind import SelectAnswer

OPEN_ONLY = "[You can answer only while the form is shown. Without a form, you are asked as text.]"


def without_form(prompt: AnyPrompt) -> str:
    """Return what a reader sees where the form is not, or no longer: questions and options."""
    if isinstance(prompt, ActionPrompt):
        return f"{wording.titled(prompt)} {OPEN_ONLY}"
    if isinstance(prompt, QuestionPrompt):
        title, offered = wording.titled(prompt), [*_offered(prompt)]
        return "\n".join([title, *offered, OPEN_ONLY]) if offered else f"{title} {OPEN_ONLY}"
    lines = []
    for number, page in enumerate(prompt.pages, start=1):
        lines += [f"{number}. {wording.question(page)}", *_offered(page)]
    return "\n".join([*_by(prompt), *lines, OPEN_ONLY])


def record_of(prompt: AnyPrompt, end: AnyEnd) -> StaticRecord:
    """Return what remains of `prompt` after its `end`. A secret is never in it."""
    if isinstance(prompt, FormPrompt):
        records = [_entry(wording.question(page), page, one) for page, one in _ends(prompt, end)]
        return StaticRecord(
            "\n".join([*_by(prompt), *(record.plain for record in records)]),
            "\n\n".join(
                [*map(escape_markdown, _by(prompt)), *(record.markdown for record in records)]
            ),
        )
    assert not isinstance(end, FormEnd)
    if isinstance(prompt, QuestionPrompt) and _has_card(prompt):
        return _entry(wording.titled(prompt), prompt, end)
    return static_record(prompt, end)


def _by(prompt: FormPrompt) -> list[str]:
    header, by = wording.header(prompt.pages[0]), wording.asked_by(prompt.pages[0])
    said = f"{header} ({by})" if header and by else header or by
    return [said] if said else []


def _has_card(prompt: QuestionPrompt) -> bool:
    """Return True if more belongs to its answer than one line holds well."""
    match prompt.question.answer_type:
        case SelectAnswer() as kind:
            bare = all(option.label is option.description is None for option in kind.options)
            return kind.multi or kind.other or not bare
        case kind:
            return isinstance(kind, FormAnswer)


def _entry(asked: str, page: QuestionPrompt, end: PromptEnd) -> StaticRecord:
    card, said = _card(page, end), _said(page, end)
    below = (f"    {line}" for line in card_text(card))
    head = f"{escape_markdown(asked)} → **{escape_markdown(said)}**"
    return StaticRecord(
        "\n".join([f"{asked} → {said}", *below]),
        "\n\n".join(filter(None, [head, card_markdown(card)])),
    )


def _card(page: QuestionPrompt, end: PromptEnd | None) -> QuestionCard:
    kind = page.question.answer_type
    if not isinstance(end, Answered):
        return question_card(kind.recorded(), answered=False)
    return question_card(kind.recorded(), kind.kept(end.value), answered=True)


def _offered(page: QuestionPrompt) -> Iterator[str]:
    return (f"    {line}" for line in card_text(_card(page, None)))


def _said(page: QuestionPrompt, end: PromptEnd) -> str:
    match end:
        case Answered(remember=remember, marks=marks, by=by):
            for_turn = ", for this turn" if remember else ""
            words = f"{_card(page, end).words}{for_turn}{marks_in_words(marks)}"
            return f"{words}{by_in_words(by)}"
        case NotAnswered(by=by):
            return f"{LEFT[end.end]}{by_in_words(by)}"
        case Unavailable():
            return f"not asked ({one_line(end.reason)})"


def _ends(prompt: FormPrompt, end: AnyEnd) -> list[tuple[QuestionPrompt, PromptEnd]]:
    if isinstance(end, FormEnd):
        return [*zip(prompt.pages, end.ends, strict=True)]
    assert isinstance(end, NotAnswered | Unavailable)
    return [(page, end) for page in prompt.pages]
