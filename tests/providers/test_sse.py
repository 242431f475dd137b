from __future__ import annotations

from collections.abc import Iterable

import pytest

from jp_nb.errors import ProtocolError
from jp_nb.providers.sse import MAX_EVENT_BYTES, ServerSentEvent, SseDecoder

WIRE = (
    "data: one\u2028line\r\ndata: two\r\n\r\n: keep-alive\n\nevent: später\rdata:drei\r\r"
    "id: 4\nretry: 100\nunknown\n\ndata\n\ndata: 🌦\n\ndata: [DONE]\n\n"
).encode()
EVENTS = [
    ("one\u2028line\ntwo", ""),
    ("drei", "später"),
    ("", ""),
    ("🌦", ""),
    ("[DONE]", ""),
]


def decode(chunks: Iterable[bytes]) -> list[ServerSentEvent]:
    decoder = SseDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [*events, *decoder.finish()]


def test_chunk_boundaries_never_change_the_events(subtests: pytest.Subtests) -> None:
    for size in range(1, len(WIRE) + 1):
        with subtests.test(size=size):
            assert decode(WIRE[i : i + size] for i in range(0, len(WIRE), size)) == EVENTS


def test_every_single_cut_gives_the_same_events() -> None:
    for cut in range(len(WIRE)):
        assert decode([WIRE[:cut], b"", WIRE[cut:]]) == EVENTS


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    decoder = SseDecoder()
    assert [e.data for e in decoder.feed(b"data: a\r\n\r")] == ["a"]
    assert [e.data for e in decoder.feed(b"\ndata: b\n\n")] == ["b"]


def test_a_missing_last_blank_line_is_forgiven() -> None:
    assert decode([b"data: a\n\ndata: b"]) == [("a", ""), ("b", "")]


def test_a_body_cut_inside_a_character_drops_the_cut_event() -> None:
    assert decode(["data: a\n\ndata: ü".encode()[:-1]]) == [("a", "")]


def test_comments_are_counted_and_give_no_event() -> None:
    decoder = SseDecoder()
    assert [*decoder.feed(b": one\n:two\n\n")] == []
    assert decoder.comments == 2


def test_an_event_name_without_data_does_not_stick() -> None:
    assert decode([b"event: lost\n\ndata: a\n\n"]) == [("a", "")]


def test_a_byte_order_mark_is_not_part_of_the_first_field() -> None:
    assert decode([b"\xef\xbb\xbfdata: a\n\n"]) == [("a", "")]


def test_bytes_that_are_not_utf8_are_an_error_after_what_came_before() -> None:
    events = SseDecoder().feed(b"data: a\n\ndata: \xff\n\n")
    assert next(events).data == "a"
    with pytest.raises(ProtocolError, match="UTF-8"):
        next(events)


def test_an_endless_line_is_an_error() -> None:
    decoder = SseDecoder()
    half = b"x" * (MAX_EVENT_BYTES // 2 + 1)
    assert [*decoder.feed(half)] == []
    with pytest.raises(ProtocolError, match="longer"):
        next(decoder.feed(half))
