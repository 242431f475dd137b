from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.models import model_event
from tests.kit.providers import new_provider
from tests.kit.records import new_event
from tests.providers.helpers import (
    NEAR,
    TODAY,
    WEATHER,
    answer,
    ask,
    called,
    collect,
    collect_failure,
    list_sent_messages,
    make_context,
    preview_body,
    result,
    send_growing,
    text_of,
    thought,
    user,
)
from tests.support.loopback import LoopbackServer, Reply, ToolCall

SIGNED = {"anthropic_thinking_signature": "c2ln"}


def messages_of(context: Any) -> Any:
    return list_sent_messages("anthropic", context)


def use(id_: str, **arguments: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "weather", "input": arguments}


def test_tool_loop_becomes_messages() -> None:
    context = make_context(
        user("Weather in Delft and Brugge?"),
        thought("Two cities.", **SIGNED),
        thought("", anthropic_redacted_thinking="b3A="),
        answer("Looking."),
        called("toolu_1", city="Delft"),
        called("toolu_2", city="Brugge"),
        result("toolu_1", "sun"),
        result("toolu_2", "no such city", is_error=True),
        answer("Sun in Delft."),
    )
    assert messages_of(context) == [
        {"role": "user", "content": [{"type": "text", "text": "Weather in Delft and Brugge?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Two cities.", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "b3A="},
                {"type": "text", "text": "Looking."},
                use("toolu_1", city="Delft"),
                use("toolu_2", city="Brugge"),
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sun"},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": "no such city",
                    "is_error": True,
                },
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Sun in Delft."}]},
    ]  # fmt: skip


def test_empty_texts_are_omitted_and_their_neighbors_merged() -> None:
    context = make_context(user("a"), answer(" \n"), thought(""), user("b"), answer("c"), user(""))
    assert messages_of(context) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "c"}]},
    ]


def test_foreign_and_unsigned_reasoning_is_text() -> None:
    for provider, metadata in (("openai", SIGNED), ("anthropic", {})):
        context = make_context(user("a"), thought("Hm.\n", **metadata), provider=provider)
        (block,) = messages_of(context)[1]["content"]
        assert block == {"type": "text", "text": "<think>\nHm.\n</think>\n\n"}


def test_structured_data_is_its_json() -> None:
    context = make_context(user("a"), new_event("chat_response", data={"größe": 1}))
    assert messages_of(context)[1]["content"][0]["text"] == '{"größe": 1}'


def test_ids_are_valid_unique_and_stable() -> None:
    context = make_context(
        user("a"),
        called("call:1/x"),
        result("call:1/x", "one"),
        called("call:1/x"),
        called("y" * 90),
        result("call:1/x", "two"),
        result("y" * 90, "three"),
    )
    rendered = messages_of(context)
    asked = [b["id"] for m in rendered for b in m["content"] if b["type"] == "tool_use"]
    answered = [b["tool_use_id"] for m in rendered for b in m["content"] if "tool_use_id" in b]
    assert asked == answered
    assert len({*asked}) == 3
    assert all(len(id_) <= 64 and id_.replace("_", "").isalnum() for id_ in asked)
    assert messages_of(context) == rendered


def test_nth_result_of_an_id_belongs_to_its_nth_call() -> None:
    context = make_context(
        user("a"), called("c"), called("d"), called("c"), called("c_2"),
        result("c", "1"), result("d", "2"), result("c", "3"), result("c_2", "4"),
        result("c", "too many"), called("c"), result("c", "5"),
    )  # fmt: skip
    rendered = messages_of(context)
    asked = [b["id"] for m in rendered for b in m["content"] if b["type"] == "tool_use"]
    answers = [
        (block["tool_use_id"], block["content"])
        for message in rendered
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    assert asked == ["c", "d", "c_2", "c_2_2", "c_3"]
    assert answers == list(zip(asked, "12345", strict=True))


def test_results_precede_text_that_came_earlier() -> None:
    context = make_context(user("a"), called("c1"), user("Hurry!"), result("c1", "x"))
    assert [block["type"] for block in messages_of(context)[2]["content"]] == [
        "tool_result",
        "text",
    ]


def test_result_without_its_call_is_omitted() -> None:
    assert len(messages_of(make_context(user("a"), result("ghost", "boo"), answer("b")))) == 2


async def test_thread_rendered_in_steps_gives_the_same_bytes() -> None:
    entries = [
        user("a"), thought("t", **SIGNED), answer("b"), called("c1"), called("c2"),
        result("c1", "1"), result("c2", "2"), answer("c"), user("d"), user("e"), called("c1"),
        result("c1", "ü\ud83d"),
    ]  # fmt: skip
    await send_growing("anthropic", entries)


def test_head_is_stable_and_marks_three_places_for_the_cache() -> None:
    request = ask(system=("one", " ", "two"), tools=(WEATHER, TODAY))
    head = preview_body("anthropic", request)
    del head["messages"]
    assert json.dumps(head).count("cache_control") == 3
    assert head["system"][1] == {
        "type": "text", "text": "two", "cache_control": {"type": "ephemeral"},
    }  # fmt: skip
    assert "cache_control" not in head["system"][0]
    assert head["tools"][1]["cache_control"] == {"type": "ephemeral"}
    assert head["tools"][1]["input_schema"] == {"type": "object", "properties": {}}
    again = preview_body("anthropic", request)
    assert again.items() >= head.items()


def test_tool_choice(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, int, object]] = [
        ("auto", 2, {"type": "auto"}),
        ("none", 2, {"type": "none"}),
        ("required", 2, {"type": "any"}),
        ("tool:weather", 2, {"type": "tool", "name": "weather"}),
        ("tool:weather", 1, {"type": "any"}),
        ("required", 0, None),
    ]
    for choice, tools, sent in rows:
        with subtests.test(choice=choice, tools=tools):
            request = ask(tool_choice=choice, tools=(WEATHER, TODAY)[:tools])
            head = preview_body("anthropic", request)
            assert head.get("tool_choice") == sent


def test_reasoning(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, Any, object, str | None]] = [
        ("claude-opus-4-8", None, None, None),
        ("claude-opus-4-8", "off", {"type": "disabled"}, None),
        ("claude-opus-4-8", "auto", {"type": "adaptive", "display": "summarized"}, None),
        (
            "claude-opus-4-8",
            {"effort": "high", "exclude": True},
            {"type": "adaptive", "display": "omitted"},
            "high",
        ),
        ("claude-opus-4-8", 2000, {"type": "adaptive", "display": "summarized"}, "low"),
        (
            "claude-sonnet-4-5-20250929",
            "high",
            {"type": "enabled", "budget_tokens": 8000, "display": "summarized"},
            None,
        ),
        (
            "claude-3-7-sonnet-latest",
            {"effort": {"absolute": 99_000}},
            {"type": "enabled", "budget_tokens": 9_999, "display": "summarized"},
            None,
        ),
    ]
    for model, reasoning, thinking, effort in rows:
        with subtests.test(model=model, reasoning=reasoning):
            parameters = make("parameters", max_tokens=10_000, reasoning=reasoning)
            head = preview_body("anthropic", ask(model=model, parameters=parameters))
            assert head.get("thinking") == thinking
            assert head.get("output_config", {}).get("effort") == effort


def test_unknown_reasoning_level_is_an_error() -> None:
    with pytest.raises(jp.ProviderError, match=r"parameters\.reasoning: expected off, auto"):
        preview_body("anthropic", ask(parameters=make("parameters", reasoning="hard")))


def test_parameters_that_conflict_with_thinking_are_omitted() -> None:
    parameters = make(
        "parameters", reasoning="auto", temperature=0.5, top_k=4, top_p=0.9, stop_words=("END",)
    )
    request = ask(
        parameters=parameters, tools=(WEATHER,), tool_choice="tool:weather", system=("s",)
    )
    shown = new_provider("anthropic", NEAR).preview(request)
    head = json.loads(shown.body)
    assert not {"temperature", "top_k"} & head.keys()
    assert (head["top_p"], head["stop_sequences"]) == (0.9, ["END"])
    assert head["tool_choice"] == {"type": "auto"}
    hint = head["messages"][-1]["content"][-1]
    assert "`weather`" in hint["text"]
    assert "cache_control" not in hint
    assert "assistant.model.parameters.temperature: not allowed with reasoning" in (shown.omitted)


def test_models_without_sampling_settings_are_sent_none() -> None:
    parameters = make("parameters", temperature=0.5, top_p=0.9, top_k=4)
    for model in ("claude-opus-4-8", "claude-sonnet-5"):
        head = preview_body("anthropic", ask(model=model, parameters=parameters))
        assert not {"temperature", "top_p", "top_k"} & head.keys()

    older = preview_body("anthropic", ask(model="claude-sonnet-4-6", parameters=parameters))
    assert older["temperature"] == 0.5


async def test_structured_answer_and_text_before_a_call() -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"type": "integer", "minimum": 1}}
    call = ToolCall("weather", {"city": "Delft"})
    replies: list[Reply | str] = [
        Reply(text="Let me look.", tool_calls=(call,)),
        '{"value": [1, 2]}',
    ]
    with LoopbackServer(replies) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        first = await collect(provider, ask(schema=schema, tools=(WEATHER,)))
        second = await collect(provider, ask(schema=schema, tools=(WEATHER,)))
        await provider.aclose()
    assert (text_of(first), text_of(first, "structured")) == ("Let me look.", "")
    assert (text_of(second), text_of(second, "structured")) == ("", "[1, 2]")
    wrapped = {"type": "array", "items": {"type": "integer", "description": "{minimum: 1}"}}
    assert server.requests[0].body["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {"value": wrapped},
            "required": ["value"],
            "additionalProperties": False,
        },
    }


def test_schema_that_cannot_be_enforced_is_refused() -> None:
    provider = new_provider("anthropic", {"base_url": "http://127.0.0.1:1"})
    provider.check_schema({"type": "string"})
    with pytest.raises(
        jp.UsageError, match=r"^anthropic does not support this schema: \$: an object"
    ):
        provider.check_schema({"type": "object"})


async def test_each_request_of_a_turn_begins_with_the_bytes_of_the_last() -> None:
    call = Reply(reasoning="Hm.", text="Look:", tool_calls=(ToolCall("weather", {"city": "x"}),))
    with LoopbackServer(lambda _: call) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        context = make_context(user("Go."))
        for cycle in range(10):
            request = make("model_request", "m", context, system=("s",), tools=(WEATHER,))
            seen = await collect(provider, request)
            signature = next(e.metadata for e in seen if is_kind(e, "flush") and e.metadata)
            context.add(thought("Hm.", **signature), "anthropic")
            context.add(answer("Look:"), "anthropic")
            context.add(called(f"c{cycle}", city="x"), "anthropic")
            context.add(result(f"c{cycle}", "sun"), "anthropic")
        await provider.aclose()
        bodies = [request.raw[: request.raw.rindex(b"]")] for request in server.requests]
    assert all(later.startswith(earlier) for earlier, later in pairwise(bodies))


async def test_stale_signature_is_dropped_once() -> None:
    message = "messages.1: 127.0.0.1 says: Invalid `signature` in `thinking` block"
    stale = Reply(status=400, message=message)
    with LoopbackServer([stale, "Fine.", stale]) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        request = ask(user("a"), thought("Hm.", **SIGNED), answer("b"), user("c"))
        (retry,) = await collect(provider, request)
        assert is_kind(retry, "retry")
        assert retry.drop_metadata == "anthropic_thinking_signature"
        assert "[address] says" in retry.reason
        assert server.url.partition("://")[2] not in retry.reason
        assert text_of(await collect(provider, request)) == "Fine."
        seen, error = await collect_failure(provider, request)
        await provider.aclose()
        content = server.requests[1].body["messages"][1]["content"]
    assert (seen, error.status) == ([], 400)
    assert content[0] == {"type": "text", "text": "<think>\nHm.\n</think>\n\n"}


async def test_reasoning_signed_after_a_stale_signature_keeps_its_signature() -> None:
    with LoopbackServer([Reply(status=400, message="thinking signature"), "A.", "B."]) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        request = ask(user("a"), thought("old", **SIGNED), answer("b"), user("c"))
        await collect(provider, request)
        for entry in (thought("new", **SIGNED), answer("d"), user("e")):
            request.context.add(entry, "anthropic")
        await collect(provider, request)
        await provider.aclose()
        sent = server.requests[1].body["messages"]
    assert [m["content"][0]["type"] for m in sent] == ["text", "text", "text", "thinking", "text"]


def dump(request: Any) -> str:
    return repr([item.entry for item in request.context.items])


def signed(number: int) -> Any:
    return thought(f"t{number}", anthropic_thinking_signature=f"sig{number}")


@pytest.mark.req("PRE-6")
@pytest.mark.parametrize(
    ("place", "kept"),
    [
        ("messages.3.content.0", ["sig1"]),
        ("messages.5.content.0", ["sig1", "sig2"]),
        ("messages.4", ["sig1", "sig2"]),  # the next thinking is in message 5
        ("messages.1.content.0", []),
        ("messages.99.content.7", []),
        ("somewhere", []),
    ],
)
async def test_rejected_block_and_later_ones_lose_their_signatures(
    place: str, kept: list[str]
) -> None:
    message = f"{place}: Invalid `signature` in `thinking` block. The block is bound to a different"
    with LoopbackServer([Reply(status=400, message=message), "A.", "B."]) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        request = ask(
            user("a"),
            signed(1),
            answer("b"),
            user("c"),
            signed(2),
            answer("d"),
            user("e"),
            signed(3),
            answer("f"),
            user("g"),
            attachments=(make("attachment", "n.md", "text/plain", "N"),),
        )
        before = dump(request)[:-1]
        (retry,) = await collect(provider, request)
        assert is_kind(retry, "retry")
        await collect(provider, request)
        for entry in (signed(4), answer("h"), user("i")):
            request.context.add(entry, "anthropic")
        await collect(provider, request)
        await provider.aclose()
    sent = [re.findall(r'"signature":"(\w+)"', request.raw.decode()) for request in server.requests]
    assert sent == [["sig1", "sig2", "sig3"], kept, [*kept, "sig4"]]
    assert dump(request).startswith(before)


@pytest.mark.req("PRE-6")
async def test_second_rejection_of_a_request_drops_all_signatures() -> None:
    def stale(message: int) -> Reply:
        return Reply(status=400, message=f"messages.{message}.content.0: thinking signature")

    with LoopbackServer([stale(3), stale(1), "A."]) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        request = ask(
            user("a"), signed(1), answer("b"), user("c"), signed(2), answer("d"), user("e")
        )
        for _ in range(2):
            (retry,) = await collect(provider, request)
            assert is_kind(retry, "retry")
        assert text_of(await collect(provider, request)) == "A."
        await provider.aclose()
    assert [b"sig1" in request.raw for request in server.requests] == [True, True, False]


def read_transformations(request: Any) -> list[dict[str, str]]:
    """Return what a server reports about the signed blocks in the messages of `request`."""
    kinds = {"sig1": ("thinking_dropped", "prefix"), "sig2": ("thinking_mismatch_allowed", "model")}
    return [
        {
            "type": kinds[block["signature"]][0],
            "path": f"messages.{index}.content.{place}",
            "reason": f"{kinds[block['signature']][1]}_binding_mismatch",
        }
        for index, message in enumerate(request.body["messages"])
        for place, block in enumerate(message["content"])
        if block.get("signature") in kinds
    ]


def transformed(request: Any) -> Reply:
    """Return a response whose last event but one reports `read_transformations`."""
    start = {"type": "message_start", "message": {"id": "msg_1", "input_transformations": []}}
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "input_transformations": [{"type": "unknown"}, "x", *read_transformations(request)],
    }
    events = (start, end, {"type": "message_stop"})
    return Reply(raw=tuple(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events))


@pytest.mark.req("PRE-7")
async def test_reported_input_changes_name_the_signature() -> None:
    with LoopbackServer(transformed) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        request = ask(
            user("a"),
            signed(1),
            signed(2),
            answer("b"),
            user("c"),
            attachments=(make("attachment", "n.md", "text/plain", "N"),),
        )
        events = await collect(provider, request)
        plain = await collect(provider, ask())
        await provider.aclose()
    assert events == [
        model_event("input_change", "prefix", True, "sig1"),
        model_event("input_change", "model", False, "sig2"),
        model_event("finished"),
    ]
    assert plain == [model_event("finished")]


async def test_model_that_always_thinks_is_sent_no_disabled_thinking() -> None:
    refusal = Reply(status=400, message="thinking.type: disabled is not supported for this model")
    with LoopbackServer([refusal, "A.", "B.", refusal]) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        request = ask(parameters=make("parameters", reasoning="off", top_k=3))
        (retry,) = await collect(provider, request)
        assert is_kind(retry, "retry")
        assert retry.drop_metadata is None
        for text in ("A.", "B."):
            assert text_of(await collect(provider, request)) == text
        _, error = await collect_failure(provider, request)
        await provider.aclose()
    assert error.status == 400
    sent = [request.body for request in server.requests]
    assert [body.get("thinking") for body in sent[:2]] == [{"type": "disabled"}, None]
    assert [body.get("top_k") for body in sent[:2]] == [3, None]


async def test_cut_answer_is_followed_by_a_request_to_continue() -> None:
    with LoopbackServer([" world"]) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        await collect(provider, ask(user("a"), answer("Hello")))
        await provider.aclose()
        assert server.requests[0].body["messages"][-1]["role"] == "user"
        assert "Continue exactly" in server.requests[0].body["messages"][-1]["content"][0]["text"]


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        ([], []),
        ([answer("Hello")], [{"type": "text", "text": "Hello"}]),
        ([called("t1"), result("t1", "sun")], []),
    ],
)
async def test_thinking_without_an_answer_is_omitted(
    entries: list[Any], kept: list[dict[str, str]]
) -> None:
    """The API rejects a message that ends with thinking, in this turn and in later ones."""
    loose = [thought("Hm.", **SIGNED), thought("", anthropic_redacted_thinking="b3A=")]
    with LoopbackServer(["Well."] * 2) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        context = ask(user("a"), *entries, *loose).context
        await collect(provider, make("model_request", model="m", context=context))
        context.add(user("b"), "anthropic")
        await collect(provider, make("model_request", model="m", context=context))
        await provider.aclose()
    for request in server.requests:
        *before, last = request.body["messages"]
        assert last["role"] == "user"
        answers = [part for x in before if x["role"] == "assistant" for part in x["content"]]
        assert [part for part in answers if part["type"] != "tool_use"] == kept
