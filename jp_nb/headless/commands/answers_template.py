"""The template of an answers file: the open decisions of a run as comments, to fill in.

`jp-nb run --answers-template FILE` writes it. Every line but the headers of tables is a comment, so
it answers nothing before the user edits it.

Source: `docs/answers.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.headless.reported_decisions import DECISION_SECTIONS, ReportedDecision
from jp_nb.storage.configuration.answers_content import CONSENT_WORDS
from jp_nb.storage.configuration.prepared_answer_tables import is_answer_table
from jp_nb.storage.configuration.toml_text import format_comment, format_toml, format_toml_key
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.select_answer import SelectAnswer


def format_template(undecided: Sequence[ReportedDecision], notebook: str) -> str:
    """Return an answers file with the open decisions as comments."""
    lines = [
        format_comment(f"Open decisions of {notebook}. Uncomment and edit the answers you want."),
        "# { skip = true } leaves a question unanswered. Commented lines are ignored.",
    ]
    kinds = list(DECISION_SECTIONS)
    in_file_order = sorted(undecided, key=lambda decision: kinds.index(decision.kind))

    tables: dict[str, list[str]] = {}  # TOML allows each table only once
    for decision in in_file_order:
        header = _format_header(decision)
        tables.setdefault(header, []).extend(_format_decision(decision))

    for header, decision_lines in tables.items():
        lines += ["", header, *decision_lines]
    return "\n".join(lines) + "\n"


def _format_header(decision: ReportedDecision) -> str:
    if decision.question is None:
        return f"[{decision.section}]"
    return f"[questions.{format_toml_key(decision.tool)}]"


def _format_decision(decision: ReportedDecision) -> list[str]:
    """Return the comments about a decision, the last of which is an example of an answer."""
    if decision.question is not None:
        return _format_question(decision.question)

    consent_word = CONSENT_WORDS[decision.section]
    example = f'# {format_toml_key(decision.tool)} = "{consent_word}"  # or "skip"'
    return ["", *map(format_comment, decision.detail), example]


def _format_question(question: Question) -> list[str]:
    """Return comments about a question: its text, who may answer, and an example."""
    lines = [question.text, *(question.context or "").splitlines()]
    lines.append(f"Expected: {question.answer_type.expects}.")
    if question.human_only:
        lines.append("Only a user or this file can answer it, not a model.")
    if not question.required:
        lines.append("It may stay unanswered.")

    comments = [format_comment(line) for line in lines if line.strip()]
    return ["", *comments, *_format_examples(question)]


def _format_examples(question: Question) -> list[str]:
    key = format_toml_key(question.id)
    if isinstance(question.answer_type, FormAnswer):
        return _format_form_example(key, question.answer_type.fields)
    return [*_format_options(question), f"# {key} = {_format_example(question)}"]


def _format_form_example(key: str, fields: Sequence[Question]) -> list[str]:
    """Return comments about the fields of a form, and an example of its answer."""
    lines = []
    assignments = []

    for field in fields:
        description = f"{field.id}: {field.text}, {field.answer_type.expects}"
        lines += [format_comment(description), *_format_options(field)]
        assignments.append(f"{format_toml_key(field.id)} = {_format_example(field)}")

    form = f"{{ {', '.join(assignments)} }}"
    # A form whose only field is `answer`, `skip`, or `env` would be read as that key.
    if is_answer_table({field.id for field in fields}):
        form = f"{{ answer = {form} }}"

    return [*lines, f"# {key} = {form}"]


def _format_options(question: Question) -> list[str]:
    if not isinstance(question.answer_type, SelectAnswer):
        return []

    options = question.answer_type.options
    return [format_comment(f"  {format_toml(option.value)}: {option.shown}") for option in options]


_EXAMPLES: Final = {"boolean": "true", "number": "0.0", "integer": "0", "url": "true"}
"""Examples of answers as TOML, by type; of any other type, an empty text."""


def _format_example(question: Question) -> str:
    """Return an example of an answer as TOML: its default, if there is one."""
    answer_type = question.answer_type
    if answer_type.is_secret:
        return '{ env = "NAME" }'
    if question.fits_default:
        return format_toml(question.default)
    if isinstance(answer_type, SelectAnswer):
        return _format_selection(answer_type)
    return _EXAMPLES.get(answer_type.type, '""')


def _format_selection(answer_type: SelectAnswer) -> str:
    """Return the first option, or a list with it; an empty one without options."""
    first = [option.value for option in answer_type.options][:1]
    if answer_type.multi:
        return format_toml([*first])
    return format_toml(first[0] if first else "")
