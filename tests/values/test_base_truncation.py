"""Tests of truncation, and of the removal of memory addresses."""

from __future__ import annotations

import re

from tests.values.helpers import text


class Shown:
    def __init__(self, words: str) -> None:
        self.words = words

    def __repr__(self) -> str:
        return self.words


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
        assert text(Shown(given)) == cleaned


def test_only_the_ends_of_a_huge_text_are_cleaned() -> None:
    half = "y" * 500_000
    given = f"{half}{half} at 0xabcde{half[2:]}"  # the last 500,000 characters begin in the address
    cleaned = f"{half}\n… (500,009 characters omitted) …\n{half[2:]}"
    assert text(Shown(given), chars=2_000_000) == cleaned


def test_huge_integer_has_its_size_and_sign() -> None:
    assert re.fullmatch(r"-0x[0-9a-f]{16}… \(an integer of 16,610 bits, about 5,001 digits\)",
                        text(-(10**5000)))  # fmt: skip
