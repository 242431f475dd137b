"""Every kind of prompt, for the snapshots of what a person sees of it (R083-66)."""

from __future__ import annotations

import json
from itertools import product
from typing import Literal

from jp_nb.agent import decisions
from jp_nb.agent.interrupts import MENUS
from jp_nb.agent.ports import Action, ActionPrompt, Prompt, QuestionPrompt
from jp_nb.tools.question import Question

Persistence = Literal["none", "turn"]

COLOURS = [f"colour {number}" for number in range(1, 10)]
TYPES = {
    "boolean": Question.boolean("q", "Delete it?").with_default(False),
    "select": Question.select("q", "Which colour?", ["red", "green"]).with_default("green"),
    "long_select": Question.select("q", "Which colour?", COLOURS),
    "text": Question.free_text("q", "Why?").with_default("because"),
    "secret": Question.secret("q", "Key?"),
}
PERSISTENCES: tuple[Persistence, ...] = ("none", "turn")
LABELS = (None, "Assistant")


def prompt_of(kind: str, persistence: Persistence, label: str | None) -> QuestionPrompt:
    """Return the prompt of one case, as the coordinator builds it."""
    question = TYPES[kind].with_persistence(persistence).with_context("Two lines\nof context.")
    return QuestionPrompt(question, label=label, remember=kind == "boolean")


ARGUMENTS = json.dumps({"path": "notes.txt", "lines": [1, 2]}, indent=2)
PERMISSION = ActionPrompt(
    "Run local fs_read tool?",
    actions=decisions.PERMISSION,
    tool="fs_read",
    detail=ARGUMENTS,
)
DELIVERY = ActionPrompt(
    "Deliver fs_read result to assistant?",
    actions=decisions.DELIVERY,
    tool="fs_read",
    detail="milk\neggs",
    default="deliver",
)
STREAMING = ActionPrompt("Interrupted", actions=MENUS["streaming"])
TOOLS = ActionPrompt("Interrupted", actions=MENUS["tool_call"])
EDIT = QuestionPrompt(
    Question.free_text("arguments", "Arguments of fs_read, as JSON:").with_default(ARGUMENTS),
    tool="fs_read",
)
DELTA = ActionPrompt(
    "Apply delta?",
    actions=(Action("y", "Apply", "apply"), Action("n", "Reject", "reject")),
    tool="change_model",
    default="apply",
    columns=("path", "now", "proposed"),
    table=(("assistant.model.id", '"a/opus"', '"a/sonnet"'),),
)

PROMPTS: dict[tuple[str, str], Prompt] = {
    **{
        (kind, f"persistence {persistence}, {f'label {label}' if label else 'no label'}"): (
            prompt_of(kind, persistence, label)
        )
        for kind, persistence, label in product(TYPES, PERSISTENCES, LABELS)
    },
    ("permission", "run = ask"): PERMISSION,
    ("delivery", "result = ask"): DELIVERY,
    ("interrupt", "while a model answers"): STREAMING,
    ("interrupt", "while tools run"): TOOLS,
    ("edit", "run = edit"): EDIT,
    ("delta", "apply = ask"): DELTA,
}
"""By the file of its snapshot, and the part of that."""

TYPED = {
    "boolean": ["?", "maybe", "Y", "y"],
    "select": ["?", "blue", ""],
    "long_select": ["", "10", "9"],
    "text": ["?", ""],
    "secret": ["", "hunter2"],
    "permission": ["?", "", "p"],
    "delivery": ["?", ""],
    "interrupt": ["?", "", "r"],
    "edit": ["?", '{"path": "other.txt"}'],
    "delta": ["?", "x", ""],
}
"""What is typed on stdin, until it is an answer."""
