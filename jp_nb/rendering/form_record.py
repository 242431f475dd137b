"""What stays where a form was.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from jp_nb.agent.prompts import (
    AnyEnd,
    AnyPrompt,
    FormEnd,
    FormPrompt,
    NotAnswered,
    PromptEnd,
    QuestionPrompt,
    Unavailable,
)
from jp_nb.rendering.wording import StaticRecord, static_record


def record_of(prompt: AnyPrompt, end: AnyEnd) -> StaticRecord:
    """Return what remains of `prompt` after its `end`. A secret is never in it."""
    if isinstance(prompt, FormPrompt):
        records = [static_record(page, one) for page, one in _ends(prompt, end)]
        return StaticRecord(
            "\n".join(record.plain for record in records),
            "\n\n".join(record.markdown for record in records),
        )
    assert not isinstance(end, FormEnd)
    return static_record(prompt, end)


def _ends(prompt: FormPrompt, end: AnyEnd) -> list[tuple[QuestionPrompt, PromptEnd]]:
    if isinstance(end, FormEnd):
        return [*zip(prompt.pages, end.ends, strict=True)]
    assert isinstance(end, NotAnswered | Unavailable)
    return [(page, end) for page in prompt.pages]
