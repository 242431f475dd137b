"""Changes in the middle of a conversation keep what was sent before, with each dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.sessions import directive
from tests.support.loopback import Reply, ToolCall
from tests.support.prefixes import keeps_all, list_parts, notices_in
from tests.support.talks import MODELS, Talk, open_talks

PROMPT = "assistant.system_prompt"
ENABLE = "conversation.tools.weather.enable"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture(autouse=True)
def tools() -> Iterator[None]:
    @jp.tool
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"sun in {city}"

    rules = [jp.ConfigRule(path, write=True, apply="unattended") for path in (PROMPT, ENABLE)]

    @jp.tool(access=rules)
    def switch(path: str, value: str) -> jp.Success:
        """Change a setting."""
        *parents, last = path.split(".")
        change: Any = {last: json.loads(value)}
        for key in reversed(parents):
            change = {key: change}
        return jp.Success("Done.", config=change)

    yield
    for name in ("weather", "switch"):
        jp.remove_tool(name)


@pytest.fixture(params=MODELS)
def begin(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Talk]]:
    """Return a function that starts a server with these replies."""
    monkeypatch.setenv("PREFIX_KEY", "k-0123456789abcdef0123")
    with open_talks(request.param, folder) as start:
        yield start


def call(**arguments: Any) -> Reply:
    return Reply(tool_calls=(ToolCall("switch", arguments),))


OFF = directive("no_tool", "weather")
CHANGES: dict[str, tuple[list[Any], dict[str, Any], list[Reply | str]]] = {
    "next turn": ([], {}, []),
    "tool round": ([], {}, [Reply(text="Hm.", tool_calls=(ToolCall("weather", {"city": "x"}),))]),
    "tool off": ([OFF], {}, []),
    "tool off by a tool": ([], {}, [call(path=ENABLE, value="false")]),
    "instructions": ([directive("cfg", f"{PROMPT}=Be Bo.")], {}, []),
    "instructions by a tool": ([], {}, [call(path=PROMPT, value='"Be Bo."')]),
    "effort": ([directive("cfg", "assistant.model.parameters.reasoning=high")], {}, []),
    "schema": ([], {"schema": SCHEMA}, ['{"n": 1}']),
    "forced tool": ([], {"tool_choice": "tool:weather"}, []),
    "attachment": ([directive("attach", "notes.md")], {}, []),
}


@pytest.mark.req("PRE-1", "PRE-3")
@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_appended(begin: Callable[..., Talk], change: str) -> None:
    directives, options, replies = CHANGES[change]
    talk = begin("One.", "Two.", *replies, "Three.", "Four.")
    notebook = talk.open()
    notebook.ask("First. " + "word " * 3000)
    notebook.ask("Second.")
    notebook.ask("Third.", *directives, **options)
    if len(talk.server.requests) < 3 + len(replies):
        notebook.ask("Fourth.")
    # llama.cpp has no choice of one tool, so it gets only that one.
    loses = (talk.dialect, change) == ("llamacpp", "forced tool")
    assert all(keeps_all(*pair) for pair in pairwise(talk.server.requests)) != loses
    assert ("of the previous request" in notices_in(notebook)) == loses


@pytest.mark.req("PRE-1", "PRE-3")
def test_new_tool_and_edited_attachment(begin: Callable[..., Talk]) -> None:
    talk = begin("One.", "Two.", "Three.", "Four.")
    notebook = talk.open()
    notebook.ask("First. " + "word " * 3000, OFF, directive("attach", "notes.md"))
    (talk.folder / "notes.md").write_text("Edited notes.")
    notebook.ask("Second.")
    notebook.ask("Third.", directive("cfg", "conversation.attachments:=[]"))
    notebook.ask("Fourth.", directive("tool", "weather"))
    first, second, third, fourth = talk.server.requests
    later = "".join(list_parts(second)[len(list_parts(first)) :])
    assert "Edited notes." in later
    assert "removed these attachments: `notes.md`" in list_parts(third)[-1]
    appends_tools = talk.dialect == "anthropic"  # the others have no way to add a tool
    assert keeps_all(first, second)
    assert keeps_all(second, third)
    assert keeps_all(third, fourth) == appends_tools
    assert ("`tools` changed" in notices_in(notebook)) != appends_tools


@pytest.mark.req("PRE-1", "PRE-3")
def test_older_claude_reads_of_attachments_in_a_message_of_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFIX_KEY", "k-0123456789abcdef0123")
    older = directive("cfg", "assistant.model.id=anthropic/claude-sonnet-4-6")
    with open_talks("anthropic", folder) as start:
        talk = start("One.", "Two.", "Three.")
        notebook = talk.open()
        notebook.ask("First.", OFF, older, directive("attach", "notes.md"))
        (talk.folder / "notes.md").write_text("Edited notes.")
        notebook.ask("Second.")
        notebook.ask("Third.", directive("cfg", "conversation.attachments:=[]"))
    first, second, third = talk.server.requests
    assert {message["role"] for message in third.body["messages"]} == {"user", "assistant"}
    later = "".join(list_parts(second)[len(list_parts(first)) :])
    assert "New contents of `notes.md`" in later
    assert "Edited notes." in later
    assert "removed these attachments: `notes.md`" in list_parts(third)[-1]
    assert keeps_all(first, second)
    assert keeps_all(second, third)


@pytest.mark.req("PRE-1")
def test_saved_conversation_continues_with_the_same_bytes(begin: Callable[..., Talk]) -> None:
    talk = begin("One.", "Two.", "Three.", "Four.", "Five.")
    notebook = talk.open()
    notebook.ask("First.", directive("attach", "notes.md"))
    notebook.ask("Second.", OFF, directive("cfg", f"{PROMPT}=Be Bo."))
    again = talk.reopen(notebook)
    again.ask("Third.")
    (talk.folder / "notes.md").write_text("Edited notes.")
    later = talk.reopen(again)
    later.ask("Fourth.")
    later.ask("Fifth.")
    first, second, third, fourth, fifth = talk.server.requests
    assert keeps_all(first, second)
    assert keeps_all(second, third)
    assert not keeps_all(third, fourth)
    assert "other contents of `notes.md`" in notices_in(later)
    assert keeps_all(fourth, fifth)


def test_many_missing_attachments_have_a_short_notice(begin: Callable[..., Talk]) -> None:
    talk = begin("One.", "Two.")
    notebook = talk.open()
    notebook.ask("First.")
    stored: Any = json.loads(json.dumps(notebook.session.document.to_json()))
    listed = [{"source": f"{n}\n" * 99, "type": "text/plain", "digest": ""} for n in range(1000)]
    first_response(stored)["metadata"]["head"]["attachments"] = listed
    again = talk.open({**stored, "signature": None})
    again.jp("trust --yes")
    again.ask("Second.")
    notices = notices_in(again)
    assert "and 999 more attachments" in notices
    assert len(notices) < 1000
    assert "Two." in again.session.document.to_json()["events"][-1]["message"]  # type: ignore


def first_response(stored: Any) -> Any:
    return next(event for event in stored["events"] if event["type"] == "chat_response")


def evil_tool(name: str) -> str:
    return json.dumps({"name": name, "description": "EVIL", "parameters": {"type": "object"}})


DEEP: Any = json.loads("[" * 90 + "]" * 90)
HOSTILE_PARTS: list[dict[str, Any]] = [
    {"system": ["EVIL"]},
    {"tools": [evil_tool("weather")]},
    {"tools": [evil_tool("send_mail"), "weather"]},
    {"tool_choice": "tool:EVIL"},
    {"attachments": [{"source": "EVIL", "type": "text/plain", "digest": ""}]},
    {"schema": '{"type":"object","description":"EVIL"}'},
    {"reasoning": {"effort": "EVIL"}},
    {"reasoning": "EVIL"},
    {"reasoning": DEEP},
    {"reasoning": ["EVIL"]},
    {"system": "EVIL"},
    {"system": [5, None, {"EVIL": 1}]},
    {"tools": [5]},
    {"tools": ["[" * 100_000]},
    {"tools": ["EVIL"]},
    {"schema": "[" * 100_000},
    {"schema": "5"},
    {"attachments": ["EVIL"]},
    {"EVIL": "EVIL"},
]


@pytest.mark.parametrize("begin", ["anthropic", "chat", "responses"], indirect=True)
def test_head_in_a_record_of_a_stranger_brings_no_text(
    begin: Callable[..., Talk], subtests: pytest.Subtests
) -> None:
    talk = begin("One.", "Two.", *["Three."] * (len(HOSTILE_PARTS) + 1))
    notebook = talk.open()
    notebook.ask("First.")
    notebook.ask("Second.", directive("cfg", "assistant.model.parameters.reasoning=high"))
    text = json.dumps(notebook.session.document.to_json())
    expected = talk.server.requests[-1]
    for parts in [{}, *HOSTILE_PARTS]:
        with subtests.test(parts=str(parts)[:60]):
            stored: Any = {**json.loads(text), "signature": None}
            responses = [each for each in stored["events"] if each["type"] == "chat_response"]
            for response, key in zip(responses, ("head", "head_change"), strict=True):
                response["metadata"].setdefault(key, {}).update(parts)
            again = talk.open(stored)
            again.ask("Third.")
            received = talk.server.requests[-1]
            assert b"EVIL" not in received.raw
            assert b"Third." in received.raw
            # Ids and phases of items in an untrusted record are not sent back.
            is_same = not parts and talk.dialect != "responses"
            assert keeps_all(expected, received) or not is_same
            again.session.close()


@pytest.mark.parametrize("begin", ["anthropic", "chat"], indirect=True)
def test_untrusted_record_continues_if_the_configuration_has_all_texts_of_its_heads(
    begin: Callable[..., Talk],
) -> None:
    talk = begin("One.", "Two.", "Three.", "Four.")
    notebook = talk.open()
    notebook.ask("First.")
    talk.settings = ("[conversation]", 'attachments = ["file:notes.md"]')
    again = talk.reopen(notebook)
    again.ask("Second.")
    stored = {**again.session.document.to_json(), "signature": None}

    same = talk.open(json.loads(json.dumps(stored)))
    same.ask("Third.")
    (talk.folder / "notes.md").write_text("Edited notes.")
    edited = talk.open(json.loads(json.dumps(stored)))
    edited.ask("Third.")

    first, second, third, other = talk.server.requests
    assert "Notes of a trip." not in "".join(list_parts(first))
    assert "Notes of a trip." in "".join(list_parts(second)[len(list_parts(first)) :])
    assert keeps_all(second, third)
    assert not keeps_all(second, other)


@pytest.mark.req("PRE-1")
def test_head_is_in_front_if_the_server_rejects_a_later_one(begin: Callable[..., Talk]) -> None:
    refusal = Reply(status=400, message="role 'system' is not supported on this model")
    talk = begin("One.", refusal, "Two.", "Three.")
    notebook = talk.open()
    notebook.ask("First.")
    notebook.ask("Second.", directive("cfg", f"{PROMPT}=Be Bo."))
    notebook.ask("Third.")
    _, refused, second, third = talk.server.requests
    assert "Be Bo." in list_parts(refused)[-1]
    assert "Be Bo." in "".join(list_parts(second))
    assert "replace all earlier" not in "".join(list_parts(second))
    assert keeps_all(second, third)


@pytest.mark.parametrize("command", ["undo", "compact -s --keep-first 0 --keep-last 0", ""])
def test_loss_that_the_user_ordered_has_no_notice(begin: Callable[..., Talk], command: str) -> None:
    talk = begin(*["Yes."] * 5)
    notebook = talk.open()
    notebook.ask("First.")
    notebook.ask("Second. " + "word " * 3000)
    if command:
        notebook.jp(command)
    else:
        notebook.ask("Third.", model=MODELS[talk.dialect][0] + "-x")
    notebook.ask("Last.")
    asked = [received for received in talk.server.requests if "tools" in received.body]
    assert keeps_all(*asked[-2:]) == (not command)
    assert ("of the previous request" in notices_in(notebook)) == (not command)
