"""Questions of servers take the path of every other question, and their outcomes the way back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jp_nb.agent.approvals.permission_rules import SessionRules
from jp_nb.agent.turn_state import RecordedAnswer
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered, not_answered
from tests.mcp.fake_server import (
    TRIP,
    Asking,
    Sent,
    Step,
    address,
    form,
    lost,
    required,
    result,
    server_error,
)
from tests.support.fakes import forever, until, yes

NOT_CONFIRMED = (
    "The server {} needs the user to open an address before this call, but the user did"
    " not confirm it. Do not retry this tool call in this turn."
)
STARTED_AGAIN = (
    "The server has forgotten the answers so far, so the call was started again. Your"
    " earlier answers are suggested."
)


DELFT: Any = {"city": "Delft"}
ACCEPTED = make("server_answer", "accept", DELFT)
CANCEL = make("server_answer", "cancel")
DECLINED = not_answered("declined", "form", marks=frozenset({"refused"}))


def old(*questions: Any) -> Any:
    """Return the step of a server of 2025 that asks `questions`, and returns their actions."""

    async def step(sent: Sent) -> Any:
        turn = step.turn  # type: ignore[attr-defined]
        answers = [await turn.ask(each, sent.call_id) for each in questions]
        step.answers = answers  # type: ignore[attr-defined]
        return result(", ".join(answer.action for answer in answers))

    return step


def asking_old(step: Any, *ends: Any, **more: Any) -> Asking:
    """Return a turn with a server of 2025 that does `step`."""
    turn = Asking([step], *ends, **more)
    step.turn = turn
    return turn


# --- the way there and back ----------------------------------------------------------------------


@pytest.mark.req("R-MCP-41", "R-MCP-44", "R-MCP-48", "R-MCP-58")
async def test_answer_reaches_a_server_of_2026_with_its_state() -> None:
    turn = Asking([required(form("who"), state="v1.ü"), result("Delft it is.")], yes(DELFT))
    await turn.run()
    assert turn.answers == [None, {"who": ACCEPTED}]
    assert [sent.state for sent in turn.server.sent] == [None, "v1.ü"]
    assert turn.results == [("Delft it is.", False)]
    [asked] = turn.inquiries
    assert asked.id == "c1.who.1"
    assert (asked.source.source, asked.source.name) == ("tool", "books__trip")
    assert asked.metadata["server"] == "books"
    assert turn.bench.kinds().index("inquiry_request") < turn.bench.kinds().index(
        "inquiry_response"
    )
    assert "v1.ü" not in str(turn.bench.stream.raw)


@pytest.mark.req("R-MCP-41", "R-MCP-44")
async def test_answer_reaches_a_server_of_2025_during_its_call() -> None:
    step = old(form())
    turn = asking_old(step, yes(DELFT))
    await turn.run()
    assert step.answers == [ACCEPTED]
    assert len(turn.server.sent) == 1
    assert turn.results == [("accept", False)]
    assert [each.id for each in turn.inquiries] == ["c1.elicitation.1"]


@pytest.mark.req("R-MCP-42")
async def test_questions_of_one_round_are_one_form_in_their_order() -> None:
    end = make("form_end", (yes(DELFT), DECLINED, yes(True)))
    turn = Asking(
        [required(form("z"), form("a"), address("m")), result()],
        end,
    )
    prompts: list[Any] = []
    ask = turn.person.ask

    async def keep(prompt: Any) -> Any:
        prompts.append(prompt)
        return await ask(prompt)

    turn.person.ask = keep  # type: ignore[method-assign]
    await turn.run()
    [prompt] = prompts
    assert [page.question.id for page in prompt.pages] == ["z", "a", "m"]
    assert {(page.label, page.tool) for page in prompt.pages} == {("books asks", "books__trip")}
    assert (prompt.declines, prompt.partial) == (True, False)
    answers = {
        "z": ACCEPTED,
        "a": make("server_answer", "decline"),
        "m": make("server_answer", "accept"),
    }
    assert turn.answers[1] == answers
    assert [*(turn.answers[1] or {})] == ["z", "a", "m"]


@pytest.mark.req("R-MCP-44")
@pytest.mark.parametrize(
    ("end", "action"),
    [
        (DECLINED, "decline"),
        (not_answered("cancelled", "form"), "cancel"),
        (not_answered("timed_out", "form"), "cancel"),
    ],
)
async def test_each_end_reaches_the_server_as_the_user_chose_it(end: Any, action: str) -> None:
    turn = Asking([required(form("who")), result("so be it")], end)
    await turn.run()
    assert [x.action for x in (turn.answers[1] or {}).values()] == [action]
    assert turn.results == [("so be it", False)]
    assert turn.ends == [end.end]
    step = old(form())
    turn = asking_old(step, end)
    await turn.run()
    assert [x.action for x in step.answers] == [action]
    assert turn.ends == [end.end]


@pytest.mark.req("R-MCP-43")
async def test_questions_of_2025_that_come_at_once_are_asked_one_after_the_other() -> None:
    async def step(sent: Sent) -> Any:
        answers = await asyncio.gather(
            turn.ask(form("elicitation")), turn.ask(form("elicitation-2"))
        )
        return result(", ".join(str(answer.content) for answer in answers))

    turn = Asking([step], yes(DELFT), yes({"city": "Gouda"}))
    await turn.run()
    assert turn.person.most_at_once == 1
    assert [each.id for each in turn.inquiries] == ["c1.elicitation.1", "c1.elicitation-2.1"]
    assert turn.results == [("{'city': 'Delft'}, {'city': 'Gouda'}", False)]


@pytest.mark.req("R-MCP-43")
async def test_question_during_parallel_calls_names_all_of_them() -> None:
    asked = asyncio.Event()

    async def first(sent: Sent) -> Any:
        answer = await turn.ask(form(), "c1", "c2")
        asked.set()
        return result(answer.action)

    async def second(sent: Sent) -> Any:
        await asked.wait()
        return result("second")

    async def wait_for_both(sent: Sent) -> Any:
        await until(lambda: len(turn.server.sent) == 2)
        return await first(sent)

    turn = Asking([wait_for_both, second], yes(DELFT), calls=("c1", "c2"))
    await turn.run()
    [shown] = turn.bench.shown_of("question_ends")
    assert shown.question.context == (
        "The question belongs to one of these running calls: books__trip, books__trip."
    )
    assert turn.results == [("accept", False), ("second", False)]


async def test_calls_with_the_same_id_of_the_model_are_different_calls() -> None:
    steps: list[Step] = [required(form("who")), required(form("who")), result("one"), result("two")]
    turn = Asking(steps, yes(DELFT), yes({"city": "Gouda"}), calls=("c1", "c1"))
    await turn.run()
    assert sorted(sent.call_id for sent in turn.server.sent) == ["c1", "c1", "c1#2", "c1#2"]
    assert sorted(text for text, _ in turn.results) == ["one", "two"]


async def test_several_rounds_ask_several_times() -> None:
    steps: list[Step] = [required(form("who")), required(form("who"), state="s2"), result()]
    turn = Asking(steps, yes(DELFT), yes({"city": "Gouda"}))
    await turn.run()
    assert [sent.state for sent in turn.server.sent] == [None, "s1", "s2"]
    assert turn.answers[2] == {"who": make("server_answer", "accept", {"city": "Gouda"})}
    assert [each.id for each in turn.inquiries] == ["c1.who.1", "c1.who.2"]


@pytest.mark.req("R-MCP-30")
async def test_no_time_of_the_call_passes_while_the_user_thinks() -> None:
    async def think() -> Any:
        await asyncio.sleep(0.3)
        return yes(DELFT)

    turn = Asking([required(form("who")), result()], think)
    await turn.run()
    begun = [event for event in turn.bench.shown if type(event).__name__ == "ToolEnds"]
    assert begun[0].seconds < 0.25


# --- nobody is there -----------------------------------------------------------------------------


@pytest.mark.req("R-MCP-40", "R-MCP-54")
@pytest.mark.parametrize("asked", [form("who"), address("who")])
async def test_without_a_user_the_server_gets_cancel_and_the_model_the_reason(asked: Any) -> None:
    turn = Asking([required(asked), result()], away="nobody is here")
    await turn.run()
    await until(lambda: len(turn.server.sent) == 2)
    assert turn.answers[1] == {"who": CANCEL}
    [(text, is_error)] = turn.results
    assert is_error
    assert "no interactive terminal is available" in text
    assert turn.ends == ["unavailable"]
    step = old(asked)
    turn = asking_old(step, away="nobody is here")
    await turn.run()
    assert step.answers == [CANCEL]
    assert turn.results[0][1]


@pytest.mark.req("R-MCP-40")
async def test_form_that_fails_is_no_decline() -> None:
    step = old(form())
    turn = asking_old(step, make("form_end", (answered(DELFT, "form"),)))

    async def fail(prompt: Any) -> Any:
        return make("unavailable", "the page is gone")

    turn.person.ask = fail  # type: ignore[method-assign]
    turn.person.unavailable = lambda: None  # type: ignore[method-assign]
    await turn.run()
    assert step.answers == [CANCEL]
    assert turn.ends == ["unavailable"]


@pytest.mark.req("R-MCP-39", "R-MCP-56")
async def test_configured_answer_is_sent_with_the_defaults_of_other_fields() -> None:
    schema = {
        **TRIP,
        "properties": {**TRIP["properties"], "unit": {"type": "string", "default": "C"}},
    }
    turn = Asking(
        [required(form("who", schema)), result()],
        away="nobody is here",
        settings={"questions": {"who": {"answer": {"city": "Delft"}}}},
    )
    await turn.run()
    assert turn.answers[1] == {
        "who": make("server_answer", "accept", {"city": "Delft", "unit": "C"})
    }


@pytest.mark.req("R-MCP-56")
async def test_configured_answer_that_does_not_fit_the_form_ends_the_call_with_the_reason() -> None:
    turn = Asking(
        [required(form("who")), result()],
        away="nobody is here",
        settings={"questions": {"who": {"answer": {"town": "Delft"}}}},
    )
    await turn.run()
    [(text, is_error)] = turn.results
    assert is_error
    assert "conversation.tools.books__trip.questions.who.answer" in text
    await until(lambda: len(turn.server.sent) == 2)
    assert turn.answers[1] == {"who": CANCEL}


@pytest.mark.req("R-MCP-57")
async def test_model_answers_only_if_the_user_configured_it() -> None:
    from tests.agent.turn_bench import MockInquiryBackend

    backend = MockInquiryBackend({"c1.who.1": DELFT})
    turn = Asking(
        [required(form("who")), result()],
        settings={"questions": {"who": {"target": "assistant"}}},
        inquiry=backend,
    )
    await turn.run()
    assert turn.answers[1] == {"who": ACCEPTED}
    [end] = turn.bench.of("inquiry_response")
    assert end.metadata["channel"] == "model"
    [asked] = turn.inquiries
    assert not asked.question.exclusive
    turn = Asking(
        [required(address("who")), result()],
        settings={"questions": {"who": {"target": "assistant"}}},
        inquiry=backend,
    )
    await turn.run()
    assert turn.results[0][1]  # an address is only for the user


# --- ends ----------------------------------------------------------------------------------------


@pytest.mark.req("R-MCP-95")
async def test_call_that_ends_at_its_question_is_answered_and_cancelled() -> None:
    async def step(sent: Sent) -> Any:
        step_answers.append(await turn.ask(form()))
        await forever()

    step_answers: list[Any] = []
    turn = Asking([step], not_answered("interrupted", "form"))
    await turn.run()
    assert step_answers == [CANCEL]
    assert turn.server.cancelled == ["c1"]
    assert turn.server.forgotten == ["c1"]


@pytest.mark.req("R-MCP-29")
async def test_interrupt_of_a_running_call_cancels_its_request() -> None:
    turn = Asking([lambda sent: forever()])
    running = asyncio.create_task(turn.bench.run())
    await until(lambda: turn.server.sent)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until(lambda: turn.server.cancelled)
    await turn.calls.aclose()
    assert turn.server.cancelled == ["c1"]


@pytest.mark.parametrize("asked", [form("who"), address("who")])
async def test_form_of_a_server_of_2026_closes_at_once_if_the_server_ends(asked: Any) -> None:
    async def think() -> Any:
        turn.server.server_end().set_result(None)
        await forever()

    turn = Asking([required(asked), server_error("its process was ended by signal 9")], think)
    await asyncio.wait_for(turn.run(), 10)
    [(text, is_error)] = turn.results
    assert ("ended by signal 9" in text, is_error) == (True, True)
    assert turn.ends == ["cancelled"]


async def test_form_of_a_server_of_2025_closes_at_once_if_the_server_ends() -> None:
    gone = asyncio.Event()

    async def step(sent: Sent) -> Any:
        question = asyncio.ensure_future(turn.ask(form()))
        await gone.wait()
        question.cancel()
        raise server_error("the connection ended")

    async def think() -> Any:
        gone.set()
        await forever()

    turn = Asking([step], think)
    await asyncio.wait_for(turn.run(), 10)
    assert turn.results == [("Trip of the MCP server books: the connection ended", True)]
    assert turn.ends == ["cancelled"]


async def test_question_that_the_server_takes_back_closes_its_form() -> None:
    taken_back = asyncio.Event()

    async def step(sent: Sent) -> Any:
        question = asyncio.ensure_future(turn.ask(form()))
        await taken_back.wait()
        question.cancel()
        return result("never mind")

    async def think() -> Any:
        taken_back.set()
        await forever()

    turn = Asking([step], think)
    await asyncio.wait_for(turn.run(), 10)
    assert turn.results == [("never mind", False)]


# --- state that expired, addresses ---------------------------------------------------------------


@pytest.mark.req("R-MCP-49")
async def test_call_whose_state_expired_starts_again_once_with_the_answers_as_defaults() -> None:
    expired = server_error("Invalid or expired requestState", -32602)
    steps: list[Step] = [
        required(form("who")),
        expired,
        required(form("who")),
        result("Delft it is."),
    ]
    turn = Asking(steps, yes(DELFT), yes(DELFT))
    await turn.run()
    assert [sent.state for sent in turn.server.sent] == [None, "s1", None, "s1"]
    first, second = turn.inquiries
    assert first.question.context is None
    assert second.question.context == STARTED_AGAIN
    fields: Any = second.question.answer_type.to_raw()["fields"]
    assert fields[0]["default"] == "Delft"
    [(text, is_error)] = turn.results
    assert (text.splitlines()[0], is_error) == ("Delft it is.", False)
    assert "started again" in text
    steps = [required(form("who")), expired, required(form("who")), expired]
    turn = Asking(steps, yes(DELFT), yes(DELFT))
    await turn.run()
    assert len(turn.server.sent) == 4
    assert turn.results[0][1]


async def test_other_invalid_parameters_do_not_start_a_call_again() -> None:
    turn = Asking([server_error("unknown tool", -32602)])
    await turn.run()
    assert turn.results == [("Trip of the MCP server books: unknown tool", True)]


ADDRESSES: Any = {
    "elicitations": [{"mode": "url", "url": "https://a.example/x", "message": "Sign in.", "x": 1}]
}


@pytest.mark.req("R-MCP-55")
async def test_address_before_a_call_of_2025_is_asked_and_the_call_repeated() -> None:
    needed = server_error("URL elicitation required", -32042, ADDRESSES)
    turn = Asking([needed, needed, result("in")], yes(True), yes(True))
    await turn.run()
    assert turn.answers == [None, None, None]
    assert turn.results == [("in", False)]
    [first, _] = turn.inquiries
    assert first.question.answer_type.to_raw() == {"type": "url", "url": "https://a.example/x"}
    turn = Asking([needed], DECLINED)
    await turn.run()
    assert turn.results == [(NOT_CONFIRMED.format("books"), True)]
    turn = Asking([server_error("no data", -32042)])
    await turn.run()
    assert turn.results == [("Trip of the MCP server books: no data", True)]


async def test_server_cannot_demand_addresses_forever() -> None:
    needed = server_error("URL elicitation required", -32042, ADDRESSES)
    turn = Asking([needed] * 20, *[yes(True)] * 20)
    await turn.run()
    assert len(turn.server.sent) == 11
    assert turn.results[0][1]


# --- forms that cannot be shown ------------------------------------------------------------------


@pytest.mark.req("R-MCP-47", "R-MCP-50")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"type": "string"},
        {"type": "object", "properties": {f"x{n}": {"type": "string"} for n in range(51)}},
        {"type": "object", "properties": {"a": {"enum": [f"o{n}" for n in range(1001)]}}},
        {"type": "object", "properties": {"a": {"type": "string", "title": "x" * 100_001}}},
    ],
)
async def test_form_that_cannot_be_shown_is_cancelled_with_the_reason(schema: Any) -> None:
    turn = Asking([required(form("who", schema), form("then")), result("ok")], yes(DELFT))
    await turn.run()
    assert turn.answers[1] == {"then": ACCEPTED, "who": CANCEL}
    [(text, _)] = turn.results
    assert "cancelled, because no form can show it: " in text
    turn = Asking([required(form("who", schema)), result("ok")])
    await turn.run()
    assert turn.answers[1] == {"who": CANCEL}
    assert turn.person.asked == []
    step = old(form("who", schema))
    turn = asking_old(step)
    await turn.run()
    assert step.answers == [CANCEL]


@pytest.mark.req("R-MCP-52")
async def test_secret_is_masked_and_in_no_record_or_result() -> None:
    schema = {
        "type": "object",
        "properties": {
            "api_key": {"type": "string", "minLength": 8},
            "note": {"type": "string"},
        },
    }

    async def echo(sent: Sent) -> Any:
        content = (sent.answers or {})["who"].content or {}
        return result(f"key {content['api_key']}", structured={"key": content["api_key"]})

    turn = Asking([required(form("who", schema)), echo], yes({"api_key": "hunter2hunter2"}))
    await turn.run()
    assert turn.answers[1] == {
        "who": make("server_answer", "accept", {"api_key": "hunter2hunter2"})
    }
    [asked] = turn.inquiries
    fields: Any = asked.question.answer_type.to_raw()["fields"]
    assert fields[0]["answer_type"] == {"type": "secret"}
    assert "looks like a secret" in fields[0]["context"]
    assert "hunter2" not in str(turn.bench.stream.raw)
    assert turn.results == [("key (secret)", False)]


@pytest.mark.req("R-MCP-91")
async def test_question_without_fields_is_accepted_with_an_empty_object() -> None:
    turn = Asking([required(form("sure", {"type": "object", "properties": {}})), result()], yes({}))
    await turn.run()
    assert turn.answers[1] == {"sure": make("server_answer", "accept", {})}


async def test_message_of_several_lines_keeps_their_order() -> None:
    asked = form("sure", message="These files:\n- a.txt\nDelete them?\n")
    turn = Asking([required(asked), result()], yes(DELFT))
    await turn.run()
    [shown] = turn.inquiries
    assert shown.question.context == "These files:\n- a.txt"
    assert shown.question.text == "Delete them?"


async def test_hostile_keys_and_messages_are_data() -> None:
    key = "__proto__\n[questions]\x1b[2J" + "k" * 500
    asked = form(key, message="Hi <script>\n[x](https://evil.example) `$\\href{a}`\u202e")
    turn = Asking([required(asked), result()], yes(DELFT))
    await turn.run()
    assert turn.answers[1] == {key: ACCEPTED}
    [inquiry] = turn.inquiries
    assert is_kind(inquiry, "inquiry_request")
    assert "\n" not in inquiry.id
    assert len(inquiry.id) < 150


# --- progress ------------------------------------------------------------------------------------


@pytest.mark.req("R-MCP-31")
async def test_progress_is_one_line_at_most_four_times_a_second_and_not_recorded() -> None:
    async def step(sent: Sent) -> Any:
        assert sent.on_progress is not None
        for number in range(1000):
            sent.on_progress(make("server_progress", f"page {number}", number, 1000))
            if number == 500:
                await asyncio.sleep(0.3)
        await asyncio.sleep(0.3)
        sent.on_progress(make("server_progress", "late", 1000, 1000))
        return result()

    turn = Asking([step])
    await turn.run()
    shown = [x.progress for x in turn.bench.passing if is_kind(x, "waits") and x.progress]
    assert shown[0] == "0 of 1000, 0%: page 0"
    assert "999 of 1000, 100%: page 999" in shown
    assert len(shown) <= 4
    assert "page" not in str(turn.bench.stream.raw)


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        ((None, 3, None), "3"),
        (("reading", 3, 10), "3 of 10, 30%: reading"),
        (("a\nb\x1b[2J", 1, 0), "1: a b"),
        (("x", float("nan"), 1), "x"),
        (("x", 1, float("inf")), "1: x"),
        (("x", 5, 2), "5 of 2, 100%: x"),
        (("bytes", 1_258_291, 5_242_880), "1258291 of 5242880, 24%: bytes"),
        ((None, 0.5, 2.0), "0.5 of 2, 25%"),
        ((None, 1e300, None), "1e+300"),
    ],
)
async def test_progress_is_shown_with_its_share(progress: Any, text: str) -> None:
    async def step(sent: Sent) -> Any:
        assert sent.on_progress is not None
        sent.on_progress(make("server_progress", *progress))
        return result()

    turn = Asking([step])
    await turn.run()
    shown = [x.progress for x in turn.bench.passing if is_kind(x, "waits") and x.progress]
    assert shown == [text]


# --- recorded answers ----------------------------------------------------------------------------


async def test_recorded_answer_to_a_changed_question_is_not_used_and_the_change_is_named() -> None:
    first = Asking([required(form("who")), result()], yes(DELFT))
    await first.run()
    [asked] = first.inquiries
    recorded = {asked.id: RecordedAnswer(asked.question, DELFT, "form")}

    again = Asking([required(form("who")), result()])
    again.bench.use(recorded=recorded)
    await again.run()
    assert again.answers[1] == {"who": ACCEPTED}

    fields = {"city": {"type": "string"}, "days": {"type": "integer"}}
    schema = {"type": "object", "properties": fields, "required": ["city"]}
    changed = Asking([required(form("who", schema, "Which tour?")), result()], yes(DELFT))
    changed.bench.use(recorded=recorded)
    await changed.run()
    [notice] = changed.bench.shown_of("notice")
    assert notice.text == (
        'The recorded answer to "Which tour?" is not used, because the question changed: its '
        "text, the field `city`, the field `days`"
    )
    assert [prompt.question.id for prompt in changed.person.asked] == ["who"]


# --- lost answers --------------------------------------------------------------------------------


@pytest.mark.req("R-MCP-37")
async def test_lost_call_is_sent_again_once_if_it_may_be() -> None:
    turn = Asking([lost(), result("Delft.")])
    turn.tool.is_repeatable = True
    await turn.run()
    [(content, is_error)] = turn.results
    assert not is_error
    assert content.startswith("Delft.\n[The answer to the first request was lost")
    assert turn.server.sent[0].arguments == turn.server.sent[1].arguments

    turn = Asking([lost(), lost()])
    turn.tool.is_repeatable = True
    await turn.run()
    assert [is_error for _, is_error in turn.results] == [True]
    assert len(turn.server.sent) == 2


@pytest.mark.req("R-MCP-37")
async def test_other_calls_are_not_sent_again() -> None:
    turn = Asking([lost()])  # the user or the server did not say that it may be
    await turn.run()
    assert [is_error for _, is_error in turn.results] == [True]

    turn = Asking([server_error("HTTP 500", -32000)])  # the server has answered
    turn.tool.is_repeatable = True
    await turn.run()
    assert [is_error for _, is_error in turn.results] == [True]

    turn = Asking([required(form("who")), lost()], yes(DELFT))  # the user would answer again
    turn.tool.is_repeatable = True
    await turn.run()
    assert [is_error for _, is_error in turn.results] == [True]
    assert len(turn.server.sent) == 2


# --- changes of tools ----------------------------------------------------------------------------


@pytest.mark.req("R-MCP-19", "R-MCP-96")
async def test_permission_for_the_turn_ends_when_the_server_announces_changes() -> None:
    """Also before the tools are listed again, here between two calls of one response."""

    async def permit_late() -> Any:
        turn.server.announced_changes = True
        return yes("run_turn")

    turn = Asking(
        [result("1")], permit_late, yes("skip"), calls=("c1", "c2"), settings={"run": "ask"}
    )
    await turn.run()
    assert len(turn.person.asked) == 2
    assert len(turn.server.sent) == 1


@pytest.mark.req("R-MCP-96")
async def test_kept_rule_does_not_count_after_the_server_announced_changes() -> None:
    async def keep_late() -> Any:
        turn.server.announced_changes = True
        return yes("session")

    for later, asked in ((keep_late, 3), (yes("session"), 2)):
        turn = Asking(
            [result("1"), result("2")],
            yes("always"),
            later,
            *[yes("skip")] * (asked - 2),
            calls=("c1", "c2"),
            settings={"run": "ask"},
        )
        turn.bench.use(kept_rules=SessionRules())
        await turn.run()
        assert len(turn.person.asked) == asked
