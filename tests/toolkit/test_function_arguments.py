"""Tests of the parameters of Python tools: names, types, `Field` as a default, and null."""

from __future__ import annotations

import asyncio
import enum
import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, NewType
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field

import jp_nb as jp
from jp_nb.toolkit.function_tools.tool_advice import suggest_improvements
from tests.kit.kinds import is_kind
from tests.kit.tools import configured, new_tool, offer_now
from tests.support.fakes import InlineCell

Port = NewType("Port", int)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def run(tool: Any, /, **arguments: Any) -> jp.Outcome:
    outcome: jp.Outcome = asyncio.run(tool.run(arguments, jp.ToolContext(tool.name), InlineCell()))
    return outcome


def received(tool: Any, got: list[Any], /, **arguments: Any) -> Any:
    """Return the value that the function got."""
    got.clear()
    outcome = run(tool, **arguments)
    assert isinstance(outcome, jp.Success), outcome
    [value] = got
    return value


# --- names -----------------------------------------------------------------------------------

NAMES = [
    "model_config", "schema", "json", "copy", "dict", "validate", "model_fields", "model_dump",
    "construct", "_cursor", "__x", "__dunder__", "self", "cls", "match", "type", "case", "_",
    "argument_0", "größe", "尺寸", "name", "arguments", "tool", "cell", "function", "context",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_parameter_works_without_a_warning(name: str) -> None:
    space: dict[str, Any] = {}
    source = f"def echo({name}: str, other: int = 1) -> str:\n    return f'{{{name}}} {{other}}'\n"
    exec(source, space)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tool = new_tool(space["echo"])

    schema: Any = tool.schema
    assert list(schema["properties"]) == [name, "other"]
    assert schema["required"] == [name]
    assert run(tool, **{name: "v"}) == jp.Success("v 1")
    assert tool(**{name: "v"}) == "v 1"
    assert tool.validate_arguments({name: "v"}) == {name: "v"}
    outcome = run(tool, **{name: []})
    assert is_kind(outcome, "failure")
    assert outcome.message.startswith(f"Invalid arguments for echo: {name}: ")


# --- methods ---------------------------------------------------------------------------------


def test_method_in_a_class_body_is_refused_with_the_way_out() -> None:
    with pytest.raises(
        jp.UsageError, match=r"the model cannot pass `self`.*`jp\.tool\(Robot\(\)\.t"
    ):

        class Robot:
            @jp.tool
            def turn(self, angle: int) -> str:
                return f"{angle}"

    with pytest.raises(
        jp.UsageError, match=r"the model cannot pass `cls`.*`jp\.tool\(Other\.make\)`"
    ):

        class Other:
            @jp.tool
            @classmethod
            def make(cls, angle: int) -> str:
                return f"{angle}"

    with pytest.raises(jp.UsageError, match="the model cannot pass `cls`"):

        class Third:
            @classmethod
            @jp.tool
            def make(cls, angle: int) -> str:
                return f"{angle}"

    with pytest.raises(
        (jp.UsageError, RuntimeError)
    ) as caught:  # a RuntimeError before Python 3.12

        class Fourth:
            @jp.tool(name="fourth")
            def turn(this, angle: int) -> str:  # noqa: N805
                return f"{angle}"

    reason = caught.value if isinstance(caught.value, jp.UsageError) else caught.value.__cause__
    assert "the model cannot pass `this`" in str(reason)
    assert not {"turn", "make", "fourth"} & {tool.name for tool in jp.tools()}


def test_static_and_bound_methods_are_tools() -> None:
    class Robot:
        def __init__(self) -> None:
            self.angle = 0

        @jp.tool(name="robot_add")
        @staticmethod
        def add(left: int, right: int) -> str:
            return f"{left + right}"

        @staticmethod
        @jp.tool(name="robot_subtract")
        def subtract(left: int, right: int) -> str:
            return f"{left - right}"

        def turn(self, angle: int) -> str:
            self.angle += angle
            return f"{self.angle}"

        @classmethod
        def kind(cls, angle: int) -> str:
            return f"{cls.__name__} {angle}"

    try:
        robot = Robot()
        bound = jp.tool(name="robot_turn")(robot.turn)
        kind = jp.tool(name="robot_kind")(Robot.kind)
        tools = {tool.name: tool for tool in jp.tools()}
        assert run(tools["robot_add"], left=2, right=3) == jp.Success("5")
        assert run(tools["robot_subtract"], left=2, right=3) == jp.Success("-1")
        assert run(bound, angle=4) == jp.Success("4")
        assert robot.angle == 4
        assert run(kind, angle=1) == jp.Success("Robot 1")
        assert Robot.add(1, 2) == Robot().subtract(4, 1) == "3"
        with pytest.raises(jp.UsageError, match="the model cannot pass `self`"):
            jp.tool(Robot.turn)
    finally:
        for left in jp.tools():
            if left.name.startswith("robot_"):
                jp.remove_tool(left.name)


def test_tool_of_a_module_can_be_an_attribute_of_a_class() -> None:
    def plain(value) -> str:  # type: ignore[no-untyped-def]
        return f"{value}"

    made = new_tool(plain)

    class Holder:
        shared = made

    assert Holder.shared(3) == "3"


# --- partials and objects --------------------------------------------------------------------


def test_partial_and_object_are_tools_with_a_name() -> None:
    def visit(secret: str, city: str, days: int = 1) -> str:
        """Visit a city.

        Args:
            city: Its name.
        """
        return f"{secret} {city} {days}"

    class Guide:
        """A guide."""

        def __call__(self, city: str) -> str:
            """Guide through a city."""
            return f"guided to {city}"

    by_position = new_tool(functools.partial(visit, "s"), name="visit")
    by_name = new_tool(functools.partial(visit, secret="s", days=2), name="visit")
    wrapped = functools.update_wrapper(functools.partial(visit, "s"), visit)

    for tool, days in ((by_position, 1), (by_name, 2), (new_tool(wrapped), 1)):
        assert "secret" not in str(tool.schema)
        assert run(tool, city="Delft") == jp.Success(f"s Delft {days}")
        assert tool.registration["description"] == "Visit a city."

    guide = new_tool(Guide(), name="guide")
    assert run(guide, city="Delft") == jp.Success("guided to Delft")
    assert guide.registration["description"] == "Guide through a city."


# --- `Field` as a default --------------------------------------------------------------------


def test_field_as_a_default_is_the_field() -> None:
    got: list[Any] = []

    def book(
        city: str = Field(description="The city", min_length=2),
        days: int = Field(3, ge=1, le=5),
        nights: int = Field(default=2),
        tags: list[str] = Field(default_factory=list),  # noqa: B008
        unit: Annotated[str, Field(description="The unit")] = Field("C", max_length=1),
        count: Annotated[int, Field(default=7, le=9)] = 8,
        level: Annotated[int, Field(default=7, le=9)] = Field(le=8),
    ) -> str:
        """Book a trip.

        Args:
            city: Not this text.
            days: How long.
        """
        got.append((city, days, nights, tags, unit, count, level))
        return "booked"

    tool = new_tool(book)
    schema: Any = tool.schema
    properties = schema["properties"]
    assert schema["required"] == ["city"]
    assert properties["city"] == {"type": "string", "minLength": 2, "description": "The city"}
    assert properties["days"] == {
        "type": "integer", "default": 3, "minimum": 1, "maximum": 5, "description": "How long.",
    }  # fmt: skip
    assert properties["unit"]["description"] == "The unit"
    assert properties["unit"]["maxLength"] == 1
    assert properties["level"]["default"] == 7

    expected: Any = ("Delft", 3, 2, [], "C", 8, 7)
    assert received(tool, got, city="Delft") == expected
    got.clear()
    tool("Delft")
    assert got == [expected]
    with pytest.raises(TypeError, match="city"):
        tool()
    assert is_kind(run(tool), "failure")
    assert is_kind(run(tool, city="Delft", days=99), "failure")
    assert next(iter(suggest_improvements(tool))).startswith(
        "the docstring does not describe nights"
    )


def test_alias_of_a_field_is_the_name_for_the_model() -> None:
    def find(kind: str = Field(alias="type"), limit: int = Field(5, alias="max")) -> str:
        return f"{kind} {limit}"

    tool = new_tool(find)
    schema: Any = tool.schema
    assert list(schema["properties"]) == ["type", "max"]
    assert run(tool, type="x", max=2) == jp.Success("x 2")
    assert tool.validate_arguments({"type": "x"}) == {"kind": "x"}


# --- types -----------------------------------------------------------------------------------


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date
    color: Color
    size: tuple[int, int]
    tags: set[str]
    price: Decimal
    note: str = "none"


TYPES: list[tuple[Any, Any, Any, str]] = [
    (Path, "data/x.csv", Path("data/x.csv"), "string"),
    (timedelta, "PT90S", timedelta(seconds=90), "string"),
    (date, "2026-03-01", date(2026, 3, 1), "string"),
    (datetime, "2026-03-01T10:00:00", datetime(2026, 3, 1, 10), "string"),
    (time, "10:30:00", time(10, 30), "string"),
    (UUID, "12345678-1234-5678-1234-567812345678", UUID(int=0x12345678123456781234567812345678),
     "string"),
    (Decimal, "1.10", Decimal("1.10"), "number or string"),
    (Color, "blue", Color.BLUE, "string"),
    (bytes, "abc", b"abc", "string"),
    (set[int], [1, 2], {1, 2}, "array of integer"),
    (frozenset[str], ["a"], frozenset("a"), "array of string"),
    (tuple[int, str], [1, "a"], (1, "a"), "array"),
    (IPv4Address, "127.0.0.1", IPv4Address("127.0.0.1"), "string"),
    (Literal["a", "b"], "a", "a", "string"),
    (Port, 80, 80, "integer"),
    (dict[int, float], {"1": 2.0}, {1: 2.0}, "object"),
    (complex, "1+2j", 1 + 2j, "string"),
]  # fmt: skip


@pytest.mark.parametrize("row", TYPES, ids=lambda row: str(row[0]))
def test_schema_validation_and_documentation_of_a_type_agree(
    row: tuple[Any, Any, Any, str],
) -> None:
    kind, sent, expected, shown = row
    got: list[Any] = []

    def required(value):  # type: ignore[no-untyped-def]
        got.append(value)

    def optional(value=expected):  # type: ignore[no-untyped-def]
        got.append(value)

    for function in (required, optional):
        function.__annotations__ = {"value": kind}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tool = new_tool(function)
        value = received(tool, got, value=sent)
        assert (value, type(value)) == (expected, type(expected))
        offered = offer_now(configured({}, [tool]), {"python": {tool.name: tool}})
        text = offered.documentation[tool.name]
        assert f"`value` ({shown}" in text
        for advice in suggest_improvements(tool):
            assert "default" not in advice

    assert received(new_tool(optional), got) == expected
    assert received(new_tool(optional), got, value=None) == expected


def test_strict_model_can_be_called() -> None:
    got: list[Any] = []

    def order(item: Strict) -> None:
        got.append(item)

    sent = {"day": "2026-03-01", "color": "red", "size": [1, 2], "tags": ["a"], "price": "1.5"}
    item = received(new_tool(order), got, item=sent)
    assert item == Strict(
        day=date(2026, 3, 1), color=Color.RED, size=(1, 2), tags={"a"}, price=Decimal("1.5")
    )


def test_default_of_a_set_has_one_text() -> None:
    words = {"pear", "apple", "fig", "cherry"}

    def pick(words: set[str] = words) -> str:
        return ""

    schema: Any = new_tool(pick).schema
    assert schema["properties"]["words"]["default"] == ["apple", "cherry", "fig", "pear"]


class Opaque:
    """A class that JSON has no form for."""


@dataclass
class Holder:
    inner: Opaque


def _with_opaque(thing: Opaque, x: int = 1) -> None: ...
def _with_opaque_inside(thing: list[Holder]) -> None: ...
def _with_callable(thing: Callable[[int], int]) -> None: ...
def _with_wrong_limit(x: int, thing: int = Field(multiple_of=0)) -> None: ...
def _with_a_number(thing: 5) -> None: ...  # type: ignore[valid-type]


def test_unsupported_type_is_named_without_words_of_pydantic(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Callable[..., Any], str]] = [
        (_with_opaque, "Opaque`"),
        (_with_opaque_inside, "Holder]`"),
        (_with_callable, "Callable[[int], int]`"),
        (_with_wrong_limit, "limits or the default in the `Field`"),
        (_with_a_number, "`5`"),
    ]
    for function, says in rows:
        with subtests.test(function=function):
            with pytest.raises(jp.UsageError) as caught:
                new_tool(function)
            text = str(caught.value)
            assert "its parameters have no JSON schema" in text
            assert "`thing`" in text
            assert says in text
            assert "pydantic-core" not in text
            assert "arbitrary_types_allowed" not in text
            assert caught.value.__suppress_context__


def test_limit_that_does_not_fit_is_named_in_the_call() -> None:
    def sized(size: int = Field(min_length=2)) -> str:
        return ""

    with pytest.raises(jp.UsageError, match="sized: the limit `min_length` in the `Field`"):
        run(new_tool(sized), size=3)


def test_error_of_a_call_names_only_the_argument(subtests: pytest.Subtests) -> None:
    def pick(value: int | list[str] | Holder2) -> str:
        return ""

    def strict(item: Strict) -> str:
        return ""

    sent = {"day": 1, "color": "red", "size": [1, "x"], "tags": [], "price": "1"}
    rows: list[tuple[Any, dict[str, Any], str]] = [
        (new_tool(pick), {"value": "x"}, "value: "),
        (new_tool(pick), {"value": ["a", 1]}, "value.1: "),
        (new_tool(strict), {"item": sent}, "item.day: "),
        (new_tool(strict), {"item": sent}, "item.size.1: "),
    ]
    for tool, arguments, names in rows:
        with subtests.test(arguments=arguments):
            outcome = run(tool, **arguments)
            assert is_kind(outcome, "failure")
            problems = outcome.message.partition(": ")[2].split("; ")
            assert any(problem.startswith(names) for problem in problems)
            assert not any("[str]" in problem or "Holder2" in problem for problem in problems)


@dataclass
class Holder2:
    name: str


# --- null ------------------------------------------------------------------------------------


class Trip(BaseModel):
    city: str
    days: int = 3
    note: str | None = "x"


def test_null_is_the_default_where_the_type_does_not_allow_it(subtests: pytest.Subtests) -> None:
    got: list[Any] = []

    def travel(
        trip: Trip,
        days: int = 2,
        color: Color = Color.RED,
        tags: list[str] = Field(default_factory=lambda: ["a"]),  # noqa: B008
        limit: float = float("inf"),
        note: str | None = "note",
        anything: Any = "any",
        other: Trip | None = None,
    ) -> None:
        got.append((trip, days, color, tags, limit, note, anything, other))

    tool = new_tool(travel)
    nulls: dict[str, Any] = dict.fromkeys(
        ["days", "color", "tags", "limit", "note", "anything", "other"]
    )
    nulls["trip"] = {"city": "Delft", "days": None, "note": None}
    trip = Trip(city="Delft", note=None)
    expected = (trip, 2, Color.RED, ["a"], float("inf"), None, None, None)
    assert received(tool, got, **nulls) == expected

    nulls["other"] = {"city": "Gouda", "days": None}
    assert received(tool, got, **nulls)[-1] == Trip(city="Gouda")
    for arguments in ({"trip": None}, {"trip": {"city": None}}):
        with subtests.test(arguments=arguments):
            assert is_kind(run(tool, **arguments), "failure")


def test_null_in_a_mapping_is_not_dropped() -> None:
    def count(words: dict[str, int]) -> str:
        return ""

    outcome = run(new_tool(count), words={"a": None})
    assert is_kind(outcome, "failure")
