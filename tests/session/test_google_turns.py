"""Turns with Gemini: its steps in the record, and a change of the provider."""

from __future__ import annotations

import gc
import json
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.kit.screens import display_event
from tests.kit.sessions import directive, new_session
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.loopback import (
    STREAM,
    LoopbackServer,
    RawResponse,
    Received,
    Reply,
    ToolCall,
)
from tests.support.loopback_google import generate_chunks, interaction_events, named
from tests.support.sessions import run_line

CITATION = {"type": "url_citation", "url": "https://a.b", "start_index": 0}
THOUGHT = {"type": "thought", "signature": "c2ln", "later": {"b": 1, "a": [None, 1.5]}}
OUTPUT = {
    "type": "model_output",
    "content": [{"type": "text", "text": "Look.", "annotations": [CITATION]}],
}
DREAM = {"type": "dream", "depth": 3}
CALL = {"type": "function_call", "id": "fc_1", "name": "weather", "arguments": {}, "later": 2}
STEPS = (THOUGHT, OUTPUT, DREAM, CALL)
SENT_BACK = [  # without unknown fields and unknown steps
    {"type": "thought", "signature": "c2ln"},
    OUTPUT,
    {"type": "function_call", "id": "fc_1", "name": "weather", "arguments": {}},
]
DIALECTS = ("interactions", "generate")
LISTS = {"interactions": "input", "generate": "contents"}


def stream(*steps: dict[str, Any], status: str = "completed") -> Reply:
    events: list[dict[str, Any]] = []
    for index, step in enumerate(steps):
        events.append({"event_type": "step.start", "index": index, "step": step})
        events.append({"event_type": "step.stop", "index": index})
    interaction = {"id": "v1", "status": status}
    events.append({"event_type": "interaction.completed", "interaction": interaction})
    return Reply(raw=tuple(map(named, events)))


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    replies = iter([stream(*STEPS, status="requires_action")])

    def answer(request: Received) -> Reply | str:
        return '{"a": 1}' if "response_format" in request.body else next(replies, "Fine.")

    with LoopbackServer(answer) as opened:
        yield opened


def open_session(
    server: LoopbackServer, stored: Any = None, *, dialect: str = "interactions", days: int = 0
) -> Session:
    session = new_session(host=FakeHost(home=FakeHome(stored=stored)), days=days)
    session.configure(directive("cfg", f"providers.llm.google.dialect={dialect}"))
    for name in ("google", "anthropic", "openai"):
        session.configure(directive("cfg", f"providers.llm.{name}.base_url={server.url}"))
    return session


def weather() -> str:
    """Return the weather."""
    return "sun"


def sent_steps(server: LoopbackServer) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = server.requests[-1].body["input"]
    return steps


@pytest.mark.req("GEM-4", "GEM-17")
def test_steps_are_the_same_json_after_saving_forking_and_exporting(
    folder: Path, server: LoopbackServer
) -> None:
    session = open_session(server)
    jp.tool(run="unattended")(weather)
    session.turns.run("Go.", model="google/m")
    assert sent_steps(server)[1:4] == SENT_BACK
    stored = json.loads(json.dumps(session.document.to_json()))
    session.close()
    reopened = open_session(server, stored)
    reopened.turns.run("And now?", model="google/m")
    assert sent_steps(server)[1:4] == SENT_BACK
    reopened.conversations.fork()
    reopened.turns.run("And then?")
    assert sent_steps(server)[1:4] == SENT_BACK
    run_line(reopened, "export out")
    reopened.close()
    imported = open_session(server, days=1)  # the id of a conversation is its time
    run_line(imported, "import out")
    imported.active.accept()
    imported.turns.run("At last?", model="google/m")
    assert sent_steps(server)[1:4] == SENT_BACK
    imported.close()


@pytest.mark.req("GEM-16")
def test_conversation_changes_the_provider_with_an_open_call(
    folder: Path, server: LoopbackServer
) -> None:
    session = open_session(server)  # without the tool, so the call fails
    session.turns.run("Go.", model="google/m")
    for model in ("anthropic/m", "google/m", "openai/m", "google/m"):
        assert session.turns.run("Next.", model=model).text == "Fine."
    assert sent_steps(server)[1:4] == SENT_BACK
    assert sent_steps(server)[4]["type"] == "function_result"
    session.close()
    assert "google_step" not in json.dumps([request.body for request in server.requests])


OTHERS = ("anthropic", "openai chat", "openai responses")


@pytest.mark.req("GEM-16")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("is_back", [False, True], ids=["from Gemini", "to Gemini"])
def test_another_provider_continues_after_a_call_without_a_result(
    folder: Path, dialect: str, other: str, is_back: bool
) -> None:
    provider, _, other_dialect = other.partition(" ")
    models = [f"{provider}/m", "google/m"] if is_back else ["google/m", f"{provider}/m"]
    look = Reply(reasoning="Hm.", text="Look: ", tool_calls=(ToolCall("weather", {}, id="c1"),))
    replies = iter([look])

    def opened(server: LoopbackServer, stored: Any = None) -> Session:
        session = open_session(server, stored, dialect=dialect)
        if other_dialect:
            change = directive("cfg", f"providers.llm.openai.dialect={other_dialect}")
            session.configure(change)
        return session

    with LoopbackServer(lambda _: next(replies, "Fine.")) as server:
        session = opened(server)
        jp.tool(run="unattended")(weather)
        session.turns.run("Go.", model=models[0])
        stored: Any = json.loads(json.dumps(session.document.to_json()))
        session.close()
        kinds = [event["type"] for event in stored["events"]]
        del stored["events"][kinds.index("tool_call_response") :]  # the kernel died within the call
        again = opened(server, stored)
        for model in (models[1], models[0], models[1]):
            assert again.turns.run("Next.", model=model).text == "Fine."
        again.close()
    # The server refuses a call without a result, and a signature of another provider.
    first, _, second, third, fourth = (json.dumps(request.body) for request in server.requests)
    assert "c2lnbmF0dXJl" not in first + second
    assert ("c2lnbmF0dXJl" in third) == (models[0] != "openai/m" or other_dialect == "responses")
    assert "c2lnbmF0dXJl" not in fourth
    assert all("Look: " in body and "weather" in body for body in (second, third, fourth))


def partial_answer(dialect: str) -> Iterator[bytes]:
    """Yield the begin of a stream, without the signature of its thought."""
    reply = Reply(reasoning="Hm.", text="One, two, three")
    events = (
        interaction_events(reply, "m", 1)
        if dialect == "interactions"
        else generate_chunks(reply, 1)
    )
    encoded = [b"data: %b\n\n" % json.dumps(event).encode() for event in events]
    last = next(number for number, data in enumerate(encoded) if b"two" in data)
    return (data for data in encoded[: last + 1] if b"thought_signature" not in data)


@pytest.mark.req("GEM-21")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_interrupt_closes_the_stream_and_the_partial_answer_is_sent_as_text(
    folder: Path, dialect: str
) -> None:
    closed = threading.Event()
    main_thread = threading.get_ident()
    host = FakeHost(home=FakeHome())

    def open_stream() -> Iterator[bytes | float]:
        try:
            yield STREAM
            yield from partial_answer(dialect)
            while (
                display_event("show_text", "message", "One, two")
                not in host.person.outputs[-1].events
            ):
                yield 0.01
            signal.pthread_kill(main_thread, signal.SIGINT)
            while True:
                yield from (b": still here\n\n", 0.01)
        finally:
            closed.set()

    def answer(request: Received) -> Any:  # no list, which would hold the stream
        is_first = b"Next." not in request.raw
        return RawResponse(open_stream()) if is_first else "Fine."

    with LoopbackServer(answer) as server:
        session = Session(host)
        for setting in (f"google.base_url={server.url}", f"google.dialect={dialect}"):
            session.configure(directive("cfg", f"providers.llm.{setting}"))
        session.configure(directive("cfg", "interrupt.streaming.action=stop"))
        with pytest.raises(KeyboardInterrupt):
            session.turns.run("Count.", model="google/m")
        for _ in range(100):
            gc.collect()  # the error of the closed connection holds the stream
            if closed.wait(0.1):
                break
        assert closed.is_set()
        session.turns.run("Next.")
        session.close()
    sent = server.requests[-1].body[LISTS[dialect]]
    assert "ignature" not in json.dumps(sent)
    members = "content" if dialect == "interactions" else "parts"
    said = [part["text"] for each in sent for part in each[members]]
    assert said == ["Count.", "<think>\nHm.\n</think>\n\n", "One, two", "Next."]


@pytest.mark.req("GEM-8")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_answer_is_checked_against_the_schema_of_the_user(folder: Path, dialect: str) -> None:
    schema = {
        "type": "object", "properties": {"name": {"type": "string", "maxLength": 3}},
        "required": ["name"],
    }  # fmt: skip
    misfit = "the answer does not fit the schema: "
    rows = [
        ('{"name": "Bo"}', ""),
        ('{"name": "Barbara"}', misfit + "$.name: expected at most 3 characters"),
        ("{}", misfit + "$: expected 'name' in it"),
        ('{"name": "Bo', misfit + "$: expected object"),
        ("I cannot.", "the model gave no structured answer"),
    ]
    for said, problem in rows:
        with LoopbackServer([said]) as server:
            session = open_session(server, dialect=dialect)
            if problem:
                with pytest.raises(jp.AnswerError, match=re.escape(problem)):
                    session.turns.run("Who?", model="google/m", schema=schema)
            else:
                result = session.turns.run("Who?", model="google/m", schema=schema)
                assert result.data == json.loads(said)
            session.close()


@pytest.mark.req("GEM-15")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_setting_decides_whether_changed_instructions_are_appended(
    folder: Path, dialect: str
) -> None:
    for appends in ("true", "false"):
        with LoopbackServer(lambda _: "Fine.") as server:
            session = open_session(server, dialect=dialect)
            setting = f"providers.llm.google.append_instructions={appends}"
            session.configure(directive("cfg", setting))
            for prompt in ("Be kind.", "Be bold."):
                change = directive("cfg", f"assistant.system_prompt={prompt}")
                session.turns.run("Go.", model="google/m", directives=[change])
            session.close()
        first, second = (request.body for request in server.requests)
        name = "system_instruction" if dialect == "interactions" else "systemInstruction"
        before = json.dumps(first[name])
        after = json.dumps(second[name])
        said = json.dumps(second[LISTS[dialect]])
        assert "Be kind." in before
        if appends == "true":
            assert after == before
            assert "<system>\\nThese instructions replace all earlier ones:" in said
            assert "Be bold." in said
        else:
            assert after == before.replace("Be kind.", "Be bold.")
            assert "<system>" not in said


@pytest.mark.req("GEM-14")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_removed_tool_stays_in_the_list_and_is_not_allowed(
    folder: Path, server: LoopbackServer, dialect: str
) -> None:
    session = open_session(server, dialect=dialect)
    jp.tool(run="unattended")(weather)
    jp.tool(run="unattended")(today)
    session.turns.run("Go.", model="google/m")
    session.turns.run("Go on.", directives=[directive("no_tool", "today")])
    session.close()
    body = server.requests[-1].body
    if dialect == "interactions":
        listed = [tool["name"] for tool in body["tools"]]
        allowed = body["generation_config"]["tool_choice"]["allowed_tools"]["tools"]
    else:
        listed = [tool["name"] for tool in body["tools"][0]["functionDeclarations"]]
        allowed = body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"]
    assert {*listed} - {*allowed} == {"today"}
    assert "These tools are no longer available: `today`." in json.dumps(body)


def today() -> str:
    """Return the date."""
    return "today"
