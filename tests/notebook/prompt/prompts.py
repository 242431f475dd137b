"""Every kind of prompt, for snapshots of its display (R083-66)."""

from __future__ import annotations

import json
from itertools import product
from typing import Any, Literal

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.questions import decision_prompt

Persistence = Literal["none", "turn"]

COLOURS = [f"colour {number}" for number in range(1, 10)]
TYPES = {
    "boolean": jp.Question.boolean("q", "Delete it?").with_default(False),
    "select": jp.Question.select("q", "Which colour?", ["red", "green"]).with_default("green"),
    "long_select": jp.Question.select("q", "Which colour?", COLOURS),
    "text": jp.Question.text("q", "Why?").with_default("because"),
    "secret": jp.Question.secret("q", "Key?"),
}
PERSISTENCES: tuple[Persistence, ...] = ("none", "turn")
LABELS = (None, "Assistant")


def prompt_of(kind: str, persistence: Persistence, label: str | None) -> Any:
    """Return the prompt of one case, as a batch builds it."""
    question = TYPES[kind].with_persistence(persistence).with_context("Two lines\nof context.")
    return make("question_prompt", question, label=label, remember=kind == "boolean")


ARGUMENTS = json.dumps({"path": "notes.txt", "lines": [1, 2]}, indent=2)
PERMISSION = decision_prompt(
    "permission", "fs_read", make("prompt_detail", "Arguments", json.loads(ARGUMENTS))
)
DELIVERY = decision_prompt("delivery", "fs_read", make("prompt_detail", "Result", "milk\neggs"))
STREAMING = decision_prompt("stream_menu", "Which colors are in the picture?")
TOOLS = decision_prompt("tool_menu", ["fs_read"])
EDIT = make(
    "question_prompt",
    jp.Question.text("arguments", "Arguments of fs_read, as JSON:").with_default(ARGUMENTS),
    consents=True,
)


def approval_of(*changes: Any, tool: str = "change_model") -> Any:
    """Return the prompt by which a person decides about `changes`."""
    return decision_prompt("approval", tool, *changes)


def shout(text: str) -> str:
    """Return what a tool may call itself to look like markup, a terminal or another line."""
    return f"<script>{text}</script> | \x1b[2J\x9b1m\u202e\u200f\n  assistant.name: 1 → 2"


PROMPT = [f"Rule {n}: be sure of what you say about topic {n}." for n in range(30)]
NEW_PROMPT = [*PROMPT[:14], "Rule 14: never be sure.", *PROMPT[15:], "A last\u200b one. "]

DELTAS = {
    "set and unset": approval_of(
        make("proposed_change", "assistant.model.id", '"anthropic/opus"', '"anthropic/sonnet"'),
        make("proposed_change", "assistant.model.parameters.top_p", None, "0.5"),
        make("proposed_change", "assistant.model.parameters.temperature", "0.7", None),
        make("proposed_change", "assistant.model.parameters.top_k", None, None),
    ),
    "an item added, one removed": approval_of(
        make("proposed_change", "conversation.attachments", '["a.txt"]', '"b.txt"', added=True),
        make("proposed_change", 'conversation.attachments["a.txt"]', '"a.txt"', None),
    ),
    "a whole list": approval_of(
        make(
            "proposed_change",
            "assistant.model.parameters.stop_words",
            json.dumps([f"old {n}" for n in range(40)]),
            json.dumps([f"new {n}" for n in range(40)]),
        ),
    ),
    "a long value": approval_of(
        make("proposed_change", "assistant.name", '"Bo"', json.dumps("x" * 5000 + "the end")),
    ),
    "a prompt of many lines": approval_of(
        make(
            "proposed_change",
            "assistant.system_prompt",
            json.dumps("\n".join(PROMPT)),
            json.dumps("\n".join(NEW_PROMPT), ensure_ascii=False),
        ),
        make("proposed_change", "assistant.name", None, '"Ada"'),
    ),
    "hostile text": approval_of(
        make(
            "proposed_change",
            f"options.{shout('path')}",
            json.dumps(shout("now")),
            json.dumps(shout("proposed"), ensure_ascii=False),
        ),
        tool=shout("tool"),
    ),
}

PROMPTS: dict[tuple[str, str], Any] = {
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
    **{("delta", part): prompt for part, prompt in DELTAS.items()},
}
"""By the file of its snapshot, and the part of that."""

TYPED = {
    "boolean": ["?", "", "maybe", "Y", "y"],
    "select": ["?", "blue", ""],
    "long_select": ["", "10", "9"],
    "text": ["?", ""],
    "secret": ["", "hunter2"],
    "permission": ["?", "", "p"],
    "delivery": ["?", "", "y"],
    "interrupt": ["?", "", "r"],
    "edit": ["?", "", "="],
    "set and unset": ["?", "x", "", "y"],
    "a prompt of many lines": ["?", "d", "", "Y"],
    "an item added, one removed": ["n"],
    "a whole list": [],
    "a long value": ["Y"],
    "hostile text": ["N"],
}
"""Lines typed on stdin, until one is an answer or the input ends, by file or part."""
