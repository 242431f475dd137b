"""Messages that a page would never send: from a script in an output, or from another notebook.

Nothing is lost, nothing is written elsewhere, and no message ends in an exception.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final

import pytest

from tests.kit.pages import PagesInProcess
from tests.notebook.page.page_in_process import pages

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
STATES: Final[tuple[Any, ...]] = ("page-1.1", "", None, 7, {}, "s" * 100_000)
PATHS: Final = ("talk.ipynb", "other.ipynb", "../other.ipynb", "", None, 3, ["talk.ipynb"])


def deep(levels: int = 400) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"events": [value], "conversation": {"id": "jp-c1"}}
    return value


def make_message(choose: random.Random, state: str, last: int) -> Any:
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
        "state": choose.choice((*STATES, state)),
        "i": choose.choice(NUMBERS),
        "of": choose.choice(NUMBERS),
        "chunks": choose.choice(NUMBERS),
        "text": choose.choice((*NUMBERS, "{", "[" * 100_000, "null")),
        "why": choose.choice((*NUMBERS, "because", "x" * 100_000)),
        "keys": choose.choice((*documents, {"jp": choose.choice(documents)})),
        "carriers": choose.choice((*documents, {"w": {"model_module": "jp-nb", "state": {}}})),
        "session": choose.choice(OTHER_PAGES),
        "user": choose.choice(OTHER_PAGES),
        "tells": choose.choice((*NUMBERS, ["cells", 5, None], {"cells": 1})),
        "v": choose.choice(NUMBERS),
        "dirty": choose.choice(NUMBERS),
    }
    kept = {name: value for name, value in values.items() if choose.random() < 0.8}
    message = {"type": choose.choice(TYPES), **kept}
    return choose.choice([message] * 20 + [None, 3, "hello", [message]])


@pytest.mark.parametrize("seed", range(20))
def test_no_message_loses_entries_or_writes_elsewhere(pages: PagesInProcess, seed: int) -> None:
    choose = random.Random(seed)
    pages.begin()
    stream = pages.document.conversation.id
    texts = [f"text {number}" for number in range(8)]
    for text in texts:
        for _ in range(15):
            numbering = pages.store._link.numbering
            message = make_message(choose, numbering.make_state(), numbering.last)
            # A page of the notebook may say that it is read-only, or that it has another record.
            if isinstance(message, dict) and message.get("type") in ("hello", "chunk"):
                message["page"] = choose.choice(("page-2", "page-3", None, 5))
            pages.post(message)
        pages.say(text)
        pages.flush()
        assert pages.store.count_saved_entries(stream) == 0  # nothing was saved
    pages.until(lambda: pages.view.jp and pages.view.contents() == texts)
    assert {message["path"] for message in pages.view.received} == {"talk.ipynb"}


@pytest.mark.parametrize("forged", ["next", "unsent", 3, True, None, "", ["x"]])
def test_forged_state_of_a_saved_file_does_not_end_the_journal(
    pages: PagesInProcess, forged: Any
) -> None:
    pages.begin()
    pages.tell("one")
    stream = pages.document.conversation.id
    entries = len(pages.document.conversation)
    if forged == "next":
        forged = pages.store._link.numbering.make_state()
    if forged == "unsent":
        pages.view.awake = False
        pages.say("two")
        pages.store.flush(0.1)
        forged = pages.view.received[-1]["state"].replace(".", ".9")
    pages.post({"type": "saved", "page": "page-1", "state": forged})
    assert pages.store.count_saved_entries(stream) == 0
    pages.post({"type": "saved", "page": "page-1", "state": pages.view.state})
    assert pages.store.count_saved_entries(stream) == entries


def test_page_of_another_notebook_answers_nothing(pages: PagesInProcess) -> None:
    pages.begin()
    pages.view.awake = False
    pages.say("one")
    pages.store.flush(0.1)
    seq = pages.store._link.numbering.last
    stream = pages.document.conversation.id
    state = pages.store._delivery._transfer.result.state
    for number in range(1, seq + 1):
        for kind in ("ack", "saved"):
            answer = {"type": kind, "page": "other", "seq": number, "state": state}
            pages.post(answer)
    assert not pages.store.flush(0.1)
    assert pages.store.count_saved_entries(stream) == 0
    pages.view.awake = True
    assert pages.flush()
    assert pages.view.contents() == ["one"]


def test_acknowledgement_of_another_state_is_not_believed(pages: PagesInProcess) -> None:
    pages.begin()
    pages.tell("one")
    pages.view.awake = False
    pages.say("two")
    pages.until(lambda: not pages.store._delivery.is_settled)
    pages.until(lambda: pages.store._delivery.is_silent)
    for number in range(pages.store._link.numbering.last + 1):
        pages.post({"type": "ack", "page": "page-1", "seq": number, "state": pages.view.state})
        pages.post({"type": "ack", "page": "page-1", "seq": number, "state": "x"})
    assert not pages.store._delivery.is_settled
    pages.view.awake = True
    assert pages.flush()
    assert pages.view.contents() == ["one", "two"]


def test_page_that_takes_the_name_of_another_one_does_not_get_the_record(
    pages: PagesInProcess,
) -> None:
    pages.begin()
    pages.tell("one")
    heard: list[str] = []
    pages.listen(lambda data: heard.append(data["path"]))
    forged = {"type": "hello", "v": 2, "page": "page-1", "path": "other.ipynb", "keys": {}}
    pages.post(forged)
    pages.tell("two")
    assert set(heard) == {"talk.ipynb"}
    assert pages.view.contents() == ["one", "two"]


def test_known_pages_are_bounded(pages: PagesInProcess) -> None:
    pages.begin()
    for number in range(1_000):
        hello = {"type": "hello", "v": 2, "page": f"p{number}", "path": "talk.ipynb"}
        pages.post(hello | {"session": f"s{number}", "state": f"{number}", "keys": {}})
    assert len(pages.store._link.pages._known) <= 64
    pages.view.jp = None
    assert len(pages.store._deliveries._by_page) <= 8
    pages.post({**pages.view.hello(), "v": 2, "page": "page-1"})
    pages.tell("one")
    assert pages.view.contents() == ["one"]


# --- a record in pieces ------------------------------------------------------------------------


def begin_without_page(pages: PagesInProcess) -> None:
    pages.view.awake = False
    pages.begin(timeout=0.01)


def announce(pages: PagesInProcess, count: int) -> None:
    """Announce a record in `count` pieces."""
    pages.post({"type": "hello", "v": 2, "page": "p", "path": "talk.ipynb", "chunks": count})


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_pieces_in_any_order_make_the_record_of_the_page(pages: PagesInProcess, size: int) -> None:
    event = {"type": "chat_request", "timestamp": "2025-01-31 09:00:00.0", "content": "ä😀"}
    stored = {"conversation": {"id": "jp-c1"}, "base_config": {}, "events": [event]}
    text = json.dumps({"keys": {"jp": {"version": 1, **stored}}})
    parts = [text[start : start + size] for start in range(0, len(text), size)]

    begin_without_page(pages)
    announce(pages, len(parts))
    for number in reversed(range(len(parts))):
        for _ in range(2):
            assert pages.document.others == []
            pages.post({"type": "chunk", "page": "p", "i": number, "text": parts[number]})
            if number == 0:
                break

    assert pages.document.others == [stored]


def test_work_for_small_pieces_is_linear_and_no_json_is_an_error(pages: PagesInProcess) -> None:
    class Text(str):
        measured = 0

        def __len__(self) -> int:
            Text.measured += 1
            return super().__len__()

    begin_without_page(pages)
    announce(pages, 1_000)
    for number in range(1_000):
        pages.post({"type": "chunk", "page": "p", "i": number, "text": Text("x")})

    assert Text.measured <= 3_000
    [notice] = pages.store.take_notices()
    assert "the record of an open page is not read: jp: the page sent invalid JSON" in notice
    assert pages.document.others == []
