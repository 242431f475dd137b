"""Prompts behind the buttons of a review: choose edits, pick one, and change its source.

`edit_choices.py` in `jp_nb/agent/call_steps/` asks them.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.agent.approvals.edit_prompts import can_edit
from jp_nb.agent.approvals.edit_titles import describe_edit
from jp_nb.agent.prompting.prompts import FormPrompt, QuestionPrompt
from jp_nb.toolkit.editing.edit_plan import EditPlan, PlannedEdit
from jp_nb.toolkit.editing.edit_review import EditReview
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.select_options import Option


def make_choice_prompt(review: EditReview, chosen: frozenset[int]) -> QuestionPrompt:
    """Return the question for the edits to apply, with those in `chosen` checked."""
    options = [
        Option(value=str(planned.edit.number), label=describe_edit(planned))
        for planned in review.plan.edits
    ]
    question = Question.select("edits", "Which edits?", options, multi=True)
    defaults: list[JsonValue] = [
        option.value for option in options if int(str(option.value)) in chosen
    ]
    question = question.with_default(defaults).with_exclusive()  # no model may answer
    # `consents`: an empty line on stdin must choose nothing.
    return QuestionPrompt(question, consents=True, submit="Show these edits")


def make_pick_prompt(plan: EditPlan) -> QuestionPrompt:
    """Return the question for the edit whose source the user wants to change."""
    options = [
        Option(value=str(planned.edit.number), label=describe_edit(planned))
        for planned in plan.edits
        if can_edit(planned)
    ]
    return QuestionPrompt(Question.select("edit", "Which edit?", options).with_exclusive())


def make_source_prompt(planned: PlannedEdit) -> FormPrompt:
    """Return the editor of the proposed source of an edit."""
    field = Question.text("source", describe_edit(planned)).with_default(planned.after)
    field = field.with_required(False)
    question = Question(
        id="edited",
        text="Edit the proposed source",
        answer_type=FormAnswer(fields=(field,)),
        default={"source": planned.after},
        exclusive=True,  # no model may answer
    )
    # `consents`: an empty line on stdin must not accept the source.
    page = QuestionPrompt(
        question, consents=True, code_fields=frozenset({"source"}), submit="Use this source"
    )
    return FormPrompt((page,))
