"""Stored events: reading, writing, errors."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

import jp_nb as jp
from tests.interop.jp_directories import imported
from tests.kit.kinds import make, select_kind
from tests.kit.notebook_record import NotebookRecord
from tests.kit.providers import new_provider, prepare_request
from tests.kit.record_view import RecordView
from tests.kit.records import new_event, parse_event
from tests.support.entries import ASKED, SAID, START, new_stream

T = "2026-03-18 13:19:06.841464"


def read(**raw: Any) -> Any:
    return parse_event({"timestamp": T, **raw}, 3)


def test_missing_fields_have_defaults(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"type": "turn_start"}, {"metadata": {}}),
        ({"type": "chat_request", "content": "q"}, {"response_schema": None, "author": None}),
        (
            {"type": "chat_request", "content": "q", "schema": {"a": 1}, "author": "Ada"},
            {"response_schema": {"a": 1}, "author": "Ada"},
        ),
        ({"type": "chat_response", "message": "m", "data": 1}, {"kind": "message", "message": "m"}),
        ({"type": "chat_response", "reasoning": "", "data": 1}, {"kind": "reasoning"}),
        ({"type": "chat_response", "data": None}, {"kind": "structured", "data": None}),
        (
            {"type": "tool_call_request", "id": "a", "name": "t", "tool_answers": {"q": "eA=="}},
            {"arguments": {}},
        ),
        (
            {"type": "config_delta"},
            {"op": None, "timestamp": T, "delta": {}, "unsets": (), "claims": {}},
        ),
        (
            {"type": "compaction", "from_turn": 0, "to_turn": 2},
            {"summary": None, "reasoning": None, "tool_calls": None},
        ),
    ]
    for raw, fields in rows:
        with subtests.test(raw=raw):
            entry = read(**raw)
            assert {name: getattr(entry, name) for name in fields} == fields


def test_field_of_the_wrong_type_is_an_error(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [
        {"type": "chat_request", "content": ["q"]},
        {"type": "chat_request", "content": "q", "schema": "s"},
        {"type": "chat_request", "content": "q", "metadata": None},
        {"type": "chat_response", "message": None, "data": 1},
        {"type": "tool_call_request", "id": "a", "name": "t", "arguments": []},
        {"type": "tool_call_response", "id": "a", "content": "c"},
        {"type": "tool_call_response", "id": "a", "content": "c", "is_error": "no"},
        {"type": "tool_call_response", "id": "a", "content": None, "is_error": False},
        {"type": "config_delta", "delta": []},
        {"type": "config_delta", "delta": {}, "unsets": "a.b"},
        {"type": "compaction", "from_turn": -1, "to_turn": 0},
        {"type": "compaction", "from_turn": 0, "to_turn": 1.5},
        {"type": "compaction", "from_turn": 0, "to_turn": 1, "reasoning": "omit"},
        {"type": "compaction", "from_turn": 0, "to_turn": 1, "summary": "text"},
        {"type": "compaction", "from_turn": 0, "to_turn": 1, "tool_calls": {"policy": "strip"}},
    ]
    for raw in rows:
        with subtests.test(raw=raw), pytest.raises(jp.StorageError, match=r"events\[3\]"):
            read(**raw)


def test_result_with_structured_content_is_read_as_text(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str]] = [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, "b", {"image": 1}, 5], 'a\nb\n{"image": 1}\n5'),
        ({"$blob": "sha256:ab"}, '{"$blob": "sha256:ab"}'),
        ({"text": "t"}, "t"),
        ([], ""),
    ]
    for content, text in rows:
        with subtests.test(content=content):
            raw = {"timestamp": T, "type": "tool_call_response", "id": "a", "content": content}
            stream = new_stream(raw | {"is_error": False})
            response = new_event(
                "tool_call_response", timestamp=T, id="a", content=text, is_error=False
            )
            assert stream.entries == [response]
            assert stream.raw[0]["content"] == content


def test_configuration_keys_of_an_early_entry_are_its_delta(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"assistant": {"name": "JP"}, "user": {}}, {"assistant": {"name": "JP"}, "user": {}}),
        (
            {"event_id": "e", "request_id": "r", "user": 1, "unsets": ["a"], "claims": {"a": []}},
            {"user": 1},
        ),
        ({"unsets": ["a"], "verbatim": [], "spelling": {}, "metadata": 5}, {}),
        ({"delta": {"a": 1}, "user": {}}, {"a": 1}),
        ({"op": "reset", "user": {}}, {}),
    ]
    for stored, delta in rows:
        with subtests.test(stored=stored):
            raw = {"type": "config_delta", "timestamp": T, **stored}
            stream = new_stream(raw)
            assert [entry.delta for entry in stream.deltas] == [delta]
            assert stream.raw == [raw]


def test_config_delta_needs_no_timestamp() -> None:
    for raw in ({}, {"timestamp": None}, {"timestamp": 5}):
        entry = parse_event({"type": "config_delta", "delta": {"a": 1}, **raw})
        assert (entry.timestamp, entry.delta) == ("", {"a": 1})


# --- what is written -------------------------------------------------------------------------


def test_keys_of_entries_are_in_the_order_of_jp(subtests: pytest.Subtests) -> None:
    for entry, keys in [
        (new_event("chat_request", content="x"), ["timestamp", "type", "content"]),
        (
            new_event(
                "chat_request",
                content="x",
                schema={"type": "object"},
                author="Ada",
                metadata={"a": 1},
            ),
            ["timestamp", "type", "content", "schema", "author", "metadata"],
        ),
        (new_event("chat_response", message=""), ["timestamp", "type", "message"]),
        (new_event("chat_response", data=None), ["timestamp", "type", "data"]),
        (
            new_event("tool_call_request", id="a", name="t"),
            ["timestamp", "type", "id", "name", "arguments"],
        ),
        (
            new_event("inquiry_response", id="i", outcome="answered", answer=None),
            ["timestamp", "type", "outcome", "id", "answer"],
        ),
        (new_event("config_delta", delta={}), ["type", "timestamp", "delta"]),
        (
            new_event("config_delta", delta={"a": 1}, unsets=("x",), claims={"b": None, "a": None}),
            ["type", "timestamp", "delta", "unsets", "claims"],
        ),
        (new_event("config_delta", op="reset"), ["type", "timestamp", "op"]),
        (
            new_event(
                "compaction",
                from_turn=0,
                to_turn=1,
                summary={"summary": "s"},
                reasoning="strip",
            ),
            ["type", "timestamp", "from_turn", "to_turn", "summary", "reasoning"],
        ),
        (
            new_event("compaction", from_turn=0, to_turn=1, tool_calls={"policy": "omit"}),
            ["type", "timestamp", "from_turn", "to_turn", "tool_calls"],
        ),
    ]:
        with subtests.test(entry=entry):
            raw = entry.stamped(T).to_raw()
            assert list(raw) == keys
            assert parse_event(raw) == entry.stamped(T)


# --- errors ----------------------------------------------------------------------------------


def test_malformed_entry_of_a_known_type_is_an_error_with_its_place(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[Any, str]] = [
        ({"type": "tool_call_request", "timestamp": T, "name": "t"}, r"events\[3\]\.id"),
        ({"type": "chat_request", "content": "x"}, r"events\[3\]\.timestamp"),
        ({"type": "chat_response", "timestamp": T}, r"events\[3\]: "),
        ({"type": "inquiry_response", "timestamp": T, "id": "x"}, r"events\[3\]\.outcome"),
        ({"type": "turn_start", "timestamp": 5}, r"events\[3\]\.timestamp"),
        ("text", r"events\[3\]: expected an object, found str"),
    ]
    for raw, place in rows:
        with subtests.test(raw=raw), pytest.raises(jp.StorageError, match=place):
            parse_event(raw, 3)


def test_entry_of_an_unknown_type_is_no_error() -> None:
    rows: list[Any] = [
        *[{}, {"type": 5}, {"type": "hologram"}],
        {"type": "config_delta", "op": "merge", "delta": 1},
    ]
    for raw in rows:
        stream = new_stream(START, ASKED, raw, SAID)
        assert stream.raw[2] == raw
        assert RecordView(stream).sent_texts() == ["q", "a"]


OLD = {
    "type": "tool_call_request",
    "timestamp": "2025-11-02 03:00:00.5",
    "id": "c1",
    "name": "look",
    "arguments": {"path": "a"},
    "tool_answers": {"apply": True},
}


TALK = (
    {"type": "turn_start", "timestamp": "2025-11-02 03:00:00.0"},
    {"type": "chat_request", "timestamp": "2025-11-02 03:00:00.0", "content": "Look."},
)


RESULT = {
    "type": "tool_call_response",
    "timestamp": "2025-11-02 03:00:01.0",
    "id": "c1",
    "content": "seen",
    "is_error": False,
}


def moment() -> datetime:
    return datetime(2026, 7, 1, tzinfo=UTC)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def rendered(stream: Any) -> str:
    """Return the body of the request that a provider is sent."""
    request = make("model_request", "m", RecordView(stream).context())
    body, _ = prepare_request(new_provider("anthropic"), request)
    return body.decode()


@pytest.mark.req("R028-30")
def test_tool_call_has_only_id_name_and_arguments() -> None:
    arguments = {"path": "a", "tool_answers": {"b": 1}}
    call = new_event("tool_call_request", id="c1", name="look", arguments=arguments)
    stored = call.to_raw()
    assert stored == {
        "timestamp": "",
        "type": "tool_call_request",
        "id": "c1",
        "name": "look",
        "arguments": arguments,
    }
    assert parse_event(stored).arguments == arguments
    assert "tool_answers" not in new_event("tool_call_request", id="c1", name="look").to_raw()
    assert "tool_answers" not in jp.ToolContext.__dataclass_fields__


@pytest.mark.req("R028-31")
def test_tool_answers_of_an_old_record_are_not_sent() -> None:
    stream = new_stream(*TALK, OLD, RESULT)
    [call] = select_kind(stream.entries, "tool_call_request")
    assert call.arguments == {"path": "a"}
    assert not stream.repair()
    sent = rendered(stream)
    assert '"path":"a"' in sent
    assert "tool_answers" not in sent
    assert "apply" not in sent


@pytest.mark.req("R028-31", "R028-32")
def test_tool_answers_of_an_old_directory_of_jp_are_kept_and_not_sent() -> None:
    answers = {"apply": b64("true"), "plain": "kept"}
    arguments = {"path": b64("a"), "tool_answers": {"x": b64("y")}}
    call = {**OLD, "arguments": arguments, "tool_answers": answers}
    events = [*TALK, call, {**RESULT, "content": b64("seen")}]
    files = {
        "metadata.json": json.dumps({"title": "t"}, indent=2).encode(),
        "base_config.json": b"{}\n",
        "events.json": (json.dumps(events, indent=2) + "\n").encode(),
    }
    stream = NotebookRecord(imported(files)).stream
    [found] = select_kind(stream.entries, "tool_call_request")
    # An argument of that name is an argument like every other, and is decoded like it.
    assert found.arguments == {"path": "a", "tool_answers": {"x": "y"}}
    [raw] = [raw for raw in stream.raw if raw.get("id") == "c1"][:1]
    assert raw["tool_answers"] == answers
    sent = rendered(stream)
    assert "kept" not in sent
    assert b64("true") not in sent
    assert RecordView(stream).export()[0]["events.json"] == files["events.json"]
