"""Texts of MCP servers in the transcript: no link, no markup, in any rendering (R-MCP-62)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.mcp.tool_calls.elicitations import make_question
from jp_nb.rendering.transcripts.transcript import Transcript
from tests.kit.kinds import make
from tests.kit.questions import answered as kit_answered
from tests.kit.renderings import render
from tests.kit.screens import display_event
from tests.kit.servers import McpServer
from tests.rendering.markdown_readers import dangers, renderings

question_outcome = partial(make, "question_outcome")
"""The end of a question: `answered`, `declined`, `cancelled` …, and its channel."""

HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=x> [map](https://evil.example) "
    "https://evil.example www.evil.example ada@evil.example ![x](https://evil.example/x.png) "
    "\x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x1b[31mred"
)


def question() -> Any:
    """Return a question whose texts are all hostile."""
    schema: Any = {
        "type": "object",
        "title": HOSTILE,
        "properties": {
            "a": {"type": "string", "title": HOSTILE, "description": HOSTILE},
            "b": {"type": "string", "enum": [HOSTILE, "x"]},
        },
    }
    asked = make("server_question", "q", "form", f"{HOSTILE}\n{HOSTILE}", schema)
    return make_question("books", asked, "q")


def shown(*events: Any) -> str:
    """Return the Markdown of a transcript."""
    transcript = Transcript()
    for event in events:
        transcript.add(event)
    return "\n\n".join(part.render()["text/markdown"] for part in transcript.parts)


def assert_not_live(markdown: str) -> None:
    assert "evil" in markdown
    assert "\x1b" not in markdown
    assert dangers(markdown) == []
    for html in renderings(markdown):
        assert "<a " not in html
        assert "<img" not in html
        assert "<script" not in html


@pytest.mark.req("R-MCP-62")
def test_question_and_answer_are_text() -> None:
    answered = question_outcome("answered", "form")
    answer: Any = {"a": HOSTILE, "b": HOSTILE}
    ends = display_event(
        "question_ends", "c", "t", question(), outcome=answered, answer=answer, label="books asks"
    )
    assert_not_live(shown(ends))
    assert_not_live(
        shown(replace(ends, outcome=question_outcome("cancelled", "form"), answer=None))
    )
    prompt = make(
        "form_prompt",
        (make("question_prompt", question(), label="books asks"),),
        declines=True,
    )
    assert_not_live(
        render("prompt", prompt, make("form_end", (kit_answered(answer, "form"),))).markdown
    )


@pytest.mark.req("R-MCP-62")
def test_result_is_text() -> None:
    blocks: Any = (
        {"type": "text", "text": HOSTILE},
        {"type": "resource_link", "uri": "javascript:alert(1)", "name": HOSTILE},
        {"type": "resource", "resource": {"uri": HOSTILE, "text": HOSTILE}},
    )
    outcome, _ = McpServer.read_result(*blocks)
    assert isinstance(outcome, jp.Success)
    begins = display_event("tool_begins", "c", "books__find", {"query": HOSTILE})
    ends = display_event(
        "tool_ends",
        "c",
        "books__find",
        outcome.content,
        is_error=False,
        seconds=0.1,
        folds_result=True,
    )
    assert_not_live(shown(begins, ends))
    assert_not_live(shown(begins, replace(ends, folds_result=False, result_lines=None)))
