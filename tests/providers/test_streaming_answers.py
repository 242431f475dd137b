"""Text parts of a response."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

import pytest

from tests.kit.kinds import select_kind
from tests.kit.streams import StreamReader
from tests.providers.helpers import text_of


def chunk(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}]}


STOP: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


def split(*pieces: str) -> dict[str, str]:
    """Return the text of each kind in a response that comes in `pieces`."""
    events = StreamReader("chat/llamacpp").read([*map(chunk, pieces), STOP]).events
    return {kind: text_of(events, kind) for kind in ("reasoning", "message")}


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


STRICT = "chat/openai"
"""The server gets a changed schema: all properties are required, and a value is in an object."""
PLAIN = "chat/llamacpp"
"""The server gets the schema of the user."""


def test_text_that_does_not_begin_as_json_is_a_message(subtests: pytest.Subtests) -> None:
    boolean = {"type": "boolean"}
    rows: list[tuple[str, dict[str, Any] | None, str, str]] = [
        (STRICT, OBJECT, ' \n{"ok": true, "why": null}', "structured"),
        (STRICT, OBJECT, "Let me look.", "message"),
        (STRICT, OBJECT, '{"ok": tr', "structured"),  # cut by the limit
        (STRICT, boolean, '{"value": true}', "structured"),
        (STRICT, boolean, "true", "structured"),
        (STRICT, boolean, "Yes.", "message"),
        (PLAIN, OBJECT, '{"ok": true}', "structured"),
        (PLAIN, OBJECT, "true, I think", "message"),
        (PLAIN, {"type": "string"}, '"a"', "structured"),
        (PLAIN, {"type": "number"}, "-1", "structured"),
        (PLAIN, {"type": "string"}, "A word.", "message"),
        (PLAIN, None, '{"ok": true}', "message"),
    ]
    for api, schema, text, kind in rows:
        with subtests.test(text=text, kind=kind):
            events = StreamReader(api, schema=schema).read([*map(chunk, text), STOP]).events
            assert {event.kind for event in select_kind(events, "text")} == {kind}
            if kind == "message":
                assert text_of(events, kind) == text


def read_answer(api: str, schema: Any, text: str, size: int) -> list[tuple[str, str]]:
    """Return kind and text of the items of an answer that comes in pieces of `size`."""
    pieces = [chunk(text[start : start + size]) for start in range(0, len(text), size)]
    response = StreamReader(api, schema=schema).read([*pieces, STOP])

    assert response.error is None
    assert response.is_finished
    return [(entry.kind, entry.message or json.dumps(entry.data)) for entry in response.entries]


DATA = '{"ok": true}'
PRETTY = '{\n  "ok": true\n}'
CODE = '{"ok": true, "why": "Use ```python\\nprint()\\n``` and ~~~."}'


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_json_in_a_code_fence_is_the_answer(size: int, subtests: pytest.Subtests) -> None:
    plain = ("structured", DATA)
    rows: list[tuple[str, Any, str, list[tuple[str, str]]]] = [
        (PLAIN, OBJECT, f"```json\n{DATA}\n```", [plain]),
        (PLAIN, OBJECT, f"```\n{DATA}\n```\n", [plain]),
        (PLAIN, OBJECT, f" \n\n```JSON\r\n{PRETTY}\r\n```", [plain]),
        (PLAIN, OBJECT, f"~~~json5\n{DATA}\n~~~", [plain]),
        (PLAIN, OBJECT, f"````json\n{PRETTY}\n````", [plain]),
        (PLAIN, OBJECT, f"```json {DATA} ```", [plain]),
        (PLAIN, OBJECT, f"```json\n{DATA}", [plain]),  # the closing mark is missing
        (PLAIN, OBJECT, f"```json\n{CODE}\n```", [("structured", CODE)]),
        (PLAIN, OBJECT, f"Here:\n```json\n{DATA}\n```", [("message", "Here:\n"), plain]),
        (PLAIN, OBJECT, f"```\n{DATA}\n```\nBye. ", [plain, ("message", "Bye.")]),
        (PLAIN, OBJECT, f"`a`: ```\n{DATA}\n``` b", [("message", "`a`: "), plain,
                                                           ("message", "b")]),
        (PLAIN, OBJECT, f"A\n```py\nx = 1\n```\nB\n```\n{DATA}\n```",
         [("message", "A\n```py\nx = 1\n```\nB\n"), plain]),
        (PLAIN, OBJECT, f"```\n{DATA}\n```\nAgain:\n```\n{DATA}\n```",
         [("message", f"```\n{DATA}\n```\nAgain:\n"), plain]),
        (PLAIN, {"type": "array"}, "```json\n[1, 2]\n```", [("structured", "[1, 2]")]),
        (PLAIN, {"type": "boolean"}, "```json\ntrue\n```", [("structured", "true")]),
        (STRICT, {"type": "boolean"}, '```json\n{"value": true}\n```',
         [("structured", "true")]),
        (STRICT, OBJECT, '```\n{"ok": true, "why": null}\n```', [plain]),
    ]  # fmt: skip
    for api, schema, text, items in rows:
        with subtests.test(text=text):
            assert read_answer(api, schema, text, size) == items


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
            assert read_answer(PLAIN, OBJECT, text, size) == [("message", text)]


def test_text_before_a_code_fence_streams() -> None:
    response = StreamReader(PLAIN, schema=OBJECT)
    assert text_of(response.feed(chunk("Let me think. "), chunk("Here `"))) == (
        "Let me think. Here "
    )
    assert text_of(response.feed(chunk("it` is: ```json\n{"))) == "`it` is: "


def test_many_code_fences_are_read_in_linear_time() -> None:
    for text in ("```\n{" * 200_000, "~~~ `" * 200_000, '```{"```' * 200_000):
        started = monotonic()
        assert read_answer(PLAIN, OBJECT, text, 10_000) == [("message", text)]
        assert monotonic() - started < 5
