"""Stored timestamps, and ids of conversations made of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.record.entries.timestamps import format_timestamp, parse_timestamp
from jp_nb.record.stream import ConversationStream

MOMENT = datetime(2026, 3, 18, 13, 19, 6, 841464, tzinfo=UTC)


def test_timestamp_is_in_utc_without_trailing_zeros() -> None:
    for microsecond, text in [
        (0, "06.0"),
        (100000, "06.1"),
        (841464, "06.841464"),
        (1, "06.000001"),
    ]:
        moment = MOMENT.replace(microsecond=microsecond)
        assert format_timestamp(moment) == f"2026-03-18 13:19:{text}"
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert format_timestamp(elsewhere) == "2026-03-18 13:19:06.841464"


def test_timestamps_of_both_forms_are_read(subtests: pytest.Subtests) -> None:
    for text in [
        "2026-03-18 13:19:06.841464",
        "2026-03-18 13:19:06.841464999",
        "2026-03-18t13:19:06.841464000z",
        "2026-03-18T15:19:06.841464+02:00",
        "2026-03-18T09:49:06.841464-03:30",
    ]:
        with subtests.test(text=text):
            assert parse_timestamp(text) == MOMENT
    for text, microsecond in [("06", 0), ("06.5", 500000), ("06.05", 50000), ("06.0000009", 0)]:
        with subtests.test(text=text):
            found = parse_timestamp(f"2026-03-18 13:19:{text}")
            assert found == MOMENT.replace(microsecond=microsecond)


def test_invalid_timestamp_is_none(subtests: pytest.Subtests) -> None:
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
def test_written_timestamp_is_read(moment: datetime) -> None:
    assert parse_timestamp(format_timestamp(moment)) == moment


@given(st.text(max_size=40))
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_timestamp(text)


def test_conversation_id_is_made_of_its_time() -> None:
    def begin(*taken: str) -> str:
        made = ConversationStream.new(clock=lambda: MOMENT, made="live", taken_ids=taken)
        return made.id

    first = begin()
    assert first == "jp-c17738399468"
    assert begin(first, "jp-c17738399469", "x") == "jp-c17738399470"
