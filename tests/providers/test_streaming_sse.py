"""Server-sent events, shown by the texts of Chat Completions that they carry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.kit.kinds import select_kind
from tests.kit.streams import StreamReader
from tests.providers.helpers import text_of

MAX_EVENT_BYTES = 16_777_216


def delta(text: str) -> str:
    """Return a message with a piece of text, which may stand in several lines."""
    return f'{{"choices": [{{"delta":{{"content":"{text}"}}}}]}}'


WIRE = (
    f'data: {{"choices":\r\ndata: [{{"delta":{{"content":"one\u2028line "}}}}]}}\r\n\r\n'
    f": keep-alive\n\nevent: später\rdata:{delta('drei ')}\r\r"
    f"id: 4\nretry: 100\nunknown\n\ndata\n\ndata: {delta('🌦')}\n\n"
    'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
).encode()
TEXT = "one\u2028line drei 🌦"


def read(chunks: Iterable[bytes]) -> str:
    """Return the text of a body that arrives in `chunks`, and may end before the answer does."""
    return text_of(StreamReader("chat").read(chunks).events)


def test_chunk_boundaries_do_not_change_the_events() -> None:
    pieces = [[WIRE[:cut], b"", WIRE[cut:]] for cut in range(len(WIRE))]
    for size in (1, 2, 3, 7):
        pieces.append([WIRE[i : i + size] for i in range(0, len(WIRE), size)])

    for chunks in pieces:
        response = StreamReader("chat").read(chunks)
        assert text_of(response.events) == TEXT
        assert response.error is None


def test_event_is_dispatched_at_its_blank_line() -> None:
    response = StreamReader("chat")
    assert text_of(response.feed(f"data: {delta('a')}\r\n\r".encode())) == "a"
    assert text_of(response.feed(f"\ndata: {delta('b')}\n\n".encode())) == "b"


def test_last_blank_line_may_be_missing() -> None:
    assert read([f"data: {delta('a')}\n\ndata: {delta('b')}".encode()]) == "ab"


def test_body_cut_inside_a_character_drops_the_cut_event() -> None:
    whole = f"data: {delta('a')}\n\ndata: {delta('ü')}".encode()
    end = whole.index("ü".encode()) + 1
    assert read([whole[:end]]) == "a"


def test_comments_are_signs_of_life_and_give_no_text() -> None:
    events = StreamReader("chat").feed(b": one\n:two\n\n")
    assert events == select_kind(events, "keep_alive")
    assert len(events) == 1


def test_event_without_data_is_ignored() -> None:
    assert read([f"event: lost\n\ndata: {delta('a')}\n\n".encode()]) == "a"


def test_byte_order_mark_is_not_part_of_the_first_field() -> None:
    assert read([b"\xef\xbb\xbf" + f"data: {delta('a')}\n\n".encode()]) == "a"


def test_invalid_utf8_is_an_error_after_the_events_before_it() -> None:
    response = StreamReader("chat").read([f"data: {delta('a')}\n\ndata: ".encode() + b"\xff\n\n"])
    assert text_of(response.events) == "a"
    assert "UTF-8" in str(response.error)


def test_long_line_in_small_pieces_is_searched_once() -> None:
    class Counted(bytes):
        looks = 0

        def rfind(self, *args: Any) -> int:
            type(self).looks += len(self)
            return super().rfind(*args)

    response = StreamReader("chat")
    piece = Counted(b"x" * 10)
    for _ in range(1000):
        assert response.feed(piece) == []
    assert Counted.looks == 10_000
    assert response.feed(b"\n\n") == []


def test_line_longer_than_the_limit_is_an_error() -> None:
    half = b"x" * (MAX_EVENT_BYTES // 2 + 1)
    response = StreamReader("chat")
    assert response.feed(half) == []
    assert "longer" in str(response.read([half]).error)
