"""Every kind of question, for the snapshots of what a person sees of it (R083-66)."""

from __future__ import annotations

from itertools import product
from typing import Literal

from jp_nb.agent.ports import Action, ActionPrompt, QuestionPrompt
from jp_nb.tools.question import Question

TYPES = {
    "boolean": Question.boolean("q", "Delete it?").with_default(False),
    "select": Question.select("q", "Which colour?", ["red", "green"]).with_default("green"),
    "text": Question.free_text("q", "Why?").with_default("because"),
    "secret": Question.secret("q", "Key?"),
}
PERSISTENCES: tuple[Literal["none", "turn"], ...] = ("none", "turn")
LABELS = (None, "Assistant")

CASES = list(product(TYPES, PERSISTENCES, LABELS))


def prompt_of(kind: str, persistence: Literal["none", "turn"], label: str | None) -> QuestionPrompt:
    """Return the prompt of one case, as the coordinator builds it."""
    question = TYPES[kind].with_persistence(persistence).with_context("Two lines\nof context.")
    return QuestionPrompt(question, label=label, remember=kind == "boolean")


DELTA = ActionPrompt(
    "Apply delta?",
    actions=(Action("y", "Apply", "apply"), Action("n", "Reject", "reject")),
    tool="change_model",
    default="apply",
    columns=("path", "now", "proposed"),
    table=(("assistant.model.id", '"a/opus"', '"a/sonnet"'),),
)
