"""Questions to the user, the prompts that ask them, and their ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.kit import _words


def answer_type(kind: str, /, **fields: Any) -> Any:
    """Return a type of answer: `answer_type("select", options=("a", "b"))`."""
    return _words.find(_words.ANSWER_TYPES, f"{kind}_answer")(**fields)


def new_prompt(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return a prompt or a part of one: `new_prompt("question_prompt", question)`."""
    return _words.find(_words.PROMPTS, kind)(*values, **fields)


def prompt_end(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return the end of a prompt: `prompt_end("invalid_answer", "too long")`."""
    return _words.find(_words.PROMPT_ENDS, kind)(*values, **fields)


def answered(value: Any = True, channel: str = "form", *more: Any, **fields: Any) -> Any:
    """Return the end of a prompt that the user answered with `value`."""
    return prompt_end("answered", value, channel, *more, **fields)


def not_answered(end: str, channel: str | None = None, *more: Any, **fields: Any) -> Any:
    """Return the end of a prompt without an answer: `declined`, `cancelled`, `interrupted` …"""
    return prompt_end("not_answered", end, channel, *more, **fields)


def form_end(ends: Iterable[Any], *then: Any, **fields: Any) -> Any:
    """Return the end of a form, with the `ends` of its pages."""
    return prompt_end("form_end", ends, *then, **fields)


def unavailable(reason: str) -> Any:
    """Return the end of a prompt for which no user is available, for the `reason`."""
    return prompt_end("unavailable", reason)


def failure(message: str, *values: Any, **fields: Any) -> Any:
    """Return the outcome of a tool call that failed."""
    return _words.find(_words.OUTCOMES, "failure")(message, *values, **fields)
