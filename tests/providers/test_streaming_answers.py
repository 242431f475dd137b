"""Text parts of a response."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.agent.provider import TextPart
from jp_nb.providers.schemas import AnswerSchema, adapt_for_openai, pass_schema
from jp_nb.providers.streaming import AnswerText, EventBuffer, ThinkSplitter, is_json_object
from tests.providers.helpers import text_of


def test_complete_json_object_is_recognized(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, bool]] = [
        ("{}", True),
        ("[]", False),
        ("{", False),
        ("", False),
        ('{"a":' + "[" * 100_000, False),
    ]
    for text, is_object in rows:
        with subtests.test(text=text, is_object=is_object):
            assert is_json_object(text) is is_object


def split(*pieces: str) -> dict[str, str]:
    """The text of each kind in a response that comes in `pieces`."""
    splitter, found = ThinkSplitter(), {"reasoning": "", "message": ""}
    for kind, text in [
        *(part for piece in pieces for part in splitter.feed(piece)),
        *splitter.finish(),
    ]:
        found[kind] += text
    return found


def test_think_tags_are_found_across_pieces() -> None:
    for text in ("<think>\na</think>\n\nb", " <think>a</think>b"):
        for size in range(1, len(text) + 1):
            pieces = [text[at : at + size] for at in range(0, len(text), size)]
            assert split(*pieces) == {"reasoning": "a", "message": "b"}


def test_text_that_only_begins_like_a_think_tag_is_a_message() -> None:
    assert split("<thi", "rd> place") == {"reasoning": "", "message": "<third> place"}
    assert split("<th") == {"reasoning": "", "message": "<th"}


def test_think_tag_that_is_never_closed_is_all_reasoning() -> None:
    assert split("<think>a</thi") == {"reasoning": "a</thi", "message": ""}


OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["ok"],
}


def test_text_that_does_not_begin_as_json_is_a_message(subtests: pytest.Subtests) -> None:
    rows: list[tuple[AnswerSchema | None, str, str]] = [
        (adapt_for_openai(OBJECT), ' \n{"ok": true, "why": null}', "structured"),
        (adapt_for_openai(OBJECT), "Let me look.", "message"),
        (adapt_for_openai(OBJECT), '{"ok": tr', "structured"),  # cut by the limit
        (adapt_for_openai({"type": "boolean"}), '{"value": true}', "structured"),
        (adapt_for_openai({"type": "boolean"}), "true", "structured"),
        (adapt_for_openai({"type": "boolean"}), "Yes.", "message"),
        (pass_schema(OBJECT), '{"ok": true}', "structured"),
        (pass_schema(OBJECT), "true, I think", "message"),
        (pass_schema({"type": "string"}), '"a"', "structured"),
        (pass_schema({"type": "number"}), "-1", "structured"),
        (pass_schema({"type": "string"}), "A word.", "message"),
        (None, '{"ok": true}', "message"),
    ]
    for schema, text, kind in rows:
        with subtests.test(text=text, kind=kind):
            answer, buffer = AnswerText(schema), EventBuffer()
            for char in text:
                answer.feed(1, char, buffer)
            answer.finish(1, buffer)
            events = buffer.take()
            assert {event.kind for event in events if isinstance(event, TextPart)} == {kind}
            if kind == "message":
                assert text_of(events, kind) == text
