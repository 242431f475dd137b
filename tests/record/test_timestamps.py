"""Times as they are stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.record.timestamps import (
    conversation_id,
    format_timestamp,
    new_conversation_id,
    parse_timestamp,
)
from tests.support.record_strategies import QUICK

MOMENT = datetime(2026, 3, 18, 13, 19, 6, 841464, tzinfo=UTC)


@pytest.mark.parametrize(
    ("microsecond", "text"),
    [(0, "06.0"), (100000, "06.1"), (841464, "06.841464"), (1, "06.000001")],
)
def test_trailing_zeros_are_trimmed_but_the_first(microsecond: int, text: str) -> None:
    assert format_timestamp(MOMENT.replace(microsecond=microsecond)) == f"2026-03-18 13:19:{text}"


def test_times_are_written_in_utc() -> None:
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert format_timestamp(elsewhere) == "2026-03-18 13:19:06.841464"


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-18 13:19:06.841464",
        "2026-03-18 13:19:06.841464999",
        "2026-03-18T13:19:06.841464Z",
        "2026-03-18t13:19:06.841464000z",
        "2026-03-18T15:19:06.841464+02:00",
        "2026-03-18T09:49:06.841464-03:30",
    ],
)
def test_both_forms_are_read(text: str) -> None:
    assert parse_timestamp(text) == MOMENT


@pytest.mark.parametrize(
    ("text", "microsecond"), [("06", 0), ("06.5", 500000), ("06.05", 50000), ("06.0000009", 0)]
)
def test_a_fraction_has_any_number_of_digits(text: str, microsecond: int) -> None:
    found = parse_timestamp(f"2026-03-18 13:19:{text}")
    assert found == MOMENT.replace(microsecond=microsecond)


def test_what_is_no_time_is_none(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        "yesterday",
        "2026-03-18",
        "2026-02-30 13:19:06.0",
        "2026-03-18 25:00:00.0",
        "2026-03-18 13:19:06.",
        "2026-03-18 13:19:06.0\n",
        "0001-01-01T00:00:00+23:59",
        "٢٠٢٦-03-18 13:19:06.0",
    ]:
        with subtests.test(text=text):
            assert parse_timestamp(text) is None


@given(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)))
@QUICK
def test_what_is_written_is_read(moment: datetime) -> None:
    assert parse_timestamp(format_timestamp(moment)) == moment


@given(st.text(max_size=40))
@QUICK
def test_any_text_is_a_time_or_none(text: str) -> None:
    parse_timestamp(text)


def test_a_conversation_is_named_after_its_moment() -> None:
    first = conversation_id(MOMENT)
    assert first == "jp-c17738399468"
    assert new_conversation_id(MOMENT, ()) == first
    assert new_conversation_id(MOMENT, [first, "jp-c17738399469", "x"]) == "jp-c17738399470"
