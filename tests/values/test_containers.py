"""Descriptions of containers and records."""

from __future__ import annotations

import warnings
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import attrs
import pandas as pd
import pydantic
import pytest

from tests.kit.values import describe_value
from tests.values.helpers import text


@dataclass
class Record:
    a: object
    password: str = "geheim-4711"
    shared: ClassVar[int] = 3
    unseen: str = field(default="unseen", repr=False)
    given: InitVar[int] = 0

    @property
    def computed(self) -> int:
        raise AssertionError("nothing that is computed is read")


class Model(pydantic.BaseModel):
    model_config = {"extra": "allow", "arbitrary_types_allowed": True}
    a: Any
    password: str = "geheim-4711"
    unseen: str = pydantic.Field("unseen", repr=False)


@attrs.define
class Attributes:
    a: object
    password: str = "geheim-4711"
    unseen: str = attrs.field(default="unseen", repr=False)


def test_fields_of_a_record_are_described_with_secrets_hidden(subtests: pytest.Subtests) -> None:
    kinds: list[Any] = [Record, Model, Attributes]
    for kind in kinds:
        with subtests.test(kind=kind):
            described = describe_value(kind(a=1), hide=["password"])
            assert described.text == f"{kind.__name__}(a=1, password=(hidden))"

            holder = kind(a=pd.DataFrame({"n": [1]}))
            inner = describe_value(holder, name="value", hide=["password"]).text
            title = f"{kind.__name__} of 2 items:\n.a: pandas.DataFrame, 1 row x 1 column\n"
            assert title in inner
            assert inner.endswith(".password: (hidden)")


def test_pydantic_model_has_its_extra_fields() -> None:
    assert text(Model(a=1, more=[2])) == "Model(a=1, password='geheim-4711', more=[2])"


@dataclass
class Unset:
    a: int
    b: int = 2

    def __getattr__(self, name: str) -> object:
        raise AssertionError("no code of the value runs")


def test_deleted_field_is_omitted() -> None:
    made = Unset(1)
    del made.a
    assert text(made) == "Unset(b=2)"


@dataclass(repr=False)
class CustomRepr:
    a: int

    def __repr__(self) -> str:
        return "in its own words"


def test_custom_repr_of_a_record_is_used() -> None:
    assert text(CustomRepr(1)) == "in its own words"


def test_depth_of_a_description_is_bounded() -> None:
    made: list[Any] = []
    for _ in range(3_000):
        made = [made]
    assert text(made).removeprefix("list of 1 item:\n[0] ") == "[" * 12 + "[… 1]" + "]" * 12


class TwoLines:
    def _ai_repr_(self) -> str:
        return "first\nsecond"


def test_items_of_a_set_stay_in_one_line() -> None:
    assert text({TwoLines(), TwoLines()}) == "{first second, first second}"
    assert text([TwoLines()]) == "list of 1 item:\n[0]: first\nsecond"


class Outdated:
    def __repr__(self) -> str:
        warnings.warn("old", FutureWarning, stacklevel=1)
        return "warned"


def test_warnings_of_libraries_are_not_shown() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert text(Outdated()) == "warned"
    assert seen == []


def test_generated_docstring_is_not_repeated() -> None:
    for kind in (Record, Attributes):
        assert text(kind).count("password: 'str'") == 1
