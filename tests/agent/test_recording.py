"""Normalized requests: identity and differences."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.agent.model_requests.request_normalizer import RequestNormalizer
from jp_nb.rendering.reports.cassette_miss import format_mismatch
from tests.kit.cassettes import CassetteFile
from tests.kit.records import new_event
from tests.support.asked_requests import SPEC, Place, asked, at, changed, model_request, places

UNSET_VALUE = "(unset)"


PLACES = list(places(SPEC))
LABELS = {
    "system text": lambda place: f"system text {place[1] + 1}:",
    "message": lambda place: f"message {place[1] + 1}",
    "parameter": lambda place: f"parameter {place[1]}:",
}


def other_value(value: object, position: int, bit: int) -> object:
    """`value` with one bit of one character changed; another number for a number."""
    if not isinstance(value, str):
        return (not value) if isinstance(value, bool) else value + 2.0**bit  # type: ignore[operator]
    position %= len(value)
    return value[:position] + chr(ord(value[position]) ^ (1 << bit)) + value[position + 1 :]


@given(st.sampled_from(PLACES), st.integers(0, 10_000), st.integers(0, 6))
def test_every_change_of_a_request_is_found_and_shown(
    place: Place, position: int, bit: int
) -> None:
    before = at(SPEC, place)
    spec = changed(SPEC, place, other_value(before, position, bit))
    recorded = asked(SPEC)
    now = asked(spec)
    assert recorded.id != now.id
    shown = "\n".join(format_mismatch(recorded, now))
    part = str(place[0])
    label = LABELS[part](place) if part in LABELS else part
    assert label in shown
    heads = [line for line in shown.split("\n") if line[2:3].strip()]
    assert all(line.startswith(f"  {part}") for line in heads)


@given(st.sampled_from([p for p in PLACES if p[0] == "message"]), st.data())
def test_one_changed_message_is_shown_alone(place: Place, data: st.DataObject) -> None:
    before = at(SPEC, place)
    if not isinstance(before, str):
        return
    spec = changed(SPEC, place, other_value(before, data.draw(st.integers(0, 99)), 2))
    shown = format_mismatch(asked(SPEC), asked(spec))
    assert [line for line in shown if line.startswith("  message")] == shown[:1]


def test_ids_and_times_are_no_part_of_a_request() -> None:
    spec = deepcopy(SPEC)
    for message in spec["message"]:
        if "id" in message:
            message["id"] = "call_other"
    assert asked(spec).id == asked(SPEC).id
    one = model_request(SPEC)
    other = model_request(SPEC)
    assert CassetteFile.normalize(one).id == CassetteFile.normalize(other).id
    assert "jp-c1" not in str(CassetteFile.normalize(one))


def test_calls_with_one_id_are_numbered() -> None:
    values = [part.value for part in asked(SPEC).messages]
    assert [each["call"] for each in values if each["role"] in ("result", "error")] == [1, 2]


def test_earlier_messages_are_not_read_again() -> None:
    asks = RequestNormalizer("anthropic")
    request = model_request(SPEC)
    first = asks.normalize(request)
    request.context.add(new_event("chat_request", content="More."), "anthropic")
    second = asks.normalize(request)
    assert second.messages[: len(first.messages)] == first.messages
    assert all(a is b for a, b in zip(first.messages, second.messages, strict=False))
    assert second.messages[-1].after == first.messages[-1].id


def test_reasoning_of_another_provider_is_another_request() -> None:
    place: Place = ("message", 1, "provider")
    assert asked(changed(SPEC, place, "openai")).id != asked(SPEC).id


def test_difference_in_times_names_the_setting() -> None:
    place: Place = ("message", 5, "result")
    texts = [
        f"asked at 2026-11-23T16:{minute}:39.229327Z: {minute // 20}" for minute in (11, 12, 59)
    ]
    one, other, more = (asked(changed(SPEC, place, text)) for text in texts)
    assert "record.reproducible" in "\n".join(format_mismatch(one, other))
    assert "record.reproducible" not in "\n".join(format_mismatch(one, more))


@pytest.mark.parametrize("distance", [5, 40, 60, 5_000])
def test_difference_hides_keys(distance: int) -> None:
    key = "sk-abcdefgh1234567890123"
    other = "sk-zyxwvuts1234567890123"
    place = next(p for p in PLACES if p[0] == "message")

    def request_with(secret: str, word: str) -> Any:
        text = f"{'x' * 300} {secret} {'y' * distance} {word} {'z' * 300}"
        return asked(changed(SPEC, place, text))

    shown = "\n".join(format_mismatch(request_with(key, "one"), request_with(key, "two")))
    assert "two" in shown
    assert not any(key[at : at + 6] in shown for at in range(len(key) - 5))
    [line] = format_mismatch(request_with(key, "one"), request_with(other, "one"))
    assert line.endswith("the difference looks like an API key and is not shown")


@pytest.mark.parametrize("part", ["tool", "attachment", "system text", "message"])
def test_missing_and_moved_parts_are_shown(part: str) -> None:
    spec = deepcopy(SPEC)
    spec[part].reverse()
    assert asked(spec).id != asked(SPEC).id
    assert format_mismatch(asked(SPEC), asked(spec))
    spec[part].pop()
    shown = "\n".join(format_mismatch(asked(SPEC), asked(spec)))
    assert UNSET_VALUE in shown
    assert ("headless runs do not offer" in shown) is (part == "tool")
