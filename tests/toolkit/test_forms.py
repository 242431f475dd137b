"""Tests of forms for types: fields, validation, and the resulting instance.

A form has one level, as in MCP. Inner models, tuples, dictionaries, unions, and lists without
options are errors with the path.
"""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NotRequired, Optional

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SecretBytes,
    SecretStr,
    computed_field,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

import jp_nb as jp
from jp_nb.toolkit.command_tools.outcome_reading import read_outcome
from tests.kit.kinds import is_kind, make

LONG_TEXT = 200


class Size(Enum):
    """Size of a house."""

    SMALL = "s"
    EXTRA_LARGE = "xl"
    LITTLE = "s"


class Stars(IntEnum):
    ONE = 1
    TWO = 2


STARS = (jp.Option(value=1, label="One"), jp.Option(value=2, label="Two"))


class Trip(BaseModel):
    """Destination and duration."""

    model_config = ConfigDict(frozen=True, title="A trip")

    city: str = Field(min_length=2, title="Which city?", description="As on a map.")
    days: int = Field(3, ge=1, le=14)
    size: Size = Size.EXTRA_LARGE
    with_whom: list[Literal["friends", "family"]] = []
    note: str | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def nights(self) -> int:
        return self.days - 1

    @field_validator("city")
    @classmethod
    def _exists(cls, city: str) -> str:
        if city == "Atlantis":
            raise ValueError("Atlantis does not exist")
        return city

    @model_validator(mode="after")
    def _affordable(self) -> Trip:
        if self.days > 7 and self.size is Size.EXTRA_LARGE:
            raise ValueError("so large for so long is too much")
        return self


def form(what: Any) -> Any:
    kind = jp.Question.form("q", what).answer_type
    assert is_kind(kind, "form_answer")
    return kind


def field_of(kind: Any, default: Any = ...) -> Any:
    """Return the field of a form for one annotation."""
    made = dataclasses.make_dataclass("Made", [("x", kind, dataclasses.field(default=default))])
    bare = dataclasses.make_dataclass("Made", [("x", kind)])
    [only] = form(bare if default is ... else made).fields
    return only


def test_form_takes_titles_options_bounds_and_defaults_from_the_model() -> None:
    question = jp.Question.form("trip", Trip)
    assert (question.id, question.text) == ("trip", "A trip")
    assert question.context == "Destination and duration."
    assert jp.Question.form("trip", Trip, "Where to?").text == "Where to?"
    city, days, size, whom, note = form(Trip).fields
    assert (city.id, city.text, city.context) == ("city", "Which city?", "As on a map.")
    assert city.answer_type == make("text_answer", min_length=2, lines=False)
    assert (days.text, days.default, days.required) == ("Days", 3, True)
    assert days.answer_type == make("integer_answer", minimum=1, maximum=14)
    assert (size.text, size.context, size.default) == ("Size", "Size of a house.", "xl")
    options = (jp.Option(value="s", label="Small"), jp.Option(value="xl", label="Extra large"))
    assert size.answer_type == make("select_answer", options=options)
    assert (whom.text, whom.default, whom.required) == ("With whom", [], False)
    assert whom.answer_type == make("select_answer", options=("friends", "family"), multi=True)
    assert (note.required, note.default) == (False, None)


KINDS: list[tuple[Any, Any]] = [
    (bool, make("boolean_answer")),
    (int, make("integer_answer")),
    (float, make("number_answer")),
    (Annotated[float, Field(gt=0, lt=1)], make("number_answer", above=0, below=1)),
    (Annotated[Decimal, Field(ge=0)], make("number_answer", minimum=0)),
    (int | float, make("number_answer")),
    (date, make("text_answer", format="date", lines=False)),
    (time, make("text_answer", format="time", lines=False)),
    (datetime, make("text_answer", format="date-time", lines=False)),
    (SecretStr, make("secret_answer")),
    (SecretBytes, make("secret_answer")),
    (Literal["a"], make("select_answer", options=("a",))),
    (Literal[1, "1"], make("select_answer", options=(1, "1"))),
    (Literal["a"] | Literal["b"], make("select_answer", options=("a", "b"))),
    (Stars, make("select_answer", options=STARS)),
    (set[Literal["a", "b"]], make("select_answer", options=("a", "b"), multi=True)),
    (tuple[Literal["a", "b"], ...], make("select_answer", options=("a", "b"), multi=True)),
    (
        Annotated[list[Literal["a", "b"]], Field(min_length=1, max_length=1)],
        make("select_answer", options=("a", "b"), multi=True, min_picks=1, max_picks=1),
    ),
    (Annotated[str, Field(json_schema_extra={"lines": True})], make("text_answer")),
    (
        Annotated[str, Field(max_length=LONG_TEXT + 1)],
        make("text_answer", max_length=LONG_TEXT + 1),
    ),
]


def test_annotation_decides_the_kind_of_a_field(subtests: pytest.Subtests) -> None:
    for annotation, kind in KINDS:
        with subtests.test(annotation=annotation):
            for field in (field_of(annotation), field_of(Optional[annotation])):  # noqa: UP045
                assert field.answer_type == kind
            assert field_of(annotation).required
            assert not field_of(Optional[annotation]).required  # noqa: UP045


def test_answer_is_converted_to_the_type(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, JsonValue, Any]] = [
        (Size, "xl", Size.EXTRA_LARGE),
        (set[Size], ["s"], {Size.SMALL}),
        (Stars, 2, Stars.TWO),
        (date, "2026-11-23", date(2026, 11, 23)),
        (datetime, "2026-11-23 17:30", datetime(2026, 11, 23, 17, 30)),
        (Decimal, 0.1, Decimal("0.1")),
        (SecretStr, "hunter2", SecretStr("hunter2")),
        (Optional[date], None, None),  # noqa: UP045
    ]
    for annotation, answer, value in rows:
        with subtests.test(annotation=annotation):
            made = dataclasses.make_dataclass("Made", [("x", annotation)])
            question = jp.Question.form("q", made)
            given: JsonValue = {} if answer is None else {"x": answer}
            assert question.misfit(given) is None
            assert question.validated(given) == made(value)


def test_validation_errors_are_reported_for_the_field_or_the_form() -> None:
    trip = form(Trip)
    assert trip.problems({"city": "D", "days": 15}) == {
        "city": "expected a string of at least 2 characters",
        "days": "expected a whole number from 1 to 14",
        "size": "an answer is required",
    }
    given: dict[str, JsonValue] = {"city": "Atlantis", "days": 3, "size": "s", "with_whom": []}
    assert trip.problems(given) == {"city": "Atlantis does not exist"}
    long = {**given, "city": "Delft", "days": 9, "size": "xl"}
    assert trip.problems(long) == {"": "so large for so long is too much"}
    assert trip.misfit(long) == "value"
    assert trip.problems(long | {"days": 2}) == {}


def test_exception_in_a_validator_is_reported_as_a_problem() -> None:
    class Broken(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def _break(cls, x: int) -> int:
            return [x][x]

    assert form(Broken).problems({"x": 1}) == {"": "IndexError: list index out of range"}


def test_secret_field_is_in_no_message_and_has_no_default() -> None:
    class Login(BaseModel):
        pin: SecretStr = SecretStr("0000")

        @field_validator("pin", mode="before")
        @classmethod
        def _check(cls, pin: str) -> str:
            raise ValueError(f"{pin} is no PIN")

    login = form(Login)
    assert (login.fields[0].default, login.fields[0].required) == (None, False)
    assert login.problems({"pin": "123"}) == {"pin": "(secret) is no PIN"}
    assert "0000" not in repr(jp.Question.form("q", Login))


def test_omitted_field_is_none_if_allowed_and_else_the_default() -> None:
    class Open(BaseModel):
        must_be_given: int | None
        five: int | None = 5
        odd: int = Field(-1, ge=0)  # a default that no answer can be
        secret: SecretStr = SecretStr("first")

    question = jp.Question.form("q", Open)
    given = question.validated({})
    assert question.misfit({}) is None
    assert (given.must_be_given, given.five, given.odd) == (None, None, -1)
    assert given.secret.get_secret_value() == "first"
    assert form(Open).with_defaults({}) == {"five": 5}


def test_default_factory_is_called_when_the_form_is_made() -> None:
    @dataclasses.dataclass
    class Made:
        sizes: list[Size] = dataclasses.field(default_factory=lambda: [Size.SMALL])

    assert form(Made).fields[0].default == ["s"]


def test_typed_dict_omits_fields_that_are_not_required() -> None:
    class Person(TypedDict):
        """A person."""

        name: str
        age: NotRequired[int]

    question = jp.Question.form("q", Person)
    assert [field.required for field in form(Person).fields] == [True, False]
    assert question.validated({"name": "Ada"}) == {"name": "Ada"}


def test_alias_is_the_id_of_the_field() -> None:
    class Aliased(BaseModel):
        days: int = Field(alias="numberOfDays", ge=1)

    question = jp.Question.form("q", Aliased)
    assert form(Aliased).fields[0].id == "numberOfDays"
    assert question.validated({"numberOfDays": 2}) == Aliased(numberOfDays=2)


def test_field_with_an_alias_path_is_refused() -> None:
    class Path(BaseModel):
        x: int = Field(validation_alias=AliasPath("a", 0))

    with pytest.raises(jp.UsageError, match=r"of Path: \$\.properties\.x: .*AliasPath"):
        jp.Question.form("q", Path)


def test_problem_of_no_field_is_reported_for_the_form_with_its_place() -> None:
    class Paths(BaseModel):
        x: int = Field(validation_alias=AliasChoices(AliasPath("a", 0), AliasPath("b", 0)))

    assert form(Paths).problems({"x": 1}) == {"": "a: Field required"}


def test_forms_of_one_type_are_equal_and_keep_their_checks() -> None:
    question = jp.Question.form("trip", Trip)
    assert question == jp.Question.form("trip", Trip)
    asked = jp.NeedsInput(question.with_header("Trip")).question.answer_type
    assert is_kind(asked, "form_answer")
    given: dict[str, JsonValue] = {"city": "Atlantis", "days": 3, "size": "s", "with_whom": []}
    assert asked.problems(given) == {"city": "Atlantis does not exist"}


def test_form_is_serialized_without_python_checks() -> None:
    question = jp.Question.form("trip", Trip)
    text = jp.NeedsInput(question).model_dump_json()
    outcome = read_outcome(text)
    assert isinstance(outcome, jp.NeedsInput)
    assert outcome.question.model_dump() == question.model_dump()
    assert "check" not in text


class Inner(BaseModel):
    x: int


class Tree(BaseModel):
    below: list[Tree] = []


def test_nested_types_are_refused_with_their_place(subtests: pytest.Subtests) -> None:
    for annotation, why in [
        (Inner, "an object"),
        (Optional[Inner], "an object"),  # noqa: UP045
        (Tree, "an object"),
        (list[Inner], "a list"),
        (list[str], "a list"),
        (tuple[int, str], "a list"),
        (dict[str, int], "an object"),
        (int | str, "one of several types"),
        (Any, "a value of any type"),
        (Literal[b"x"] | bytes, "one of several types"),
    ]:
        with (
            subtests.test(annotation=annotation),
            pytest.raises(
                jp.UsageError, match=rf"^no form can be made of Made: \$.*x\b.*: this is {why}"
            ),
        ):
            field_of(annotation)


def test_objects_without_fields_are_refused(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [5, "Plan", None, int, list[int], Tree(), object()]
    for what in rows:
        with subtests.test(what=what), pytest.raises(jp.UsageError, match="no form can be made of"):
            jp.Question.form("q", what)


def test_too_many_fields_are_refused() -> None:
    many = dataclasses.make_dataclass("Many", [(f"x{n}", int) for n in range(51)])
    with pytest.raises(jp.UsageError, match="at most 50 fields"):
        jp.Question.form("q", many)
