"""Questions and their answers as `%jp qna` shows them.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.json_values import sorted_json
from jp_nb.record.question_entry import PastAnswer
from jp_nb.rendering.markdown import code_block
from jp_nb.rendering.report import Report, in_one_line, joined, table
from jp_nb.safe_text import escape_markdown, one_line, plain

QUESTION_CHARS: Final = 60
ANSWER_CHARS: Final = 40
NOT_YOURS: Final = "not signed by you"
HEAD: Final = ("id", "question", "answer", "answered by")


def question_table(answers: Sequence[PastAnswer]) -> Report:
    """Return `answers` as a table; what is long is cut."""
    rows = [
        (
            str(answer.id),
            _cut(answer.question, QUESTION_CHARS),
            _cut(answer.words, ANSWER_CHARS),
            _answered_by(answer),
        )
        for answer in answers
    ]
    return table(HEAD, rows)


def question_sheets(answers: Sequence[PastAnswer]) -> Report:
    """Return each of `answers` whole, with what is known about it."""
    return joined([_sheet(answer) for answer in answers], between="\n\n")


def with_note(shown: Report, note: str) -> Report:
    """Return `shown` with a line below it."""
    return Report(f"{shown.markdown}\n\n{in_one_line(note)}", f"{shown.text}\n{note}")


def _sheet(answer: PastAnswer) -> Report:
    about = [f"answer {answer.id}", f"{answer.moment:%Y-%m-%d %H:%M} UTC"]
    about += [f"asked by {_ASKERS.get(answer.asker, answer.asker)}"] if answer.asker else []
    about += [f"in {answer.notebook}"] if answer.notebook else []
    about += [f"answered by {by}" if answer.vouched else by] if (by := _answered_by(answer)) else []
    line = one_line(" · ".join(about))
    texts = [plain(answer.question), plain(answer.words)]
    if answer.words != answer.answer:
        texts.append(f"value: {plain(sorted_json(answer.answer))}")
    markdown = [f"*{escape_markdown(line)}*", *map(code_block, texts)]
    return Report("\n\n".join(markdown), "\n".join([line, *texts]))


_ASKERS: Final = {"assistant": "the assistant", "user": "the user"}


def _answered_by(answer: PastAnswer) -> str:
    return answer.answered_by if answer.vouched else NOT_YOURS


def _cut(text: str, limit: int) -> str:
    line = one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
