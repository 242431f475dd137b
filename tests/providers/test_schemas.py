from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.kinds import select_kind
from tests.kit.providers import new_provider, substitute
from tests.kit.streams import StreamReader
from tests.providers.helpers import NEAR, ask, preview_body

NESTED: dict[str, Any] = {
    "type": "object",
    "title": "Trip",
    "properties": {
        "city": {"type": "string", "minLength": 2, "description": "Where."},
        "mode": {"const": "train"},
        "days": {"type": "integer", "default": 1, "minimum": 1},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}, "maxItems": 3},
        "pay": {"oneOf": [{"type": "number"}, {"type": "string", "format": "money"}]},
    },
    "required": ["city", "mode"],
    "$defs": {
        "Stop": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Stop"}},
            "required": ["name"],
        }
    },
}


UNENFORCEABLE = (
    "additionalItems", "contains", "dependencies", "dependentRequired", "dependentSchemas",
    "else", "if", "not", "patternProperties", "prefixItems", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
"""Keywords that Anthropic does not enforce."""


@dataclass(frozen=True)
class SentSchema:
    """The schema of a structured answer in a request, and how its answer is read."""

    api: str
    given: dict[str, Any]
    schema: dict[str, Any]
    strict: bool = True

    def restore(self, text: str) -> str:
        """Return the answer `text` of the model as the user gets it."""
        events = StreamReader(self.api, schema=self.given).read(self._stream(text)).events
        return "".join(event.text for event in select_kind(events, "text"))

    @property
    def wrapped(self) -> bool:
        """True if the answer is sent as the member `value` of an object."""
        return self.restore('{"value": null}') == "null"

    @property
    def is_unchanged(self) -> bool:
        """True if the user gets the answer as it is sent, while it is sent."""
        piece, *_ = self._stream('{"')
        return bool(StreamReader(self.api, schema=self.given).feed(piece))

    def _stream(self, text: str) -> list[dict[str, Any]]:
        if self.api == "responses":
            end: dict[str, Any] = {"type": "response.completed", "response": {}}
            return [{"type": "response.output_text.delta", "delta": text}, end]
        if self.api == "anthropic":
            block = {"type": "text", "text": text}
            start = {"type": "content_block_start", "index": 0, "content_block": block}
            return [start, {"type": "content_block_stop", "index": 0}, {"type": "message_stop"}]

        choice = {"delta": {"content": text}, "finish_reason": None}
        end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
        return [{"choices": [choice]}, end]


def adapt_for_openai(schema: dict[str, Any]) -> SentSchema:
    body = preview_body("openai", ask(schema=schema), dialect="responses")
    sent = body["text"]["format"]
    return SentSchema("responses", schema, sent["schema"], strict=sent["strict"])


def adapt_for_anthropic(schema: dict[str, Any]) -> SentSchema:
    body = preview_body("anthropic", ask(schema=schema))
    return SentSchema("anthropic", schema, body["output_config"]["format"]["schema"])


def pass_schema(schema: dict[str, Any]) -> SentSchema:
    """Return the schema for a server that enforces each one as it is."""
    body = preview_body("llamacpp", ask(schema=schema))
    return SentSchema("chat/llamacpp", schema, body["response_format"]["json_schema"]["schema"])


def adapt_for_json_mode(schema: dict[str, Any]) -> SentSchema:
    """Return the schema for a server that gets it in words."""
    [_, prompt] = preview_body("deepseek", ask(schema=schema))["messages"]
    return SentSchema("chat/deepseek", schema, json.loads(prompt["content"].partition("\n")[2]))


def check_anthropic(schema: dict[str, Any]) -> None:
    new_provider("anthropic").check_schema(schema)


def check_references(schema: dict[str, Any]) -> None:
    new_provider("openai", NEAR).check_schema(schema)


both = pytest.mark.parametrize("transform", [adapt_for_openai, adapt_for_anthropic])


def test_openai_strict_makes_optional_properties_nullable() -> None:
    before = json.dumps(NESTED)
    sent = adapt_for_openai(NESTED)
    properties: Any = sent.schema["properties"]
    assert sent.strict
    assert sent.schema["required"] == list(properties)
    assert sent.schema["additionalProperties"] is False
    assert properties["mode"] == {"enum": ["train"]}
    assert properties["city"] == {"type": "string", "description": "Where. {minLength: 2}"}
    assert properties["days"] == {"type": ["integer", "null"], "description": "{minimum: 1}"}
    assert properties["kind"] == {"type": ["string", "null"], "enum": ["a", "b", None]}
    assert properties["pay"]["anyOf"][1] == {"type": "null"}
    assert json.dumps(NESTED) == before


def test_openai_answers_are_restored() -> None:
    answer = {
        "city": "Delft", "mode": "train", "days": None, "kind": None, "pay": 1,
        "stops": [{"name": "x", "next": {"name": "y", "next": None}}],
    }  # fmt: skip
    sent = adapt_for_openai(NESTED)
    jsonschema.validate(answer, sent.schema)
    restored = json.loads(sent.restore(json.dumps(answer)))
    assert restored == {
        "city": "Delft", "mode": "train", "pay": 1, "stops": [{"name": "x", "next": {"name": "y"}}],
    }  # fmt: skip
    jsonschema.validate(restored, NESTED)
    assert sent.restore('{"city": "De') == '{"city": "De'


def test_schema_that_cannot_be_strict_is_sent_unchanged(subtests: pytest.Subtests) -> None:
    schemas: list[dict[str, Any]] = [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"x": {}}},
        {"type": "object", "properties": {"x": True}},
        {"type": "object", "properties": {"x": {"title": "Anything"}}},
        {"type": "object", "properties": {"x": {"type": "array"}}},
        {"type": "object", "properties": {"x": {"type": "array", "items": True}}},
        {"type": "object", "properties": {"x": {"type": "array", "items": [{"type": "null"}]}}},
        {"type": "object", "properties": {"x": {"type": "array", "prefixItems": []}}},
        {"type": "object", "properties": {"x": {"type": "null"}, "y": {"$ref": "#/properties/x"}}},
        {"type": "object", "properties": {"x": {"type": "string", "allOf": [{"type": "null"}]}}},
    ]
    for schema in schemas:
        with subtests.test(schema=schema):
            sent = adapt_for_openai(schema)
            assert not sent.strict
            assert sent.restore('{"x": null}') == '{"x": null}'


@both
def test_answers_that_are_no_objects_are_wrapped(transform: Any) -> None:
    sent = transform({"type": "string", "enum": ["yes", "no"]})
    assert sent.schema["properties"] == {"value": {"type": "string", "enum": ["yes", "no"]}}
    assert sent.restore('{"value": "yes"}') == '"yes"'


def test_reference_at_the_root_is_resolved() -> None:
    schema: dict[str, Any] = {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"type": "object", "properties": {}}},
    }
    sent = adapt_for_anthropic(schema)
    assert sent.schema["type"] == "object"
    assert "$defs" in sent.schema
    looping: dict[str, Any] = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}
    assert adapt_for_anthropic(looping).wrapped


def test_anthropic_keeps_choices_and_describes_bounds() -> None:
    sent = adapt_for_anthropic(NESTED)
    properties: Any = sent.schema["properties"]
    assert sent.is_unchanged
    assert sent.schema["required"] == ["city", "mode"]
    assert properties["mode"] == {"const": "train"}
    assert properties["kind"] == {"type": "string", "enum": ["a", "b"]}
    assert properties["stops"]["description"] == "{maxItems: 3}"
    assert properties["pay"]["anyOf"][1]["description"] == '{format: "money"}'
    stop: Any = sent.schema["$defs"]
    assert stop["Stop"]["additionalProperties"] is False


def test_plain_schema_is_unchanged() -> None:
    assert pass_schema(NESTED).schema == NESTED
    assert pass_schema(NESTED).is_unchanged


# --- references and compositions ------------------------------------------------------------

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "born": {"type": "integer"}},
    "required": ["name"],
}


@both
def test_reference_with_other_keywords_is_written_out(transform: Any) -> None:
    schema = {
        "type": "object",
        "properties": {
            "boss": {"$ref": "#/$defs/Person", "description": "Who decides.", "default": {}},
            "plain": {"$ref": "#/$defs/Person", "default": {}},
        },
        "required": ["boss", "plain"],
        "$defs": {"Person": {**PERSON, "description": "A person."}},
    }
    properties: Any = transform(schema).schema["properties"]
    assert properties["plain"] == {"$ref": "#/$defs/Person"}
    assert "$ref" not in properties["boss"]
    assert properties["boss"]["description"] == "Who decides."
    assert list(properties["boss"]["properties"]) == ["name", "born"]
    assert properties["boss"]["additionalProperties"] is False


def test_recursive_reference_with_other_keywords_ends() -> None:
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node", "description": "Below."}},
    }
    schema: dict[str, Any] = {"$ref": "#/$defs/Node", "$defs": {"Node": node}}
    sent = adapt_for_openai(schema)
    assert sent.strict
    text = json.dumps(sent.schema)
    assert text.count("Below.") < 5
    assert '{"$ref": "#/$defs/Node"}' in text
    restored = json.loads(sent.restore('{"next": {"next": {"next": null}}}'))
    assert restored == {"next": {"next": {}}}


@both
def test_all_of_becomes_one_object(transform: Any) -> None:
    schema: dict[str, Any] = {
        "allOf": [
            {"$ref": "#/$defs/Person"},
            {"type": "object", "properties": {"pay": {"type": "number"}}, "required": ["pay"]},
        ],
        "description": "Who works here.",
        "$defs": {"Person": PERSON},
    }
    check_anthropic(schema)
    sent = transform(schema)
    assert sent.strict
    assert not sent.wrapped
    assert "allOf" not in sent.schema
    assert list(sent.schema["properties"]) == ["name", "born", "pay"]
    assert sent.schema["description"] == "Who works here."
    assert sorted(sent.schema["required"])[-2:] == ["name", "pay"]
    restored = json.loads(sent.restore('{"name": "A", "born": 1, "pay": 2}'))
    jsonschema.validate(restored, schema)


def test_reference_to_a_wrapped_root_is_moved() -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"const": 1}]}}
    sent = adapt_for_openai(schema)
    jsonschema.validate({"value": [1, [1, []]]}, sent.schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"value": [{"value": [1]}]}, sent.schema)
    assert json.loads(sent.restore('{"value": [1, [1, []]]}')) == [1, [1, []]]


def test_pointers_with_escapes_are_followed() -> None:
    schema: dict[str, Any] = {
        "$ref": "#/$defs/a~1b%20c",
        "$defs": {"a/b c": {"type": "object", "properties": {}}},
    }
    check_references(schema)
    assert not adapt_for_openai(schema).wrapped


# --- what comes back -------------------------------------------------------------------------


def test_nulls_are_removed_by_the_alternative_that_fits_the_answer(
    subtests: pytest.Subtests,
) -> None:
    for answer, restored in [
        ({"who": {"name": "A", "born": None}}, {"who": {"name": "A"}}),
        ({"who": {"kind": "firm", "note": None}}, {"who": {"kind": "firm"}}),
        ({"who": {"kind": "club", "note": None}}, {"who": {"kind": "club", "note": None}}),
        ({"who": [{"name": "A", "born": None}, None]}, {"who": [{"name": "A"}, None]}),
        ({"who": 7}, {"who": 7}),
        ({"who": None}, {}),
        ({"who": "of no type"}, {"who": "of no type"}),
        ([1], [1]),
    ]:
        with subtests.test(answer=answer):
            firm = {"kind": {"const": "firm"}, "note": {"type": "string"}}
            club = {"kind": {"const": "club"}, "note": {"type": ["string", "null"]}}
            schema: dict[str, Any] = {
                "type": "object",
                "properties": {
                    "who": {
                        "anyOf": [
                            {"type": "integer"},
                            {"$ref": "#/$defs/Person"},
                            {"type": "object", "properties": firm, "required": ["kind"]},
                            {"type": "object", "properties": club, "required": ["kind", "note"]},
                            {
                                "type": "array",
                                "items": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/Person"}]},
                            },
                        ]
                    }
                },
                "$defs": {"Person": PERSON},
            }
            sent = adapt_for_openai(schema)
            assert sent.strict
            assert json.loads(sent.restore(json.dumps(answer))) == restored


Asked = tuple[dict[str, Any], Any, Any]
"""A schema, a value that fits it, and the same as a strict answer says it."""
SCALARS: st.SearchStrategy[Asked] = st.sampled_from(
    [
        ({"type": "string", "maxLength": 9}, "ü", "ü"),
        ({"type": "integer"}, 7, 7),
        ({"type": ["number", "null"]}, None, None),
        ({"const": "c"}, "c", "c"),
        ({"enum": [1, None]}, 1, 1),
    ]
)


def objects(inner: st.SearchStrategy[Asked]) -> st.SearchStrategy[Asked]:
    """Objects with required, optional, and undeclared properties."""

    def build(members: list[tuple[Asked, str]]) -> Asked:
        named = {f"p{number}": member for number, member in enumerate(members)}
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: asked[0] for name, (asked, _) in named.items()},
            "required": [name for name, (_, how) in named.items() if how == "must"],
        }
        # A null optional property counts as absent.
        there = {
            name: asked
            for name, (asked, how) in named.items()
            if how == "must" or (how == "is" and asked[1] is not None)
        }
        value = {name: asked[1] for name, asked in there.items()}
        answer = {name: there[name][2] if name in there else None for name in named}
        return schema, value, answer

    return st.lists(st.tuples(inner, st.sampled_from(["must", "is", "may"]))).map(build)


def lists_and_alternatives(inner: st.SearchStrategy[Asked]) -> st.SearchStrategy[Asked]:
    """Lists, and alternatives to null."""
    lists = inner.map(lambda a: ({"type": "array", "items": a[0]}, [a[1]] * 2, [a[2]] * 2))
    either = inner.map(lambda a: ({"anyOf": [{"type": "null"}, a[0]]}, a[1], a[2]))
    return lists | either


@given(
    asked=st.recursive(
        SCALARS, lambda inner: objects(inner) | lists_and_alternatives(inner), max_leaves=12
    )
)
def test_strict_answer_is_restored_to_its_value(asked: Asked) -> None:
    schema, value, answer = asked
    jsonschema.validate(value, schema)
    sent = adapt_for_openai(schema)
    assert sent.strict
    received = {"value": answer} if sent.wrapped else answer
    jsonschema.validate(received, sent.schema)
    assert json.loads(sent.restore(json.dumps(received))) == value
    check_anthropic(schema)
    sent = adapt_for_anthropic(schema)
    received = {"value": value} if sent.wrapped else value
    jsonschema.validate(received, sent.schema)
    assert json.loads(sent.restore(json.dumps(received))) == value


def test_answer_that_is_no_json_is_unchanged(subtests: pytest.Subtests) -> None:
    for text in ['{"a": ' * 2000 + "1" + "}" * 2000, "[" * 200_000, "{", ""]:
        with subtests.test(text=text):
            recursive = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}
            schema: dict[str, Any] = {"$ref": "#/$defs/A", "$defs": {"A": recursive}}
            sent = adapt_for_openai(schema)
            assert sent.restore('{"a": null}') == "{}"
            assert sent.restore(text) == text


def test_json_mode_wraps_and_restores_a_list() -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"type": "string", "maxLength": 3}}
    sent = adapt_for_json_mode(schema)
    assert sent.schema["properties"] == {
        "value": schema
    }  # the description has constraints that a grammar cannot express
    assert sent.restore('{"value": ["a"]}') == '["a"]'
    assert adapt_for_json_mode(NESTED).schema == NESTED


# --- schemas that are refused ----------------------------------------------------------------


def in_object(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


def test_keyword_that_anthropic_cannot_enforce_is_refused_with_its_place(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[Any, str, str]] = [
        (NESTED, "$.$defs.Stop.properties.next", "the schema is recursive"),
        (in_object({"$ref": "#"}), "$.properties.x", "the schema is recursive"),
        *(
            (in_object({"type": "array", "items": {"type": "null", word: {}}}),
             "$.properties.x.items", f"`{word}`")
            for word in UNENFORCEABLE
        ),
        ({"type": "object", "properties": {}, "if": {"type": "object"}}, "$", "`if`"),
        (in_object({"type": "array", "items": [{"type": "null"}]}), "$.properties.x", "`items`"),
        (in_object({}), "$.properties.x", "add a `type`"),
        (in_object({"title": "Anything"}), "$.properties.x", "add a `type`"),
        (in_object(True), "$.properties.x", "`true`"),
        (in_object({"enum": [1, [2]]}), "$.properties.x", "`enum`"),
        (in_object({"type": "object"}), "$.properties.x", "an object needs fixed keys"),
        (in_object({"type": "object", "additionalProperties": {"type": "string"}}),
         "$.properties.x", "list them under `properties`"),
        (in_object({"type": "object", "properties": {}, "additionalProperties": {}}),
         "$.properties.x", "an object needs fixed keys"),
        (in_object({"type": "string", "allOf": [{"type": "integer"}]}),
         "$.properties.x", "cannot be merged"),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, "$.anyOf[1]",
         "an object needs fixed keys"),
    ]  # fmt: skip
    for schema, place, what in rows:
        with subtests.test(schema=schema):
            with pytest.raises(jp.UsageError) as caught:
                check_anthropic(schema)
            message = str(caught.value)
            assert message.startswith(f"anthropic does not support this schema: {place}: ")
            assert what in message


def test_schemas_that_anthropic_accepts(subtests: pytest.Subtests) -> None:
    schemas: list[dict[str, Any]] = [
        {"type": "string"},
        {"enum": ["a", 1, None, True]},
        {"const": "a"},
        {"type": ["array", "null"], "items": {"type": "number", "minimum": 1}, "maxItems": 3},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "additionalProperties": False},
        in_object({"oneOf": [{"type": "null"}, {"$ref": "#/$defs/A"}]}) | {"$defs": {"A": PERSON}},
        in_object({"$ref": "#/$defs/A", "description": "d"}) | {"$defs": {"A": PERSON}},
        # a property may have any name
        {"type": "object", "properties": {"not": {"type": "string"}, "if": {"type": "string"}}},
    ]
    for schema in schemas:
        with subtests.test(schema=schema):
            check_anthropic(schema)
            text = json.dumps(adapt_for_anthropic(schema).schema)
            for word in ("minimum", "maxItems", "oneOf"):
                assert f'"{word}":' not in text


def test_broken_references_are_refused(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        (in_object({"$ref": "#/$defs/Gone"}), "$.properties.x.$ref: '#/$defs/Gone' points to"),
        (
            {"$ref": "https://example.org/a"},
            "$.$ref: 'https://example.org/a' points outside of this",
        ),
        ({"$ref": "#"}, "$: the schema only refers to itself"),
    ]
    for schema, message in rows:
        with subtests.test(schema=schema, message=message):
            for check in (check_references, check_anthropic):
                with pytest.raises(jp.UsageError) as caught:
                    check(schema)
                assert message in str(caught.value)


def deep(levels: int) -> dict[str, Any]:
    schema = PERSON
    for _ in range(levels - 1):
        schema = in_object(schema)
    return schema


def wide(properties: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f"p{number}": {"type": "null"} for number in range(properties)},
    }


@pytest.mark.parametrize(
    ("make", "most"),
    [(deep, 10), (wide, 5000), (lambda n: in_object({"enum": list(range(n))}), 1000)],
)
def test_schema_too_large_for_openai_is_sent_unchanged(make: Any, most: int) -> None:
    assert adapt_for_openai(make(most)).strict
    sent = adapt_for_openai(make(most + 1))
    assert not sent.strict
    assert sent.schema == make(most + 1)


def in_definitions(levels: int, make: Any) -> dict[str, Any]:
    """Return definitions in which each one refers to the next one twice."""
    names = {f"A{n}": make({"$ref": f"#/$defs/A{n + 1}"}) for n in range(levels)}
    return {"$ref": "#/$defs/A0", "$defs": {**names, f"A{levels}": PERSON}}


def twice_with_words(below: dict[str, Any]) -> dict[str, Any]:
    """Return an object with two properties that refer to `below` and have descriptions."""
    both = {"x": {**below, "description": "One."}, "y": {**below, "description": "Other."}}
    return {"type": "object", "properties": both, "required": ["x", "y"]}


def test_schema_that_grows_without_bound_when_written_out_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    substitute(monkeypatch, "parts of a schema", 2000)
    schema = in_definitions(40, twice_with_words)
    sent = adapt_for_openai(schema)
    assert not sent.strict
    assert sent.schema["$defs"] == schema["$defs"]
    with pytest.raises(jp.UsageError, match=r"this schema: \$: the schema with .* is too large"):
        check_anthropic(schema)
    assert adapt_for_openai(in_definitions(2, twice_with_words)).strict
    check_anthropic(in_definitions(2, twice_with_words))


def test_long_chain_of_references_is_followed() -> None:
    schema = in_definitions(1100, lambda below: in_object({**below, "description": "Next."}))
    assert not adapt_for_openai(schema).strict
    pure = in_definitions(1100, lambda below: below)
    assert adapt_for_openai(pure).wrapped


def test_repeated_member_of_all_of_is_written_out_once() -> None:
    schema = in_definitions(40, lambda below: {"allOf": [below, below]})
    check_anthropic(schema)
    sent = adapt_for_openai(schema)
    assert sent.strict
    assert list(sent.schema["properties"]) == ["name", "born"]


# --- several types ---------------------------------------------------------------------------

MAYBE: dict[str, Any] = {**PERSON, "type": ["object", "null"], "description": "If any."}


def test_object_or_null_becomes_an_alternative() -> None:
    sent = adapt_for_openai(in_object(MAYBE) | {"required": ["x"]})
    properties: Any = sent.schema["properties"]
    person = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "born": {"type": ["integer", "null"]}},
        "required": ["name", "born"],
        "additionalProperties": False,
    }
    assert sent.strict
    assert properties["x"] == {"anyOf": [person, {"type": "null"}], "description": "If any."}
    restored = sent.restore('{"x": {"name": "A", "born": null}}')
    assert json.loads(restored) == {"x": {"name": "A"}}
    assert json.loads(sent.restore('{"x": null}')) == {"x": None}
    anthropic: Any = adapt_for_anthropic(in_object(MAYBE)).schema["properties"]
    assert anthropic["x"]["anyOf"] == [{**PERSON, "additionalProperties": False}, {"type": "null"}]


def test_nullable_root_is_wrapped(subtests: pytest.Subtests) -> None:
    for schema in [
        MAYBE,
        {"$ref": "#/$defs/A", "$defs": {"A": MAYBE}},
        {"type": ["array", "null"]},
    ]:
        for transform in [adapt_for_openai, adapt_for_anthropic, adapt_for_json_mode]:
            with subtests.test(transform=transform, schema=schema):
                sent = transform(schema)
                assert sent.wrapped
                assert sent.restore('{"value": null}') == "null"


@both
def test_each_of_several_types_keeps_its_keywords(transform: Any) -> None:
    person = {**PERSON, "type": ["object"]}
    own = {"items": person, "maxItems": 3, "pattern": "^a", "minimum": 2}
    sent = transform({"type": ["array", "string", "integer", "null"], **own})
    array, string, integer, null = sent.schema["properties"]["value"]["anyOf"]
    assert (array["type"], array["description"]) == ("array", "{maxItems: 3}")
    assert array["items"]["type"] == "object"
    assert array["items"]["additionalProperties"] is False
    assert string == {"type": "string", "description": '{pattern: "^a"}'}
    assert integer == {"type": "integer", "description": "{minimum: 2}"}
    assert null == {"type": "null"}
    one = transform(person)
    assert not one.wrapped
    assert one.schema["type"] == "object"


def test_reference_into_a_rewritten_part_is_written_out() -> None:
    schema = in_object(MAYBE)
    schema["properties"]["y"] = {"$ref": "#/properties/x/properties/name"}
    check_anthropic(schema)
    sent: Any = adapt_for_anthropic(schema).schema["properties"]
    assert sent["y"] == {"type": "string"}
    assert not adapt_for_openai(schema).strict


def test_schemas_that_neither_protocol_enforces(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str, str]] = [
        (in_object({**MAYBE, "anyOf": [PERSON]}), "$.properties.x", "among several types"),
        (in_object({"type": ["object", "null"]}), "$.properties.x", "an object needs fixed keys"),
        (
            in_object({**PERSON, "required": ["name", "pay"]}),
            "$.properties.x",
            "`required` names 'pay'",
        ),
        (
            {
                "type": "array",
                "items": {"$ref": "#/$defs/A", "required": ["pay"]},
                "$defs": {"A": PERSON},
            },
            "$.items",
            "`required` names 'pay'",
        ),
    ]
    for schema, place, what in rows:
        with subtests.test(schema=schema, place=place):
            assert not adapt_for_openai(schema).strict
            with pytest.raises(jp.UsageError) as caught:
                check_anthropic(schema)
            message = str(caught.value)
            assert message.startswith(f"anthropic does not support this schema: {place}: ")
            assert what in message


def has(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object that must have exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


TEXT = {"type": "string"}
OR_EITHER = {"anyOf": [has(a=TEXT), has(b=TEXT)]}
DIVIDED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (has(kind=TEXT) | OR_EITHER, {"kind": "", "a": ""}),
    (has(kind=TEXT) | {"oneOf": [{"$ref": "#/$defs/A"}]}, {"kind": "", "a": ""}),
    ({"allOf": [has(kind=TEXT), OR_EITHER]}, {"kind": "", "b": ""}),
    (has(a=TEXT, b=TEXT) | {"required": [], "oneOf": [has(a=TEXT), has(b=TEXT)]}, {"a": ""}),
]
"""Objects with properties, some of which only alternatives declare; and an answer."""


@pytest.mark.parametrize(("divided", "answer"), DIVIDED)
@pytest.mark.parametrize("is_root", [True, False])
def test_properties_of_alternatives_are_not_forbidden_by_their_object(
    divided: dict[str, Any], answer: dict[str, Any], *, is_root: bool
) -> None:
    whole = divided if is_root else has(x=divided)
    value = answer if is_root else {"x": answer}
    schema = whole | {"$defs": {"A": has(a=TEXT)}}
    jsonschema.validate(value, schema)

    sent = adapt_for_openai(schema)
    jsonschema.validate({"value": value} if sent.wrapped else value, sent.schema)

    with pytest.raises(jp.UsageError, match=r"`properties` next to `anyOf` or `oneOf`"):
        check_anthropic(schema)


def test_alternatives_with_the_properties_of_their_object_are_enforced() -> None:
    schema = has(kind=TEXT) | {"anyOf": [has(kind={"const": "a"}), has(kind={"const": "b"})]}
    check_anthropic(schema)
    for transform in (adapt_for_openai, adapt_for_anthropic):
        sent = transform(schema)
        assert sent.strict
        jsonschema.validate({"kind": "a"}, sent.schema)


def test_any_of_and_one_of_are_both_kept_or_refused() -> None:
    alternatives = [TEXT, {"type": "integer"}]
    schema = has(x={"anyOf": alternatives, "oneOf": [{"type": "integer"}, {"type": "boolean"}]})
    sent = adapt_for_openai(schema)
    assert (sent.strict, sent.schema) == (False, schema)

    with pytest.raises(jp.UsageError, match=r"\$\.properties\.x: `anyOf` and `oneOf` cannot be"):
        check_anthropic(schema)

    body = preview_body("google", ask(schema=schema))
    x = body["response_format"]["schema"]["properties"]["x"]
    assert x["anyOf"] == alternatives
    assert "oneOf" in x["description"]


def test_required_property_may_be_declared_in_another_member() -> None:
    pay = {"type": "object", "properties": {"pay": {"type": "number"}}, "required": ["name"]}
    schema: dict[str, Any] = {"allOf": [PERSON, pay]}
    check_anthropic(schema)
    assert adapt_for_openai(schema).strict
    beside: dict[str, Any] = {"$ref": "#/$defs/A", "required": ["born"], "$defs": {"A": PERSON}}
    check_anthropic(beside)


# --- small things ----------------------------------------------------------------------------


@both
def test_wrapped_list_keeps_its_definitions_at_the_root(transform: Any) -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": PERSON}}
    sent = transform(schema)
    assert sent.wrapped
    assert sent.schema["properties"]["value"] == {"type": "array", "items": {"$ref": "#/$defs/A"}}
    assert sent.schema["$defs"]["A"]["additionalProperties"] is False
    jsonschema.validate({"value": [{"name": "A", "born": 1}]}, sent.schema)


def test_optional_property_may_be_null(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, Any]] = [
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"type": "string", "enum": ["a", None]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"type": "object", "properties": {}},
            {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {},
                        "additionalProperties": False,
                        "required": [],
                    },
                    {"type": "null"},
                ]
            },
        ),
        (
            {"type": "array", "items": {"type": "null"}},
            {"anyOf": [{"type": "array", "items": {"type": "null"}}, {"type": "null"}]},
        ),
    ]
    for schema, nullable in rows:
        with subtests.test(schema=schema, nullable=nullable):
            sent: Any = adapt_for_openai(in_object(schema)).schema["properties"]
            assert sent == {"x": nullable}


def test_anthropic_enforces_that_a_list_is_not_empty(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, bool]] = [(0, True), (1, True), (2, False)]
    for least, stays in rows:
        with subtests.test(least=least, stays=stays):
            schema: dict[str, Any] = {"type": "array", "items": {"type": "null"}, "minItems": least}
            sent: Any = adapt_for_anthropic(schema).schema["properties"]
            assert (sent["value"].get("minItems") == least) is stays
            assert ("description" in sent["value"]) is not stays
            strict: Any = adapt_for_openai(schema).schema["properties"]
            assert strict["value"]["description"] == f"{{minItems: {least}}}"


# --- `const` ---------------------------------------------------------------------------------


def tree(constant: dict[str, Any]) -> dict[str, Any]:
    """A schema with `constant` wherever a schema may occur."""

    def closed(properties: dict[str, Any]) -> dict[str, Any]:
        kind = {"type": "object", "additionalProperties": False}
        return {**kind, "properties": properties, "required": list(properties)}

    inner = closed({"deep": constant})
    whole = closed(
        {
            "top": constant,
            "typed": {"type": "string", "description": "Which.", **constant},
            "list": {"type": "array", "items": constant},
            "nested": {"type": "array", "items": {"type": "array", "items": inner}},
            "either": {"anyOf": [constant, {"type": "null"}, inner]},
            "chosen": {"type": "string", "enum": ["a", "b"]},
            "named": {"$ref": "#/$defs/Named"},
        }
    )
    return {**whole, "$defs": {"Named": inner}}


@pytest.mark.req("R028-9")
def test_const_becomes_an_enum_of_one_for_openai_and_stays_elsewhere() -> None:
    for value in ("call_1", 7, True, None):
        sent = adapt_for_openai(tree({"const": value}))
        assert sent.strict
        assert sent.schema == tree({"enum": [value]})
    for transform in (adapt_for_anthropic, pass_schema):
        assert transform(tree({"const": "call_1"})).schema == tree({"const": "call_1"})


@pytest.mark.req("R028-9")
def test_schema_of_an_inquiry_for_both_protocols() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "inquiry_id": {"type": "string", "const": "tool_call.rename_files.call_17"},
            "answer": {"type": "string", "enum": ["keep", "drop"]},
        },
        "required": ["inquiry_id", "answer"],
        "additionalProperties": False,
    }
    assert adapt_for_anthropic(schema).schema == schema
    sent = adapt_for_openai(schema)
    assert sent.strict
    assert sent.is_unchanged
    assert sent.schema == {
        **schema,
        "properties": {
            "inquiry_id": {"type": "string", "enum": ["tool_call.rename_files.call_17"]},
            "answer": {"type": "string", "enum": ["keep", "drop"]},
        },
    }
