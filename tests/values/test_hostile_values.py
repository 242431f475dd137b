"""Tests of values whose methods raise, never end, or return wrong results."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pandas as pd
import pytest

import jp_nb as jp
from tests.kit.values import describe_value

CALLS: collections.Counter[str] = collections.Counter()


@pytest.fixture(autouse=True)
def reset_calls() -> None:
    CALLS.clear()


def counted(name: str, result: Any = None, error: BaseException | None = None) -> Any:
    def method(self: object, *args: object) -> Any:
        CALLS[name] += 1
        if error is not None:
            raise error
        return result

    return method


def make_value(**methods: Any) -> Any:
    return type("Hostile", (), methods)()


def test_repr_of_a_value_is_called_once() -> None:
    value = make_value(__repr__=counted("repr", "x" * 100_000))
    for holder in (value, [value], {"a": value}, (1, [value, "y" * 1_000])):
        CALLS.clear()
        assert len(describe_value(holder, chars=500).text) <= 500
        assert CALLS == {"repr": 1}


def test_repr_of_values_that_are_not_shown_is_not_called() -> None:
    values = [make_value(__repr__=counted("repr", "a value")) for _ in range(10_000)]
    describe_value(values, chars=500)
    assert CALLS["repr"] < 100


def test_failing_repr_is_reported() -> None:
    for error in (ValueError("no"), RecursionError(), MemoryError(), SystemExit(1)):
        value = make_value(__repr__=counted("repr", error=error))
        assert f"no text available: {type(error).__name__}" in jp.describe([1, value]).text


def test_keyboard_interrupt_is_passed_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        jp.describe(make_value(__repr__=counted("repr", error=KeyboardInterrupt())))


def test_getattr_of_a_value_is_not_called() -> None:
    value = make_value(__getattr__=counted("getattr", MagicMock()), __repr__=counted("repr", "odd"))
    assert jp.describe(value).text == "odd"
    assert "getattr" not in CALLS


def test_class_property_of_a_value_is_not_read() -> None:
    for wrong in (dict, pd.DataFrame, Exception, type):
        fake_class = property(counted("class", wrong))
        value = make_value(__class__=fake_class, __repr__=counted("repr", "a fake"))
        assert jp.describe(value).text == "a fake"
        assert jp.describe([value]).text == "[a fake]"
    assert "class" not in CALLS


def test_overridden_methods_of_a_container_are_not_called() -> None:
    methods = {
        name: counted(name, error=RuntimeError(name))
        for name in ("__len__", "__iter__", "__getitem__", "items", "keys", "__bool__", "__eq__")
    }
    for base in (list, dict, set, tuple, str, int):
        value = type("Hostile", (base,), {**methods, "__hash__": base.__hash__})()
        jp.describe(value)
        jp.describe([value])
        assert not CALLS, base


class Sequence:
    def __len__(self) -> int:
        CALLS["len"] += 1
        return 10**12

    def __iter__(self) -> Iterator[int]:
        CALLS["iter"] += 1
        while True:
            yield 1


def test_custom_sequence_is_not_iterated() -> None:
    assert "Sequence object" in jp.describe(Sequence()).text
    assert not CALLS


class WrongShape(pd.DataFrame):  # type: ignore[misc]
    @property
    def shape(self) -> tuple[int, int]:
        return 10**12, 10**9


def test_frame_with_a_wrong_shape_is_described() -> None:
    assert len(describe_value(WrongShape({"a": [1]}), chars=500).text) <= 500


def test_describing_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing:
        def _repr_pretty_(self, *args: object) -> None:
            raise ValueError

        def _ai_repr_(self) -> None:
            raise ValueError

    jp.describe(Failing())
    jp.describe(pd.DataFrame({"a": [1]}))
    assert capsys.readouterr() == ("", "")
