"""Reports of the user's recorded answers: a table, or the full texts (`%jp qna`).

A `LoggedAnswer` has the recorded value as `answer`, and as `words` its text for the user, such as
the label of an option. It is not `is_trusted` if someone else may have written it.

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.json_writing import sorted_json
from jp_nb.record.reading.question_history import LoggedAnswer
from jp_nb.rendering.markdown import make_code_block
from jp_nb.rendering.report import (
    Report,
    join_reports,
    make_remark,
    make_table,
)
from jp_nb.text import one_line, plain

QUESTION_CHARS: Final = 60
ANSWER_CHARS: Final = 40
NOT_YOURS: Final = "not signed by you"
QUESTION_COLUMNS: Final = ("id", "question", "answer", "answered by")
_ASKERS: Final = {"assistant": "the assistant", "user": "the user"}
"""Words for askers that are no tool."""


def render_question_table(answers: Sequence[LoggedAnswer]) -> Report:
    """Return `answers` as a table with shortened texts."""
    rows = []
    for answer in answers:
        question = _cut_line(answer.question, QUESTION_CHARS)
        words = _cut_line(answer.words, ANSWER_CHARS)
        answered_by = answer.answered_by if answer.is_trusted else NOT_YOURS
        rows.append((str(answer.id), question, words, answered_by))

    return make_table(QUESTION_COLUMNS, rows)


def render_question_sheets(answers: Sequence[LoggedAnswer]) -> Report:
    """Return each of `answers` as a sheet: a line of details, then its full texts."""
    sheets = []
    for answer in answers:
        about = [f"answer {answer.id}", f"{answer.moment:%Y-%m-%d %H:%M} UTC"]
        if answer.asker:
            about.append(f"asked by {_ASKERS.get(answer.asker, answer.asker)}")
        if answer.notebook:
            about.append(f"in {answer.notebook}")
        if not answer.is_trusted:
            about.append(NOT_YOURS)
        elif answer.answered_by:
            about.append(f"answered by {answer.answered_by}")

        texts = [answer.question, answer.words]
        if answer.words != answer.answer:  # the words are a label, or the value is no text
            texts.append(f"value: {sorted_json(answer.answer)}")

        blocks = (Report(make_code_block(text), text) for text in map(plain, texts))
        sheets.append(join_reports([make_remark(" · ".join(about)), *blocks]))

    return join_reports(sheets, between="\n\n")


def _cut_line(text: str, limit: int) -> str:
    line = one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
