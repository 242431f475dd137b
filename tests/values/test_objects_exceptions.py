"""Descriptions of exceptions."""

from __future__ import annotations

import re

from tests.values.helpers import text


def raised(code: str) -> BaseException:
    try:
        exec(compile(code, "<stdin>", "exec"), {})
    except Exception as exc:
        return exc
    raise AssertionError


def test_frames_of_installed_code_are_counted() -> None:
    said = text(raised("import json\njson.loads('{')"))
    assert "a cell, line 2" in said
    assert re.search(r"\n  \(\d lines of installed code omitted\)$", said)
    assert "decoder.py" not in said


def test_cause_is_described_unless_it_is_suppressed() -> None:
    code = "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise KeyError('x'){}"
    assert "While handling:\nZeroDivisionError: division by zero" in text(raised(code.format("")))
    assert "ZeroDivisionError" not in text(raised(code.format(" from None")))


def test_circular_causes_are_described_once() -> None:
    one = ValueError("one")
    two = ValueError("two")
    one.__cause__ = two
    two.__cause__ = one
    assert text(one) == "ValueError: one\nCaused by:\nValueError: two"


def test_long_traceback_has_its_first_and_last_lines() -> None:
    code = "def down(n):\n    if not n:\n        raise ValueError\n    down(n - 1)\ndown(90)"
    said = text(raised(code), 5_000).split("\n")
    assert said[2] == "  a cell, line 5"
    assert said[11] == "  … 73 more lines"
    assert said[-1] == "  a cell, line 3, in down"
    assert len(said) == 22
