"""A stream with N whole calls gives these N calls, however its server groups them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.kinds import make
from tests.providers.call_groupings import (
    CALLS,
    CHAT_GROUPINGS,
    TOOLS,
    Call,
    Outcome,
    Wire,
    anthropic_messages,
    chat_messages,
    generate_messages,
    interactions_messages,
    responses_messages,
    run,
)

DONE = b"data: [DONE]\n\n"
CALLS_END: Wire = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


OFFERED = [make("tool_definition", name, "", {}) for name in TOOLS]


def run_chat(messages: list[Wire], *, end: bytes = DONE) -> Outcome:
    return run("chat", messages, end=end, request=b"body", tools=OFFERED)


@given(st.data(), CALLS, CHAT_GROUPINGS, st.sampled_from(["before", "after", "missing"]))
def test_every_grouping_of_chat_completions_gives_its_calls(
    data: st.DataObject, calls: list[Call], grouping: Any, finish: str
) -> None:
    messages = data.draw(chat_messages(calls, grouping))
    ends = {"before": [CALLS_END, *messages], "after": [*messages, CALLS_END], "missing": messages}
    outcome = run_chat(ends[finish])
    assert (outcome.calls, outcome.lines) == (calls, [])
    assert len({*outcome.ids}) == len(calls)


@given(st.data(), CALLS, CHAT_GROUPINGS)
def test_cut_stream_gives_whole_calls_and_names_the_incomplete_ones(
    data: st.DataObject, calls: list[Call], grouping: Any
) -> None:
    messages = data.draw(chat_messages(calls, grouping))
    sent = messages[: data.draw(st.integers(1, len(messages)))]
    limit = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    outcome = run_chat([*sent, limit])
    # `{}` and a name in pieces are a part of a call that looks whole.
    if grouping.form != "after {}" and grouping.names != "pieces":
        assert all(call in calls for call in outcome.calls)
    assert len(outcome.calls) + len(outcome.lines) <= len(calls)
    with pytest.raises(jp.ProviderError) as caught:
        run_chat(sent, end=b"")
    assert caught.value.kind == "transient"


def function(name: str | None, arguments: Any, **fields: Any) -> Wire:
    return {**fields, "function": {"name": name, "arguments": arguments}}


def chat(*pieces: Wire) -> list[Wire]:
    """Return a chunk for each piece, and the end."""
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}}]} for each in pieces]
    return [*chunks, CALLS_END]


A = '{"city": "Delft"}'
B = '{"city": "Leiden"}'
DELFT = ("forecast", {"city": "Delft"})
LEIDEN = ("forecast", {"city": "Leiden"})
GROUPS: dict[str, tuple[list[Wire], list[Call]]] = {
    "call without arguments, then another tool": (
        [function("ping", "", index=0), function("forecast", A, index=0)],
        [("ping", {}), DELFT],
    ),
    "other ids at one index, the first without arguments": (
        [function("forecast", "", index=0, id="a"), function("forecast", A, index=0, id="b")],
        [("forecast", {}), DELFT],
    ),
    "one id for two tools": (
        [function("ping", "{}", index=0, id="a"), function("forecast", A, index=0, id="a")],
        [("ping", {}), DELFT],
    ),
    "one id at two indexes": (
        [function("forecast", A, index=0, id="a"), function("forecast", B, index=1, id="a")],
        [DELFT, LEIDEN],
    ),
    "index that grows with each piece": (
        [
            function("forecast", '{"city":', index=0, id="a"),
            function("", ' "Delft"}', index=1, id="a"),
        ],
        [DELFT],
    ),
    "id of its own for each piece": (
        [
            function("forecast", '{"city":', index=0, id="a"),
            function("", ' "Delft"}', index=0, id="b"),
        ],
        [DELFT],
    ),
    "index only after the first piece": (
        [function("forecast", '{"city":', id="a"), function(None, ' "Delft"}', index=0)],
        [DELFT],
    ),
    "name that grows": (
        [function("fore", None, index=0), function("forecast", A, index=0)],
        [DELFT],
    ),
    "repeated calls at the end": (
        [
            function("forecast", A, index=0, id="a"), function("forecast", B, index=1, id="b"),
            function("forecast", A, index=0, id="a"), function("forecast", B, index=1, id="b"),
        ],
        [DELFT, LEIDEN],
    ),
    "elements without any content": ([{}, {"index": 0}, function("forecast", A)], [DELFT]),
    "braces in a text": (
        [function("ping", '{"a": "', index=0), function(None, "{}"), function(None, '"}')],
        [("ping", {"a": "{}"})],
    ),
    "tool that is not offered": (
        [function("made_up", "{}", index=0), function("forecast", A, index=0)],
        [("made_up", {}), DELFT],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_grouping_of_chat_completions_gives_its_calls(name: str) -> None:
    pieces, calls = GROUPS[name]
    outcome = run_chat(chat(*pieces))
    assert (outcome.calls, outcome.lines) == (calls, [])


@pytest.mark.parametrize(
    "pieces",
    [
        [function("forecast", A + B, index=0, id="a")],
        [function("forecast", A, index=0, id="a"), function(None, B, index=0)],
        [function("forecast", A, index=0, id="a"), function("forecast", B, index=0, id="a")],
        [function("forecast", json.loads(A), id="a"), function(None, json.loads(B), id="a")],
    ],
)  # fmt: skip
def test_two_objects_in_one_call_are_reported_to_the_model(pieces: list[Wire]) -> None:
    outcome = run_chat(chat(*pieces))
    assert outcome.calls == []
    [line] = outcome.lines
    assert "two JSON objects" in line
    assert "Delft" in line
    assert "Leiden" in line


def test_call_that_another_one_interrupts_is_reported() -> None:
    outcome = run_chat(chat(function("ping", '{"a":', index=0), function("forecast", A, index=0)))
    assert outcome.calls == [DELFT]
    assert outcome.lines[0].startswith("The arguments are not JSON")


def test_end_mark_after_an_incomplete_call_is_a_cut() -> None:
    with pytest.raises(jp.ProviderError) as caught:
        run_chat(chat(function("forecast", '{"city":', index=0))[:-1])
    assert caught.value.kind == "transient"


@pytest.mark.parametrize("arguments", [{}, "{}"])
@pytest.mark.parametrize("after", [None, A])
def test_empty_object_is_all_of_the_arguments_unless_others_follow(
    arguments: Any, after: str | None
) -> None:
    pieces = [function("ping", "", index=0), function(None, arguments, index=0)]
    pieces += [function(None, after, index=0)] * bool(after)
    outcome = run_chat(chat(*pieces)[:-1])
    assert (outcome.calls, outcome.lines) == ([("ping", json.loads(after or "{}"))], [])


def test_empty_object_after_the_arguments_is_skipped() -> None:
    pieces = [function("forecast", A, index=0), function(None, {}, index=0)]
    assert run_chat(chat(*pieces)).calls == [DELFT]


@pytest.mark.parametrize("arguments", ["null", " null ", '"{}"', '""'])
def test_no_arguments_in_any_spelling_are_none(arguments: str) -> None:
    outcome = run_chat(chat(function("ping", arguments, index=0, id="a")))
    assert (outcome.calls, outcome.lines) == ([("ping", {})], [])


def test_arguments_that_were_encoded_twice_are_read() -> None:
    outcome = run_chat(chat(function("forecast", json.dumps(A), index=0, id="a")))
    assert (outcome.calls, outcome.lines) == ([DELFT], [])


@pytest.mark.parametrize(
    "arguments", ["[]", "1", '"forecast"', '"[1]"', "true", '{"a":' + "[" * 100_000]
)
def test_other_values_as_arguments_are_reported(arguments: str) -> None:
    outcome = run_chat(chat(function("forecast", arguments, index=0, id="a")))
    assert outcome.calls == []
    assert len(outcome.lines) == 1


def test_ids_that_are_numbers_are_texts() -> None:
    pieces = [function("forecast", A, index=0, id=0), function("ping", "{}", index=0, id=1)]
    outcome = run_chat(chat(*pieces))
    assert (outcome.calls, outcome.ids) == ([DELFT, ("ping", {})], ["0", "1"])


MESSAGE_END: list[Wire] = [
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    {"type": "message_stop"},
]
RESPONSE_END: Wire = {"type": "response.completed", "response": {"status": "completed"}}
CHUNK_END: Wire = {"candidates": [{"finishReason": "STOP"}]}
INTERACTION_END: Wire = {
    "event_type": "interaction.completed",
    "interaction": {"status": "requires_action"},
}
APIS: dict[str, tuple[Any, list[list[Wire]]]] = {
    "anthropic": (anthropic_messages, [MESSAGE_END, MESSAGE_END[:1], []]),
    "responses": (responses_messages, [[RESPONSE_END], []]),
    "generate": (generate_messages, [[CHUNK_END], []]),
    "interactions": (interactions_messages, [[INTERACTION_END], []]),
}
"""Messages and ends; after an empty one, `[DONE]` follows."""


@pytest.mark.parametrize("api", APIS)
@given(st.data(), CALLS)
def test_every_grouping_of_a_dialect_gives_its_calls(
    api: str, data: st.DataObject, calls: list[Call]
) -> None:
    messages, ends = APIS[api]
    sent = data.draw(messages(calls))
    end = data.draw(st.sampled_from(ends))
    mark = b"" if end else DONE
    outcome = run(api, [*sent, *end], end=mark, request=b"body")
    assert (outcome.calls, outcome.lines) == (calls, [])
    assert len({*outcome.ids}) == len(calls)
