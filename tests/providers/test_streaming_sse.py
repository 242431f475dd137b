from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from jp_nb.errors import ProtocolError
from jp_nb.providers.sse import SseDecoder

MAX_EVENT_BYTES = 16_777_216


WIRE = (
    "data: one\u2028line\r\ndata: two\r\n\r\n: keep-alive\n\nevent: später\rdata:drei\r\r"
    "id: 4\nretry: 100\nunknown\n\ndata\n\ndata: 🌦\n\ndata: [DONE]\n\n"
).encode()
EVENTS = ["one\u2028line\ntwo", "drei", "", "🌦", "[DONE]"]


def decode(chunks: Iterable[bytes]) -> list[str]:
    decoder = SseDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [*events, *decoder.finish()]


def test_chunk_boundaries_do_not_change_the_events() -> None:
    for cut in range(len(WIRE)):
        assert decode([WIRE[:cut], b"", WIRE[cut:]]) == EVENTS
    for size in (1, 2, 3, 7):
        assert decode(WIRE[i : i + size] for i in range(0, len(WIRE), size)) == EVENTS


def test_event_is_dispatched_at_its_blank_line() -> None:
    decoder = SseDecoder()
    assert [*decoder.feed(b"data: a\r\n\r")] == ["a"]
    assert [*decoder.feed(b"\ndata: b\n\n")] == ["b"]


def test_last_blank_line_may_be_missing() -> None:
    assert decode([b"data: a\n\ndata: b"]) == ["a", "b"]


def test_body_cut_inside_a_character_drops_the_cut_event() -> None:
    assert decode(["data: a\n\ndata: ü".encode()[:-1]]) == ["a"]


def test_comments_are_counted_and_give_no_event() -> None:
    decoder = SseDecoder()
    assert [*decoder.feed(b": one\n:two\n\n")] == []
    assert decoder.comments == 2


def test_event_without_data_is_ignored() -> None:
    assert decode([b"event: lost\n\ndata: a\n\n"]) == ["a"]


def test_byte_order_mark_is_not_part_of_the_first_field() -> None:
    assert decode([b"\xef\xbb\xbfdata: a\n\n"]) == ["a"]


def test_invalid_utf8_is_an_error_after_the_events_before_it() -> None:
    events = SseDecoder().feed(b"data: a\n\ndata: \xff\n\n")
    assert next(events) == "a"
    with pytest.raises(ProtocolError, match="UTF-8"):
        next(events)


def test_long_line_in_small_pieces_is_searched_once() -> None:
    class Counted(bytes):
        looks = 0

        def rfind(self, *args: Any) -> int:
            type(self).looks += len(self)
            return super().rfind(*args)

    decoder = SseDecoder()
    piece = Counted(b"x" * 10)
    for _ in range(1000):
        assert list(decoder.feed(piece)) == []
    assert Counted.looks == 10_000
    assert list(decoder.feed(b"\n\n")) == []


def test_line_longer_than_the_limit_is_an_error() -> None:
    decoder = SseDecoder()
    half = b"x" * (MAX_EVENT_BYTES // 2 + 1)
    assert [*decoder.feed(half)] == []
    with pytest.raises(ProtocolError, match="longer"):
        next(decoder.feed(half))
