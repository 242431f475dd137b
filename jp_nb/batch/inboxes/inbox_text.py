"""The inbox of a batch as text: its heading, the state of each decision, and the list of all.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jp_nb.batch.inboxes.inbox import Inbox
from jp_nb.batch.results.decision_groups import DecisionGroup
from jp_nb.exact_form import spell_invisible
from jp_nb.text import one_line, pluralize
from jp_nb.toolkit.question_types.select_answer import SelectAnswer

EXCLUSIVE_NOTE: Final = "exclusive: only you or an answers file can answer it, not a model"


def format_inbox_heading(inbox: Inbox) -> str:
    """Return one line about the decisions, and how many are answered."""
    count = len(inbox.groups)
    if not count:
        return "no decision is open"

    answered = sum(inbox.count_answered(group) == len(group.runs) for group in inbox.groups)
    words = f"{count:,} open {pluralize('decision', count)} in {inbox.waiting:,} "
    words += pluralize("run", inbox.waiting)
    return f"{words}, {answered:,} answered" if answered else words


def format_group_status(inbox: Inbox, group: DecisionGroup) -> str:
    """Return how many runs wait for `group`, and how many have an answer, as text."""
    count = len(group.runs)
    words = f"{count:,} {pluralize('run', count)}"
    answered = inbox.count_answered(group)
    if answered == count:
        return f"{words}, answered"
    return f"{words}, {answered:,} answered" if answered else words


def list_inbox_lines(inbox: Inbox) -> Iterator[str]:
    """Yield lines about all decisions, safe for a terminal."""
    yield f"{one_line(str(inbox.folder), limit=200)}: {format_inbox_heading(inbox)}"
    if inbox.distrust:
        yield f"No answers are taken: {one_line(inbox.distrust)}"
    if inbox.unreadable:
        yield f"{inbox.unreadable:,} damaged {pluralize('entry', inbox.unreadable)} omitted"

    for number, group in enumerate(inbox.groups, start=1):
        yield f"{number:>4}. {spell_invisible(group.description)}"
        yield f"      {format_group_status(inbox, group)}; {format_place(group)}"
        yield from (f"      {line}" for line in _list_properties(group))
        for why in dict.fromkeys(group.misfits.values()):
            shown = one_line(spell_invisible(why), limit=300)
            yield f"      the last answer did not fit: {shown}"


def format_next_step(inbox: Inbox) -> str:
    """Return how to use the answers; "" without any."""
    if not any(map(inbox.count_answered, inbox.groups)):
        return ""
    out = one_line(str(inbox.folder), limit=500)
    answers = one_line(str(inbox.answers_path), limit=500)
    return f"Run what waited: jp-nb run --resume {out} --answers {answers}"


def format_place(group: DecisionGroup) -> str:
    """Return the notebook, and the first place in it where the decision was asked."""
    askings = group.askings[group.runs[0]]
    place = next((asked.asking.place for asked in askings if asked.asking.place), "")
    notebook = one_line(spell_invisible(group.notebook), limit=200)
    return f"{notebook}, {place}" if place else notebook


def _list_properties(group: DecisionGroup) -> Iterator[str]:
    """Yield lines about the options of a question, and about who may answer it."""
    question = group.question
    if question is None:
        if not group.is_answerable:
            yield "its arguments are too long to show: permit it in an answers file"
        return

    kind = question.answer_type
    if isinstance(kind, SelectAnswer):
        shown = ", ".join(one_line(spell_invisible(label), limit=60) for label in kind.labels[:20])
        yield f"options: {shown}"
    if question.exclusive:
        yield EXCLUSIVE_NOTE
