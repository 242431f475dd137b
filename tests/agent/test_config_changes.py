"""Configuration changes that tools propose: review, approval, rejection, record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.proposers import (
    APPLY,
    NAMED,
    REJECT,
    SURE,
    TO_GPT,
    UNATTENDED,
    Proposer,
    count_resolves,
    make_bench,
    notices,
    responses,
    shown_texts,
)
from tests.agent.turn_bench import (
    DONE,
    call,
    reply,
)
from tests.kit.kinds import is_kind, kind_of
from tests.kit.questions import not_answered
from tests.support.fakes import FakePrompter, for_tool, until, yes

EXHAUSTED = "⚠ Tool '{}' exceeded delta retry limit. Aborting tool call."
NOT_APPLIED = "Change not applied, tool re-invoked."


@pytest.mark.req("R078-30", "R078-32", "R078-46", "R078-56", "R078-59", "R078-75", "R078-77")
async def test_approved_change_is_one_entry_of_the_record() -> None:
    change = jp.Success("Changed.", config=TO_GPT, unset=["assistant.name"])
    person = FakePrompter(APPLY)
    bench = make_bench(Proposer(change), person=person)
    await bench.run()
    [delta] = bench.of("config_delta")
    assert delta.delta == {"assistant": {"model": {"id": {"provider": "openai", "name": "gpt-x"}}}}
    assert delta.unsets == ("assistant.name",)
    leaves = ("assistant.model.id.provider", "assistant.model.id.name", "assistant.name")
    assert delta.claims == dict.fromkeys(leaves)
    assert delta.metadata["proposed_by"] == [
        {
            "tool": "change",
            "call_id": "c0",
            "paths": list(leaves),
            "applied_by": "person",
            "channel": "form",
        }
    ]
    [prompt] = person.asked
    assert is_kind(prompt, "decision_prompt")
    assert bench.shown_of("change_ends")[0].applied
    config = bench.app_config()
    assert str(config.assistant.model.id) == "openai/gpt-x"
    assert config.assistant.model.parameters.temperature == 0.5


async def test_record_and_cell_name_the_collaborator_who_decided() -> None:
    tool = Proposer(jp.Success("Changed.", config=NAMED))
    bench = make_bench(tool, person=FakePrompter(replace(APPLY, by="Bo")))
    await bench.run()
    [delta] = bench.of("config_delta")
    [proposed] = delta.metadata["proposed_by"]
    assert proposed["by"] == "Bo"
    assert "(proposed by change, applied by Bo (form))" in bench.render_log()
    assert bench.shown_of("change_ends")[0].person == "Bo"
    ada = [replace(REJECT, by="Ada")] * 9
    bench = make_bench(tool, person=FakePrompter(*ada))
    await bench.run()
    shown = bench.shown_of("change_ends")[0]
    assert (shown.applied, shown.person) == (False, "Ada")


@pytest.mark.req("R078-31", "R078-48", "R078-82", "R078-129", "R078-136")
async def test_change_is_not_sent_to_the_model() -> None:
    bench = make_bench(Proposer(jp.Success("Changed.", config=NAMED)), person=FakePrompter(APPLY))
    await bench.run()
    [response] = bench.of("tool_call_response")
    raw = response.to_raw()
    raw.pop("timestamp")
    assert raw == {
        "type": "tool_call_response",
        "id": "c0",
        "content": "Changed.",
        "is_error": False,
    }
    _, thread = bench.provider.requests[1]
    assert [entry.type for entry in thread] == [
        "chat_request",
        "tool_call_request",
        "tool_call_response",
    ]


@pytest.mark.req("R078-77", "R078-95")
async def test_rejected_change_and_its_content_leave_no_trace() -> None:
    tool = Proposer(jp.Success("It is Bo now.", config=NAMED), jp.Success("It stays."))
    bench = make_bench(tool, person=FakePrompter(REJECT))
    await bench.run()
    assert responses(bench) == {"c0": "It stays."}
    assert not bench.of("config_delta")
    assert bench.app_config().assistant.name == "Ada"
    assert "It is Bo now." not in json.dumps(bench.to_json())


@pytest.mark.req("R078-49", "R078-116")
async def test_empty_proposal_changes_and_resolves_nothing() -> None:
    empty: list[Any] = [None, {}, {"assistant": {"name": None}}]
    for config in empty:
        bench = make_bench(Proposer(jp.Success("Fine.", config=config)))
        resolved = count_resolves(bench)
        await bench.run()
        assert responses(bench) == {"c0": "Fine."}
        assert not bench.of("config_delta")
        assert len(resolved) == 1, config


@pytest.mark.req("R078-81")
@pytest.mark.parametrize("away", [None, "this notebook runs headless"], ids=["there", "away"])
async def test_unattended_change_is_applied_with_and_without_a_user(away: str | None) -> None:
    bench = make_bench(
        Proposer(jp.Success("Changed.", config=NAMED)),
        person=FakePrompter(away=away),
        rule=UNATTENDED,
    )
    await bench.run()
    assert bench.app_config().assistant.name == "Bo"
    [ends] = bench.shown_of("change_ends")
    assert (ends.applied, ends.by, ends.channel) == (True, "grant", None)
    [by] = bench.of("config_delta")[0].metadata["proposed_by"]
    assert by["applied_by"] == "grant"
    assert "channel" not in by


@pytest.mark.req("R078-78", "R078-80", "R078-79")
async def test_change_to_confirm_is_rejected_without_a_user() -> None:
    tool = Proposer(jp.Success("Bo it is.", config=NAMED), jp.Success("It stays Ada."))
    person = FakePrompter(away="this notebook runs headless")
    bench = make_bench(tool, person=person)
    await bench.run()
    assert person.asked == []
    assert responses(bench) == {"c0": "It stays Ada."}
    assert not bench.of("config_delta")
    rejection = tool.rejections[1]
    assert rejection is not None
    assert (rejection.reason, rejection.fields) == ("confirmation_unavailable", ("assistant.name",))
    assert "this notebook runs headless" in rejection.detail
    [ends] = bench.shown_of("change_ends")
    assert (ends.applied, ends.by, ends.reason) == (False, "nobody", "this notebook runs headless")
    assert notices(bench) == [NOT_APPLIED]


async def test_tool_that_repeats_its_proposal_without_a_user_is_stopped() -> None:
    bench = make_bench(
        Proposer(jp.Success("Bo.", config=NAMED)), person=FakePrompter(away="headless")
    )
    await bench.run()
    assert len(bench.shown_of("change_ends")) == 3
    assert notices(bench) == [NOT_APPLIED] * 3 + [EXHAUSTED.format("change")]


async def test_strict_turn_ends_when_no_user_can_confirm() -> None:
    tool = Proposer(jp.Success("Bo.", config=NAMED), jp.Success("It stays."))
    bench = make_bench(tool, person=FakePrompter(away="headless"), strict=True)
    with pytest.raises(jp.PromptUnavailable, match="a decision needs a user"):
        await bench.run()
    assert responses(bench) == {"c0": "It stays."}


async def test_form_that_times_out_confirms_nothing() -> None:
    timed_out = not_answered("timed_out", "form")
    tool = Proposer(jp.Success("Bo.", config=NAMED), jp.Success("It stays."))
    bench = make_bench(tool, person=FakePrompter(timed_out))
    await bench.run()
    rejection = tool.rejections[1]
    assert rejection is not None
    assert rejection.reason == "confirmation_unavailable"
    assert not bench.of("config_delta")


@pytest.mark.req("R078-12", "R078-39", "R078-40")
async def test_tool_sees_its_grants_and_the_settings_that_it_may_read() -> None:
    tool = Proposer(jp.Success("Seen."))
    person = FakePrompter()
    bench = make_bench(tool, person=person, rule={"path": "assistant.model", "read": True})
    await bench.run()
    assert person.asked == []
    [ctx] = tool.told
    assert ctx.config == {
        "assistant": {
            "model": {
                "id": {"provider": "anthropic", "name": "opus"},
                "parameters": {"temperature": 0.5},
            }
        }
    }
    assert ctx.access["config"] == [  # type: ignore[index,call-overload]
        {"path": "assistant.model", "read": True, "write": False, "delete": False, "apply": "ask"}
    ]


@pytest.mark.req("R078-8", "R078-41", "R078-10")
async def test_right_to_change_does_not_include_reading() -> None:
    for capability in ("write", "delete"):
        tool = Proposer(jp.Success("Blind."))
        await make_bench(tool, rule={"path": "assistant", capability: True}).run()
        assert tool.told[0].config == {}


@pytest.mark.req("R078-7", "R078-42")
async def test_tool_without_grants_sees_and_changes_nothing() -> None:
    tool = Proposer(jp.Success("Bo.", config=NAMED), jp.Success("It stays."))
    bench = make_bench(tool, rule=None)
    await bench.run()
    assert [ctx.config for ctx in tool.told] == [None, None]
    rejection = tool.rejections[1]
    assert rejection is not None
    assert rejection.reason == "unauthorized_paths"
    assert responses(bench) == {"c0": "It stays."}


@pytest.mark.req("R078-109", "R078-87", "R078-110")
async def test_runs_of_a_batch_see_the_configuration_as_it_began() -> None:
    def name(ctx: jp.ToolContext) -> Any:
        return ctx.config["assistant"]["name"]  # type: ignore[index,call-overload]

    first = Proposer(jp.Success("Bo.", config=NAMED), jp.Success("Seen."), name="first")

    async def late(_: jp.ToolContext) -> jp.Success:
        await until(lambda: bench.shown_of("change_ends"))
        return jp.Success("Cy.", config={"assistant": {"name": "Cy"}})

    second = Proposer(late, jp.Success("Not then."), name="second")
    scripts = [
        reply(call("first", "c0"), call("second", "c1", index=2)),
        reply(call("first", "c2")),
        DONE,
    ]
    bench = make_bench(first, second, person=FakePrompter(APPLY, REJECT), scripts=scripts)
    await bench.run()
    assert [name(ctx) for ctx in second.told] == ["Ada", "Ada"]
    assert [name(ctx) for ctx in first.told] == ["Ada", "Bo"]


async def test_tool_that_modifies_its_context_changes_nothing() -> None:
    async def spoil(ctx: jp.ToolContext) -> jp.Success:
        ctx.config["assistant"]["name"] = "Eve"  # type: ignore[index,call-overload]
        ctx.options["deep"]["n"] = 2  # type: ignore[index,call-overload]
        ctx.access["config"].clear()  # type: ignore[index,call-overload,union-attr]
        return jp.Success("Bo.", config=NAMED)

    tool = Proposer(spoil, jp.Success("It stays."))
    options = for_tool("change", options={"deep": {"n": 1}})
    await make_bench(tool, person=FakePrompter(REJECT), config=options).run()
    assert tool.told[1].config["assistant"]["name"] == "Ada"  # type: ignore[index,call-overload]
    assert tool.told[1].options == {"deep": {"n": 1}}
    assert tool.told[1].access["config"]  # type: ignore[index,call-overload]


@pytest.mark.req("R078-13")
async def test_permission_to_run_and_approval_of_the_change_are_separate() -> None:
    person = FakePrompter(yes("run"), APPLY)
    bench = make_bench(
        Proposer(jp.Success("Bo.", config=NAMED)),
        person=person,
        config=for_tool("change", run="ask"),
    )
    await bench.run()
    assert shown_texts(person)[0] == "Run the tool `change`?"
    assert len(person.asked) == 2
    person = FakePrompter(yes("run"))
    bench = make_bench(
        Proposer(jp.Success("Bo.", config=NAMED)),
        person=person,
        config=for_tool("change", run="ask"),
        rule=UNATTENDED,
    )
    await bench.run()
    assert len(person.asked) == 1
    assert bench.app_config().assistant.name == "Bo"


@pytest.mark.req("R078-34", "R078-98", "R078-104", "R078-100", "R078-102")
async def test_change_is_decided_before_the_result() -> None:
    person = FakePrompter(REJECT, APPLY, yes("deliver"))
    bench = make_bench(
        Proposer(jp.Success("Bo.", config=NAMED)),
        person=person,
        config=for_tool("change", result="ask"),
    )
    await bench.run()
    texts = shown_texts(person)
    assert [("delta" in text, "Deliver" in text) for text in texts] == [
        (True, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.req("R078-99", "R078-101")
@pytest.mark.parametrize(
    ("result", "ends", "content"),
    [
        ("skip", [], "Result delivery skipped by configuration."),
        ("ask", [yes("edit"), yes("Edited.")], "Edited."),
    ],
    ids=["skip", "edited"],
)
async def test_change_is_applied_whether_or_not_the_result_is_delivered(
    result: str, ends: list[Any], content: str
) -> None:
    bench = make_bench(
        Proposer(jp.Success("Bo.", config=NAMED)),
        person=FakePrompter(APPLY, *ends),
        config=for_tool("change", result=result),
    )
    await bench.run()
    assert responses(bench) == {"c0": content}
    assert bench.app_config().assistant.name == "Bo"


@pytest.mark.req("R078-103", "R078-105")
async def test_prompts_appear_in_the_order_of_their_requests() -> None:
    """The change of the first tool waits for both questions, which came up before it."""
    gate = asyncio.Event()

    async def ask(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.Success("Asked.") if ctx.answers else jp.NeedsInput(SURE)

    async def change(_: jp.ToolContext) -> jp.Success:
        await gate.wait()
        return jp.Success("Bo.", config=NAMED)

    async def open_gate() -> Any:
        gate.set()
        for _ in range(20):
            await asyncio.sleep(0)
        return yes()

    first = Proposer(change, name="first")
    others = [Proposer(ask, name=name) for name in ("second", "third")]
    person = FakePrompter(open_gate, yes(), APPLY)
    bench = make_bench(first, *others, person=person)
    await bench.run()
    assert [kind_of(each) for each in person.asked] == [
        "question_prompt",
        "question_prompt",
        "decision_prompt",
    ]
    assert person.most_at_once == 1
    assert list(responses(bench)) == ["c0", "c1", "c2"]


@pytest.mark.req("R078-47", "R078-108")
async def test_approved_change_is_recorded_when_the_batch_ends() -> None:
    seen: list[bool] = []

    async def slow(_: jp.ToolContext) -> jp.Success:
        await until(lambda: bench.shown_of("change_ends"))
        stored = json.dumps(bench.to_json())
        seen.append("Bo" in stored or "config_delta" in stored)
        return jp.Success("Slow.")

    bench = make_bench(
        Proposer(jp.Success("Done.", config=NAMED), name="first"),
        Proposer(slow, name="second"),
        person=FakePrompter(APPLY),
    )
    await bench.run()
    assert seen == [False]
    kinds = bench.kinds()
    assert kinds[kinds.index("config_delta") - 2 :] == [
        "tool_call_response",
        "tool_call_response",
        "config_delta",
        "chat_response",
    ]


@pytest.mark.req("R078-111", "R078-112", "R078-113", "R078-114", "R078-115", "R078-107")
async def test_changes_of_a_batch_are_merged_in_call_order() -> None:
    """The worked example of the specification; the calls end in the opposite order."""
    done: list[str] = []

    def after(name: str, *others: str) -> Callable[[jp.ToolContext], Any]:
        outcomes = {
            "a": jp.Success("A", config={"assistant": {"name": "A"}}),
            "b": jp.Success("B", config={"style": {"tool_call": {"show": False}}},
                         unset=["assistant.name"]),
            "c": jp.Success("C", config={"assistant": {"name": "C"}}),
        }  # fmt: skip

        async def run(_: jp.ToolContext) -> jp.Success:
            await until(lambda: set(others) <= set(done))
            done.append(name)
            return outcomes[name]

        return run

    style = {"path": "style", "write": True, "apply": "unattended"}
    bench = make_bench(
        Proposer(after("a", "b", "c"), name="a"),
        Proposer(after("b", "c"), name="b"),
        Proposer(after("c"), name="c"),
        rule=UNATTENDED,
        config=for_tool("b", access={"config": [style]}),
    )
    await bench.run()
    assert done == ["c", "b", "a"]
    [delta] = bench.of("config_delta")
    assert delta.delta == {"assistant": {"name": "C"}, "style": {"tool_call": {"show": False}}}
    assert delta.unsets == ()
    assert delta.claims == {"assistant.name": None, "style.tool_call.show": None}
    assert [by["tool"] for by in delta.metadata["proposed_by"]] == ["a", "b", "c"]


@pytest.mark.parametrize("away", [None, "headless"], ids=["user", "no user"])
async def test_proposal_of_current_values_needs_no_prompt(away: str | None) -> None:
    tool = Proposer(jp.Success("Fine.", config={"assistant": {"name": "Ada"}}))
    bench = make_bench(tool, person=FakePrompter(away=away))
    await bench.run()
    assert responses(bench) == {"c0": "Fine."}
    assert tool.rejections == [None]
    assert not bench.of("config_delta")
    assert notices(bench) == ["⟳ change proposed settings that are already set. Nothing to apply."]


async def test_applied_change_wins_over_a_proposal_of_current_values() -> None:
    new = Proposer(jp.Success("Bo.", config=NAMED), name="new")
    same = Proposer(jp.Success("Ada.", config={"assistant": {"name": "Ada"}}), name="same")
    bench = make_bench(same, new, person=FakePrompter(APPLY))
    await bench.run()
    assert bench.app_config().assistant.name == "Bo"
    assert set(responses(bench).values()) == {"Bo.", "Ada."}
