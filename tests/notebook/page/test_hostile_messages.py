"""Messages that a page would never send: from a script in an output, or from another notebook.

Nothing is lost, nothing is written elsewhere, and no message ends in an exception.
"""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from jp_nb.notebook.page.protocol import Pieces
from tests.notebook.page.page_in_process import Pages, pages

__all__ = ["pages"]

TYPES: Final = ("hello", "chunk", "ack", "nack", "saved", "save_failed", "cells", "bye", "x", None)
NUMBERS: Final[tuple[Any, ...]] = (
    0,
    1,
    2,
    3,
    5,
    -1,
    10**9,
    10**30,
    2**53,
    True,
    False,
    1.5,
    "1",
    None,
    [],
    {},
)
OTHER_PAGES: Final = ("page-1", "page-2", "", "p" * 100_000, None, 5, ["page-1"], {"page": 1})
STREAMS: Final[tuple[Any, ...]] = ("jp-c1", "", None, 7, {}, "s" * 100_000)
PATHS: Final = ("talk.ipynb", "other.ipynb", "../other.ipynb", "", None, 3, ["talk.ipynb"])


def deep(levels: int = 400) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"events": [value], "conversation": {"id": "jp-c1"}}
    return value


def make_message(choose: random.Random, stream: str, last: int) -> Any:
    """Return a message with some fields of the protocol, and values of any type."""
    seqs = (*NUMBERS, last, last - 1, last + 1)
    documents: tuple[Any, ...] = (
        None,
        5,
        "x",
        [],
        {},
        {"version": 99},
        {"events": 3},
        deep(),
        {"others": [[]]},
    )
    values: dict[str, Any] = {
        "page": choose.choice(OTHER_PAGES),
        "path": choose.choice(PATHS[1:]),
        "seq": choose.choice(seqs),
        "stream": choose.choice((*STREAMS, stream)),
        "n": choose.choice(NUMBERS),
        "i": choose.choice(NUMBERS),
        "of": choose.choice(NUMBERS),
        "chunks": choose.choice(NUMBERS),
        "text": choose.choice((*NUMBERS, "{", "[" * 100_000, "null")),
        "why": choose.choice((*NUMBERS, "because", "x" * 100_000)),
        "doc": choose.choice(documents),
        "session": choose.choice(OTHER_PAGES),
        "user": choose.choice(OTHER_PAGES),
        "tells": choose.choice((*NUMBERS, ["cells", 5, None], {"cells": 1})),
        "v": choose.choice(NUMBERS),
        "dirty": choose.choice(NUMBERS),
    }
    kept = {name: value for name, value in values.items() if choose.random() < 0.8}
    message = {"type": choose.choice(TYPES), **kept}
    return choose.choice([message] * 20 + [None, 3, "hello", [message]])


def send(pages: Pages, data: Any) -> None:
    """Send `data` as the page's JavaScript would: without the fields that `Pages.send` adds."""
    assert pages._comm is not None
    content = {"comm_id": pages._comm.comm_id, "data": data}
    pages.kernel.control_handlers["comm_msg"](None, None, {"content": content})


@pytest.mark.parametrize("seed", range(20))
def test_no_message_loses_entries_or_writes_elsewhere(pages: Pages, seed: int) -> None:
    choose = random.Random(seed)
    pages.begin()
    stream = pages.document.conversation.id
    texts = [f"text {number}" for number in range(8)]
    for text in texts:
        for _ in range(15):
            message = make_message(choose, stream, pages.store._numbering.last)
            # A page of the notebook may say that it is read-only, or that it has another record.
            if isinstance(message, dict) and message.get("type") in ("hello", "chunk"):
                message["page"] = choose.choice(("page-2", "page-3", None, 5))
            send(pages, message)
        pages.say(text)
        pages.flush()
        assert pages.store.saved_entries(stream) == 0  # nothing was saved
    pages.until(lambda: pages.view.jp and pages.view.contents() == texts)
    assert {message["path"] for message in pages.view.received} == {"talk.ipynb"}


@pytest.mark.parametrize("count", [10**9, 3, True, "2", None, -1, 2.0])
def test_forged_count_of_saved_entries_does_not_end_the_journal(pages: Pages, count: Any) -> None:
    pages.begin()
    pages.tell("one")
    stream = pages.document.conversation.id
    entries = len(pages.document.conversation)
    assert entries < 10
    known = 2 if count == "2" else count
    if known == entries:
        count = entries + 1
    send(pages, {"type": "saved", "page": "page-1", "stream": stream, "n": count})
    assert pages.store.saved_entries(stream) == 0
    send(pages, {"type": "saved", "page": "page-1", "stream": stream, "n": 1})
    assert pages.store.saved_entries(stream) == 1


def test_page_of_another_notebook_answers_nothing(pages: Pages) -> None:
    pages.begin()
    pages.view.awake = False
    pages.say("one")
    pages.store.flush(0.1)
    seq = pages.store._numbering.last
    stream = pages.document.conversation.id
    for number in range(1, seq + 1):
        for kind in ("ack", "saved"):
            answer = {"type": kind, "page": "other", "seq": number, "stream": stream, "n": 99}
            send(pages, answer)
    assert not pages.store.flush(0.1)
    assert pages.store.saved_entries(stream) == 0
    pages.view.awake = True
    assert pages.flush()
    assert pages.view.contents() == ["one"]


def test_acknowledgement_with_fewer_entries_is_not_believed(pages: Pages) -> None:
    pages.begin()
    pages.tell("one")
    pages.view.awake = False
    pages.say("two")
    pages.until(lambda: not pages.store._delivery.is_settled)
    pages.until(lambda: pages.store._delivery.silent)
    stream = pages.document.conversation.id
    for number in range(pages.store._numbering.last + 1):
        send(pages, {"type": "ack", "page": "page-1", "seq": number, "stream": stream, "n": 1})
        send(pages, {"type": "ack", "page": "page-1", "seq": number, "stream": "x", "n": 99})
    assert not pages.store._delivery.is_settled
    pages.view.awake = True
    assert pages.flush()
    assert pages.view.contents() == ["one", "two"]


def test_page_that_takes_the_name_of_another_one_does_not_get_the_record(pages: Pages) -> None:
    pages.begin()
    pages.tell("one")
    heard: list[str] = []
    hear = pages._hear

    def record(data: dict[str, Any]) -> None:
        heard.append(data["path"])
        hear(data)

    assert pages._comm is not None
    pages._comm._hear = record
    forged = {"type": "hello", "v": 1, "page": "page-1", "path": "other.ipynb", "doc": {}}
    send(pages, forged)
    pages.tell("two")
    assert set(heard) == {"talk.ipynb"}
    assert pages.view.contents() == ["one", "two"]


def test_known_pages_are_bounded(pages: Pages) -> None:
    pages.begin()
    for number in range(1_000):
        hello = {"type": "hello", "v": 1, "page": f"p{number}", "path": "talk.ipynb"}
        send(pages, hello | {"session": f"s{number}", "doc": pages.view.jp})
    assert len(pages.store._pages._pages) <= 64
    assert len(pages.store._pages._sessions) <= 64
    pages.view.jp = None
    send(pages, {**pages.view.hello(), "v": 1, "page": "page-1"})
    pages.tell("one")
    assert pages.view.contents() == ["one"]


def test_work_for_small_pieces_is_linear() -> None:
    class Text(str):
        measured = 0

        def __len__(self) -> int:
            Text.measured += 1
            return super().__len__()

    pieces = Pieces(1_000)
    for number in range(1_000):
        pieces.add(number, Text("x"))
    assert Text.measured <= 3_000
    assert pieces.text() == "x" * 1_000
