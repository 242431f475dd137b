from __future__ import annotations

import json
import re
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.models import model_event
from tests.kit.providers import new_provider
from tests.providers.helpers import (
    CHAT_PROVIDERS,
    NEAR,
    TODAY,
    WEATHER,
    answer,
    ask,
    called,
    collect,
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

REASONING_DETAILS_KEY = "openrouter_reasoning_details"


SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["ok"],
}


def messages_of(context: Any, provider: str = "openai") -> Any:
    return list_sent_messages(provider, context)


def head_of(provider: str, **fields: Any) -> Any:
    """Return the members of a request body except the messages."""
    body = preview_body(provider, ask(**fields))
    del body["messages"]
    return body


def list_system_messages(provider: str, **fields: Any) -> list[Any]:
    messages = preview_body(provider, ask(**fields))["messages"]
    return [message for message in messages if message["role"] == "system"]


def test_tool_loop_becomes_messages() -> None:
    context = make_context(
        user("Weather?"),
        answer("Looking."),
        called("c1", city="Delft"),
        called("c2", city="Brügge"),
        result("c1", "sun"),
        result("c2", ""),
        answer("Sun."),
        provider="openai",
    )

    def call(id_: str, city: str) -> dict[str, Any]:
        function = {"name": "weather", "arguments": f'{{"city": "{city}"}}'}
        return {"id": id_, "type": "function", "function": function}

    assert messages_of(context) == [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [call("c1", "Delft"), call("c2", "Brügge")],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sun"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "assistant", "content": "Sun."},
    ]


def test_own_reasoning_is_sent_in_the_field_of_the_server(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str | None]] = [
        ("llamacpp", "reasoning_content"),
        ("openrouter", "reasoning"),
        ("cerebras", "reasoning"),
        ("ollama", "reasoning"),
        ("deepseek", "reasoning_content"),
        ("openai", None),
    ]
    for profile, field in rows:
        with subtests.test(profile=profile, field=field):
            entries = (user("a"), thought("Hm."), answer("b"))
            own = messages_of(make_context(*entries, provider=profile), profile)[1]
            foreign = messages_of(make_context(*entries, provider="anthropic"), profile)[1]
            as_text = {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nb"}
            assert foreign == as_text
            assert own == (
                as_text if field is None else {"role": "assistant", "content": "b", field: "Hm."}
            )


def test_deepseek_is_sent_reasoning_of_the_current_turn_alone() -> None:
    entries = (user("a"), thought("Hm."), called("c1"), result("c1", "x"))
    now = messages_of(make_context(*entries, provider="deepseek"), "deepseek")
    assert "Hm." in json.dumps(now)

    longer = (*entries, answer("b"), user("c"))
    later = messages_of(make_context(*longer, provider="deepseek"), "deepseek")
    assert "Hm." not in json.dumps(later)


def test_answer_of_reasoning_alone_is_omitted(subtests: pytest.Subtests) -> None:
    """Servers reject a message without text and calls, in this turn and in later ones."""
    for name in ("cerebras", "deepseek", "groq", "llamacpp", "ollama", "openrouter"):
        with subtests.test(name=name):
            context = make_context(
                user("a"), called("c1"), result("c1", "x"), thought("Hm."), provider=name
            )
            for _ in range(2):
                sent = messages_of(context, name)
                assert all(message["content"] or message.get("tool_calls") for message in sent)
                assert [message["role"] for message in sent[:3]] == ["user", "assistant", "tool"]
                context.add(user("b"), name)
            assert sent[3:] == [{"role": "user", "content": "b"}]


def test_openrouter_is_sent_its_reasoning_details_unchanged() -> None:
    details = [{"type": "reasoning.encrypted", "data": "b3A=", "index": 0}]
    context = make_context(
        user("a"),
        thought("", **{REASONING_DETAILS_KEY: details}),
        called("c1"),
        provider="openrouter",
    )
    assert messages_of(context, "openrouter")[1]["reasoning_details"] == details


@pytest.mark.parametrize("name", CHAT_PROVIDERS)
async def test_thread_rendered_in_steps_gives_the_same_bytes(name: str) -> None:
    entries = [
        user("a"), thought("t"), answer("b"), called("c1"), user("wait"), called("c2"),
        result("c1", "1"), result("c2", "2"), answer("c"), user("d"), thought("u"), answer("e"),
    ]  # fmt: skip
    await send_growing(name, entries)


def test_results_follow_their_calls() -> None:
    context = make_context(
        user("a"), called("c1"), called("c2"), user("!"), result("c2", "x"), result("c1", "y")
    )
    roles = [message["role"] for message in messages_of(context)]
    assert roles == ["user", "assistant", "tool", "tool", "user"]


def test_long_ids_are_shortened_in_call_and_result_for_openai() -> None:
    id_ = "chatcmpl-tool-" + "f" * 40
    context = make_context(user("a"), called(id_), result(id_, "x"))
    _, assistant, tool = messages_of(context)
    assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"]
    assert len(tool["tool_call_id"]) <= 40
    assert messages_of(context, "llamacpp")[2]["tool_call_id"] == id_


@pytest.mark.parametrize(
    ("profile", "id_"), [("openai", "f" * 40), ("openai", "f" * 50), ("ollama", "c")]
)
def test_repeated_id_is_sent_as_another_one(profile: str, id_: str) -> None:
    context = make_context(
        user("a"), called(id_), called("d"), called(id_), result(id_, "1"), result("d", "2"),
        result(id_, "3"), result(id_, "too many"), called(id_), result(id_, "4"),
        provider=profile,
    )  # fmt: skip
    rendered = messages_of(context, profile)
    asked = [call["id"] for m in rendered for call in m.get("tool_calls", ())]
    answers = [(m["tool_call_id"], m["content"]) for m in rendered if m["role"] == "tool"]
    assert len(set(asked)) == 4
    assert answers == list(zip(asked, "1234", strict=True))
    if profile == "openai":
        assert all(len(id_) <= 40 for id_ in asked)


def test_system_texts_are_one_message() -> None:
    (message,) = list_system_messages("llamacpp", system=("one", "", "two"))
    assert message == {"role": "system", "content": "one\n\ntwo"}
    assert list_system_messages("openai") == []


def test_openrouter_marks_the_cache_for_models_that_want_it() -> None:
    for model in ("anthropic/claude-x", "google/gemini-x"):
        (message,) = list_system_messages("openrouter", model=model, system=("one", "two"))
        assert message["content"][-1]["cache_control"] == {"type": "ephemeral"}


def test_tool_choice(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, int, object]] = [
        ("openai", "tool:weather", 2, {"type": "function", "function": {"name": "weather"}}),
        ("openai", "none", 2, "none"),
        ("llamacpp", "tool:weather", 1, "required"),
        ("llamacpp", "none", 2, "none"),
        ("ollama", "tool:today", 1, "required"),
        ("ollama", "none", 0, None),
        ("ollama", "auto", 2, "auto"),
    ]
    for profile, choice, tools, sent in rows:
        with subtests.test(profile=profile, choice=choice):
            head = head_of(profile, tools=(WEATHER, TODAY), tool_choice=choice)
            assert len(head.get("tools", ())) == tools
            assert head.get("tool_choice") == sent


def test_reasoning(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, Any, dict[str, Any]]] = [
        ("openai", "off", {}),
        ("openai", "max", {"reasoning_effort": "xhigh"}),
        ("openai", {"effort": "xlow"}, {"reasoning_effort": "minimal"}),
        ("cerebras", "auto", {"reasoning_format": "parsed"}),  # `auto` leaves it to the model
        ("cerebras", {"effort": "auto"}, {"reasoning_format": "parsed"}),
        (
            "llamacpp",
            "off",
            {"reasoning_format": "deepseek", "chat_template_kwargs": {"enable_thinking": False}},
        ),
        ("ollama", "off", {"reasoning_effort": "none"}),
        ("openrouter", 2048, {"reasoning": {"max_tokens": 2048}}),
        (
            "openrouter",
            {"effort": "auto", "exclude": True},
            {"reasoning": {"enabled": True, "exclude": True}},
        ),
        ("deepseek", "high", {"thinking": {"type": "enabled"}}),
        ("openai", None, {}),
    ]
    for profile, reasoning, sent in rows:
        with subtests.test(profile=profile):
            plain = head_of(profile)
            head = head_of(profile, parameters=make("parameters", reasoning=reasoning))
            got = {key: value for key, value in head.items() if key not in plain}
            assert got == sent


def test_sampling_in_each_dialect() -> None:
    parameters = make(
        "parameters",
        max_tokens=9,
        temperature=0.0,
        top_p=0.5,
        top_k=3,
        stop_words=("X",),
        other={"seed": 1, "q": 2},
    )
    openai = head_of("openai", parameters=parameters)
    assert openai["max_completion_tokens"] == 9
    assert openai["stream_options"] == {"include_usage": True}
    assert (openai["temperature"], openai["stop"], openai["seed"]) == (0.0, ["X"], 1)
    assert not {"top_k", "q", "max_tokens"} & openai.keys()
    shown = new_provider("openai", NEAR).preview(ask(parameters=parameters))
    omitted = [line.partition(":")[0] for line in shown.omitted]
    assert sorted(omitted) == [f"assistant.model.parameters.{name}" for name in ("q", "top_k")]
    llamacpp = head_of("llamacpp", parameters=parameters)
    assert (llamacpp["max_tokens"], llamacpp["top_k"]) == (9, 3)
    assert "stream_options" not in head_of("cerebras")


def test_structured_answers_in_each_dialect() -> None:
    openai = head_of("openai", schema=SCHEMA)["response_format"]["json_schema"]
    assert openai["strict"] is True
    assert openai["schema"]["required"] == ["ok", "why"]
    assert openai["schema"]["properties"]["why"] == {"type": ["string", "null"]}
    assert head_of("llamacpp", schema=SCHEMA)["response_format"]["json_schema"]["schema"] == SCHEMA
    assert head_of("openrouter", schema=SCHEMA)["provider"] == {"require_parameters": True}
    assert head_of("deepseek", schema=SCHEMA)["response_format"] == {"type": "json_object"}
    (prompt,) = list_system_messages("deepseek", schema=SCHEMA)
    assert "JSON" in prompt["content"]
    assert '"ok"' in prompt["content"]


async def test_structured_answer_is_restored_to_the_schema_of_the_user() -> None:
    with LoopbackServer(
        [Reply(text='{"ok": true, "why": null}'), Reply(text='{"value": [1]}')]
    ) as s:
        provider = new_provider("openai", {"base_url": s.url})
        seen = await collect(provider, ask(schema=SCHEMA))
        assert text_of(seen, "structured") == '{"ok": true}'
        seen = await collect(provider, ask(schema={"type": "array", "items": {"type": "integer"}}))
        assert text_of(seen, "structured") == "[1]"
        await provider.aclose()


async def test_json_mode_describes_a_wrapped_list_in_words() -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
    with LoopbackServer([Reply(text='{"value": [1]}')]) as server:
        provider = new_provider("deepseek", {"base_url": server.url})
        seen = await collect(provider, ask(schema=schema))
        await provider.aclose()
    assert text_of(seen, "structured") == "[1]"
    prompt = server.requests[0].body["messages"][-1]
    assert prompt["role"] == "system"
    assert json.loads(prompt["content"].partition("\n")[2])["properties"] == {"value": schema}


def test_broken_schema_is_refused_and_a_lax_one_is_not() -> None:
    provider = new_provider("openai", {"base_url": "http://127.0.0.1:1"})
    provider.check_schema({"type": "object", "patternProperties": {"x": {"type": "string"}}})
    provider.check_schema({"type": "array", "items": {"$ref": "#"}})
    with pytest.raises(jp.UsageError, match="points outside of this schema"):
        provider.check_schema({"$ref": "https://example.org/a"})


def list_profiles() -> list[str]:
    """Return the profiles of named servers, as the error about another one lists them."""
    with pytest.raises(jp.ConfigError, match="Input should be") as caught:
        new_provider("s", NEAR | {"profile": "unknown"}, is_server=True)
    names: list[str] = re.findall(r"'(\w+)'", str(caught.value).partition("Input should be")[2])
    assert {*CHAT_PROVIDERS} < {*names}
    return names


async def test_every_profile_sends_valid_requests(subtests: pytest.Subtests) -> None:
    for name in list_profiles():
        with subtests.test(name=name):
            call = ToolCall("weather", {"city": "Delft"})
            reply = Reply(reasoning="Hm.", text="Look:", tool_calls=(call, call), interleave=True)
            with LoopbackServer([reply]) as server:
                if name in CHAT_PROVIDERS:
                    provider = new_provider(name, {"base_url": server.url})
                else:
                    settings = {"base_url": server.url, "profile": name}
                    provider = new_provider(name, settings, is_server=True)
                request = ask(
                    user("a"),
                    thought("t"),
                    answer("b"),
                    called("c1"),
                    result("c1", "x"),
                    user("c"),
                    provider=name,
                    tools=(WEATHER,),
                    system=("s",),
                    parameters=make(
                        "parameters", reasoning="high", max_tokens=100, temperature=0.1
                    ),
                )
                seen = await collect(provider, request)
                await provider.aclose()
            assert (text_of(seen, "reasoning"), text_of(seen)) == ("Hm.", "Look:")
            calls = [event for event in seen if is_kind(event, "call_start")]
            for call_start in calls:
                fragments = [
                    event.text
                    for event in seen
                    if is_kind(event, "call_arguments") and event.index == call_start.index
                ]
                assert json.loads("".join(fragments)) == {"city": "Delft"}
            assert len(calls) == 2
            assert seen[-1] == model_event("finished")


async def test_call_without_an_id_gets_one_derived_from_the_request() -> None:
    made = []
    with LoopbackServer([Reply(tool_calls=(ToolCall("weather", id=""),))] * 3) as server:
        provider = new_provider("llamacpp", {"base_url": server.url})
        for text in ("a", "a", "b"):
            seen = await collect(provider, ask(user(text), tools=(WEATHER,)))
            made += [event.id for event in seen if is_kind(event, "call_start")]
        await provider.aclose()
    assert made[0] == made[1] != made[2]
