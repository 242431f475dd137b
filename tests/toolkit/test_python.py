"""Tests of `@jp.tool`: schema, validation, thread, and result."""

from __future__ import annotations

import asyncio
import enum
import itertools
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import IPython.display
import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel, Field

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.tools import new_tool
from tests.support.fakes import InlineCell
from tests.support.images import pdf_bytes
from tests.toolkit.result_values import Holder, Members, Model
from tests.values.sample_values import figure


@pytest.fixture(autouse=True)
def no_tools_are_left_behind() -> Iterator[None]:
    before = {tool.name for tool in jp.tools()}
    yield
    for name in {tool.name for tool in jp.tools()} - before:
        jp.remove_tool(name)


async def run(tool: Any, **arguments: Any) -> jp.Outcome:
    outcome: jp.Outcome = await tool.run(arguments, jp.ToolContext(tool.name), InlineCell())
    return outcome


def test_schema_comes_from_hints_and_docstring() -> None:
    @jp.tool
    def weather(city: str, days: int = 1, unit: Literal["C", "F"] = "C") -> str:
        """Forecast for a city.

        Two paragraphs.

        Args:
            city: Name, as on a map;
                on two lines.
            days (int): How many days ahead.

        Returns:
            The forecast.
        """
        return city

    assert weather.registration == {
        "source": "python",
        "description": "Forecast for a city.\n\nTwo paragraphs.",
    }
    assert weather.schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name, as on a map; on two lines."},
            "days": {"type": "integer", "default": 1, "description": "How many days ahead."},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        },
        "additionalProperties": False,
        "required": ["city"],
    }
    assert weather("Delft") == "Delft"


class Place(BaseModel):
    name: str
    title: str = ""


def test_schema_contains_models_and_constraints_without_titles() -> None:
    def visit(place: Place, times: Annotated[int, Field(gt=0)] = 1) -> str:
        return place.name

    schema: Any = new_tool(visit).schema
    assert schema["$defs"]["Place"]["properties"] == {
        "name": {"type": "string"},
        "title": {"type": "string", "default": ""},
    }
    assert schema["properties"]["times"]["exclusiveMinimum"] == 0


async def test_arguments_are_validated_and_converted() -> None:
    def visit(place: Place, times: int = 1) -> str:
        assert isinstance(place, Place)
        return f"{place.name} {times!r}"

    assert await run(new_tool(visit), place={"name": "Delft"}, times="2") == jp.Success("Delft 2")


async def test_invalid_call_does_not_run_and_names_the_argument(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({}, "city"),
        ({"city": "x", "days": "many"}, "days"),
        ({"city": "x", "zip": 1}, "zip"),
    ]
    for arguments, names in rows:
        with subtests.test(arguments=arguments):

            def weather(city: str, days: int = 1) -> str:
                raise AssertionError("it ran")

            outcome = await run(new_tool(weather), **arguments)
            assert is_kind(outcome, "failure")
            assert outcome.message.startswith(f"Invalid arguments for weather: {names}: ")


async def test_context_is_injected_and_not_in_the_schema() -> None:
    def who(ctx: jp.ToolContext, greeting: str = "Hi") -> str:
        return f"{greeting}, {ctx.name} {ctx.call_id}"

    tool = new_tool(who)
    assert list(tool.schema["properties"]) == ["greeting"]
    outcome = await tool.run({}, jp.ToolContext("who", call_id="c1"), InlineCell())
    assert outcome == jp.Success("Hi, who c1")


@dataclass
class Point:
    x: int


async def test_plain_results_become_outcomes(subtests: pytest.Subtests) -> None:
    for returned, outcome in [
        ("text", jp.Success("text")),
        ("", jp.Success("")),
        (None, jp.Success("null")),
        ({"ü": [1, 2.5, True]}, jp.Success('{"ü":[1,2.5,true]}')),
        (Point(1), jp.Success('{"x":1}')),
        (Place(name="a"), jp.Success('{"name":"a","title":""}')),
        (jp.Success("s"), jp.Success("s")),
        (make("failure", "f"), make("failure", "f")),
        (
            jp.NeedsInput(jp.Question.boolean("q", "t")),
            jp.NeedsInput(jp.Question.boolean("q", "t")),
        ),
    ]:
        with subtests.test(returned=returned):
            assert await run(new_tool(lambda: returned, name="t")) == outcome


async def test_other_results_are_described(subtests: pytest.Subtests) -> None:
    for returned, text, images in [
        (object(), "<object object>", 0),
        (pd.DataFrame({"a": [1]}), "pandas.DataFrame, 1 row x 1 column", 0),
        ({"n": 1, "frame": pd.DataFrame({"a": [1]})}, "['n']: 1\n['frame']: pandas.DataFrame", 0),
        (np.arange(3), "numpy.ndarray, shape (3,), int64", 0),
        (np.int64(4), "4", 0),
        (figure(), "matplotlib.Figure, 600 x 400 pixels", 1),
        (("See:", figure(), "Done."), "See:\n\nmatplotlib.Figure, 600 x 400", 1),
        (jp.describe(figure()), "matplotlib.Figure", 1),
        (IPython.display.Markdown("# Title"), "# Title", 0),  # type: ignore[no-untyped-call]
        (ValueError("bad"), "ValueError: bad", 0),
        (b"\xff\x00", "b'\\xff\\x00'", 0),
        (pdf_bytes(), f"bytes, {len(pdf_bytes())} bytes: application/pdf", 1),
    ]:
        with subtests.test(returned=returned):
            outcome = await run(new_tool(lambda: returned, name="t"))
            assert isinstance(outcome, jp.Success)
            assert outcome.content.startswith(text) or text in outcome.content
            assert len(outcome.images) == images


async def test_image_of_a_result_has_the_configured_size() -> None:
    tool = new_tool(lambda: figure(), name="t")
    outcome = await tool.run({}, jp.ToolContext("t", image_side=300), InlineCell())
    assert isinstance(outcome, jp.Success)
    [image] = outcome.images
    assert struct.unpack(">II", image.content[16:24]) == (300, 200)


async def test_result_is_described_on_the_thread_that_made_it() -> None:
    seen: list[str] = []

    class Watched:
        def __repr__(self) -> str:
            seen.append(threading.current_thread().name)
            return "watched"

    outcome = await run(new_tool(lambda: Watched(), name="t", thread=True))
    assert outcome == jp.Success("watched")
    assert seen == ["jp_nb tool t"]


# --- threads ---------------------------------------------------------------------------------


class RecordingCell(InlineCell):
    def __init__(self) -> None:
        self.calls = 0

    async def call(self, function: Any) -> Any:
        self.calls += 1
        return function()


async def test_def_async_def_and_thread_tools_run_on_their_threads() -> None:
    def name() -> str:
        return threading.current_thread().name

    async def on_the_loop() -> str:
        await asyncio.sleep(0)
        return name()

    cell = RecordingCell()
    here = threading.current_thread().name
    context = jp.ToolContext("t")
    assert await new_tool(name).run({}, context, cell) == jp.Success(here)
    assert cell.calls == 1
    assert await new_tool(on_the_loop).run({}, context, cell) == jp.Success(here)
    threaded = await new_tool(name, thread=True).run({}, context, cell)
    assert isinstance(threaded, jp.Success)
    assert threaded.content != here
    assert cell.calls == 1


async def test_threaded_calls_run_concurrently() -> None:
    together = threading.Barrier(40, timeout=60)
    tool = new_tool(lambda: together.wait() >= 0, name="t", thread=True)
    outcomes = await asyncio.gather(*(run(tool) for _ in range(40)))
    assert outcomes == [jp.Success("true")] * 40


async def test_exception_in_a_thread_is_raised(subtests: pytest.Subtests) -> None:
    rows: list[BaseException] = [StopIteration(), GeneratorExit(), SystemExit(3), ValueError()]
    for raised in rows:
        with subtests.test(raised=raised):

            def fail() -> str:
                raise raised

            is_stop = isinstance(raised, (StopIteration, GeneratorExit))
            expected = RuntimeError if is_stop else type(raised)
            async with asyncio.timeout(5):
                with pytest.raises(expected):
                    await run(new_tool(fail, thread=True))


# --- registration ----------------------------------------------------------------------------


def test_tool_can_be_redefined_and_removed() -> None:
    @jp.tool
    def renamed() -> str:
        return "first"

    @jp.tool(name="renamed", run="ask")
    def other() -> str:
        return "second"

    mine = [tool for tool in jp.tools() if tool.name == "renamed"]
    assert [tool() for tool in mine] == ["second"]
    assert mine[0].registration["run"] == "ask"
    jp.remove_tool("renamed")
    assert all(tool.name != "renamed" for tool in jp.tools())
    with pytest.raises(jp.UsageError, match="there is no Python tool 'renamed'"):
        jp.remove_tool("renamed")


def _with_positional_only(a: int, /) -> None: ...
def _with_rest(*a: int) -> None: ...
def _with_unknown(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _with_thread(a: threading.Thread) -> None: ...


def test_unsupported_functions_are_refused_at_definition(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str]] = [
        (lambda: "", "'<lambda>' is not a valid tool name"),
        (_with_positional_only, "the parameter `a` is positional-only, .* Remove the `/`"),
        (_with_rest, r"a tool cannot have `\*a`"),
        (len, "len: its parameters cannot be passed by name. Write a function"),
        (max, "max has no signature that Python can read. Write a function"),
        (threading.Thread, "Thread is a class, and a tool must be a function"),
        (partial(_with_rest, 1), "this is an object of type partial. Write a function"),
        (5, "a tool must be a function, and this is an object of type int"),
        (_with_unknown, "a type hint uses an unknown name"),
        (_with_thread, "its parameters have no JSON schema"),
    ]
    for function, message in rows:
        with subtests.test(function=function), pytest.raises(jp.UsageError, match=message):
            jp.tool(function)


def test_class_with_a_name_is_refused_as_well() -> None:
    with pytest.raises(jp.UsageError, match="Thread is a class"):
        jp.tool(name="thread")(threading.Thread)
    with pytest.raises(jp.UsageError, match=r"part: a tool cannot have `\*a`"):
        jp.tool(name="part")(partial(_with_rest, 1))


def test_thread_is_refused_for_async_def() -> None:
    async def later() -> str:
        return ""

    with pytest.raises(jp.UsageError, match="`thread=True` needs a `def` function"):
        jp.tool(thread=True)(later)


def describe(docstring: str) -> tuple[Any, dict[str, Any]]:
    """Return the descriptions of a tool with this docstring, and of its parameters."""

    def look(city: str, days: int = 1) -> None: ...

    look.__doc__ = docstring
    tool = new_tool(look)
    described = {name: each.get("description") for name, each in tool.schema["properties"].items()}
    return tool.registration["description"], described


@pytest.mark.parametrize(
    ("after", "description"),
    [
        ("Warning:\n    It costs: much.", "Look.\n\nWarning:\n    It costs: much."),
        ("Todo:\n    * city: more", "Look.\n\nTodo:\n    * city: more"),
        ("Attributes:\n    city: Not this.", "Look.\n\nAttributes:\n    city: Not this."),
        ("See Also:\n    days: Not this.", "Look.\n\nSee Also:\n    days: Not this."),
        ("Warns:\n    city: Never.", "Look."),
        ("Return:\n    days: Not this.", "Look."),
        ("It is slow.\nWait: please.", "Look.\n\nIt is slow.\nWait: please."),
        (
            "Limits of the city:\n    city: Not this.",
            "Look.\n\nLimits of the city:\n    city: Not this.",
        ),
        ("Returns:\n    A text.\n\nIt is slow.", "Look.\n\nIt is slow."),
    ],
)
def test_text_after_the_parameters_describes_the_tool(after: str, description: str) -> None:
    arguments = "Args:\n    city: Name.\n        On a map.\n\n    days: Days."
    expected = {"city": "Name. On a map.", "days": "Days."}
    assert describe(f"Look.\n\n{arguments}\n\n{after}\n") == (description, expected)


@pytest.mark.parametrize(
    "arguments",
    [
        "Args:\n    *places: More.\n    city: Name.\n    **options: More.\n    days: Days.",
        "Args:\n    city: Name.\n    \\*places: More.\n    days: Days.\n    \\**options: More.",
        "Args:\n    city (Callable[[], str]): Name.\n    days (int | dict(str, int)): Days.",
        "Args:\ncity: Name.\ndays: Days.",
        "Args:\n\n    city: Name.\n\n    days: Days.",
        "Args:\n    city: Name.\n\nKeyword Args:\n    days: Days.",
        "Parameters:\n    city: Name.\nOther Parameters:\n    days: Days.",
        "Attributes:\n    city: Not this.\n\nArgs:\n    city: Name.\n    days: Days.",
    ],
)
def test_each_line_of_a_parameter_describes_only_it(arguments: str) -> None:
    _, described = describe(f"Look.\n\n{arguments}\n")
    assert described == {"city": "Name.", "days": "Days."}


def test_docstring_without_sections_is_the_description() -> None:
    def one() -> None:
        """One.

        Two: three.
        """

    one.__doc__ = "One.\n\n  Two: three."
    assert new_tool(one).registration["description"] == "One.\n\nTwo: three."
    one.__doc__ = None
    assert new_tool(one).registration["description"] == "one"


# --- access to the configuration -------------------------------------------------------------


@pytest.mark.req("R078-1")
def test_access_rules_are_registered_with_the_tool() -> None:
    @jp.tool(
        access=[jp.ConfigRule("assistant.model", read=True, write=True), jp.ConfigRule("user")]
    )
    def change_model(target: str) -> str:
        return target

    assert change_model.registration["access"] == {
        "config": [{"path": "assistant.model", "read": True, "write": True}, {"path": "user"}]
    }
    assert jp.ConfigRule("user") == jp.ConfigRule(path="user")
    assert jp.ConfigRule("user").apply == "ask"


@pytest.mark.req("R078-17", "R078-18")
def test_invalid_access_rule_is_refused_at_definition(subtests: pytest.Subtests) -> None:
    rows: list[tuple[jp.ConfigRule, str]] = [
        (
            jp.ConfigRule("conversation.tools", write=True),
            "tool 'grabs' grants write = true to path 'conversation.tools' which is a sensitive "
            'path. Use write = "insecure_allow" to explicitly acknowledge this grant.',
        ),
        (
            jp.ConfigRule("user.*", read=True),
            "tool 'grabs': access.config path 'user.*' uses '*' at 'user', which is not a map",
        ),
        (jp.ConfigRule("user..x"), "tool 'grabs': access.config path 'user..x' is not a path"),
    ]
    for rule, says in rows:
        with subtests.test(rule=rule):
            with pytest.raises(jp.ConfigError) as caught:
                jp.tool(name="grabs", access=[rule])(lambda: "")
            assert says in str(caught.value)
            assert str(caught.value).endswith("(from @jp.tool)")
            assert "grabs" not in [tool.name for tool in jp.tools()]


def test_access_must_be_a_list_of_rules(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [{"path": "user"}, ["user"], jp.ConfigRule("user")]
    for access in rows:
        with (
            subtests.test(access=access),
            pytest.raises(jp.UsageError, match="odd: `access` must be a l"),
        ):
            jp.tool(name="odd", access=access)(lambda: "")


def test_access_rule_that_matches_nothing_is_a_warning() -> None:
    with pytest.warns(
        UserWarning, match=r"'odd': access\.config path 'usr' does not exist"
    ) as told:

        @jp.tool(access=[jp.ConfigRule("usr", read=True)])
        def odd() -> str:
            return ""

    assert told[0].filename == __file__
    assert "odd" in [tool.name for tool in jp.tools()]


# --- results that are not JSON -----------------------------------------------------------------


def endless() -> Iterator[int]:
    yield from itertools.count()


async def test_iterator_in_a_result_is_described_and_not_consumed(
    subtests: pytest.Subtests,
) -> None:
    rows: list[Callable[[], Any]] = [
        itertools.count, endless, lambda: iter([1, 2]), lambda: map(str, [1]),
        lambda: [1, itertools.count()], lambda: {"a": {"b": [endless()]}},
        lambda: {(1, itertools.count()): 2}, lambda: (1, frozenset([itertools.count()])),
        lambda: Holder("a", itertools.count()), lambda: [Holder("a", [endless()])],
        lambda: Model(items=itertools.count()), lambda: Model(items=[endless()]),
        lambda: Members.ENDLESS, lambda: [Members.ENDLESS],
    ]  # fmt: skip
    for make_value in rows:
        with subtests.test(make_value=make_value):
            value = make_value()
            outcome = await run(new_tool(lambda: value, name="t"))
            assert outcome == jp.Success(jp.describe(value).text)
            assert next(first_iterator(value)) in (0, 1, "1")


def first_iterator(value: Any) -> Any:
    """Return the first iterator in `value`, at any depth."""
    if hasattr(value, "__next__"):
        return value
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, enum.Enum):
        parts = [value.value]
    elif isinstance(value, list | tuple | frozenset):
        parts = [*value]
    elif hasattr(value, "__dict__"):
        parts = [*vars(value).values()]
    else:
        return None
    return next((found for part in parts if (found := first_iterator(part)) is not None), None)


RESULTS = """
from tests.toolkit.result_values import Holder, Model
from jp_nb.toolkit.function_tools.function_calls import as_outcome
from jp_nb.values.describe import describe
words = {"pear", "apple", "fig", "cherry", "date"}
for value in (
    words,
    [words, {"a": frozenset(words)}],
    {1, "a", (2, "b"), None, 2.5},
    Holder("a", words),
    [Model(labels=words)],
    {frozenset(words), frozenset({"b", "a"})},
):
    print(as_outcome(value).content)
"""


def test_sets_in_results_are_sorted_in_every_process() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", RESULTS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    words = '["apple","cherry","date","fig","pear"]'
    assert [*told] == [
        f"{words}\n"
        f'[{words},{{"a":{words}}}]\n'
        '[null,2.5,1,"a",[2,"b"]]\n'
        f'{{"name":"a","items":{words}}}\n'
        f'[{{"labels":{words},"items":null}}]\n'
        f'[["a","b"],{words}]\n'
    ]


async def test_set_in_a_result_has_the_order_of_its_description() -> None:
    value = {1, "a", (2, "b"), None, 2.5}
    outcome = await run(new_tool(lambda: value, name="t"))
    assert isinstance(outcome, jp.Success)
    said = jp.describe(value).text.replace("None", "null").replace("'", '"')
    assert outcome.content == said.replace("{", "[").replace("}", "]").replace("(", "[").replace(
        ")", "]"
    ).replace(" ", "")


async def test_large_set_of_mixed_values_is_described() -> None:
    value = {(n, "x") for n in range(5000)}
    outcome = await run(new_tool(lambda: value, name="t"))
    assert isinstance(outcome, jp.Success)
    assert outcome.content.startswith("set of 5,000 items")


class FailingClass:
    """Object whose `__class__` raises."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    def __repr__(self) -> str:
        return "a value without a class"


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value, 1]])
async def test_object_whose_class_raises_is_described(wrap: Any) -> None:
    def fail() -> Any:
        return wrap(FailingClass())

    outcome = await run(new_tool(fail))
    assert isinstance(outcome, jp.Success)
    assert "a value without a class" in outcome.content
