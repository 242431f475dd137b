"""Any stream of a server of Gemini ends in an answer or an error, and can be sent back."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.providers import new_provider
from tests.kit.streams import StreamReader
from tests.providers.helpers import make_context
from tests.support.loopback import Reply, ToolCall
from tests.support.loopback_google import generate_chunks, interaction_events

STEPS_KEY = "google_step"


Wire = dict[str, Any]

REPLY = Reply(
    reasoning="Hm.", text="Look.", delta_chars=9,
    tool_calls=(ToolCall("weather", {"city": "x"}), ToolCall("today")),
)  # fmt: skip
DIALECTS: dict[str, list[Wire]] = {
    "interactions": [*interaction_events(REPLY, "m", 1)],
    "generate": [*generate_chunks(REPLY, 1)],
}
PROVIDERS = {
    dialect: new_provider("google", {"base_url": "http://127.0.0.1:9", "dialect": dialect})
    for dialect in DIALECTS
}
STRANGE: tuple[Any, ...] = (None, True, -1, 10**400, 1.5, "", "x", [], ["x"], {"a": 1}, [[]])


def decode(
    messages: Sequence[Any], dialect: str = "interactions", *, limit: int = 0
) -> tuple[list[Any], jp.ProviderError | None]:
    """Return the entries of a response that arrives message by message, and its error."""
    response = StreamReader(dialect, max_response_bytes=limit).read(messages)
    entries = response.entries
    assert all(entry.model_dump_json() for entry in entries)
    for provider in PROVIDERS.values():
        context = make_context(*entries, provider="google")
        provider.preview(make("model_request", "m", context))
    return entries, response.error


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in `value`."""
    items = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        yield (*path, key)
        yield from places(item, (*path, key))


@pytest.mark.req("GEM-10", "GEM-20")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_field_of_any_type_ends_in_an_answer_or_an_error(dialect: str) -> None:
    messages = DIALECTS[dialect]
    kinds = set()
    for number, message in enumerate(messages):
        for *parents, last in places(message):
            for value in STRANGE:
                changed = holder = copy.deepcopy(message)
                for key in parents:
                    holder = holder[key]
                holder[last] = value
                _, error = decode([*messages[:number], changed, *messages[number + 1 :]], dialect)
                kinds.add(error and error.kind)
            del holder[last]
            decode([*messages[:number], changed, *messages[number + 1 :]], dialect)
    assert kinds == {None, "other", "transient"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_messages_in_any_order_end_in_an_answer_or_an_error(dialect: str) -> None:
    messages = DIALECTS[dialect]
    for number, message in enumerate(messages):
        decode([*messages[:number], *messages[number + 1 :]], dialect)
        for place in range(len(messages)):
            decode([*messages[:place], message, *messages[place:]], dialect)


def start(index: Any, **step: Any) -> Wire:
    return {"event_type": "step.start", "index": index, "step": step}


def text(index: Any, said: str) -> Wire:
    delta = {"type": "text", "text": said}
    return {"event_type": "step.delta", "index": index, "delta": delta}


CALL = {"type": "function_call", "id": "c", "name": "weather", "arguments": {"city": "x"}}
END = {"event_type": "interaction.completed", "interaction": {"id": "v1", "status": "completed"}}


def test_steps_that_do_not_stop_are_complete_at_the_end() -> None:
    output = {"type": "model_output", "later": 1}
    entries, error = decode([start(0, **output), text(0, "Hi."), start(1, **CALL), END])
    assert error is None
    said, call = entries
    assert is_kind(said, "chat_response")
    assert said.message == "Hi."
    assert said.metadata[STEPS_KEY] == {**output, "content": [{"type": "text", "text": "Hi."}]}
    assert is_kind(call, "tool_call_request")
    assert call.arguments == {"city": "x"}


def test_strange_indexes_name_their_steps() -> None:
    for index in (-1, 10**400, 1.5, "a", True):
        entries, error = decode([start(index, type="model_output"), text(index, "Hi."), END])
        assert error is None
        assert [entry.message for entry in entries if is_kind(entry, "chat_response")] == ["Hi."]
    _, error = decode([start(0, type="model_output"), text(1, "Hi."), END])
    assert "that its API does not document" in str(error)


def test_second_step_with_an_index_ends_the_first() -> None:
    twice = [start(0, type="model_output"), text(0, "One."), start(0, **CALL), start(0, **CALL)]
    entries, error = decode([*twice, END])
    assert error is None
    assert [entry.type for entry in entries] == [
        "chat_response", "tool_call_request", "tool_call_request",
    ]  # fmt: skip


def test_unknown_events_are_skipped() -> None:
    unknown: list[Any] = [{"event_type": f"later.{number}"} for number in range(100)]
    entries, error = decode([*unknown, start(0, type="model_output"), text(0, "Hi."), END])
    assert (len(entries), error) == (1, None)


MUCH = "x" * 30_000


@pytest.mark.parametrize(
    ("dialect", "messages"),
    [
        ("interactions", [start(0, **CALL, later=MUCH)]),
        ("interactions", [start(0, type="model_output", later=MUCH)]),
        ("interactions", [start(0, type="thought", later=[MUCH])]),
        ("interactions", [start(0, type="dream", depth=MUCH)]),
        ("interactions", [start(n, type="dream") for n in range(2000)]),
        ("interactions", [start(n, **{**CALL, "id": f"{n}"}) for n in range(2000)]),
        (
            "interactions",
            [
                start(0, type="thought"),
                {**text(0, ""), "delta": {"type": "thought_signature", "signature": MUCH}},
            ],
        ),
        (
            "interactions",
            [
                start(0, type="model_output"),
                {**text(0, ""), "delta": {"type": "image", "data": MUCH}},
            ],
        ),
        (
            "interactions",
            [
                start(0, type="model_output"),
                {**text(0, ""), "delta": {"type": "text_annotation_delta", "annotations": [MUCH]}},
            ],
        ),
        (
            "generate",
            [{"candidates": [{"content": {"parts": [{"functionCall": {"name": MUCH}}]}}]}],
        ),
        (
            "generate",
            [
                {"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": MUCH}]}}]},
                {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]},
            ],
        ),
    ],
)
def test_everything_that_is_kept_counts_toward_the_limit(
    dialect: str, messages: list[Wire]
) -> None:
    _, error = decode(messages, dialect, limit=20_000)
    assert error is not None
    assert error.kind == "output_limit"


def test_annotations_may_precede_their_text() -> None:
    delta = {"type": "text_annotation_delta", "annotations": [{"type": "url_citation"}]}
    annotated = {"event_type": "step.delta", "index": 0, "delta": delta}
    entries, error = decode([start(0, type="model_output"), annotated, text(0, "Hi."), END])
    assert error is None
    step: Any = entries[0].metadata[STEPS_KEY]
    assert step["content"] == [{"type": "text", "text": "Hi.", "annotations": delta["annotations"]}]
