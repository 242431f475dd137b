"""Results of servers: each kind of content, sent once, bounded, and never live."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind
from tests.kit.servers import McpServer
from tests.mcp.fake_server import Asking, result
from tests.support.images import png

MAX_BLOCKS = 1000
MAX_STRUCTURED_RESULT_CHARS = 50_000


PNG = base64.b64encode(png(3, 2)).decode()


def text(*texts: str) -> tuple[dict[str, Any], ...]:
    """Return a block for each text."""
    return tuple({"type": "text", "text": each} for each in texts)


def read(*blocks: Any, **more: Any) -> jp.Success:
    """Return the outcome of a result that is no error."""
    outcome, _ = McpServer.read_result(*blocks, **more)
    assert isinstance(outcome, jp.Success)
    return outcome


@pytest.mark.req("R-MCP-59")
def test_each_kind_of_content_is_text_or_a_checked_image() -> None:
    outcome = read(
        {"type": "text", "text": "Hello"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "audio", "data": base64.b64encode(b"x" * 2000).decode(), "mimeType": "audio/wav"},
        {
            "type": "resource_link",
            "uri": "file:///a.txt",
            "name": "a.txt",
            "description": "A\nfile",
            "mimeType": "text/plain",
            "size": 1200,
        },
        {"type": "resource", "resource": {"uri": "demo://1", "text": "line 1\nline 2"}},
        {"type": "resource", "resource": {"uri": "demo://2", "blob": PNG, "mimeType": "image/png"}},
        {"type": "resource", "resource": {"uri": "demo://3", "blob": "AAEC", "mimeType": "x/y"}},
    )
    assert outcome.content.split("\n") == [
        "Hello",
        "[image 1: image/png 3×2]",
        "[audio, audio/wav, 2.0 kB: not sent]",
        "[link: a.txt: file:///a.txt (text/plain, 1.2 kB)] A file",
        "[resource: demo://1]",
        "line 1",
        "line 2",
        "[image 2: demo://2, image/png 3×2]",
        "[resource: demo://3, x/y, 3 B: not sent]",
    ]
    assert [image.media_type for image in outcome.images] == ["image/png", "image/png"]


@pytest.mark.req("R-MCP-59", "R-MCP-62")
@pytest.mark.parametrize(
    ("block", "line"),
    [
        ({"type": "image", "data": "%%%", "mimeType": "image/png"}, "its data is not Base64"),
        ({"type": "image", "data": 5, "mimeType": "image/png"}, "its data is not Base64"),
        ({"type": "image", "data": "AAEC", "mimeType": "image/png"}, "its bytes are not image/png"),
        ({"type": "image", "data": PNG, "mimeType": "image/jpeg"}, "its bytes are not image/jpeg"),
        ({"type": "image", "data": "AAEC", "mimeType": "image/svg+xml"}, "image/svg+xml, 3 B: not"),
        ({"type": "image", "data": "AAEC"}, "unknown type"),
        ({"type": "hologram"}, "content of an unknown kind: hologram"),
        ({}, "content of an unknown kind: None"),
        ({"type": "resource", "resource": "x"}, "its data is not Base64"),
        ({"type": "resource_link", "uri": 5, "name": ["a"]}, "[link: : ]"),
    ],
)
def test_content_that_cannot_be_sent_is_a_line_that_says_so(block: Any, line: str) -> None:
    outcome = read(block, {"type": "text", "text": "after"})
    assert line in outcome.content
    assert outcome.content.endswith("\nafter")
    assert outcome.images == ()


@pytest.mark.req("R-MCP-60")
@pytest.mark.parametrize(
    ("texts", "structured", "sent"),
    [
        (['{\n  "a": 1\n}'], {"a": 1}, '{"a":1}'),
        (['{"b":2,"a":1}'], {"a": 1, "b": 2}, '{"b":2,"a":1}'),
        (["Delft"], {"result": "Delft"}, "Delft"),
        (["5"], {"result": 5}, "5"),
        (["[1, 2]"], {"result": [1, 2]}, "[1, 2]"),
        (["a", "b"], {"result": ["a", "b"]}, '{"result":["a","b"]}'),
        (['{"x": 1}', '{"x": 2}'], [{"x": 1}, {"x": 2}], '[{"x":1},{"x":2}]'),
        ([], {"a": 1}, '{"a":1}'),
        (["  "], [1], "[1]"),
        (["12 degrees"], {"celsius": 12}, "12 degrees"),
        (["one", "two"], {"result": ["one"]}, "one\ntwo"),
        (["[" * 5000], {"a": 1}, "[" * 5000),
    ],
)
def test_structured_content_and_its_copy_are_sent_once(
    texts: list[str], structured: Any, sent: str
) -> None:
    outcome = read(*text(*texts), structured=structured)
    assert outcome.content == sent
    assert outcome.structured == structured


def test_copy_among_other_content_is_sent_once() -> None:
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    structured = {"result": [1, 2, 3]}
    outcome = read(image, *text("1", "2", "3"), structured=structured)
    assert outcome.content == '[image 1: image/png 3×2]\n{"result":[1,2,3]}'


@pytest.mark.req("R-MCP-35")
def test_structured_content_against_its_schema_is_sent_with_a_note() -> None:
    schema: Any = {"type": "object", "properties": {"celsius": {"type": "number"}}}
    found = read(*text("warm"), structured={"celsius": "12"}, schema=schema)
    assert found.content == (
        "warm\n[The structured content does not fit the output schema of the tool: celsius: "
        "expected number]"
    )
    assert found.structured == {"celsius": "12"}


@pytest.mark.req("R-MCP-59")
def test_content_for_the_user_only_is_shown_and_not_sent() -> None:
    for_user: dict[str, Any] = {
        "type": "text",
        "text": "secret joke",
        "annotations": {"audience": ["user"]},
    }
    for_model: dict[str, Any] = {
        "type": "text",
        "text": "fact",
        "annotations": {"audience": ["assistant"]},
    }
    outcome, shown = McpServer.read_result(for_user, for_model)
    assert shown == ("secret joke",)
    assert outcome.content == "fact\n[A part of the result was shown to the user only.]"


@pytest.mark.req("R-MCP-36")
def test_error_of_a_tool_is_a_failure_with_the_words_of_the_server() -> None:
    image: dict[str, Any] = {"type": "image", "data": PNG, "mimeType": "image/png"}
    outcome, _ = McpServer.read_result(
        *text("no such book"), image, structured={"code": 5}, is_error=True
    )
    assert is_kind(outcome, "failure")
    assert outcome.message.startswith("no such book\n[image 1: ")
    assert outcome.structured == {"code": 5}


@pytest.mark.req("R-MCP-61")
def test_large_results_are_bounded_in_linear_time() -> None:
    began = time.monotonic()
    many = read(*text(*map(str, range(MAX_BLOCKS + 500))))
    assert many.content.endswith("[500 more content blocks are omitted]")
    large, shown = McpServer.read_result(
        *text("x"), structured={"a": "y" * MAX_STRUCTURED_RESULT_CHARS}
    )
    assert large.structured is None
    assert "too long for the record" in shown[0]
    values = [{"n": n} for n in range(1000)]
    copied = read(*text(*map(json.dumps, values)), structured={"result": values})
    assert copied.content.startswith('{"result":[{"n":0}')
    assert time.monotonic() - began < 5


def test_half_characters_and_infinite_numbers_can_be_stored() -> None:
    outcome = read(*text("a\ud800b"), structured={"x": float("inf"), "y": "\udc00"})
    outcome.content.encode()
    json.dumps(outcome.structured, allow_nan=False).encode()


@pytest.mark.req("R-MCP-61")
async def test_long_text_is_cut_as_results_of_other_tools() -> None:
    turn = Asking([result("x" * 60_000)], settings={"result_max_chars": 1000})
    await turn.run()
    [(content, is_error)] = turn.results
    assert not is_error
    assert len(content) < 2000
    assert "conversation.tools.books__trip.result_max_chars is 1000" in content


async def test_structured_content_is_recorded_beside_the_result() -> None:
    turn = Asking([result("12 degrees", structured={"celsius": 12})])
    await turn.run()
    [response] = [x for x in turn.bench.entries if x.type == "tool_call_response"]
    assert response.metadata["structured"] == {"celsius": 12}
