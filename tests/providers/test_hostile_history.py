"""Whatever a model or a tool wrote, every API accepts the requests that repeat it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb import storable_json
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.stream import ConversationStream
from tests.kit.kinds import make, select_kind
from tests.kit.models import model_event, record_response
from tests.kit.providers import new_provider
from tests.kit.records import new_event
from tests.providers.helpers import DIALECTS, called, list_sent_messages, make_context, result, user
from tests.support.strict_bodies import check_body

CHARACTERS = st.characters(exclude_categories=())  # with surrogates, NUL, and other controls
TEXTS = st.one_of(
    st.sampled_from(["", " ", "\n\t", "\0", "a\0b", "\\u0000", "\ud800", "\udc00\ud800", "ok"]),
    st.text(CHARACTERS, max_size=8),
)
NAMES = st.one_of(
    st.sampled_from(
        [
            "weather",
            "forecast<|channel|>commentary",
            "functions.weather",
            "x" * 230,
            "",
            " ",
            "\n",
            "wetter_größe",
            "a\0b",
            "\ud800",
            "\udfff",
            "9lives",
            "-x",
            "a/../b",
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
            "",
            "{}",
            '{"city":"Delft"}',
            "[1]",
            '"x"',
            "null",
            "{",
            "NaN",
            '{"a":NaN}',
            DEEP,
            f'{{"a":{"9" * 400}}}',
            '{"a":-1e999}',
            '{"":"\\u0000"}',
            '{"\\ud800":1,"\\ud801":2}',
            '{"a":' * 2000,
            f'{{"a":{"9" * 5000}}}',
            '{"a":18446744073709551616}',
        ]
    ),
    st.dictionaries(st.text(CHARACTERS, max_size=3), TEXTS, max_size=2).map(json.dumps),
)
CALLS = st.tuples(st.just("call"), IDS, NAMES, ARGUMENTS, TEXTS, st.booleans())
SAID = st.tuples(st.sampled_from(["message", "reasoning"]), TEXTS)
TURNS = st.lists(st.tuples(TEXTS, st.lists(st.one_of(CALLS, SAID), max_size=4)), max_size=3)


def make_response(parts: list[Any]) -> list[Any]:
    """Return the events of a response with these texts and calls."""
    events: list[Any] = []
    for index, part in enumerate(parts):
        match part:
            case ("call", id_, name, arguments, _, _):
                events.append(model_event("call_start", index, id_, name))
                events.append(model_event("call_arguments", index, arguments))
            case (kind, text):
                events.append(model_event("text", index, kind, text))
        events.append(model_event("flush", index))

    is_answer = any(
        part[0] == "call" or (part[0] == "message" and part[1].strip()) for part in parts
    )
    if not is_answer:
        events.append(model_event("text", len(parts), "message", "Hm."))
        events.append(model_event("flush", len(parts)))
    return events


@pytest.mark.parametrize("dialect", DIALECTS)
@given(turns=TURNS)
def test_every_api_accepts_what_models_and_tools_wrote(dialect: str, turns: list[Any]) -> None:
    name, model, settings = DIALECTS[dialect]
    provider = new_provider(name, settings)
    stream = ConversationStream.new(clock=utc_now, made="live")
    record = TurnRecord(stream, build_context(stream, [name]), name)
    earlier: list[tuple[str, bytes]] = []

    def check_request() -> Any:
        nonlocal earlier
        request = make("model_request", model, record.context, is_turn=True)
        sent = provider.preview(request)
        check_body(sent)
        if dialect != "deepseek":  # it refuses reasoning of earlier turns
            assert list(sent.parts[: len(earlier)]) == earlier
        earlier = [*sent.parts]
        return request

    for text, parts in [("Begin.", []), *turns, ("End.", [])]:
        record.start_turn(new_event("chat_request", content=f"Q: {text}"))
        request = check_request()
        entries = record_response(request, name, make_response(parts), record=record)
        calls = select_kind(entries, "tool_call_request")
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
    raw: Any = json.loads(json.dumps(storable_json.make_storable([*stream.raw]), sort_keys=True))
    again = ConversationStream(stream.properties, clock=utc_now, raw=raw)
    thread = build_context(again, [name], in_turn=True)
    assert [*provider.preview(make("model_request", model, thread)).parts] == earlier


APIS: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "chat": ("llamacpp", {}, 64, 64),
    "openai chat": ("openai", {"dialect": "chat"}, 64, 40),
    "mistral": ("mistral", {}, 64, 9),
    "responses": ("openai", {"dialect": "responses"}, 64, 64),
    "anthropic": ("anthropic", {}, 128, 64),
    "google": ("google", {"dialect": "interactions"}, 64, 128),
    "google generate": ("google", {"dialect": "generate"}, 64, 128),
}
"""Provider and settings of each API, with the longest name and id of a call that it accepts."""


def send_calls(api: str, calls: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return ids and names of `calls` as a request has them."""
    provider, settings, _, _ = APIS[api]
    entries = [user("Go.")]
    for id_, name in calls:
        entries += [called(id_, name), result(id_, "done")]

    context = make_context(*entries, provider=provider)
    messages = list_sent_messages(provider, context, **settings)
    return [*_find_calls(messages)]


def _find_calls(value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case {"id": id_, "function": {"name": name}}:
            yield id_, name
        case {"type": "function_call", "call_id": id_, "name": name}:
            yield id_, name
        case {"type": "function_call" | "tool_use", "id": id_, "name": name}:
            yield id_, name
        case {"functionCall": {"id": id_, "name": name}}:
            yield id_, name
        case dict():
            for item in value.values():
                yield from _find_calls(item)
        case list():
            for item in value:
                yield from _find_calls(item)


@pytest.mark.parametrize("api", APIS)
def test_accepted_names_and_ids_are_sent_unchanged(api: str) -> None:
    _, _, max_name_chars, max_id_chars = APIS[api]
    calls = [
        ("a" * max_id_chars, "weather"),
        ("b" * max_id_chars, "a-b_C9"),
        ("c" * max_id_chars, "a" * max_name_chars),
    ]
    assert send_calls(api, calls) == calls


@pytest.mark.parametrize("api", APIS)
def test_different_refused_names_stay_different(api: str) -> None:
    bad = ["a b", "a.b", "a/b", "ä", "ö", "", " ", "\0", "\ud800", "\ud801", "x" * 230, "x" * 231]
    sent = [name for _, name in send_calls(api, [(f"c{n}", name) for n, name in enumerate(bad)])]
    assert len(sent) == len({*sent}) == len(bad)
    assert all(len(name) <= APIS[api][2] for name in sent)


def send_arguments(arguments: dict[str, Any]) -> Any:
    """Return the arguments of a call in a request."""
    call = new_event("tool_call_request", id="c", name="f", arguments=arguments)
    context = make_context(user("Go."), call, result("c", "done"))
    messages = list_sent_messages("anthropic", context)
    return messages[1]["content"][0]["input"]


def test_arguments_that_readers_refuse_are_sent_as_text() -> None:
    deep: Any = {"a": 1}
    for _ in range(80):
        deep = {"a": deep}
    assert send_arguments(deep) == {"json": json.dumps(deep, separators=(",", ":"))}

    huge = 10**400
    assert send_arguments({"n": [huge, -huge, 1, True]}) == {"n": [str(huge), str(-huge), 1, True]}
    assert send_arguments({"n": float("nan"), "\ud800": "\udfff"}) == {"n": None, "�": "�"}
