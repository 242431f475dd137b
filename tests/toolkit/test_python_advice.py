"""Tests of suggestions for incomplete descriptions of tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

import jp_nb as jp
from jp_nb.toolkit.function_tools.tool_advice import suggest_improvements
from tests.kit.tools import new_tool


def whole(city: str, days: Annotated[int, Field(description="How many.")] = 1) -> str:
    """Forecast for a city.

    Args:
        city: Name, as on a map.
    """
    return f"{city} {days}"


def with_context(city: str, ctx: jp.ToolContext) -> str:
    """Forecast for a city.

    Args:
        city: Name, as on a map.
        ctx: The call.
    """
    return city + ctx.name


def no_docstring(city: str) -> str:
    return city


def no_hints(city, days=1):  # type: ignore[no-untyped-def]
    """Forecast.

    Args:
        city: Name.
        days: Days.
    """
    return city, days


def anything(city: Any) -> str:
    """Forecast.

    Args:
        city: Name.
    """
    return str(city)


def forgets(city: str, days: int, hours: int) -> str:
    """Forecast.

    Args:
        city: Name.
    """
    return f"{city}{days}{hours}"


def misnames(city: str) -> str:
    """Forecast.

    Args:
        city: Name.
        cty: Name.
        other: Name.
    """
    return city


def bare(names: list, table: dict[str, list] | None = None) -> str:  # type: ignore[type-arg]
    """Count.

    Args:
        names: Names.
        table: A table.
    """
    return f"{names}{table}"


def bare_tuple(pair: tuple, more: list[tuple] | None = None) -> str:  # type: ignore[type-arg]
    """Count.

    Args:
        pair: Names.
        more: More names.
    """
    return f"{pair}{more}"


def odd_default(days: int = None, city: str = 3) -> str:  # type: ignore[assignment]  # noqa: RUF013
    """Forecast.

    Args:
        days: Days.
        city: Name.
    """
    return f"{days}{city}"


def test_well_described_tool_gets_no_suggestions(subtests: pytest.Subtests) -> None:
    rows: list[Callable[..., Any]] = [whole, with_context]
    for function in rows:
        with subtests.test(function=function):
            assert list(suggest_improvements(new_tool(function))) == []


def test_suggestion_names_the_problem_and_the_solution(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Callable[..., Any], list[str]]] = [
        (
            no_docstring,
            [
                "there is no docstring, so the model gets only the name. Write one that "
                "describes the tool"
            ],
        ),
        (
            no_hints,
            [
                "city and days have no type hint, so the model can send any value. "
                "Add one, such as "
                "`city: str`"
            ],
        ),
        (
            anything,
            ["city can be anything (`Any`). Use the type that anything takes, such as `city: str`"],
        ),
        (forgets, ["the docstring does not describe days and hours. Describe them under `Args:`"]),
        (
            misnames,
            [
                "the docstring describes cty, which is not a parameter of misnames: "
                "did you mean city?",
                "the docstring describes other, which is not a parameter of misnames",
            ],
        ),
        (
            bare,
            [
                "the type hint of names does not give the item type of list. Add it, such "
                "as `list[str]`",
                "the type hint of table does not give the item type of list. Add it, such "
                "as `list[str]`",
            ],
        ),
        (
            bare_tuple,
            [
                "the type hint of pair does not give the item type of tuple. Add it, such "
                "as `tuple[str, ...]`",
                "the type hint of more does not give the item type of tuple. Add it, such "
                "as `tuple[str, ...]`",
            ],
        ),
        (
            odd_default,
            [
                "the default of days is None, which does not match `int`. Write "
                "`days: int | None = None`",
                "the default of city is a value of type int, which does not match "
                "`str`. Write a default "
                "that fits",
            ],
        ),
    ]
    for function, said in rows:
        with subtests.test(function=function):
            assert list(suggest_improvements(new_tool(function))) == said
