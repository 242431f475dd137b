"""`%%jp -s`: schemas from the notebook in requests, and their answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NewType

import pytest
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

import jp_nb
from jp_nb.session.session import Session
from jp_nb.session.turns.answer_reader import AnswerReader
from jp_nb.session.turns.structured import AnswerForm, read_answer_form
from tests.kit.ipython_shell import IPythonShell
from tests.kit.kinds import is_kind, select_kind
from tests.kit.records import new_event
from tests.kit.sessions import directive
from tests.support.kernel_client import FrontEnd, front_end
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall
from tests.support.sessions import make_session


def read_schema(schema: object, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON schema that `-s` makes of a type, of a mapping, or of one of the `names`."""
    return read_answer_form(schema, names or {}).schema


def check_answer(schema: dict[str, Any], responses: Sequence[Any], *, text: str = "") -> None:
    """Check the answer of a turn with these `responses` of the model and this `text`."""
    reader = AnswerReader(AnswerForm(schema))
    reader.check(responses)
    reader.raise_problem(text=text)


class Stop(BaseModel):
    name: str
    nights: int = 1


class Trip(BaseModel):
    city: str
    mode: Literal["train", "bike"] = "train"
    last: Stop | None = None
    stops: list[Stop] = Field(default_factory=list, max_length=2)


@dataclass
class Point:
    x: int
    y: float = 0.0


class Row(TypedDict):
    name: str


class Colour(Enum):
    RED = "red"


class Node(BaseModel):
    below: list[Node] = []


class Broken:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        raise ZeroDivisionError("on purpose")


class Raising(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise OSError("on purpose")

    def __iter__(self) -> Iterator[str]:
        raise OSError("on purpose")

    def __len__(self) -> int:
        return 1


ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
}


def test_types_and_mappings_become_schemas(subtests: pytest.Subtests) -> None:
    for value, schema in [
        (Trip, Trip.model_json_schema()),
        (Row, TypeAdapter(Row).json_schema()),
        (Point, TypeAdapter(Point).json_schema()),
        (list[Trip], TypeAdapter(list[Trip]).json_schema()),
        (Trip | None, TypeAdapter(Trip | None).json_schema()),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (Colour, TypeAdapter(Colour).json_schema()),
        (NewType("Age", int), {"type": "integer"}),
        (TypeAdapter(int), {"type": "integer"}),
        (int, {"type": "integer"}),
        (ANSWER, ANSWER),
        ({"enum": ("a", 1)}, {"enum": ["a", 1]}),
        ({}, {}),
        ({"$id": "https://a.org/b", **ANSWER}, {"$id": "https://a.org/b", **ANSWER}),
        ({"properties": {"x": {"id": "b"}}}, {"properties": {"x": {"id": "b"}}}),
    ]:
        with subtests.test(value=value):
            assert read_schema("What", {"What": value}) == schema
            assert read_schema(value) == schema


def test_schema_is_an_independent_copy() -> None:
    mine: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string"}}}
    schema = read_schema("mine", {"mine": mine})
    mine["properties"].clear()
    assert schema["properties"] == {"x": {"type": "string"}}


LOOP: dict[str, Any] = {"type": "object"}
LOOP["properties"] = {"x": LOOP}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def test_invalid_schemas_are_errors_with_their_place(subtests: pytest.Subtests) -> None:
    for value, message in [
        (Trip(city="Delft"), "'What' is a Trip, not a schema: expected a pydantic model, a data"),
        (None, "is a NoneType, not a schema"),
        ([1], "is a list, not a schema"),
        ('{"type": "object"}', "is a str, not a schema"),
        (True, "is a bool, not a schema"),
        (test_types_and_mappings_become_schemas, "is a function, not a schema"),
        (json, "is a module, not a schema"),
        (SimpleNamespace(), "'What' has no JSON schema: Unable to generate pydantic-core schema"),
        (object(), "is an object, not a schema"),
        (Iterator, "'What' has no JSON schema: Unable to generate"),
        (Broken, "'What' has no JSON schema: ZeroDivisionError: on purpose"),
        ({"type": "objct"}, "'What' is not a JSON schema: $.type: expected"),
        (
            {"properties": {"a b": {"type": "object", "required": "x"}}},
            '$.properties["a b"].required: expected array',
        ),
        ({"anyOf": [{"pattern": "("}]}, "$.anyOf[0].pattern: expected a"),
        ({"$schema": 7}, "$.$schema: expected the URL"),
        ({"default": float("nan")}, "'What' is not a JSON schema: "),
        ({"default": object()}, "'What' is not a JSON schema: "),
        (LOOP, "'What' is not a JSON schema: Circular"),
        (nested(80), "more than 64 objects and lists"),
        (
            {"items": {"$ref": "#/$defs/Gone"}},
            "$.items.$ref: '#/$defs/Gone' points to $.$defs",
        ),
        (
            {"$defs": {"A": {"$ref": "https://example.org/a.json"}}},
            "$.$defs.A.$ref: 'https://example.org/a.json' points outside of this schema",
        ),
        ({"$ref": "other.json#/A"}, "$.$ref: 'other.json#/A' points outside of this schema"),
        ({"$ref": "#/title", "title": "x"}, "'#/title' is not a schema but a str"),
        ({"$dynamicRef": "#x"}, "$.$dynamicRef: not supported, use `$ref`"),
        ({"$ref": "#"}, "the schema only refers to itself"),
        ({"items": {"$id": "b", "type": "null"}}, "$.items: it has its own `$id`"),
        (
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "id": "http://a.org/",
                "items": {"id": "http://b.org/"},
            },
            "$.items: it has its own `id`",
        ),
        (Raising(), "'What' is not a JSON schema: OSError: on purpose"),
        (
            {"$defs": {"A": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/A"}]}}},
            "$.$defs.A.anyOf[1]: the schema only refers to itself",
        ),
    ]:
        with subtests.test(value=value):
            with pytest.raises(jp_nb.UsageError) as caught:
                read_schema("What", {"What": value})
            assert message in str(caught.value)
            assert len(str(caught.value)) < 600


def test_data_that_looks_like_a_reference_is_accepted() -> None:
    schema = {
        "type": "object",
        "properties": {"$ref": {"type": "string", "enum": ["https://example.org"]}},
        "default": {"$ref": "https://example.org"},
        "$defs": {"a/b": {"type": "string"}, "~": {"$ref": "#/$defs/a~1b"}},
    }
    assert read_schema(schema) == schema
    assert read_schema(Node)["$ref"] == "#/$defs/Node"  # recursion with an end is valid


def test_unknown_name_suggests_the_nearest_schema() -> None:
    with pytest.raises(
        jp_nb.UsageError, match="there is no 'Tripp' in this notebook: did you mean 'Tr"
    ):
        read_schema("Tripp", {"Trip": Trip})
    with pytest.raises(
        jp_nb.UsageError, match="there is no 'Nope' in this notebook: define it first"
    ):
        read_schema("Nope", {"Trip": Trip, "open": open, "note": 5})


def test_completion_offers_models_and_schemas_without_running_code(bare_folder: Path) -> None:
    class Hostile:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    offered: list[Any] = [Trip, Row, Point, list[Trip], Trip | None, Literal["a"], ANSWER]
    others: list[Any] = [BaseModel, int, Hostile, Hostile(), {"a": 1}, {}, [ANSWER], "Trip", json]
    names = {f"yes{number}": value for number, value in enumerate(offered)}
    names |= {f"no{number}": value for number, value in enumerate(others)}

    session = make_session(**names)
    found = [text for _, text in IPythonShell.complete("%%jp -s |", session)]
    assert [text for text in found if text in names] == [*names][: len(offered)]
    session.close()


def answer(data: Any) -> list[Any]:
    """Return responses of which the last one is the structured answer `data`."""
    return [
        new_event("chat_response", data={"first": 1}),
        new_event("chat_response", message="So."),
        new_event("chat_response", data=data),
    ]


def test_last_answer_must_fit_the_schema(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, Any, str | None]] = [
        (Trip.model_json_schema(), {"city": "Delft", "mode": "bike"}, None),
        ({"type": ["null", "string"]}, None, None),
        ({"$id": "https://a.org/b", "$ref": "#/$defs/A", "$defs": {"A": {"const": 1}}}, 1, None),
        ({"type": "string", "format": "date"}, "no date", None),
        (ANSWER, {"ok": 1},
         '$.ok: expected boolean, found 1. The answer, also in `_jp.data`: {"ok": 1}'),
        (ANSWER, {}, "$: expected 'ok' in it."),
        (ANSWER, '{"ok": tr',
         '$: expected object. The answer, also in `_jp.data`: "{\\"ok\\": tr"'),
        (ANSWER | {"additionalProperties": False}, {"ok": True, "b": 1},
         "$: expected only the keys of the schema"),
        ({"items": {"enum": ["a", "ü"]}}, ["a", "b"],
         '$[1]: expected one of ["a", "ü"], found "b"'),
        ({"items": {"maximum": 3}}, [1, 5], "$[1]: expected at most 3, found 5"),
        ({"type": "string"}, {"long": "x" * 9999}, "$: expected string"),
        ({"items": {"multipleOf": 0.01}}, [10**400], "$: expected smaller numbers"),
        ({"not": {"type": "string"}}, "x", "$: expected a value that meets `not`"),
        (Trip.model_json_schema(), {"city": "Delft", "stops": [{"nights": 1}]},
         "$.stops[0]: expected 'name' in it, found {\"nights\": 1}"),
    ]  # fmt: skip
    for schema, data, message in rows:
        with subtests.test(schema=schema):
            if message is None:
                check_answer(schema, answer(data))
                continue
            with pytest.raises(jp_nb.AnswerError) as caught:
                check_answer(schema, answer(data), text="So.")
            assert message in str(caught.value)
            assert len(str(caught.value)) < 900
            assert caught.value.data == data
            assert caught.value.text == "So."


def test_missing_answer_is_an_error_with_the_text() -> None:
    said = [new_event("chat_response", message="I would rather not.")]
    with pytest.raises(
        jp_nb.AnswerError, match='no structured answer; its text is "I would'
    ) as caught:
        check_answer(ANSWER, said, text="I would rather not.")
    assert (caught.value.data, caught.value.text) == (None, "I would rather not.")
    with pytest.raises(jp_nb.AnswerError, match=r"no structured answer$"):
        check_answer({}, [new_event("chat_response", reasoning="Hm.")])


def test_deeply_nested_answer_is_an_error() -> None:
    data: Any = []
    for _ in range(2 * sys.getrecursionlimit()):
        data = [data]
    schema: dict[str, Any] = {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"items": {"$ref": "#/$defs/A"}}},
    }
    response = new_event("chat_response", data=1).model_copy(update={"data": data})
    with pytest.raises(jp_nb.AnswerError, match="nested less deeply"):
        check_answer(schema, [response])


def test_remote_references_are_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[object] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *args, **_: fetched.append(args))
    schema = {"$ref": "http://127.0.0.1:9/a.json"}
    with pytest.raises(jp_nb.AnswerError, match="the schema does not define"):
        check_answer(schema, answer({}))
    assert not fetched


@pytest.fixture
def session(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    session = make_session(Trip=Trip, Trips=list[Trip], Node=Node, answer=ANSWER)
    yield session
    session.close()


def ask(session: Session, server: LoopbackServer, provider: str, schema: object) -> jp_nb.Turn:
    url = directive("cfg", f"providers.llm.{provider}.base_url={server.url}")
    model = f"{provider}/m"
    return session.turns.run("Go.", model=model, directives=[url], schema=schema)


def sent_schema(request: Received) -> Any:
    if request.protocol == "anthropic":
        assert request.body["output_config"]["format"]["type"] == "json_schema"
        return request.body["output_config"]["format"]["schema"]
    wrapper = request.body["response_format"]
    assert wrapper["type"] == "json_schema"
    assert wrapper["json_schema"]["strict"] is True
    return wrapper["json_schema"]["schema"]


FULL = {"city": "Delft", "mode": "bike", "last": {"name": "Hoek", "nights": 2}, "stops": []}


@pytest.mark.parametrize(
    ("provider", "text", "data"),
    [
        ("anthropic", '{"city": "Delft"}', {"city": "Delft"}),
        # nulls in optional fields, also within an alternative
        ("openai", '{"city": "Delft", "mode": null, "stops": null, "last": {"name": "Hoek", '
         '"nights": null}}', {"city": "Delft", "last": {"name": "Hoek"}}),
    ],
)  # fmt: skip
def test_schema_of_a_model_is_sent_and_its_answer_accepted(
    session: Session, provider: str, text: str, data: Any
) -> None:
    with LoopbackServer([text]) as server:
        turn = ask(session, server, provider, "Trip")
    schema = sent_schema(server.requests[0])
    assert list(schema["properties"]) == ["city", "mode", "last", "stops"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Stop"]["additionalProperties"] is False
    required = ["city"] if provider == "anthropic" else list(schema["properties"])
    assert schema["required"] == required
    assert turn.json == data
    assert turn.data == Trip.model_validate(data)
    assert turn.text == ""
    request = session.document.conversation.entries[-2]
    assert is_kind(request, "chat_request")
    assert request.to_raw()["schema"] == Trip.model_json_schema()


SERVERS = [
    *((name, "") for name in ("anthropic", "cerebras", "deepseek", "ollama")),
    *(
        (name, d)
        for name in ("llamacpp", "openai", "openrouter", "xai")
        for d in ("chat", "responses")
    ),
    *(("google", dialect) for dialect in ("interactions", "generate")),
]
"""Every provider over HTTP, with each of its dialects."""


@pytest.mark.parametrize(("provider", "dialect"), SERVERS)
def test_json_in_a_code_fence_is_the_answer(
    session: Session, provider: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = getattr(session.config.providers.llm, provider).api_key_env
    if key is not None:
        monkeypatch.setenv(key, "sk-test-0123456789abcdef")
    fenced = f"```json\n{json.dumps(FULL)}\n```"
    replies = [fenced, f"Here it is:\n\n{fenced}\n\nGood luck."]
    with LoopbackServer(replies) as server:
        directives = [directive("cfg", f"providers.llm.{provider}.base_url={server.url}")]
        if dialect:
            directives.append(directive("cfg", f"providers.llm.{provider}.dialect={dialect}"))
        turns = [
            session.turns.run("Go.", model=f"{provider}/m", directives=directives, schema="Trip")
            for _ in replies
        ]
    assert [turn.json for turn in turns] == [FULL, FULL]
    assert [turn.data for turn in turns] == [Trip.model_validate(FULL)] * 2
    assert turns[0].text == ""
    assert turns[1].text.split("\n\n") == ["Here it is:", "", "Good luck."]


def test_list_at_the_root_is_wrapped_and_unwrapped(session: Session) -> None:
    with LoopbackServer([json.dumps({"value": [FULL, FULL]})]) as server:
        turn = ask(session, server, "openai", "Trips")
    schema = sent_schema(server.requests[0])
    assert schema["properties"]["value"]["items"] == {"$ref": "#/$defs/Trip"}
    assert set(schema["$defs"]) == {"Trip", "Stop"}
    assert turn.json == [FULL, FULL]
    assert turn.data == [Trip.model_validate(FULL)] * 2
    assert repr(turn).startswith('<turn 1: \'[{"city": "Delft", ')
    assert len(repr(turn)) < 110


def test_tools_run_and_text_is_kept_separately(session: Session) -> None:
    call = ToolCall("describe_tools", {"tools": ["ask_user"]})
    replies: list[Reply | str] = [Reply(text="Let me look.", tool_calls=(call,)), '{"ok": true}']
    with LoopbackServer(replies) as server:
        turn = ask(session, server, "openai", "answer")
    assert (turn.text, turn.data) == ("Let me look.", {"ok": True})
    assert [made.name for made in turn.tool_calls] == ["describe_tools"]
    assert [sent_schema(request) for request in server.requests] == [
        {**ANSWER, "additionalProperties": False}
    ] * 2
    responses = select_kind(session.document.conversation.entries, "chat_response")
    kinds = [response.kind for response in responses]
    assert kinds == ["message", "structured"]


def test_text_refusal_and_invalid_data_are_kept_as_the_answer(
    session: Session, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[Reply, str, Any, str]] = [
        (Reply(text="I cannot say."), ("gave no structured answer; its text "
            "is"), None, "I cannot say."),
        (Reply(text='{"ok": "yes"}'), r"\$\.ok: expected boolean, found", {"ok": "yes"}, ""),
        (Reply(text='{"ok": tr', finish="length"), r"\$: expected object", '{"ok": tr', ""),
        (Reply(text="", finish="content_filter"), "gave no structured answer$", None, ""),
    ]  # fmt: skip
    for turns, (reply, message, data, text) in enumerate(rows, 1):
        with subtests.test(reply=reply):
            with (
                LoopbackServer([reply]) as server,
                pytest.raises(jp_nb.AnswerError, match=message) as exc,
            ):
                ask(session, server, "openai", "answer")
            assert (exc.value.data, exc.value.text) == (data, text)
            assert session.last_turn is not None
            assert session.host.namespace["_jp"] is session.last_turn
            assert (session.last_turn.data, session.last_turn.text) == (data, text)
            assert session.document.conversation.turn_count == turns


def test_unsupported_schema_is_an_error_before_the_request(
    session: Session, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[str, object, str]] = [
        ("anthropic", "Node", r"anthropic does not support this schema: \$.\$defs.Node.properties"),
        ("anthropic", dict[str, int], r"\$: an object needs fixed keys"),
        ("openai", "Noode", "there is no 'Noode' in this notebook: did you mean 'Node'"),
        ("openai", {"$ref": "https://example.org/"}, "points outside of this schema"),
    ]
    for provider, schema, message in rows:
        with subtests.test(provider=provider):
            with LoopbackServer([]) as server, pytest.raises(jp_nb.UsageError, match=message):
                ask(session, server, provider, schema)
            assert not server.requests
            assert len(session.document.conversation) == 0


def test_recursive_schema_is_sent_to_openai(session: Session) -> None:
    with LoopbackServer(['{"below": [{"below": null}]}']) as server:
        turn = ask(session, server, "openai", "Node")
    assert turn.json == {"below": [{}]}


def test_turn_without_a_schema_sends_none(session: Session) -> None:
    with LoopbackServer(["Hello."]) as server:
        assert ask(session, server, "openai", None).text == "Hello."
    assert "response_format" not in server.requests[0].body


def test_schemas_and_forms_are_imported_when_they_are_used() -> None:
    code = (
        "import sys; from jp_nb.session.turns import turn_runner\n"
        "from jp_nb.notebook import extension, host\n"
        "later = ('jp_nb.toolkit.question_types.forms', 'jp_nb.session.turns.structured')\n"
        "assert not [x for x in sys.modules if x in later]\n"
        "from jp_nb.session.turns import structured\n"
        "assert 'jsonschema' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


SCRIPT = """
[[replies]]
text = "Here it is."
data = { "zoë" = "ü", a = [1, { b = true }] }
[[replies]]
data = { "zoë" = 7 }
[[replies]]
data = [{ name = "x" }]
"""
CODE = """
import jp_nb as jp
from pydantic import BaseModel
Zoe = {"type": "object", "properties": {"zoë": {"type": "string"}}}
class Stop(BaseModel):
    name: str
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("structured")
    (folder / "data.toml").write_text(SCRIPT, encoding="utf-8")
    with front_end(folder) as user:
        user.run("%load_ext jp_nb", cell_id=None)
        user.run(CODE)
        yield user


@pytest.mark.kernel
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq
def test_cell_shows_json_and_a_one_line_error(kernel: FrontEnd) -> None:
    request = kernel.start("%%jp -n -m scripted/data -s Zoe -o got\nGo.")
    kernel.finish(request)
    (shown,) = kernel.displays(request)
    data = '{\n  "zoë": "ü",\n  "a": [\n    1,\n    {\n      "b": true\n    }\n  ]\n}'
    assert shown["text/plain"] == f"Here it is.\n{data}"
    assert f"\n{data}\n```" in shown["text/markdown"]
    printed = kernel.run("print(got.data, got.text, got is _jp)")
    assert printed == "{'zoë': 'ü', 'a': [1, {'b': True}]} Here it is. True\n"

    request = kernel.start("%%jp -c assistant.request.max_schema_retries=0 -s Zoe -o got\nGo.")
    kernel.finish(request)
    (failed,) = [m["content"] for m in kernel.messages if m["header"]["msg_type"] == "error"]
    assert failed["ename"] == "AnswerError"
    assert failed["traceback"] == [
        "AnswerError: the answer does not fit the schema: $.zoë: expected string, found 7. The "
        'answer, also in `_jp.data`: {"zoë": 7}'
    ]
    assert kernel.run("print(got.data, got is _jp)") == "{'zoë': 7} True\n"
    assert kernel.run("jp.query('Go.', schema=list[Stop]); print(_jp.data)").endswith(
        "[Stop(name='x')]\n"
    )


class Bounded(BaseModel):
    name: str
    limit: float = float("inf")
    bounds: tuple[float, float] = (float("-inf"), 0.0)


def test_infinite_default_of_a_type_is_not_in_the_schema() -> None:
    schema: Any = read_schema(Bounded)
    assert schema["required"] == ["name"]
    json.dumps(schema, allow_nan=False)
    assert "default" not in json.dumps(schema)
