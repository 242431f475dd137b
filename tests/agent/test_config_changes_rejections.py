"""Rejected configuration changes: the tool runs again, and the user reads why."""

from __future__ import annotations

import json
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.proposers import (
    APPLY,
    NAMED,
    REJECT,
    SURE,
    Proposer,
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
from tests.kit.kinds import make
from tests.support.fakes import FakePrompter, for_tool, yes

EXHAUSTED = "⚠ Tool '{}' exceeded delta retry limit. Aborting tool call."
REJECTED_BY_USER = "Config delta rejected. Tool re-invoked."


BOGUS = jp.Success("Bogus.", config={"assistant": {"model": {"id": {"provider": "bogus"}}}})
FORBIDDEN = jp.Success("Hidden.", config={"style": {"tool_call": {"show": False}}})


@pytest.mark.req("R078-79", "R078-83", "R078-84", "R078-88")
async def test_tool_reads_the_reason_of_each_rejection() -> None:
    tool = Proposer(BOGUS, FORBIDDEN, jp.Success("Bo.", config=NAMED), jp.Success("It stays."))
    bench = make_bench(tool, person=FakePrompter(REJECT))
    await bench.run()
    told = tool.rejections
    assert told[0] is None
    assert [r.reason for r in told[1:] if r] == [
        "invalid_config",
        "unauthorized_paths",
        "user_rejected",
    ]
    assert [r.fields for r in told[1:] if r] == [
        ("assistant.model.id.provider",),
        ("style.tool_call.show",),
        ("assistant.name",),
    ]
    assert told[1] is not None
    assert told[1].detail.startswith("unknown variant 'bogus': expected")
    assert responses(bench) == {"c0": "It stays."}


@pytest.mark.req("R078-85", "R078-86")
async def test_run_after_a_rejection_keeps_its_answers() -> None:
    """Also the answer to a question that is never remembered: the user is asked once."""

    async def propose(ctx: jp.ToolContext) -> jp.Outcome:
        if "sure" not in ctx.answers:
            return jp.NeedsInput(SURE)
        return jp.Success("Bo.", config=NAMED)

    tool = Proposer(propose)
    config = for_tool("change", options={"depth": 2})
    bench = make_bench(
        tool, person=FakePrompter(yes(), REJECT, REJECT, APPLY), config=config,
        scripts=[reply(call("change", "c0", text='{"n": 7}')), DONE],
    )  # fmt: skip
    await bench.run()
    assert [dict(ctx.answers) for ctx in tool.told] == [{}, *[{"sure": True}] * 3]
    assert {json.dumps(dict(ctx.options)) for ctx in tool.told} == {'{"depth": 2}'}
    assert len({ctx.call_id for ctx in tool.told}) == 1
    assert len(bench.of("inquiry_request")) == 1
    assert len(bench.of("config_delta")) == 1


async def test_rejection_is_passed_to_the_tool_until_the_call_ends() -> None:
    """Also after a question in between; an error ends the call as usual."""

    async def step(ctx: jp.ToolContext) -> jp.Outcome:
        if ctx.delta_rejection is None:
            return BOGUS
        return make("failure", "I give up.") if ctx.answers else jp.NeedsInput(SURE)

    tool = Proposer(step)
    bench = make_bench(tool, person=FakePrompter(yes()))
    await bench.run()
    assert [r and r.reason for r in tool.rejections] == [None, "invalid_config", "invalid_config"]
    assert responses(bench) == {"c0": "I give up."}


@pytest.mark.req("R078-90", "R078-92", "R078-93", "R078-94", "R078-96", "R078-135")
async def test_fourth_rejection_ends_the_call() -> None:
    tool = Proposer(BOGUS)
    bench = make_bench(tool)
    await bench.run()
    assert len(tool.told) == 4
    [response] = bench.of("tool_call_response")
    assert response.is_error
    assert response.content == (
        "Tool 'change' failed to produce a valid config delta after 3 attempts.\n"
        "Last error: unknown variant 'bogus' at assistant.model.id.provider."
    )
    assert bench.kinds() == [
        "turn_start",
        "chat_request",
        "tool_call_request",
        "tool_call_response",
        "chat_response",
    ]
    assert notices(bench)[3:] == ["⚠ Tool 'change' exceeded delta retry limit. Aborting tool call."]
    assert len(notices(bench)) == 4


@pytest.mark.req("R078-89", "R078-92")
async def test_fourth_proposal_may_still_be_applied() -> None:
    tool = Proposer(BOGUS, BOGUS, BOGUS, jp.Success("Bo.", config=NAMED))
    bench = make_bench(tool, person=FakePrompter(APPLY))
    await bench.run()
    assert responses(bench) == {"c0": "Bo."}
    assert len(bench.of("config_delta")) == 1
    assert bench.app_config().assistant.name == "Bo"


@pytest.mark.req("R078-91")
async def test_rejections_of_all_kinds_are_counted_together() -> None:
    async def asks(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.NeedsInput(SURE)

    tool = Proposer(BOGUS, asks, FORBIDDEN, jp.Success("Bo.", config=NAMED), BOGUS)
    bench = make_bench(tool, person=FakePrompter(yes(), REJECT))
    await bench.run()
    assert len(tool.told) == 5  # four proposals, and one run that asked
    assert notices(bench)[-1] == EXHAUSTED.format("change")


LAST_ERRORS: list[tuple[jp.Success, list[Any], str]] = [
    (jp.Success("Bo.", config=NAMED), [REJECT] * 4, "declined by the user at assistant.name."),
    (FORBIDDEN, [], "not permitted at style.tool_call.show."),
    (
        jp.Success("x", config={"assistant": {"nam": 1, "nome": 2}}),
        [],
        "unknown field at assistant.nam, assistant.nome.",
    ),
]


async def test_model_reads_the_last_rejection_in_short() -> None:
    for last, ends, error in LAST_ERRORS:
        bench = make_bench(Proposer(last), person=FakePrompter(*ends))
        await bench.run()
        [response] = bench.of("tool_call_response")
        assert response.content.endswith(f"\nLast error: {error}")


@pytest.mark.parametrize("result", ["ask", "skip"])
async def test_final_rejection_is_delivered_in_every_result_mode(result: str) -> None:
    bench = make_bench(Proposer(BOGUS), config=for_tool("change", result=result))
    await bench.run()
    assert responses(bench)["c0"].startswith("Tool 'change' failed to produce")


async def test_permission_is_asked_once_for_all_runs_of_a_call() -> None:
    person = FakePrompter(yes("run"))
    await make_bench(
        Proposer(BOGUS, jp.Success("No.")), person=person, config=for_tool("change", run="ask")
    ).run()
    assert len(person.asked) == 1


@pytest.mark.req("R078-106", "R078-133")
@pytest.mark.parametrize(
    ("proposed", "lines"),
    [
        (
            BOGUS,
            "an invalid config change:\n"
            '  assistant.model.id.provider = "bogus" (not a valid provider)',
        ),
        (
            FORBIDDEN,
            "a config change beyond its access rules:\n  style.tool_call.show = "
            "false (not granted)",
        ),
    ],
    ids=["invalid", "not granted"],
)
async def test_refused_change_is_shown_to_the_user_without_a_prompt(
    proposed: jp.Success, lines: str
) -> None:
    person = FakePrompter()
    bench = make_bench(Proposer(proposed, jp.Success("No.")), person=person)
    await bench.run()
    told = f"⚠ Tool 'change' proposed {lines}\nChange not applied, tool re-invoked."
    assert notices(bench) == [told]
    assert person.asked == []


@pytest.mark.req("R078-134")
async def test_change_that_the_user_rejects_is_shown() -> None:
    bench = make_bench(
        Proposer(jp.Success("Bo.", config=NAMED), jp.Success("No.")), person=FakePrompter(REJECT)
    )
    await bench.run()
    assert notices(bench) == [REJECTED_BY_USER] == ["Config delta rejected. Tool re-invoked."]
    [ends] = bench.shown_of("change_ends")
    assert (ends.applied, ends.by, ends.channel) == (False, "person", "form")


async def test_change_by_a_hidden_tool_is_shown() -> None:
    person = FakePrompter(APPLY)
    bench = make_bench(
        Proposer(jp.Success("Bo.", config=NAMED)),
        person=person,
        config=for_tool("change", style={"hidden": True}),
    )
    await bench.run()
    assert "change" in shown_texts(person)[0]
    assert bench.shown_of("change_ends")
