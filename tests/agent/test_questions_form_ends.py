"""Ends of a form in whole turns: answers, reply, stop, deadlines, interrupts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.agent.calls.call_response import describe_stopped_call
from jp_nb.agent.interrupts import USER_STOPPED_VERDICT
from tests.agent.ask_turns import (
    DATABASE,
    NAME,
    PARTS,
    answers_config,
    ask_call,
    ends,
    make_bench,
    responses,
    structured_result,
)
from tests.agent.turn_bench import call
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered, not_answered
from tests.kit.screens import display_event
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, forever, until, yes

CLOSED_BY_INTERRUPT = "The tool's question was not answered: an interrupt closed it."
STOPPED_FIRST = "the user stopped the turn first"
LEFT_RUNNING = "The user stopped the turn before it finished. Its effects up to then may remain."
LEFT_UNRUN = "It did not run: the user stopped the turn first."
STOPPED_BY_USER = "The user stopped the turn and cancelled the questions."
UNDELIVERED = "The tool ran. Its result is not delivered: {}."


LEFT_OPEN = not_answered("declined", "form")


LATE = not_answered("timed_out", "form")


OUT = not_answered("cancelled", "form")


@pytest.mark.req("RPI-34", "RPI-61", "HB-1", "HB-4")
async def test_question_left_open_is_declined() -> None:
    person = FakePrompter(make("form_end", (LEFT_OPEN, yes([]), LEFT_OPEN)))
    bench = make_bench(person, ask_call(DATABASE, PARTS, NAME))
    await bench.run()
    assert responses(bench) == [
        (
            "User answers:\n"
            "database: not answered (the user left it open on purpose)\n"
            "parts: [] (none of these)\n"
            "name: not answered (the user left it open on purpose)",
            False,
        )
    ]
    assert [end for *_, end in ends(bench)] == ["declined", "answered", "declined"]


@pytest.mark.req("RPI-62", "HB-12")
async def test_reply_is_sent_with_the_answers_so_far() -> None:
    person = FakePrompter(make("form_end", (yes("pg"), OUT), "reply", "What is a part?"))
    bench = make_bench(person, ask_call(DATABASE, PARTS))
    assert (await bench.run()).status == "completed"
    assert responses(bench) == [
        (
            "The user did not send the form, but replied to you: What is a part?\n"
            "User answers so far:\n"
            "database: PostgreSQL (value: pg)\n"
            "parts: cancelled (the user replied instead)",
            False,
        )
    ]
    assert ends(bench) == [
        ("call_1.database.1", "answered", None, "answered"),
        ("call_1.parts.1", "cancelled", "user", "cancelled"),
    ]
    assert structured_result(bench)["reply"] == "What is a part?"
    assert bench.shown_of("user_message") == [display_event("user_message", "What is a part?")]
    assert bench.turn.text == "Done."


STOP = make("form_end", (OUT, OUT), "stop")


@pytest.mark.req("RPI-39", "RPI-62", "RPI-76", "HB-12")
@pytest.mark.parametrize("end", [STOP, make("form_end", (yes("pg"), OUT), "stop"), OUT])
async def test_stop_ends_the_turn_and_drops_unsent_answers(end: Any) -> None:
    bench = make_bench(FakePrompter(end), ask_call(DATABASE, PARTS))
    assert (await bench.run()).status == "stopped"
    assert responses(bench) == [(STOPPED_BY_USER, True)]
    assert ends(bench) == [
        (f"call_1.{name}.1", "cancelled", "user", "cancelled") for name in ("database", "parts")
    ]
    assert [e.metadata["channel"] for e in bench.of("inquiry_response")] == ["form", "form"]
    assert len(bench.provider.requests) == 1
    assert [event for event in bench.passing if is_kind(event, "interrupt_received")] == []


async def test_stop_keeps_answers_from_before_the_form() -> None:
    person = FakePrompter(make("form_end", (OUT,), "stop"))
    bench = make_bench(person, ask_call(PARTS, DATABASE), config=answers_config(parts=["Page"]))
    assert (await bench.run()).status == "stopped"
    assert ends(bench) == [
        ("call_1.parts.1", "answered", None, "answered"),
        ("call_1.database.1", "cancelled", "user", "cancelled"),
    ]


class Slow:
    """A tool that runs until it is canceled."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.cut = False

        async def dig() -> str:
            self.running.set()
            try:
                await forever()
            finally:
                self.cut = True
            return ""

        self.tools = [new_tool(dig)]


@pytest.mark.req("RPI-76", "RPI-77", "HB-11", "HB-12")
async def test_stop_closes_the_other_calls_of_the_batch() -> None:
    slow = Slow()

    async def stop() -> Any:
        await slow.running.wait()
        return STOP

    person = FakePrompter(stop)
    bench = make_bench(
        person,
        ask_call(DATABASE, PARTS, call_id="c1", index=1),
        call("dig", "c2", index=2),
        ask_call(NAME, call_id="c3", index=3),
        tools=slow.tools,
    )
    async with asyncio.timeout(10):
        assert (await bench.run()).status == "stopped"
    assert slow.cut
    assert [(each.id, each.content) for each in bench.of("tool_call_response")] == [
        ("c1", STOPPED_BY_USER),
        ("c2", LEFT_RUNNING),
        ("c3", LEFT_RUNNING),
    ]
    asked = {entry.id for entry in bench.of("inquiry_request")}
    assert [(key, end) for key, _, _, end in ends(bench)] == [
        (key, "cancelled") for key in ("c1.database.1", "c1.parts.1", "c3.name.1")
    ]
    assert asked == {key for key, *_ in ends(bench)}
    assert {x.id for x in bench.of("tool_call_request")} == {"c1", "c2", "c3"}
    assert "interrupt" not in "".join(each.content for each in bench.of("tool_call_response"))
    assert len(person.asked) == 1


@pytest.mark.req("HB-12")
async def test_stop_reports_finished_calls_as_undelivered() -> None:
    async def stop() -> Any:
        await until(lambda: any(text.startswith("your decision on") for text in bench.waits()))
        return make("form_end", (OUT,), "stop")

    bench = make_bench(
        FakePrompter(stop),
        ask_call(DATABASE, call_id="c1"),
        call("dig", "c2", index=2),
        tools=[new_tool(lambda: "dug", name="dig")],
        config=for_tool("dig", result="ask"),
    )
    assert (await bench.run()).status == "stopped"
    assert [text for text, _ in responses(bench)] == [
        STOPPED_BY_USER,
        UNDELIVERED.format(STOPPED_FIRST),
    ]


def test_stopped_call_is_reported_as_run_or_not_run() -> None:
    assert describe_stopped_call(USER_STOPPED_VERDICT, ran=False) == LEFT_UNRUN
    assert describe_stopped_call(USER_STOPPED_VERDICT, ran=True) == LEFT_RUNNING


@pytest.mark.req("HB-11")
async def test_two_forms_of_a_batch_are_shown_in_call_order() -> None:
    person = FakePrompter(make("form_end", (yes("pg"),)), make("form_end", (yes("Ada"), yes([]))))
    bench = make_bench(
        person, ask_call(DATABASE, call_id="c1"), ask_call(NAME, PARTS, call_id="c2", index=2)
    )
    await bench.run()
    assert [len(prompt.pages) for prompt in person.asked] == [1, 2]
    assert [text for text in bench.waits() if text.startswith("your answer")] == [
        "your answer to a question from the assistant",
        "your answer to 2 questions from the assistant",
    ]
    assert [text for text, _ in responses(bench)] == [
        "User selected: PostgreSQL (value: pg)",
        "User answers:\nname: custom input: Ada\nparts: [] (none of these)",
    ]


def late(value: JsonValue, *marks: Any) -> Any:
    return answered(value, "form", marks=frozenset({"timed_out", *marks}))


@pytest.mark.req("RPI-66", "RPI-67", "RPI-68", "RPI-69", "HB-2", "HB-3")
async def test_answers_taken_at_the_deadline_are_marked() -> None:
    person = FakePrompter(make("form_end", (LATE, late(["API"], "auto"), late("a\nb"))))
    free = {**NAME, "required": False}
    bench = make_bench(person, ask_call(DATABASE, PARTS, free))
    await bench.run()
    assert responses(bench) == [
        (
            "User answers:\n"
            "database: timed out (the user did not answer in time)\n"
            "parts (chosen automatically, because the user did not answer in time): [API]\n"
            "name (selected before the time ran out, but not submitted): custom input:\n"
            "  a\n  b",
            False,
        )
    ]
    marks = [entry.metadata for entry in bench.of("inquiry_response")]
    assert marks == [
        {"end": "timed_out", "channel": "form"},
        {"end": "answered", "channel": "form", "auto": True, "timed_out": True},
        {"end": "answered", "channel": "form", "timed_out": True},
    ]


@pytest.mark.req("RPI-66", "RPI-67", "RPI-69", "RPI-70", "RPI-82", "HB-3")
async def test_expired_form_chooses_for_optional_selections_alone() -> None:
    best = {**DATABASE, "id": "best", "required": False, "recommended": 1}
    own = {**PARTS, "id": "own", "options": []}
    bench = make_bench(FakePrompter(LATE), ask_call(DATABASE, PARTS, best, own))
    assert (await bench.run()).status == "completed"
    auto = "(chosen automatically, because the user did not answer in time)"
    assert responses(bench) == [
        (
            "Answers:\n"
            "database: timed out (the user did not answer in time)\n"
            f"parts {auto}: [API]\n"
            f"best {auto}: SQLite\n"
            "own: timed out (the user did not answer in time)",
            False,
        )
    ]


@pytest.mark.req("RPI-39", "RPI-70", "RPI-82", "HB-2")
async def test_expired_required_question_is_an_error() -> None:
    bench = make_bench(FakePrompter(LATE), ask_call(DATABASE))
    assert (await bench.run()).status == "completed"
    assert responses(bench) == [("Timed out: the user did not answer in time.", True)]
    assert structured_result(bench)["outcome"] == "timed_out"
    assert bench.turn.text == "Done."


async def test_tool_that_needs_all_answers_gets_late_choices_or_none() -> None:
    def plan(ctx: jp.ToolContext) -> jp.Outcome:
        if ctx.answers:
            return jp.Success(json.dumps(dict(ctx.answers)))
        size = jp.Question.select("size", "Size?", ["S", "M"], recommended=1)
        name = jp.Question.text("name", "Name?")
        return jp.NeedsInput(size.with_required(False), name.with_required(False))

    bench = make_bench(FakePrompter(LATE), call("plan"), tools=[new_tool(plan)])
    await bench.run()
    assert responses(bench) == [('{"size": "M", "name": null}', False)]

    def must(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.NeedsInput(
            jp.Question.select("size", "Size?", ["S", "M"]), jp.Question.text("a", "A?")
        )

    bench = make_bench(FakePrompter(LATE), call("must"), tools=[new_tool(must)])
    await bench.run()
    assert responses(bench) == [("The tool's question was not answered in time.", False)]
    assert [end for *_, end in ends(bench)] == ["timed_out", "timed_out"]


@pytest.mark.req("RPI-82", "HB-9")
async def test_nothing_is_chosen_for_an_exclusive_optional_question() -> None:
    size = jp.Question.select("size", "Size?", ["S", "M"]).with_required(False).with_exclusive()

    def plan(ctx: jp.ToolContext) -> jp.Outcome:
        if ctx.ends:
            return jp.Success(json.dumps(dict(ctx.answers)))
        return jp.NeedsInput(size, jp.Question.text("a", "A?"), partial=True)

    bench = make_bench(FakePrompter(LATE), call("plan"), tools=[new_tool(plan)])
    await bench.run()
    assert responses(bench) == [("{}", False)]
    assert [end for *_, end in ends(bench)] == ["timed_out", "timed_out"]


async def test_question_is_recorded_with_default_and_required() -> None:
    asked = jp.Question.select("size", "Size?", ["S", "M"]).with_default("M").with_required(False)

    def plan(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.Success() if ctx.ends else jp.NeedsInput(asked)

    bench = make_bench(FakePrompter(yes("S")), call("plan"), tools=[new_tool(plan)])
    await bench.run()
    raw = next(entry for entry in bench.stream.raw if entry["type"] == "inquiry_request")
    assert raw["question"] == {
        "text": "Size?",
        "answer_type": {"type": "select", "options": [{"value": "S"}, {"value": "M"}]},
        "default": "M",
        "required": False,
    }


@pytest.mark.parametrize("how", ["cancelled", "declined"])
async def test_tool_that_takes_partial_answers_reads_each_end(
    how: Any,
) -> None:
    seen: list[Any] = []

    def plan(ctx: jp.ToolContext) -> jp.Outcome:
        if not ctx.ends:
            return jp.NeedsInput(
                jp.Question.text("a", "A?"), jp.Question.text("b", "B?"), partial=True
            )
        seen.append((dict(ctx.answers), {key: x.end for key, x in ctx.ends.items()}))
        return jp.Success("")

    bench = make_bench(
        FakePrompter(not_answered(how, "form")), call("plan"), tools=[new_tool(plan)]
    )
    await bench.run()
    assert seen == [({}, {"a": how, "b": how})]


def user_at_menu(*choices: Any, open_form: Any = forever) -> FakePrompter:
    """Return a user who leaves a form open until the interrupt, and then chooses at the menu."""
    return FakePrompter(open_form, *choices)


async def interrupt_form(bench: TurnBench, *, forms: int = 1) -> Any:
    task = asyncio.create_task(bench.run())
    person = bench.person
    await until(lambda: len(person.asked) >= forms)
    bench.loop.interrupt()
    async with asyncio.timeout(10):
        return await task


@pytest.mark.req("RPI-77", "RPI-80")
async def test_interrupt_closes_the_form() -> None:
    bench = make_bench(user_at_menu(yes("continue")), ask_call(DATABASE, PARTS))
    end = await interrupt_form(bench)
    assert end.status == "completed"
    assert responses(bench) == [(CLOSED_BY_INTERRUPT, False)]
    assert [end for *_, end in ends(bench)] == ["interrupted", "interrupted"]
    assert structured_or_none(bench) is None


def structured_or_none(bench: TurnBench) -> Any:
    return bench.of("tool_call_response")[0].metadata.get("structured")


@pytest.mark.req("RPI-77", "RPI-78")
async def test_interrupt_of_a_form_is_not_reported_as_a_stop() -> None:
    slow = Slow()
    bench = make_bench(
        user_at_menu(yes("stop")),
        ask_call(DATABASE, call_id="c1"),
        call("dig", "c2", index=2),
        tools=slow.tools,
    )
    end = await interrupt_form(bench)
    assert end.status == "interrupted"
    first, second = (text for text, _ in responses(bench))
    assert first == CLOSED_BY_INTERRUPT
    assert second == bench.offer().tools["dig"].cancellation_response
    assert [event.then for event in bench.passing if is_kind(event, "interrupt_received")] == [
        None,
        "menu",
        "stop",
    ]


@pytest.mark.req("RPI-79", "RCP-86")
@pytest.mark.parametrize("choice", ["stop", "continue"])
async def test_form_after_an_interrupt_waits_for_the_decision(choice: str) -> None:
    async def press() -> str:
        bench.loop.interrupt()
        await forever()
        return ""

    person = FakePrompter(yes(choice), make("form_end", (yes("pg"),)))
    bench = make_bench(
        person,
        call("press", "c1"),
        ask_call(DATABASE, call_id="c2", index=2),
        tools=[new_tool(press)],
    )
    task = asyncio.create_task(bench.run())
    if choice == "continue":
        await until(lambda: len(person.asked) == 2)
        await until(lambda: bench.of("inquiry_response"))
        bench.loop.interrupt()
    async with asyncio.timeout(10):
        assert (await task).status == "interrupted"
    kinds = [is_kind(prompt, "form_prompt") for prompt in person.asked]
    assert kinds == ([False] if choice == "stop" else [False, True])


@pytest.mark.req("HB-19")
async def test_configured_label_changes_the_display_alone() -> None:
    config = for_tool("ask", questions={"database": {"prompt_label": "deploy"}})
    bench = make_bench(
        FakePrompter(make("form_end", (yes("pg"), yes([])))),
        ask_call(DATABASE, PARTS),
        config=config,
    )
    await bench.run()
    [prompt] = bench.person.asked
    assert [page.label for page in prompt.pages] == ["deploy", "Assistant"]
    assert {entry.source.source for entry in bench.of("inquiry_request")} == {"assistant"}
    assert [event.label for event in bench.shown_of("question_ends")] == ["deploy", "Assistant"]
