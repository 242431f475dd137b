"""The template of an answers file: the open decisions of a run as comments, to fill in.

`jp-nb run --answers-template FILE` writes it. Every line but the headers of tables is a comment, so
it answers nothing before the user edits it.

Source: `docs/answers.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.headless.run_events_reading import DECISION_SECTIONS, ReportedDecision
from jp_nb.storage.configuration.answers_file import SECTION_DECISIONS, is_answer_table
from jp_nb.storage.configuration.toml_text import format_comment, format_toml, format_toml_key
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.select_answer import SelectAnswer


def format_template(undecided: Sequence[ReportedDecision], notebook: str) -> str:
    """Return an answers file with the open decisions as comments."""
    lines = [
        format_comment(f"Open decisions of {notebook}. Uncomment and edit the answers you want."),
        "# { skip = true } leaves a question unanswered. Commented lines are ignored.",
    ]
    tables: dict[str, list[str]] = {}  # TOML allows each table only once
    for each in sorted(
        undecided, key=lambda one: [*DECISION_SECTIONS.values()].index(DECISION_SECTIONS[one.kind])
    ):
        section = DECISION_SECTIONS[each.kind]
        header = f"questions.{format_toml_key(each.key[1])}" if each.question else section
        tables.setdefault(f"[{header}]", []).extend(_format_decision(each))

    for header, decisions in tables.items():
        lines += ["", header, *decisions]
    return "\n".join(lines) + "\n"


def _format_decision(each: ReportedDecision) -> list[str]:
    if each.question is not None:
        question = each.question
        lines = [question.text, *(question.context or "").splitlines()]
        lines.append(f"Expected: {question.answer_type.expects}.")
        if question.human_only:
            lines.append("Only a user or this file can answer it, not a model.")
        if not question.required:
            lines.append("It may stay unanswered.")
        comments = [format_comment(line) for line in lines if line.strip()]
        return ["", *comments, *_format_examples(question)]

    decision = SECTION_DECISIONS[DECISION_SECTIONS[each.kind]]
    example = f'# {format_toml_key(each.key[1])} = "{decision}"  # or "skip"'
    return ["", *map(format_comment, each.detail), example]


def _format_examples(question: Question) -> list[str]:
    kind = question.answer_type
    key = format_toml_key(question.id)
    if not isinstance(kind, FormAnswer):
        return [*_format_options(question), f"# {key} = {_format_example(question)}"]

    lines = []
    for field_ in kind.fields:
        about = f"{field_.id}: {field_.text}, {field_.answer_type.expects}"
        lines += [format_comment(about), *_format_options(field_)]

    fields = ", ".join(f"{format_toml_key(x.id)} = {_format_example(x)}" for x in kind.fields)
    form = f"{{ {fields} }}"
    if is_answer_table({each.id for each in kind.fields}):  # a field named like a key
        form = f"{{ answer = {form} }}"

    return [*lines, f"# {key} = {form}"]


def _format_options(question: Question) -> list[str]:
    kind = question.answer_type
    options = kind.options if isinstance(kind, SelectAnswer) else ()
    return [format_comment(f"  {format_toml(each.value)}: {each.shown}") for each in options]


def _format_example(question: Question) -> str:
    kind = question.answer_type
    if kind.secret:
        return '{ env = "NAME" }'
    if question.fits_default:
        return format_toml(question.default)
    if isinstance(kind, SelectAnswer):
        first = [option.value for option in kind.options][:1]
        if kind.multi:
            return format_toml([*first])
        if first:
            return format_toml(first[0])
        return format_toml("")
    return _EXAMPLES.get(kind.type, '""')


_EXAMPLES: Final = {"boolean": "true", "number": "0.0", "integer": "0", "url": "true"}
