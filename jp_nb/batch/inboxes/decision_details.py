"""Details beside a decision in the inbox: its place, the exact arguments, and its context.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from jp_nb.agent.prompting.prompts import (
    PromptDetail,
)
from jp_nb.batch.inboxes.inbox_text import format_place
from jp_nb.batch.results.decision_groups import MAX_SHOWN_CONTEXTS, AskedContext, DecisionGroup
from jp_nb.exact_form import spell_invisible
from jp_nb.text import one_line, pluralize

_ANSWER_SCOPES: Final = {
    "permission": "exactly this call of {}",
    "result": "each result of {}",
    "change": "each configuration change that {} proposes",
    "edit": "each edit of a cell with the name {}",
    "plan": "each plan that a turn submits with {}",
}
"""Scope of an answer to a decision other than a question."""


def list_call_details(group: DecisionGroup, covered_runs: str) -> Iterator[PromptDetail]:
    """Yield where the decision was asked, the exact arguments of a call, and the covered runs.

    `covered_runs` says for which runs an answer counts, such as "in these runs".
    """
    count = len(group.runs)
    where = f"{count:,} {pluralize('run', count)} of {format_place(group)}"
    yield PromptDetail("Asked by", f"{spell_invisible(group.tool)}, in {where}")

    if group.misfits:
        reason = next(iter(group.misfits.values()))
        yield PromptDetail("The last answer did not fit", spell_invisible(reason))
    if group.arguments is not None:
        yield PromptDetail("Arguments, exactly", dict(group.arguments))
    elif not group.is_answerable:
        yield PromptDetail("Arguments", "too long to show: permit the call in an answers file")

    if group.kind in _ANSWER_SCOPES and group.is_answerable:
        subject = _ANSWER_SCOPES[group.kind].format(spell_invisible(group.tool))
        yield PromptDetail("An answer covers", f"{subject} {covered_runs}")


def list_context_details(contexts: Sequence[AskedContext]) -> Iterator[PromptDetail]:
    """Yield up to five differing contexts: the model's last words, and the content beside it."""
    for number, context in enumerate(contexts[:MAX_SHOWN_CONTEXTS], start=1):
        lines = list(_format_context(context))
        if not lines:
            continue

        caption = "Context"
        if len(contexts) > 1:
            count = len(context.runs)
            first = one_line(spell_invisible(context.runs[0]), limit=80)
            runs = f"{count:,} {pluralize('run', count)}, such as {first}"
            caption = f"Context {number} of {len(contexts):,} ({runs})"
        yield PromptDetail(caption, join_detail_lines(lines))


def join_detail_lines(lines: Sequence[str]) -> str:
    """Return a single line as it is, and several lines with a line break at the end of each."""
    if len(lines) == 1:
        return lines[0]
    return "".join(f"{line}\n" for line in lines)


def _format_context(context: AskedContext) -> Iterator[str]:
    """Yield the lines of a context: the model's last words, and the content beside the decision."""
    asking = context.asking
    if asking.words:
        yield f"The model said: {asking.words}"
    if context.question_context:
        yield context.question_context
    if asking.result is not None:
        yield f"Result: {asking.result}"
    yield from asking.detail
