"""Each request begins with the previous one of its conversation, whatever happened in between."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.agent.turn_record import TurnRecord
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.stream import ConversationStream
from tests.kit.kinds import is_kind, make
from tests.kit.models import record_response
from tests.kit.providers import new_provider, prepare_request
from tests.kit.records import new_event
from tests.providers.helpers import DIALECTS, ask, make_context

THINKING_SIGNATURE_KEY = "anthropic_thinking_signature"
HEAD_CHANGE_KEY = "head_change"
HEAD_KEY = "head"
MAX_HEAD_CHARS = 1_000_000


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}
APPENDS_TOOLS = ("anthropic", "responses")


def make_tool(name: str, version: int) -> Any:
    parameters: dict[str, Any] = {
        "z": {"type": "string"},
        "a": {"type": "integer", "minimum": version},
    }
    return make(
        "tool_definition", name, f"Tool {name}.", {"type": "object", "properties": parameters}
    )


heads = st.fixed_dictionaries(
    {
        "system": st.sampled_from([(), ("Be brief.",), ("Be brief.", "Be kind."), ("Be Bo.",)]),
        "tools": st.lists(
            st.builds(make_tool, st.sampled_from("abc"), st.integers(0, 1)),
            max_size=3,
            unique_by=lambda tool: tool.name,
        ).map(tuple),
        "attachments": st.lists(
            st.builds(
                make,
                st.just("attachment"),
                st.sampled_from(["x.md", "y.md"]),
                st.just("text/plain"),
                st.sampled_from(["One.", "Two."]),
            ),
            max_size=2,
            unique_by=lambda attachment: attachment.source,
        ).map(tuple),
        "reasoning": st.sampled_from([None, "low", "high"]),
        "schema": st.sampled_from([None, None, SCHEMA]),
        "tool_choice": st.sampled_from(["auto", "auto", "none", "required"]),
    }
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("request"), heads),
        st.sampled_from(["call", "restart", "compact", "undo", "reopen"]),
    ),
    max_size=12,
)


@dataclass
class History:
    """A conversation, and the parts of each request that is still in its record."""

    dialect: str
    provider: Any = field(init=False)
    record: TurnRecord = field(init=False)
    head: dict[str, Any] = field(default_factory=dict)
    contents: dict[Any, Any] = field(default_factory=dict)
    sent: list[tuple[int, list[tuple[str, bytes]]]] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        self.name, self.model, settings = DIALECTS[self.dialect]
        self.provider = new_provider(self.name, settings)
        stream = ConversationStream.new(clock=utc_now, made="live")
        self.record = TurnRecord(stream, build_context(stream, [self.name]), self.name)

    @property
    def needs_tools_in_front(self) -> bool:
        """True if the head has tools that the server does not accept at a later place."""
        heads = self.record.context.heads
        offered = {tool.name: tool for _, head in heads for tool in head.tools}
        new = [x for x in self.head.get("tools", ()) if offered.get(x.name) != x]
        return bool(new) and (self.dialect not in APPENDS_TOOLS or not offered)

    def make_request(self) -> Any:
        parts = dict(self.head)
        parameters = make("parameters", reasoning=parts.pop("reasoning", None))
        self.record.context.note_contents(parts.get("attachments", ()))
        self.contents |= self.record.context.contents
        return make(
            "model_request",
            self.model,
            self.record.context,
            parameters=parameters,
            is_turn=True,
            **parts,
        )

    def respond(self, *entries: Any) -> None:
        """Send a request, check its beginning, and append its response."""
        request = self.make_request()
        may_lose = self.needs_tools_in_front
        body, parts = prepare_request(self.provider, request)
        assert body == self.provider.preview(request).body

        before = self.sent[-1][1] if self.sent else []
        assert may_lose or parts[: len(before)] == before
        self.sent.append((len(self.record.stream), parts))
        record_response(request, self.name, entries, record=self.record)

    def reopen(self, *, in_turn: bool = False) -> None:
        """Read the record as another kernel does after the notebook was saved."""
        stream = self.record.stream
        raw = json.loads(json.dumps(stream.raw, sort_keys=True))
        stream = ConversationStream(stream.properties, clock=utc_now, raw=raw)
        context = build_context(stream, [self.name], in_turn=in_turn)
        self.record = TurnRecord(stream, context, self.name)
        # A session that cannot read the contents of earlier attachments begins a new head.
        self.record.context.contents = {**self.contents}


@pytest.mark.req("PRE-1")
@pytest.mark.parametrize("dialect", DIALECTS)
@given(history=steps)
def test_random_histories_only_grow(dialect: str, history: list[Any]) -> None:
    talk = History(dialect)
    talk.record.start_turn(new_event("chat_request", content="Begin."))
    talk.respond(
        new_event("chat_response", reasoning="Hm."), new_event("chat_response", message="Text 0.")
    )
    for number, step in enumerate(history):
        match step:
            case ("request", head):
                talk.head = head
                talk.record.start_turn(new_event("chat_request", content=f"Turn {number}."))
                talk.respond(new_event("chat_response", message=f"Text {number}."))
            case "call":
                call = new_event("tool_call_request", id=f"c{number}", name="a", arguments={"a": 1})
                talk.record.start_turn(new_event("chat_request", content=f"Call {number}."))
                talk.respond(call)
                talk.record.add(
                    new_event("tool_call_response", id=call.id, content="x", is_error=False)
                )
                talk.respond(new_event("chat_response", message="Done."))
            case "restart":  # while the second of two calls runs
                first, second = (
                    new_event(
                        "tool_call_request",
                        id=f"{name}{number}",
                        name="a",
                        arguments={"b": 1.0, "a": 1},
                    )
                    for name in "cd"
                )
                talk.record.start_turn(new_event("chat_request", content=f"Calls {number}."))
                talk.respond(first, second)
                talk.record.add(
                    new_event("tool_call_response", id=first.id, content="x", is_error=False)
                )
                talk.reopen(in_turn=True)
                talk.record.add(
                    new_event("tool_call_response", id=second.id, content="y", is_error=True)
                )
                talk.respond(new_event("chat_response", message="Done."))
            case "compact":
                last = talk.record.stream.turn_count - 1
                talk.record.add(
                    new_event("compaction", from_turn=0, to_turn=last, reasoning="strip")
                )
                talk.sent.clear()
                talk.reopen()
            case "undo" if talk.record.stream.turn_count > 1:
                stream = talk.record.stream
                start = max(n for n, x in enumerate(stream.entries) if is_kind(x, "turn_start"))
                stream.rewrite(stream.list_items()[:start])
                talk.sent = [each for each in talk.sent if each[0] <= start]
                talk.reopen()
            case "reopen":
                talk.reopen()


def signed(number: int) -> Any:
    return new_event(
        "chat_response", reasoning="Hm.", metadata={THINKING_SIGNATURE_KEY: f"sig{number}"}
    )


@pytest.mark.req("PRE-4", "PRE-5")
def test_signatures_are_sent_only_behind_what_they_were_made_for() -> None:
    talk = History("anthropic")
    provider = talk.provider
    for number in range(3):
        talk.record.start_turn(new_event("chat_request", content=f"Turn {number}."))
        talk.respond(signed(number), new_event("chat_response", message=f"Text {number}."))

    def sent_signatures() -> list[str]:
        body = provider.preview(talk.make_request()).body.decode()
        return re.findall("sig[0-9]", body)

    assert sent_signatures() == ["sig0", "sig1", "sig2"]
    talk.reopen()
    assert sent_signatures() == ["sig0", "sig1", "sig2"]
    whole = talk.record.stream
    start = max(n for n, each in enumerate(whole.entries) if is_kind(each, "turn_start"))
    talk.record = TurnRecord(whole, build_context(whole.until(start), ["anthropic"]), "anthropic")
    assert sent_signatures() == ["sig0", "sig1"]  # as after undo, and in a fork

    omitted = {"policy": "omit"}
    whole.append(new_event("compaction", from_turn=0, to_turn=0, tool_calls=omitted))
    talk.reopen()
    assert sent_signatures() == []
    texts = provider.preview(talk.make_request()).body.count(b"<think>\\nHm.\\n</think>")
    assert texts == 3
    talk.sent.clear()
    talk.record.start_turn(new_event("chat_request", content="Turn 3."))
    talk.respond(signed(3), new_event("chat_response", message="Text 3."))
    assert sent_signatures() == ["sig3"]
    talk.reopen()
    assert sent_signatures() == ["sig3"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_head_of_a_response_that_is_not_sent_keeps_its_change(dialect: str) -> None:
    talk = History(dialect)
    talk.record.start_turn(new_event("chat_request", content="Hello."))
    for text in ("Be short.", "Be long."):
        talk.head = {"system": (text,)}
        talk.respond(new_event("chat_response", message="Hi."))
    context = talk.record.context
    del context.items[-1]  # as after a repair: its entry is hidden
    assert context.heads[-1].item_count == len(context)
    bodies = []
    for text in ("Be long.", "Be kind."):
        talk.head = {"system": (text,)}
        bodies.append(talk.provider.preview(talk.make_request()).body)
    assert all(b"replace all earlier ones:\\n\\nBe long." in body for body in bodies)
    assert b"replace all earlier ones:\\n\\nBe kind." in bodies[1]


@pytest.mark.parametrize("dialect", ["chat", "google", "google generate"])
def test_model_learns_that_removed_tools_are_back(dialect: str) -> None:
    talk = History(dialect)
    talk.record.start_turn(new_event("chat_request", content="Hello."))
    for tools in ((make_tool("a", 0),), ()):
        talk.head = {"tools": tools}
        talk.respond(new_event("chat_response", message="Hi."))
    talk.head = {"tools": (make_tool("a", 0),)}
    body = talk.provider.preview(talk.make_request()).body
    assert b"These tools are available from now on: `a`." in body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_first_tools_of_a_conversation_are_in_front_alone(dialect: str) -> None:
    talk = History(dialect)
    talk.record.start_turn(new_event("chat_request", content="Hello."))
    talk.respond(new_event("chat_response", message="Hi."))
    talk.head = {"tools": (make_tool("a", 0),)}
    for _ in range(2):
        talk.record.start_turn(new_event("chat_request", content="And now?"))
        body = talk.provider.preview(talk.make_request()).body
        assert body.count(b"Tool a.") == 1
        assert b"available from now on" not in body
        talk.respond(new_event("chat_response", message="Hi."))


def test_new_head_without_signatures_and_huge_head_unrecorded() -> None:
    talk = History("anthropic")
    talk.record.start_turn(new_event("chat_request", content="Hello."))
    talk.respond(signed(0), new_event("chat_response", message="Hi."))
    talk.record.start_turn(new_event("chat_request", content="More."))
    assert b"sig0" in talk.provider.preview(talk.make_request()).body
    talk.record.context = talk.record.context.without_heads()
    assert b"sig0" not in talk.provider.preview(talk.make_request()).body

    huge = ask(system=("x" * MAX_HEAD_CHARS,))
    [entry] = record_response(huge, "anthropic", [new_event("chat_response", message="Hi.")])
    assert entry.metadata == {}


def test_unknown_or_damaged_head_is_ignored() -> None:
    request = ask(system=("One.",))
    record_response(request, "anthropic", [new_event("chat_response", message="Hi.")])
    recorded = [*request.context.heads]
    assert [position.head.system for position in recorded] == [("One.",)]

    damaged: Any
    for damaged in ({"x": 1}, {"tools": ["none"]}, {"system": "One."}, {"attachments": [{}]}, []):
        entry = new_event("chat_response", message="a", metadata={HEAD_CHANGE_KEY: damaged})
        request.context.note_head(entry)
        assert request.context.heads == recorded

        fresh = make_context()
        fresh.note_head(entry.with_metadata(**{HEAD_KEY: damaged}))
        assert fresh.heads == []
