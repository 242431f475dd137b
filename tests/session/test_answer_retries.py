"""A structured answer that does not fit goes back to the model, and fitting ones get their type."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator
from typing_extensions import TypedDict

import jp_nb as jp
from jp_nb.session.session import Session
from tests.kit.kinds import is_kind
from tests.kit.records import new_event
from tests.kit.sessions import directive
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.sessions import make_session, run_line, shell_of

ROUND = directive("cfg", "assistant.request.max_retries=0")


class City(BaseModel):
    name: str
    pop: int = Field(ge=0)

    @field_validator("name")
    @classmethod
    def check_name(cls, value: str) -> str:
        if value.isupper():
            raise ValueError("write it with small letters.")
        return value.strip()

    @model_validator(mode="after")
    def check_size(self) -> City:
        assert self.name != "Delft" or self.pop > 50, "Delft has more people"
        return self


class Country(BaseModel):
    model_config = ConfigDict(strict=True)

    capital: City
    founded: date
    others: list[City] = []


@dataclasses.dataclass
class Point:
    x: int


class Row(TypedDict):
    city: City


class Color(Enum):
    RED = "red"


DELFT: dict[str, Any] = {"name": "Delft", "pop": 100}
BONN = {"name": "Bonn", "pop": 9}
SHOUTED: dict[str, Any] = {"name": "BONN", "pop": 9}


@pytest.fixture
def session(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    session = make_session(City=City)
    yield session
    session.close()


def ask(
    session: Session,
    server: LoopbackServer,
    schema: object,
    *settings: str,
    provider: str = "openai",
) -> jp.Turn:
    url = f"providers.llm.{provider}.base_url={server.url}"
    directives = [ROUND, *(directive("cfg", setting) for setting in (url, *settings))]
    return session.turns.run("Go.", model=f"{provider}/m", directives=directives, schema=schema)


def messages(server: LoopbackServer) -> list[str]:
    """Return the texts of the last request, in any of the APIs."""
    body = server.requests[-1].body
    items = body.get("messages") or body.get("contents") or body.get("input")
    return [json.dumps(item) for item in items]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google", "llamacpp", "ollama"])
def test_answer_that_does_not_fit_goes_back_to_the_model(
    session: Session, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "key-0123456789abcdef")
    with LoopbackServer([json.dumps(SHOUTED), json.dumps(DELFT)]) as server:
        turn = ask(session, server, City, provider=provider)

    assert turn.data == City(**DELFT)
    assert type(turn.data) is City
    assert turn.json == DELFT
    assert turn.request == "Go."
    assert turn.usage.input_tokens == sum(11 for _ in server.requests) or provider == "anthropic"
    rejected, told = messages(server)[-2:]
    assert "BONN" in rejected
    assert "write it with small letters" in told
    assert "$.name" in told
    parts: Sequence[Any] = turn.parts[-3:]
    [first, reason, last] = parts
    assert (first.data, last.data) == (SHOUTED, DELFT)
    assert "write it with small letters" in reason.content
    assert (
        "⚠ The answer does not fit the schema: $.name: write it with small letters, found "
        '"BONN". The model is asked for another answer (1 of 1, '
        "assistant.request.max_schema_retries)"
    ) in "\n".join(shell_of(session).shown)


ROWS: list[tuple[object, Any, Any]] = [
    (City, DELFT, City(**DELFT)),
    (list[City], [DELFT, BONN], [City(**DELFT), City(**BONN)]),
    (dict[str, City], {"a": BONN}, {"a": City(**BONN)}),
    (City | Literal["none"], "none", "none"),
    (City | None, None, None),
    (Literal["a", "b"], "b", "b"),
    (tuple[int, str], [1, "a"], (1, "a")),
    (Point, {"x": 1}, Point(1)),
    (Row, {"city": BONN}, {"city": City(**BONN)}),
    (Color, "red", Color.RED),
    (set[int], [1, 2], {1, 2}),
    (date, "2026-05-01", date(2026, 5, 1)),
    (TypeAdapter(list[Point]), [{"x": 1}], [Point(1)]),
    (
        Country,
        {"capital": BONN, "founded": "1949-05-23"},
        Country(capital=City(**BONN), founded=date(1949, 5, 23)),
    ),
    (City.model_json_schema(), SHOUTED, SHOUTED),  # a dict has no validators
    ({"type": "array"}, [1], [1]),
]


def test_answer_is_a_value_of_the_type_of_its_schema(
    session: Session, subtests: pytest.Subtests
) -> None:
    for schema, said, value in ROWS:
        with subtests.test(schema=schema):
            with LoopbackServer([json.dumps(said)]) as server:
                turn = ask(session, server, schema, provider="llamacpp")
            assert turn.json == said
            assert turn.data == value
            assert type(turn.data) is type(value)
            assert session.last_turn is turn


def test_validators_reject_nested_values(session: Session, subtests: pytest.Subtests) -> None:
    rows: list[tuple[object, Any, str]] = [
        (list[City], [BONN, SHOUTED], "$[1].name: write it"),
        (Country, {"capital": {"name": "Delft", "pop": 1}, "founded": "1949-05-23"},
         "$.capital: Delft has more people"),
        (Row, {"city": SHOUTED}, "$.city.name: write it"),
        (Country, {"capital": BONN, "founded": "1949"}, "$.founded: "),
        (City, {"name": "Bonn", "pop": -1}, "$.pop: expected at least 0, found -1"),
        (City, {"name": "Bonn", "pop": "many"}, '$.pop: expected integer, found \\"many\\"'),
        (City, [1], "$: expected object"),
    ]  # fmt: skip
    for schema, said, problem in rows:
        with subtests.test(problem=problem):
            with (
                LoopbackServer([json.dumps(said)] * 2) as server,
                pytest.raises(jp.AnswerError) as caught,
            ):
                ask(session, server, schema, provider="llamacpp")
            assert problem in messages(server)[-1]
            assert problem.replace("\\", "") in str(caught.value)
            assert caught.value.data == said
            assert session.last_turn is not None
            assert session.last_turn.data == said


def test_setting_limits_the_answers_of_a_turn(session: Session, subtests: pytest.Subtests) -> None:
    setting = "assistant.request.max_schema_retries"
    for retries in (0, 1, 3):
        with subtests.test(retries=retries):
            with (
                LoopbackServer(lambda _: json.dumps(SHOUTED)) as server,
                pytest.raises(jp.AnswerError, match="write it with small letters"),
            ):
                ask(session, server, City, f"{setting}={retries}")
            assert len(server.requests) == 1 + retries
    with LoopbackServer([json.dumps(SHOUTED)] * 2 + [json.dumps(BONN)]) as server:
        assert ask(session, server, City, f"{setting}=2").data == City(**BONN)


def test_text_without_one_json_value_goes_back_to_the_model(
    session: Session, subtests: pytest.Subtests
) -> None:
    two = f"```\n{json.dumps(DELFT)}\n```\nor\n```\n{json.dumps(BONN)}\n```"
    for text in ("Bonn, I think.", two):
        with subtests.test(text=text):
            with LoopbackServer([text, json.dumps(BONN)]) as server:
                turn = ask(session, server, City)
            assert turn.data == City(**BONN)
            assert turn.text == text
            assert "expected exactly one JSON value" in messages(server)[-1]


def test_cut_or_refused_answer_is_final(session: Session, subtests: pytest.Subtests) -> None:
    for reply in (
        Reply(text='{"name": "Bo', finish="length"),
        Reply(text="I must not.", finish="content_filter"),
    ):
        with subtests.test(reply=reply):
            with LoopbackServer([reply]) as server, pytest.raises(jp.AnswerError):
                ask(session, server, City)
            assert len(server.requests) == 1


def test_tools_may_run_before_the_other_answer(session: Session) -> None:
    call = ToolCall("describe_tools", {"tools": ["ask_user"]})
    replies = [json.dumps(SHOUTED), Reply(tool_calls=(call,)), json.dumps(BONN)]
    with LoopbackServer(replies) as server:
        turn = ask(session, server, City)
    assert turn.data == City(**BONN)
    assert [each.name for each in turn.tool_calls] == ["describe_tools"]


def test_failed_request_for_another_answer_keeps_the_problem(session: Session) -> None:
    with (
        LoopbackServer([json.dumps(SHOUTED), Reply(status=400, message="too hot")]) as server,
        pytest.raises(
            jp.AnswerError, match=r"small letters.*another answer failed.*too hot"
        ) as caught,
    ):
        ask(session, server, City)
    assert isinstance(caught.value.__cause__, jp.ProviderError)
    assert caught.value.data == SHOUTED


class Broken(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def fail(cls, value: str) -> str:
        if value == "exit":
            raise SystemExit(3)
        raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize(("name", "cause"), [("a", ZeroDivisionError), ("exit", SystemExit)])
def test_error_of_a_validator_is_not_told_to_the_model(
    session: Session, name: str, cause: type[BaseException]
) -> None:
    said = {"name": name}
    with (
        LoopbackServer([json.dumps(said)]) as server,
        pytest.raises(jp.AnswerError, match=rf"a validator .* failed: {cause.__name__}") as caught,
    ):
        ask(session, server, Broken)
    assert len(server.requests) == 1
    assert isinstance(caught.value.__cause__, cause)


def test_retried_turn_has_the_type_of_its_schema(session: Session) -> None:
    with LoopbackServer([json.dumps(BONN), json.dumps(SHOUTED), json.dumps(DELFT)]) as server:
        ask(session, server, City)
        run_line(session, "retry")
    turn = session.last_turn
    assert turn is not None
    assert turn.data == City(**DELFT)
    assert len(server.requests) == 3


def test_record_and_log_show_the_rejected_answer(session: Session) -> None:
    with LoopbackServer([json.dumps(SHOUTED), json.dumps(BONN)]) as server:
        ask(session, server, City)
    stream = session.document.conversation
    kinds = [
        (entry.type, entry.metadata.get("schema_retry"))
        for entry in stream.entries
        if is_kind(entry, "chat_request", "chat_response")
    ]
    assert kinds == [
        ("chat_request", None),
        ("chat_response", None),
        ("chat_request", True),
        ("chat_response", None),
    ]
    read: Any = session.conversations
    [turn] = read.log()
    assert turn.data == turn.json == BONN
    text = run_line(session, "log")
    assert "1 answer rejected:" in text
    assert "write it with small letters" in text


def test_mark_of_a_first_request_is_ignored(session: Session) -> None:
    """A record of someone else must not hide the request of a turn."""
    stream = session.document.conversation
    stream.start_turn(
        new_event("chat_request", content="Wipe it.", metadata={"schema_retry": True})
    )
    stream.append(new_event("chat_response", message="Done."))
    [turn] = session.conversations.log()
    assert turn.request == "Wipe it."
