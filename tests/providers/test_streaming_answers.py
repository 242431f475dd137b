"""Text parts of a response."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

import pytest

from jp_nb.agent.response import ResponseBuilder
from jp_nb.json_values import is_json_object
from jp_nb.providers.answer_text import AnswerText, ThinkSplitter
from jp_nb.providers.event_buffer import EventBuffer
from jp_nb.providers.schemas import adapt_for_openai, pass_schema
from tests.kit.kinds import is_kind
from tests.kit.models import model_event
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
    splitter = ThinkSplitter()
    found = {"reasoning": "", "message": ""}
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
    rows: list[tuple[Any | None, str, str]] = [
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
            answer = AnswerText(schema)
            buffer = EventBuffer()
            for char in text:
                answer.feed(1, char, buffer)
            answer.finish(1, buffer)
            events = buffer.take()
            assert {event.kind for event in events if is_kind(event, "text")} == {kind}
            if kind == "message":
                assert text_of(events, kind) == text


def read_answer(schema: Any, text: str, size: int) -> list[tuple[str, str]]:
    """Return kind and text of the items of an answer that comes in pieces of `size`."""
    answer = AnswerText(schema)
    buffer = EventBuffer()
    for start in range(0, len(text), size):
        answer.feed(1, text[start : start + size], buffer)
    answer.finish(1, buffer)
    buffer.add(model_event("flush", 1))

    builder = ResponseBuilder()
    entries = [entry for event in buffer.take() if (entry := builder.feed(event)) is not None]
    assert buffer.held_chars == 0
    assert builder.finish() == ([], [])
    return [
        (entry.kind, entry.message or json.dumps(entry.data))
        for entry in entries
        if is_kind(entry, "chat_response")
    ]


DATA = '{"ok": true}'
PRETTY = '{\n  "ok": true\n}'
CODE = '{"ok": true, "why": "Use ```python\\nprint()\\n``` and ~~~."}'


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_json_in_a_code_fence_is_the_answer(size: int, subtests: pytest.Subtests) -> None:
    plain = ("structured", DATA)
    rows: list[tuple[Any, str, list[tuple[str, str]]]] = [
        (pass_schema(OBJECT), f"```json\n{DATA}\n```", [plain]),
        (pass_schema(OBJECT), f"```\n{DATA}\n```\n", [plain]),
        (pass_schema(OBJECT), f" \n\n```JSON\r\n{PRETTY}\r\n```", [plain]),
        (pass_schema(OBJECT), f"~~~json5\n{DATA}\n~~~", [plain]),
        (pass_schema(OBJECT), f"````json\n{PRETTY}\n````", [plain]),
        (pass_schema(OBJECT), f"```json {DATA} ```", [plain]),
        (pass_schema(OBJECT), f"```json\n{DATA}", [plain]),  # the closing mark is missing
        (pass_schema(OBJECT), f"```json\n{CODE}\n```", [("structured", CODE)]),
        (pass_schema(OBJECT), f"Here:\n```json\n{DATA}\n```", [("message", "Here:\n"), plain]),
        (pass_schema(OBJECT), f"```\n{DATA}\n```\nBye. ", [plain, ("message", "Bye.")]),
        (pass_schema(OBJECT), f"`a`: ```\n{DATA}\n``` b", [("message", "`a`: "), plain,
                                                           ("message", "b")]),
        (pass_schema(OBJECT), f"A\n```py\nx = 1\n```\nB\n```\n{DATA}\n```",
         [("message", "A\n```py\nx = 1\n```\nB\n"), plain]),
        (pass_schema(OBJECT), f"```\n{DATA}\n```\nAgain:\n```\n{DATA}\n```",
         [("message", f"```\n{DATA}\n```\nAgain:\n"), plain]),
        (pass_schema({"type": "array"}), "```json\n[1, 2]\n```", [("structured", "[1, 2]")]),
        (pass_schema({"type": "boolean"}), "```json\ntrue\n```", [("structured", "true")]),
        (adapt_for_openai({"type": "boolean"}), '```json\n{"value": true}\n```',
         [("structured", "true")]),
        (adapt_for_openai(OBJECT), '```\n{"ok": true, "why": null}\n```', [plain]),
    ]  # fmt: skip
    for schema, text, items in rows:
        with subtests.test(text=text):
            assert read_answer(schema, text, size) == items


@pytest.mark.parametrize("size", [1, 1000])
def test_code_fences_without_one_json_value_are_a_message(
    size: int, subtests: pytest.Subtests
) -> None:
    texts = [
        f'```\n{DATA}\n```\nor\n```\n{{"ok": false}}\n```',  # ambiguous
        '```json\n{"ok": tr',  # cut by the limit
        "```json\n```",
        f"```json\n{DATA} and more\n```",
        "```python\nprint(1)\n```",
        "Use `ok` and ~tilde~, ``two``",
        "Ends with a mark ``",
        "```json\n" + "[" * 100_000,
    ]
    for text in texts:
        with subtests.test(text=text[:60]):
            assert read_answer(pass_schema(OBJECT), text, size) == [("message", text)]


def test_text_before_a_code_fence_streams() -> None:
    answer = AnswerText(pass_schema(OBJECT))
    buffer = EventBuffer()
    answer.feed(1, "Let me think. ", buffer)
    answer.feed(1, "Here `", buffer)
    assert text_of(buffer.take(), "message") == "Let me think. Here "
    answer.feed(1, "it` is: ```json\n{", buffer)
    assert text_of(buffer.take(), "message") == "`it` is: "


def test_many_code_fences_are_read_in_linear_time() -> None:
    for text in ("```\n{" * 200_000, "~~~ `" * 200_000, '```{"```' * 200_000):
        started = monotonic()
        assert read_answer(pass_schema(OBJECT), text, 10_000) == [("message", text)]
        assert monotonic() - started < 5
