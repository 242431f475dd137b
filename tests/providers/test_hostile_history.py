"""Whatever a model or a tool wrote, every API accepts the requests that repeat it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.agent.provider import ProviderEvent
from jp_nb.agent.response import ResponseBuilder
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.json_values import make_storable
from jp_nb.providers import create_provider
from jp_nb.providers.call_rules import (
    ANTHROPIC_CALLS,
    CHAT_CALLS,
    GOOGLE_CALLS,
    MISTRAL_CALLS,
    OPENAI_CHAT_CALLS,
    RESPONSES_CALLS,
    format_arguments,
)
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.record.clock import utc_now
from jp_nb.record.context import build_context
from jp_nb.record.events import Entry, is_reasoning
from jp_nb.record.stream import ConversationStream
from tests.kit.kinds import is_kind
from tests.kit.models import model_event, request_value
from tests.kit.records import new_event
from tests.providers.helpers import DIALECTS
from tests.support.strict_bodies import check_body

CHARACTERS = st.characters(exclude_categories=())  # with surrogates, NUL, and other controls
TEXTS = st.one_of(
    st.sampled_from(["", " ", "\n\t", "\0", "a\0b", "\\u0000", "\ud800", "\udc00\ud800", "ok"]),
    st.text(CHARACTERS, max_size=8),
)
NAMES = st.one_of(
    st.sampled_from(
        [
            *("weather", "forecast<|channel|>commentary", "functions.weather", "x" * 230, ""),
            *(" ", "\n", "wetter_größe", "a\0b", "\ud800", "\udfff", "9lives", "-x", "a/../b"),
        ]
    ),
    st.text(CHARACTERS, max_size=70),
)
IDS = st.one_of(
    st.sampled_from(["", "c1", "c1_2", "functions.f:0", "i" * 500, "ü", "a b", "\ud800", "\0"]),
    st.text(CHARACTERS, max_size=5),
)
DEEP = '{"a":' * 90 + "1" + "}" * 90
ARGUMENTS = st.one_of(
    st.sampled_from(
        [
            *("", "{}", '{"city":"Delft"}', "[1]", '"x"', "null", "{", "NaN", '{"a":NaN}', DEEP),
            *(f'{{"a":{"9" * 400}}}', '{"a":-1e999}', '{"":"\\u0000"}'),
            '{"\\ud800":1,"\\ud801":2}',
            *('{"a":' * 2000, f'{{"a":{"9" * 5000}}}', '{"a":18446744073709551616}'),
        ]
    ),
    st.dictionaries(st.text(CHARACTERS, max_size=3), TEXTS, max_size=2).map(json.dumps),
)
CALLS = st.tuples(st.just("call"), IDS, NAMES, ARGUMENTS, TEXTS, st.booleans())
SAID = st.tuples(st.sampled_from(["message", "reasoning"]), TEXTS)
TURNS = st.lists(st.tuples(TEXTS, st.lists(st.one_of(CALLS, SAID), max_size=4)), max_size=3)


def read_response(parts: list[Any]) -> list[Entry]:
    """Return the entries of a response with these texts and calls, as they are recorded."""
    builder = ResponseBuilder()
    entries = list[Entry]()
    for index, part in enumerate(parts):
        events: list[ProviderEvent] = []
        match part:
            case ("call", id_, name, arguments, _, _):
                events.append(model_event("call_start", index, id_, name))
                events.append(model_event("call_arguments", index, arguments))
            case (kind, text):
                events.append(model_event("text", index, kind, text))
        events.append(model_event("flush", index))
        entries += [entry for entry in map(builder.feed, events) if entry is not None]
    is_answer = any(not is_reasoning(entry) for entry in entries)
    return entries if is_answer else [*entries, new_event("chat_response", message="Hm.")]


@pytest.mark.parametrize("dialect", DIALECTS)
@given(turns=TURNS)
def test_every_api_accepts_what_models_and_tools_wrote(dialect: str, turns: list[Any]) -> None:
    name, model, settings = DIALECTS[dialect]
    provider = create_provider(name, settings)
    assert isinstance(provider, HttpProvider)
    stream = ConversationStream.new(clock=utc_now, made="live")
    record = TurnRecord(stream, build_context(stream, [name]), name)
    earlier: list[tuple[str, bytes]] = []

    def check_request() -> None:
        nonlocal earlier
        sent = provider.preview(request_value("model_request", model, record.context, is_turn=True))
        check_body(sent)
        if dialect != "deepseek":  # it refuses reasoning of earlier turns
            assert list(sent.parts[: len(earlier)]) == earlier
        earlier = [*sent.parts]

    for text, parts in [("Begin.", []), *turns, ("End.", [])]:
        record.start_turn(new_event("chat_request", content=f"Q: {text}"))
        check_request()
        entries = read_response(parts)
        record.add(*entries)
        calls = [entry for entry in entries if is_kind(entry, "tool_call_request")]
        if not calls:
            continue
        results = [(part[4], part[5]) for part in parts if part[0] == "call"]
        for call, (content, is_error) in zip(calls, results, strict=True):
            record.add(
                new_event("tool_call_response", id=call.id, content=content, is_error=is_error)
            )
        check_request()
        record.add(new_event("chat_response", message="Done."))

    record.start_turn(new_event("chat_request", content="And now?"))
    check_request()
    raw: Any = json.loads(json.dumps(make_storable([*stream.raw]), sort_keys=True))
    again = ConversationStream(stream.head, clock=utc_now, raw=raw)
    thread = build_context(again, [name], in_turn=True)
    assert [*provider.preview(request_value("model_request", model, thread)).parts] == earlier


RULES = {
    "chat": CHAT_CALLS,
    "openai chat": OPENAI_CHAT_CALLS,
    "mistral": MISTRAL_CALLS,
    "responses": RESPONSES_CALLS,
    "anthropic": ANTHROPIC_CALLS,
    "google": GOOGLE_CALLS,
}


@pytest.mark.parametrize("api", RULES)
def test_accepted_names_and_ids_are_sent_unchanged(api: str) -> None:
    rules: Any = RULES[api]
    longest = "a" * rules.max_name_chars
    assert [rules.format_name(name) for name in ("weather", "a-b_C9", longest)] == [
        "weather", "a-b_C9", longest
    ]  # fmt: skip
    longest = "a" * rules.max_id_chars
    assert rules.format_id(longest, 1) == longest


@pytest.mark.parametrize("api", RULES)
def test_different_refused_names_stay_different(api: str) -> None:
    rules: Any = RULES[api]
    bad = ["a b", "a.b", "a/b", "ä", "ö", "", " ", "\0", "\ud800", "\ud801", "x" * 230, "x" * 231]
    sent = [rules.format_name(name) for name in bad]
    assert len({*sent}) == len(bad)
    assert all(len(name) <= rules.max_name_chars for name in sent)


def test_arguments_that_readers_refuse_are_sent_as_text() -> None:
    deep: Any = {"a": 1}
    for _ in range(80):
        deep = {"a": deep}
    assert format_arguments(deep) == {"json": json.dumps(deep, separators=(",", ":"))}
    huge = 10**400
    assert format_arguments({"n": [huge, -huge, 1, True]}) == {
        "n": [str(huge), str(-huge), 1, True]
    }
    assert format_arguments({"n": float("nan"), "\ud800": "\udfff"}) == {"n": None, "�": "�"}
