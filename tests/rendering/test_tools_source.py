"""A recorded call as Python code: the function itself if possible, else `jp.call`."""

from __future__ import annotations

import ast
from datetime import date
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.renderings import render
from tests.kit.tools import new_tool


class Size(Enum):
    SMALL = "small"


class Place(BaseModel):
    city: str


def weather(city: str, days: int = 1, deep: dict[str, list[float]] | None = None) -> str:
    return f"{city} {days} {deep}"


def dated(day: date, size: Size = Size.SMALL, place: Place | None = None) -> str:
    return f"{day.year} {size} {place}"


def greet(city: str, ctx: jp.ToolContext) -> str:
    return f"{ctx.name} {city}"


async def later(city: str) -> str:
    return city


TOOLS = {f.__name__: new_tool(f) for f in (weather, dated, greet, later)}


def source(name: str, arguments: dict[str, Any], namespace: dict[str, Any] | None = None) -> str:
    known = {"jp": jp, **TOOLS} if namespace is None else namespace
    call = make("tool_call", "c1", name, arguments)
    written: str = render("call_source", call, TOOLS.get(name), known)
    return written


def test_call_is_written_as_python(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, dict[str, Any], str]] = [
        ("weather", {"city": "Delft", "days": 2}, "weather(city='Delft', days=2)"),
        ("weather", {"city": "Delft", "days": "2"}, "weather(city='Delft', days=2)"),
        ("weather", {"city": "a\u202e\n'"}, 'weather(city="a\\u202e\\n\'")'),
        ("weather", {"city": "x", "deep": {"a": [1]}}, "weather(city='x', deep={'a': [1.0]})"),
        ("weather", {"town": "Delft"}, "jp.call('weather', town='Delft')"),
        ("weather", {"from": "Delft"}, "jp.call('weather', {'from': 'Delft'})"),
        ("weather", {"city": "x", "deep": {"a": ["inf"]}},
         "jp.call('weather', city='x', deep={'a': ['inf']})"),
        ("dated", {"day": "2026-11-23"}, "jp.call('dated', day='2026-11-23')"),
        ("greet", {"city": "x"}, "greet(city='x', ctx=jp.ToolContext('greet'))"),
        ("later", {"city": "x"}, "await later(city='x')"),
        ("command", {"class": 1, "a b": 2}, "jp.call('command', {'class': 1, 'a b': 2})"),
        ("command", {"\u00b5": 1}, "jp.call('command', {'\u00b5': 1})"),  # Python reads `\u03bc=1`
        ("command", {"tool": "x"}, "jp.call('command', {'tool': 'x'})"),
        ("command", {}, "jp.call('command')"),
    ]  # fmt: skip
    for name, arguments, written in rows:
        with subtests.test(name=name, arguments=arguments):
            assert source(name, arguments) == written
            ast.parse(written)


def test_function_has_its_name_in_the_notebook() -> None:
    assert source("weather", {"city": "x"}, {"rain": weather}) == "rain(city='x')"
    assert source("weather", {"city": "x"}, {}) == (
        "import jp_nb as jp\n\njp.call('weather', city='x')"
    )
    assert source("greet", {"city": "x"}, {"greet": greet, "j": jp}).endswith(
        "j.ToolContext('greet'))"
    )
    # Another function has that name by now.
    assert source("weather", {"city": "x"}, {"weather": print, "jp": jp}).startswith("jp.call(")


def test_long_call_has_one_line_for_each_argument() -> None:
    written = source("weather", {"city": "x" * 90, "days": 3})
    assert written == f"weather(\n    city='{'x' * 90}',\n    days=3,\n)"


def test_failed_call_has_a_comment_with_the_error() -> None:
    error = "KeyError: '\x1b[31mx\u202e'\nmore"
    failed = make("tool_call", "c", "weather", {"city": "x"}, error, True)
    written = render("call_source", failed, TOOLS["weather"], TOOLS)
    assert written == "# failed: KeyError: 'x⟨U+202E⟩'\nweather(city='x')"
