"""Tests of truncation, and of the removal of memory addresses."""

from __future__ import annotations

import re

import pytest

from jp_nb.values import base
from tests.values.helpers import text


def test_expression_names_exactly_the_omitted_text() -> None:
    value = "".join(chr(33 + n % 90) for n in range(5_000))
    said = text(value, 400)
    found = re.search(
        r"\n… \(([\d,]+) characters omitted; value\[(\d+):(\d+)\] has them\) …\n", said
    )
    assert found is not None
    start = int(found[2])
    end = int(found[3])
    assert said == value[:start] + found[0] + value[end:]
    assert int(found[1].replace(",", "")) == end - start
    assert start > len(value) - end > 50


def test_addresses_are_removed() -> None:
    for given, cleaned in [
        ("<Thing at 0x7f00AB>", "<Thing>"),
        ("<Thing id=140234567>", "<Thing>"),
        ("<Thing id='140234567', x=1>", "<Thing, x=1>"),
        ("id=12 at noon", "id=12 at noon"),
    ]:
        assert base.without_addresses(given) == cleaned


def test_only_the_ends_of_a_huge_text_are_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_CLEANED", 10)
    assert base.without_addresses("01234" + "x" * 50 + " at 0xabcde fin") == (
        "01234\n… (60 characters omitted) …\n fin"
    )


def test_huge_integer_has_its_size_and_sign() -> None:
    assert re.fullmatch(r"-0x[0-9a-f]{16}… \(an integer of 16,610 bits, about 5,001 digits\)",
                        text(-(10**5000)))  # fmt: skip
