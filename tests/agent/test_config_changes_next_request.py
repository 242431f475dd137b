"""The requests of a turn after a tool changed the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.proposers import (
    APPLY,
    NAMED,
    SURE,
    TO_GPT,
    UNATTENDED,
    Proposer,
    count_resolves,
    make_bench,
    responses,
)
from tests.agent.turn_bench import DONE, MockInquiryBackend, call, reply, say
from tests.kit.models import EventProvider
from tests.kit.records import new_event
from tests.support.fakes import FakePrompter, for_tool


@pytest.mark.req("R078-125", "R078-126", "R078-127", "R078-128", "R078-129")
async def test_next_request_is_sent_to_the_new_model() -> None:
    other = EventProvider(reply(call("again", "c1")), reply(say("Hello.")))
    tool = Proposer(jp.Success("Switched.", config=TO_GPT))
    again = Proposer(jp.Success("Fine."), name="again")
    bench = make_bench(
        tool, again, person=FakePrompter(APPLY), models={"openai/gpt-x": other},
        scripts=[reply(call("change", "c0"))],
    )  # fmt: skip
    await bench.run()
    assert len(bench.provider.requests) == 1
    assert [request.model for request, _ in other.requests] == ["gpt-x", "gpt-x"]
    _, thread = other.requests[0]
    assert [entry.type for entry in thread][-1] == "tool_call_response"
    assert len(bench.of("turn_start")) == len(bench.of("chat_request")) == 1
    assert bench.kinds().count("config_delta") == 1
    assert bench.turn.text == "Hello."


@pytest.mark.req("R078-127")
async def test_next_request_has_the_new_tools_and_instructions() -> None:
    config = {
        "assistant": {"system_prompt": "Be brief."},
        "conversation": {"tools": {"other": {"enable": False}}},
    }
    tools = {"path": "conversation.tools.*.enable", "write": True, "apply": "unattended"}
    prompt = {"path": "assistant.system_prompt", "write": True, "apply": "unattended"}
    bench = make_bench(
        Proposer(jp.Success("Set.", config=config)),
        Proposer(jp.Success("."), name="other"),
        rule=tools,
        config=for_tool("change", access={"config": [prompt]}),
        scripts=[reply(call("change", "c0")), DONE],
    )
    await bench.run()
    first, second = (request for request, _ in bench.provider.requests)
    assert {"change", "other"} <= {tool.name for tool in first.tools}
    assert "other" not in {tool.name for tool in second.tools}
    assert "change" in {tool.name for tool in second.tools}
    assert second.system != first.system
    assert "Be brief." in " ".join(second.system)


@pytest.mark.req("R078-127")
async def test_tool_choice_is_forced_again_only_if_it_changed() -> None:
    """A choice that is forced in each request would never let the turn end."""
    choices = [(None, "auto"), ("none", "none"), ("required", "auto"), ("change", "change")]
    for choice, second in choices:
        config: Any = {"assistant": {"name": "Bo", "tool_choice": choice}}
        bench = make_bench(
            Proposer(jp.Success("Set.", config=config)),
            rule=UNATTENDED,
            config={"assistant": {"tool_choice": "required"}},
        )
        await bench.run()
        sent = [request.tool_choice for request, _ in bench.provider.requests]
        assert sent == ["required", second]


async def test_unattended_change_without_effect_is_recorded() -> None:
    bench = make_bench(
        Proposer(jp.Success("Set.", config={"assistant": {"name": "Ada"}})), rule=UNATTENDED
    )
    resolved = count_resolves(bench)
    await bench.run()
    assert bench.of("config_delta")[0].delta == {"assistant": {"name": "Ada"}}
    assert len(resolved) == 2


@pytest.mark.req("R078-130", "R078-131", "R078-132")
async def test_configuration_that_does_not_resolve_ends_the_turn() -> None:
    locked = {"conversation": {"tools": {"change": {"enable": {"state": False,
              "allow_toggle": "never"}}}}, "assistant": {"tool_choice": "change"}}  # fmt: skip
    enable = {"path": "conversation.tools.*.enable", "write": True, "apply": "unattended"}
    bench = make_bench(
        Proposer(jp.Success("Locked.", config=locked)),
        rule=UNATTENDED,
        config=for_tool("change", access={"config": [enable]}),
    )
    with pytest.raises(jp.ConfigError) as caught:
        await bench.run()
    assert caught.value.path == "assistant.tool_choice"
    assert "a tool changed the configuration in this turn" in str(caught.value)
    assert [entry.type for entry in bench.entries][-2:] == ["tool_call_response", "config_delta"]
    with pytest.raises(jp.ConfigError):
        bench.app_config()
    bench.stream.append(new_event("config_delta", delta={"assistant": {"tool_choice": "auto"}}))
    assert bench.app_config().assistant.tool_choice == "auto"


@pytest.mark.req("R078-130")
@pytest.mark.parametrize(
    ("config", "status", "path"),
    [
        (TO_GPT, 404, "assistant.model.id.name"),
        (TO_GPT, None, "assistant.model.id.provider"),
        ({"assistant": {"model": {"id": {"name": "gpt-x"}}}}, None, "assistant.model.id.name"),
        (NAMED, 404, None),
    ],
    ids=["no such model", "no key", "the name alone", "something else"],
)
async def test_error_of_an_unusable_model_names_the_change(
    config: Any, status: int | None, path: str | None
) -> None:
    gone = [jp.ProviderError("It cannot be used.", status=status)]
    other = EventProvider(gone)
    bench = make_bench(
        Proposer(jp.Success("Set.", config=config)),
        rule=UNATTENDED,
        models={"openai/gpt-x": other},
        scripts=[reply(call("change", "c0")), gone],
    )
    with pytest.raises(jp.ProviderError) as caught:
        await bench.run()
    assert caught.value.status == status
    said = str(caught.value)
    if path is None:
        assert said == "It cannot be used."
    else:
        assert said.startswith(
            f"It cannot be used; a tool changed {path} in this turn. The change "
        )
    assert len(bench.of("config_delta")) == 1


class NoSchemas(EventProvider):
    """A provider without structured responses."""

    def check_schema(self, schema: Mapping[str, Any]) -> None:
        raise jp.UsageError("no structured answers here")


async def test_model_without_structured_answers_cannot_be_chosen() -> None:
    bench = make_bench(
        Proposer(jp.Success("Set.", config=TO_GPT)),
        rule=UNATTENDED,
        models={"openai/gpt-x": NoSchemas()},
    )
    request = new_event("chat_request", content="Go.", schema={"type": "object"})
    with pytest.raises(
        jp.ConfigError, match="no structured answers here; a tool changed"
    ) as caught:
        await bench.loop.run(request)
    assert caught.value.path == "assistant.model.id"
    assert bench.kinds()[-1] == "config_delta"


async def test_later_errors_do_not_name_the_change() -> None:
    gone = [jp.ProviderError("It cannot be used.", status=404)]
    other = EventProvider(reply(call("again", "c1")), gone)
    bench = make_bench(
        Proposer(jp.Success("Set.", config=TO_GPT)),
        Proposer(jp.Success("Fine."), name="again"),
        rule=UNATTENDED,
        models={"openai/gpt-x": other},
        scripts=[reply(call("change", "c0"))],
    )
    with pytest.raises(jp.ProviderError, match=r"It cannot be used\.$"):
        await bench.run()


async def test_error_of_an_unreachable_server_names_the_change() -> None:
    down = [jp.ProviderError("no route", kind="connect")]
    server: Any = {"providers": {"llm": {"openai": {"base_url": "http://127.0.0.1:1"}}}}
    rule = {"path": "providers.llm", "write": True, "apply": "unattended"}
    bench = make_bench(
        Proposer(jp.Success("Set.", config=server)),
        person=FakePrompter(APPLY),
        rule=rule,
        request={"max_retries": 1},
        scripts=[reply(call("change", "c0")), down, down],
    )
    with pytest.raises(
        jp.ProviderError, match=r"no route\. It was tried 2 times; a tool changed providers\.llm"
    ) as got:
        await bench.run()
    assert got.value.kind == "connect"


@pytest.mark.req("R078-60", "R078-52")
async def test_model_name_alone_keeps_the_provider_of_an_alias() -> None:
    other = EventProvider(reply(say("Hello.")))
    config: dict[str, Any] = {
        "assistant": {"model": {"id": "fast"}},
        "providers": {"llm": {"aliases": {"fast": "openai/gpt-o"}}},
    }
    bench = make_bench(
        Proposer(jp.Success("Set.", config={"assistant": {"model": {"id": {"name": "gpt-x"}}}})),
        person=FakePrompter(APPLY),
        rule={"path": "assistant.model.id.name", "write": True},
        config=config,
        models={"openai/gpt-x": other},
        scripts=[reply(call("change", "c0"))],
    )
    await bench.run()
    [ends] = bench.shown_of("change_ends")
    assert [str(line) for line in ends.changes] == [
        'assistant.model.id: "openai/gpt-o" → "openai/gpt-x"'
    ]
    assert len(other.requests) == 1
    assert bench.of("config_delta")[0].claims == {"assistant.model.id.name": None}


@pytest.mark.req("R078-127")
async def test_questions_are_sent_to_the_model_of_their_cycle() -> None:
    async def ask(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.Success("Asked.") if ctx.answers else jp.NeedsInput(SURE)

    backends = [MockInquiryBackend({"c0.sure.1": True}), MockInquiryBackend({"c2.sure.1": True})]
    asks = Proposer(ask, ask, ask, ask, name="asks")
    bench = make_bench(
        asks,
        Proposer(jp.Success("Bo.", config=NAMED)),
        rule=UNATTENDED,
        config=for_tool("asks", questions={"sure": {"target": "assistant"}}),
        scripts=[
            reply(call("asks", "c0"), call("change", "c1", index=2)),
            reply(call("asks", "c2")),
            DONE,
        ],
    )
    resolve = bench.loop.resolve
    left = list(backends)

    async def with_the_next_backend() -> Any:
        return replace(await resolve(), inquiry=left.pop(0))

    bench.loop.resolve = with_the_next_backend
    await bench.run()
    assert [len(backend.asked) for backend in backends] == [1, 1]
    assert set(responses(bench).values()) == {"Asked.", "Bo."}


@pytest.mark.req("R078-138")
async def test_reloaded_record_gives_the_same_request_context() -> None:
    models = {
        "anthropic/opus": EventProvider(reply(say("First."), call("change", "c0"))),
        "openai/gpt-x": EventProvider(reply(say("Second."))),
    }
    tool = Proposer(jp.Success("Switched.", config=TO_GPT))
    bench = make_bench(tool, rule=UNATTENDED, models=models)
    await bench.run()
    stream = bench.reload()
    again = bench.rebuild_context()
    assert again.items == bench.context.items
    assert {item.provider for item in again.items} == {"anthropic", "openai"}
    assert not stream.repair()
    assert [delta.to_raw() for delta in stream.deltas] == [d.to_raw() for d in bench.stream.deltas]
