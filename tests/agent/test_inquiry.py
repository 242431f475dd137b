"""Inquiries: the context with the paused call, the request, the answer, errors."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

import jp_nb as jp
from jp_nb.providers.scripts.script_format import Script
from jp_nb.providers.scripts.scripted import ScriptedProvider
from tests.agent.turn_bench import MockInquiryBackend, reply, say
from tests.kit.kinds import is_kind, make
from tests.kit.models import EventProvider, model_event
from tests.kit.providers import new_provider
from tests.kit.turn_bench import new_question_model
from tests.providers.helpers import answer as model_answer
from tests.providers.helpers import called, make_context, result, thought, user
from tests.support.fakes import forever, model_inquiry, until
from tests.support.loopback import LoopbackServer, Received, Reply

NO_RESULT_YET = "No result yet: this call was made in the same answer as the paused one."


ID = "tool_call.rename.call_1"
SURE = jp.Question.boolean("sure", "Create backups?")
KEEP = jp.Question.select("keep", "Keep it?", ["keep", "drop"])
NAME = jp.Question.text("name", "Which name?")
BROKEN = jp.ProviderError("reset", kind="transient")


def inquiry(
    question: jp.Question = SURE, *, tool: str = "rename", call: str = "call_1", number: int = 1
) -> Any:
    return model_inquiry(f"{call}.{question.id}.1", call, tool, question, number)


def waiting_context(provider: str = "test") -> Any:
    """A conversation whose model has just called the tool `rename`."""
    return make_context(
        user("Rename a.txt, with backups."),
        thought("I need the tool."),
        model_answer("Let me rename it."),
        called("call_1", "rename", path="a.txt"),
        provider=provider,
    )


def structured_events(value: Any) -> list[Any]:
    """Events of a structured answer."""
    text = value if isinstance(value, str) else json.dumps(value)
    return reply(
        [
            model_event("text", 0, "structured", text[:3]),
            model_event("text", 0, "structured", text[3:]),
        ]
    )


def answer_events(answer: Any, *, id_: str = ID) -> list[Any]:
    return structured_events({"inquiry_id": id_, "answer": answer})


class Backend:
    """The real backend over a provider. It records waits without waiting."""

    def __init__(self, *scripts: Any, provider: Any | None = None, **settings: Any) -> None:
        self.provider = EventProvider(*scripts)
        self.slept: list[float] = []
        self.usage: list[Any] = []
        self.real = new_question_model(provider or self.provider, sleep=self._sleep, **settings)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def ask(self, question: jp.Question = SURE, context: Any | None = None) -> Any:
        asked = replace(inquiry(question), on_usage=lambda _, usage: self.usage.append(usage))
        return await self.real.inquire(context or waiting_context(), asked)

    async def failure(self, question: jp.Question = SURE) -> str:
        with pytest.raises(jp.JpNbError) as caught:
            await self.ask(question)
        return str(caught.value)

    @property
    def requests(self) -> list[Any]:
        return [request for request, _ in self.provider.requests]


async def pause(context: Any, asked: Any) -> Any:
    """Return the request to a model that answers what the paused call has `asked`."""
    provider = EventProvider(structured_events({}))
    with pytest.raises(jp.JpNbError, match="`answer` is missing"):
        await new_question_model(provider).inquire(context, asked)
    [(request, _)] = provider.requests
    return request


def entries(context: Any) -> list[Any]:
    return [item.entry for item in context]


def responses(context: Any) -> list[tuple[str, str, bool]]:
    """The responses to tool calls in `context`."""
    found = [entry for entry in entries(context) if is_kind(entry, "tool_call_response")]
    return [(entry.id, entry.content, entry.is_error) for entry in found]


# --- the schema ------------------------------------------------------------------------------


@pytest.mark.req("R028-6", "R028-7", "R028-8")
async def test_schema_of_an_answer_has_the_inquiry_id_and_the_type() -> None:
    rows: list[tuple[jp.Question, Any]] = [
        (SURE, {"type": "boolean"}),
        (KEEP, {"type": "string", "enum": ["keep", "drop"]}),
        (NAME, {"type": "string"}),
    ]
    for question, answer in rows:
        asked = inquiry(question, tool="rename_files", call="call_17")
        schema = (await pause(waiting_context(), asked)).schema
        constant = "tool_call.rename_files.call_17"
        assert schema == {
            "type": "object",
            "properties": {"inquiry_id": {"type": "string", "const": constant}, "answer": answer},
            "required": ["inquiry_id", "answer"],
            "additionalProperties": False,
        }
        jsonschema.Draft202012Validator.check_schema(schema)


# --- the paused context ---------------------------------------------------------------------------


@pytest.mark.req("R028-15", "R028-20", "R028-21")
async def test_paused_context_is_a_copy_that_asks_the_question() -> None:
    context = waiting_context()
    before = list(context.items)
    question = SURE.with_context("a.txt\nb.txt")
    request = await pause(context, inquiry(question))
    copy = request.context
    assert context.items == before
    assert copy is not context
    assert copy.items is not context.items
    assert copy.items[: len(before)] == before
    response, asked = entries(copy)[len(before) :]
    assert is_kind(response, "tool_call_response")
    assert (response.id, response.content) == ("call_1", "Tool paused: Create backups?")
    assert not response.is_error
    assert is_kind(asked, "chat_request")
    assert asked.response_schema == request.schema
    assert asked.metadata == {"inquiry": "rename.sure"}
    for part in ("`rename`", "a.txt\nb.txt", "Create backups?", "this conversation"):
        assert part in asked.content
    assert asked.content.index("a.txt\nb.txt") < asked.content.index("Create backups?")


@pytest.mark.req("R028-21")
async def test_paused_context_answers_other_open_calls() -> None:
    context = waiting_context()
    for entry in (called("call_2", "rename"), called("call_3", "look"), result("call_3", "seen")):
        context.add(entry, "test")
    copy = (await pause(context, inquiry())).context
    assert responses(copy) == [
        ("call_3", "seen", False),
        ("call_1", "Tool paused: Create backups?", False),
        ("call_2", NO_RESULT_YET, False),
    ]


async def test_asking_call_of_two_with_one_id_is_paused() -> None:
    for other in ("look", "rename"):
        calls = called("call_1", other), called("call_2", "look"), called("call_1", "rename")
        context = make_context(user("Go."), *calls)
        copy = (await pause(context, inquiry(number=2))).context
        assert responses(copy) == [
            ("call_1", NO_RESULT_YET, False),
            ("call_2", NO_RESULT_YET, False),
            ("call_1", "Tool paused: Create backups?", False),
        ]
        context.add(result("call_1", "seen"), "test")  # of the first: ids pair by count
        copy = (await pause(context, inquiry())).context
    assert responses(copy) == [
        ("call_1", "seen", False),
        ("call_2", NO_RESULT_YET, False),
        ("call_1", "Tool paused: Create backups?", False),
    ]


async def test_calls_of_earlier_turns_are_not_paused() -> None:
    context = make_context(user("One."), called("call_1", "rename"), result("call_1", "renamed"))
    for entry in (user("Two."), called("call_1", "rename"), user("Three.")):
        context.add(entry, "test")  # the second has no response
    context.add(called("call_1", "rename"), "test")
    copy = (await pause(context, inquiry())).context
    assert responses(copy) == [
        ("call_1", "renamed", False),
        ("call_1", "Tool call was interrupted.", True),
        ("call_1", "Tool paused: Create backups?", False),
    ]
    kinds = [type(entry).__name__ for entry in entries(copy)]
    for first, second in pairwise(kinds):
        assert first != "ToolCallRequest" or second == "ToolCallResponse"


# --- the request -----------------------------------------------------------------------------


@pytest.mark.req("R028-5", "R028-16", "R028-17", "R028-19")
async def test_inquiry_is_one_structured_request_with_the_conversation() -> None:
    tools = (
        make("tool_definition", "rename", "Renames.", {}),
        make("tool_definition", "look", "Looks.", {}),
    )
    parameters = make("parameters", temperature=0.5)
    limits = {"stream_idle_timeout_secs": 20, "max_response_bytes": 99}
    backend = Backend(
        answer_events(True),
        tools=tools,
        conversation_id="jp-c1",
        settings={"system": ("Be brief.", "Really."), "parameters": parameters, "request": limits},
    )
    context = waiting_context()
    assert await backend.ask(context=context) is True
    [(request, sent)] = backend.provider.requests
    assert sent[: len(context)] == entries(context)
    assert request == make(
        "model_request",
        model="small",
        context=request.context,
        system=("Be brief.", "Really."),
        tools=tools,
        tool_choice="none",
        parameters=parameters,
        schema=(await pause(context, inquiry())).schema,
        idle_timeout=20.0,
        max_response_bytes=99,
        conversation_id="jp-c1",
    )
    assert len(context) == 4
    assert backend.provider.closed == 1


@pytest.mark.req("R028-10", "R028-36")
async def test_answer_has_the_type_of_the_question() -> None:
    rows: list[tuple[jp.Question, Any]] = [(SURE, True), (SURE, False), (KEEP, "drop"), (NAME, "")]
    for question, answer in rows:
        got = await Backend(answer_events(answer)).ask(question)
        assert (got, type(got)) == (answer, type(answer))
    assert await Backend(structured_events({"answer": True})).ask() is True, "the id may be missing"


async def test_first_structured_response_is_the_answer() -> None:
    events = [
        model_event("text", 0, "reasoning", "Hm."),
        model_event("flush", 0),
        model_event("text", 1, "message", "Well."),
        model_event("flush", 1),
        model_event("text", 2, "structured", '{"answer": true}'),
        model_event("flush", 2),
        model_event("text", 3, "structured", '{"answer": false}'),
        model_event("flush", 3),
        model_event("finished"),
    ]
    assert await Backend(events).ask() is True


@pytest.mark.req("R028-10", "R028-11", "R028-36")
async def test_invalid_answer_is_a_failure(subtests: pytest.Subtests) -> None:
    rows: list[tuple[jp.Question, Any, str]] = [
        (SURE, {"inquiry_id": ID}, "`answer` is missing"),
        (SURE, {"inquiry_id": ID, "answer": "true"}, "`answer` is not a boolean"),
        (SURE, {"inquiry_id": ID, "answer": 1}, "`answer` is not a boolean"),
        (SURE, {"inquiry_id": ID, "answer": None}, "`answer` is not a boolean"),
        (NAME, {"inquiry_id": ID, "answer": 3}, "`answer` is not a string"),
        (KEEP, {"inquiry_id": ID, "answer": True}, "`answer` is not a string"),
        (KEEP, {"inquiry_id": ID, "answer": "Keep"}, "`answer` is not one of the options"),
        (SURE, {"inquiry_id": "x", "answer": True}, f"`inquiry_id` is not '{ID}'"),
        (SURE, {"inquiry_id": None, "answer": True}, f"`inquiry_id` is not '{ID}'"),
        (SURE, [True], "expected a JSON object"),
        (SURE, "true", "expected a JSON object"),
        (SURE, "null", "expected a JSON object"),
        (SURE, '{"answer": tr', "expected a JSON object"),
    ]
    for question, value, reason in rows:
        with subtests.test(question=question, value=value):
            backend = Backend(structured_events(value))
            error = await backend.failure(question)
            assert error == f"Failed to extract answer from structured response: {reason}"
            assert backend.slept == []


@pytest.mark.req("R028-11")
async def test_answer_without_structured_data_is_a_failure() -> None:
    for events in (reply(say("Yes.")), reply()):
        assert await Backend(events).failure() == "No structured data in the LLM response"


@pytest.mark.req("R028-11")
async def test_refused_or_truncated_answer_is_a_failure() -> None:
    rows: list[tuple[Any, str | None, str]] = [
        ("refused", None, "the model refused to answer"),
        ("refused", "policy", "the model refused to answer: policy"),
        ("max_tokens", None, "the answer reached the token limit and is incomplete"),
    ]
    for reason, detail, told in rows:
        backend = Backend([*answer_events(True)[:-1], model_event("finished", reason, detail)])
        assert await backend.failure() == f"LLM provider error: {told}"
        assert backend.slept == []


# --- retries -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _without_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the random part of pauses."""
    monkeypatch.setattr("jp_nb.agent.model_requests.retries.random.uniform", lambda low, high: 0.0)


@pytest.mark.req("R028-12")
async def test_transient_errors_are_retried_with_growing_waits() -> None:
    cut = answer_events(False)[:-1]  # a stream without its end
    backend = Backend([BROKEN], cut, [*cut, BROKEN], answer_events(True))
    assert await backend.ask() is True
    assert backend.slept == [1.0, 2.0, 4.0]
    assert len({id(request.context) for request in backend.requests}) == 1
    assert backend.provider.closed == 4


@pytest.mark.req("R028-12")
async def test_inquiry_fails_after_three_retries() -> None:
    backend = Backend(*[[jp.ProviderError(f"no {n}", kind="timeout")] for n in range(4)])
    assert await backend.failure() == "LLM provider error: no 3. It was tried 4 times."
    assert backend.slept == [1.0, 2.0, 4.0]


@pytest.mark.req("R028-12")
async def test_retry_after_is_honored_up_to_the_cap() -> None:
    hints = [jp.ProviderError("busy", kind="rate_limit", retry_after=wait) for wait in (7, 400)]
    backend = Backend([hints[0]], [hints[1]], answer_events(True))
    assert await backend.ask() is True
    assert backend.slept == [7.0, 30.0]


@pytest.mark.req("R028-12")
async def test_final_errors_are_not_retried() -> None:
    rows: list[tuple[Exception, str]] = [
        (jp.ProviderError("no money", kind="quota", retry_after=1), "no money"),
        (jp.ProviderError("bad key"), "bad key"),
        (jp.ConfigError("no such script"), "no such script"),
        (ValueError("sk-very-secret-thing"), "ValueError"),
    ]
    for error, told in rows:
        backend = Backend([error])
        assert await backend.failure() == f"LLM provider error: {told}"
        assert (backend.slept, len(backend.requests)) == ([], 1)


async def test_provider_that_corrects_its_request_is_called_again() -> None:
    backend = Backend([model_event("retry", "stale")], answer_events(True))
    assert await backend.ask() is True
    assert backend.slept == []


async def test_unsupported_schema_fails_before_the_request() -> None:
    class Choosy(EventProvider):
        def check_schema(self, schema: Any) -> None:
            raise jp.UsageError("no structured answers here")

    backend = Backend(provider=Choosy())
    assert await backend.failure() == "LLM provider error: no structured answers here"


async def test_tokens_of_every_attempt_are_counted() -> None:
    first: list[Any] = [model_event("usage", input_tokens=5), BROKEN]
    backend = Backend(
        first, [model_event("usage", input_tokens=5, output_tokens=1), *answer_events(True)]
    )
    await backend.ask()
    assert backend.usage == [
        model_event("usage", input_tokens=5),
        model_event("usage", input_tokens=5, output_tokens=1),
    ]


# --- cancelled -------------------------------------------------------------------------------


@pytest.mark.req("R028-29")
async def test_cancelled_inquiry_closes_the_stream() -> None:
    backend = Backend([model_event("text", 0, "structured", "{"), forever])
    task = asyncio.create_task(backend.ask())
    await until(lambda: backend.requests)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert backend.provider.closed == 1


async def test_provider_that_cancels_itself_is_a_failure() -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    assert await Backend([cancel]).failure() == "Inquiry cancelled"


# --- parallel inquiries --------------------------------------------------------------------------


@pytest.mark.req("R028-26", "R028-27")
async def test_parallel_inquiries_have_separate_threads() -> None:
    go = asyncio.Event()

    async def wait() -> None:
        await go.wait()

    def script(tool: str, answer: Any) -> list[Any]:
        return [wait, *answer_events(answer, id_=f"tool_call.{tool}.call_{tool}")]

    provider = EventProvider(script("a", True), script("b", "drop"), script("c", "x"))
    backend = new_question_model(provider)
    context = make_context(user("Go."), *[called(f"call_{tool}", tool) for tool in "abc"])
    asked = [
        inquiry(question, tool=tool, call=f"call_{tool}")
        for tool, question in zip("abc", (SURE, KEEP, NAME), strict=True)
    ]
    tasks = [asyncio.create_task(backend.inquire(context, one)) for one in asked]
    await until(lambda: len(provider.requests) == 3)
    assert not any(task.done() for task in tasks)
    go.set()
    assert await asyncio.gather(*tasks) == [True, "drop", "x"]
    for tool, (request, _) in zip("abc", provider.requests, strict=True):
        told = {id_: content for id_, content, _ in responses(request.context)}
        paused_ones = [id_ for id_, content in told.items() if content.startswith("Tool paused: ")]
        assert paused_ones == [f"call_{tool}"]
        assert sum(is_kind(entry, "chat_request") for entry in entries(request.context)) == 2
    assert len(context) == 4


async def test_overrides_apply_by_tool_and_question() -> None:
    own = EventProvider(answer_events("a"), answer_events("b"))
    other = EventProvider(answer_events(True))
    backend = new_question_model(
        own,
        settings={"system": ("Small.",)},
        overrides={
            ("rename", "sure"): {"provider": other, "model": "large", "system": ("Large.",)},
        },
    )
    assert await backend.inquire(waiting_context(), inquiry()) is True
    assert await backend.inquire(waiting_context(), inquiry(NAME)) == "a"
    elsewhere = model_inquiry(
        "call_1.sure.1", "call_1", "look", NAME.model_copy(update={"id": "sure"})
    )
    with pytest.raises(jp.JpNbError):  # asked, though the id is another tool's
        await backend.inquire(waiting_context(), elsewhere)
    [(request, _)] = other.requests
    assert (request.model, request.system) == ("large", ("Large.",))
    assert [request.system for request, _ in own.requests] == [("Small.",)] * 2


# --- doubles ---------------------------------------------------------------------------------


@pytest.mark.req("R028-18")
async def test_backends_are_interchangeable() -> None:
    backends: list[Any] = [
        Backend(answer_events(True)).real,
        MockInquiryBackend({ID: True}),
    ]
    context = waiting_context()
    assert [await backend.inquire(context, inquiry()) for backend in backends] == [True, True]


async def test_script_answers_questions() -> None:
    rows: list[tuple[str, jp.Question, Any]] = [
        ('"rename.sure" = true', SURE, True),
        ('"rename.keep" = "drop"', KEEP, "drop"),
        ('"rename.name" = "b.txt"', NAME, "b.txt"),
    ]
    for toml, question, answer in rows:
        provider = ScriptedProvider(Script.parse(f"[inquiries]\n{toml}"))
        assert await Backend(provider=provider).ask(question) == answer


# --- error messages ----------------------------------------------------------------------------


async def test_error_message_hides_addresses_and_keys(subtests: pytest.Subtests) -> None:
    for text, told in [
        (
            "cannot connect to openai at http://me:pw@llm.corp:8443/v1/chat: llm.corp is down. "
            "Its address is providers.llm.openai.base_url",
            "cannot connect to openai at [address]: [address] is down. Its address is "
            "providers.llm.openai.base_url",
        ),
        ("wrong answer (https://10.0.0.7/v1).", "wrong answer ([address])."),
        ("refused by 10.0.0.7:443 and localhost:8080", "refused by [address] and [address]"),
        ("gateway llm.internal:9000 is closed", "gateway [address] is closed"),
        ("Incorrect key sk-proj-abc12345****9 given", "Incorrect key [key] given"),
        ("authorization: Bearer abc.def", "authorization: [key]"),
        ("anthropic answered 529: Overloaded", "anthropic answered 529: Overloaded"),
        ("replies[0].text: expected 3.5 tokens", "replies[0].text: expected 3.5 tokens"),
        ("a keyword argument", "a keyword argument"),
    ]:
        with subtests.test(text=text):
            failure = await Backend([jp.ProviderError(text)]).failure()
            assert failure == f"LLM provider error: {told}"


async def test_error_message_is_truncated() -> None:
    failure = await Backend([jp.ProviderError("a-" * 100_000)]).failure()
    assert len(failure.removeprefix("LLM provider error: ")) == 1000


async def test_error_message_is_not_truncated_within_a_key_or_an_address() -> None:
    for secret in ["sk-proj-abc12345", "https://llm.corp/v1"]:
        for length in range(1, len(secret)):
            text = "x" * (999 - length) + " " + secret + " was refused"
            failure = await Backend([jp.ProviderError(text)]).failure()
            assert "sk-" not in failure
            assert "llm" not in failure


async def test_connection_error_hides_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-mine")
    address = "http://127.0.0.1:9"
    provider = new_provider("openai", {"base_url": address, "base_url_env": None})
    backend = Backend(provider=provider)
    try:
        error = await backend.failure()
    finally:
        await provider.aclose()
    assert error.startswith("LLM provider error: no server of openai runs at [address]")
    assert "127.0.0.1" not in error
    assert "sk-of-mine" not in error
    assert backend.slept == []  # a local server that does not run is no transient error


# --- over HTTP -----------------------------------------------------------------------------------


def make_http_provider(protocol: str, server: LoopbackServer) -> Any:
    return new_provider(protocol, {"base_url": server.url, "base_url_env": None})


def sent_schema(body: Any, protocol: str) -> Any:
    if protocol == "anthropic":
        return body["output_config"]["format"]["schema"]
    return body["response_format"]["json_schema"]["schema"]


def choice(body: Any, protocol: str) -> Any:
    return body["tool_choice"]["type"] if protocol == "anthropic" else body["tool_choice"]


def texts(message: Any) -> str:
    return json.dumps(message, ensure_ascii=False)


@pytest.mark.req("R028-5", "R028-9", "R028-16", "R028-17", "R028-20", "R028-21")
@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_request_over_http_starts_like_the_conversations_own(protocol: str) -> None:
    tools = (
        make("tool_definition", "rename", "Renames.", {}),
        make("tool_definition", "look", "Looks.", {}),
    )
    system = ("Be brief.", "Really.")
    main = make_context(user("Rename a.txt."), provider=protocol)
    with LoopbackServer(["Let me.", json.dumps({"inquiry_id": ID, "answer": "drop"})]) as server:
        provider = make_http_provider(protocol, server)
        request = make("model_request", model="m", context=main, system=system, tools=tools)
        try:
            async for _ in provider.stream(request):
                pass
            for entry in (
                model_answer("Let me."),
                called("call_1", "rename"),
                called("call_2", "look"),
            ):
                main.add(entry, protocol)
            backend = new_question_model(provider, "m", settings={"system": system}, tools=tools)
            assert await backend.inquire(main, inquiry(KEEP)) == "drop"
        finally:
            await provider.aclose()
    first, second = (received.body for received in server.requests)
    count = len(first["messages"])
    assert second["messages"][:count] == first["messages"]
    for name in ("model", "system", "tools"):
        assert second.get(name) == first.get(name)
    assert (choice(first, protocol), choice(second, protocol)) == ("auto", "none")
    added = texts(second["messages"][count:])
    for part in ("Tool paused: Keep it?", NO_RESULT_YET, "`rename`"):
        assert part in added
    last = texts(second["messages"][-1])
    assert second["messages"][-1]["role"] == "user"
    assert "Question: Keep it?" in last
    properties = sent_schema(second, protocol)["properties"]
    assert properties["answer"] == {"type": "string", "enum": ["keep", "drop"]}
    constant = {"const": ID} if protocol == "anthropic" else {"enum": [ID]}
    assert properties["inquiry_id"] == {"type": "string", **constant}
    assert sent_schema(second, protocol)["required"] == ["inquiry_id", "answer"]
    assert sent_schema(second, protocol)["additionalProperties"] is False


@pytest.mark.req("R028-26")
@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_one_provider_serves_many_parallel_inquiries(protocol: str) -> None:
    """More than a provider keeps renderings of."""
    count = 6

    def answer(received: Received) -> Reply:
        properties = sent_schema(received.body, protocol)["properties"]
        node = properties["inquiry_id"]
        constant = node.get("const") or node["enum"][0]
        return Reply(json.dumps({"inquiry_id": constant, "answer": constant}), pause=0.002)

    main = make_context(user("Go."), *[called(f"call_{n}", "rename") for n in range(count)])
    with LoopbackServer(answer) as server:
        provider = make_http_provider(protocol, server)
        backend = new_question_model(provider, "m")
        asked = [inquiry(NAME, call=f"call_{n}") for n in range(count)]
        try:
            got = await asyncio.gather(*[backend.inquire(main, one) for one in asked])
        finally:
            await provider.aclose()
    assert got == [one.schema_id for one in asked]
