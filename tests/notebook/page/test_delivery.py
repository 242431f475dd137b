"""Delivery of the record to a page: only the parts that it does not report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jp_nb.notebook.page.delivery import PageDelivery
from jp_nb.notebook.page.known_pages import Pages
from jp_nb.notebook.page.protocol import Hello, Numbering
from jp_nb.record.document import Document
from tests.kit.records import new_event
from tests.support.entries import new_stream
from tests.support.scripted_page import View

MAX_RESEND_S = 60.0
MIN_BATCH_INTERVAL_S = 0.1
MAX_BATCH_BYTES = 262_144
MAX_SENDING_PAGES = 8


RESEND = 1.0


@pytest.fixture
def document() -> Document:
    return Document(new_stream())


@pytest.fixture
def delivery(document: Document) -> PageDelivery:
    made = PageDelivery(Numbering(), resend=RESEND)
    made.keep(document)
    made.note_other_record("")  # an empty notebook
    return made


def say(document: Document, *texts: str) -> None:
    for text in texts:
        document.conversation.start_turn(new_event("chat_request", content=text))


def deliver(delivery: PageDelivery, now: float = 0.0) -> list[dict[str, Any]]:
    """Return the messages to a page that acknowledges each one."""
    got = []
    while message := delivery.next_message(now):
        got.append(message)
        delivery.handle_ack(message, now)
    return got


def test_nothing_is_sent_before_a_change(delivery: PageDelivery) -> None:
    assert delivery.next_message(0.0) is None
    assert delivery.is_settled


def test_whole_record_is_sent_once_and_then_appended_entries(
    delivery: PageDelivery, document: Document
) -> None:
    say(document, "one")
    delivery.changed(document)
    assert [message["type"] for message in deliver(delivery)] == ["switch"]
    had = len(document.conversation)
    say(document, "two")
    delivery.changed(document)
    assert not delivery.is_settled
    (append,) = deliver(delivery)
    assert (append["type"], append["base"]) == ("append", had)
    assert len(append["events"]) == len(document.conversation) - had
    assert delivery.is_settled


def test_unacknowledged_message_is_sent_again_and_then_the_page_is_asked_ever_more_rarely(
    delivery: PageDelivery, document: Document
) -> None:
    say(document, "one")
    delivery.changed(document)
    first = delivery.next_message(0.0)
    now = 0.0
    waits = []
    assert delivery.next_message(RESEND / 2) is None
    sent = []
    for _ in range(9):
        assert delivery.next_due is not None
        waits.append(delivery.next_due - now)
        now = delivery.next_due
        sent.append(delivery.next_message(now))
    assert delivery.silent
    assert sent[0] == first
    assert {message and message["type"] for message in sent[1:]} == {"pull"}
    assert waits == sorted(waits)
    assert waits[-1] == MAX_RESEND_S


def test_page_that_has_less_gets_all_entries_from_there(
    delivery: PageDelivery, document: Document
) -> None:
    say(document, "one", "two", "three")
    delivery.changed(document)
    deliver(delivery)
    delivery.handle_nack({"seq": 99, "n": 2, "stream": document.conversation.id})
    (append,) = deliver(delivery)
    assert append["base"] == 2
    assert append["events"] == document.conversation.raw[2:]


def test_page_with_other_entries_of_the_conversation_has_diverged(
    delivery: PageDelivery, document: Document
) -> None:
    say(document, "one")
    delivery.changed(document)
    stored = document.to_json() | {"events": [{"type": "chat_request", "content": "another"}]}
    assert not delivery.note_record(stored)
    assert delivery.note_record(document.to_json() | {"events": []})
    document.conversation.repair()
    delivery.replaced(document)  # then the page does not know yet
    assert delivery.note_record(stored)


def test_answer_to_another_message_settles_nothing(
    delivery: PageDelivery, document: Document
) -> None:
    say(document, "one")
    delivery.changed(document)
    message = delivery.next_message(0.0)
    assert message is not None
    delivery.handle_ack({"seq": message["seq"] + 1}, 0.0)  # type: ignore[operator]  # a number
    assert not delivery.is_settled
    delivery.handle_ack(message, 0.25)
    assert delivery.is_settled
    assert delivery.latency == 0.25


# --- which page ------------------------------------------------------------------------------


def test_copy_is_followed_only_when_the_first_page_is_silent() -> None:
    pages = Pages(patience=RESEND)
    pages.follow(Hello("a", "first.ipynb"))
    copy = Hello("b", "copy.ipynb", document={"conversation": {"id": "jp-c1"}})
    assert not pages.should_follow(copy)
    assert not pages.note_candidate(copy, "jp-c2", 0.0)
    assert pages.note_candidate(copy, "jp-c1", 0.0)
    assert pages.take_candidate(RESEND / 2) is None
    assert pages.note_message("a")
    assert pages.take_candidate(RESEND) is None
    assert pages.note_candidate(copy, "jp-c1", 0.0)
    assert not pages.note_message("b")
    assert pages.take_candidate(RESEND) == copy


def test_record_in_pieces_is_read_when_it_is_complete() -> None:
    pages = Pages(patience=RESEND)
    hello = {"type": "hello", "page": "a", "path": "n.ipynb", "v": 1, "chunks": 2}
    assert pages.read(hello) is None
    assert pages.read({"type": "chunk", "page": "a", "i": 1, "text": "}"}) is None
    whole = pages.read({"type": "chunk", "page": "a", "i": 0, "text": "{"})
    assert whole is not None
    assert (whole.has_document, whole.document) == (True, {})


def test_number_of_pages_that_send_pieces_is_bounded() -> None:
    pages = Pages(patience=RESEND)
    for number in range(MAX_SENDING_PAGES + 1):
        pages.read({"type": "hello", "page": str(number), "chunks": 1})
    assert pages.read({"type": "chunk", "page": "0", "i": 0, "text": "{}"}) is None
    assert pages.read({"type": "chunk", "page": "1", "i": 0, "text": "{}"}) is not None


# --- the beat ----------------------------------------------------------------------------------


def appended(delivery: PageDelivery, document: Document, text: str, now: float) -> list[int]:
    """Append `text`; return the number of entries in each message that is sent at `now`."""
    say(document, text)
    delivery.changed(document)
    return [len(message["events"]) for message in deliver(delivery, now)]


def in_step(delivery: PageDelivery, document: Document) -> None:
    """Bring the page to what there is."""
    say(document, "before")
    delivery.changed(document)
    deliver(delivery)


def test_entries_soon_after_a_message_wait_for_the_next_batch(
    delivery: PageDelivery, document: Document
) -> None:
    in_step(delivery, document)
    one = len(document.conversation)
    first, *more = appended(delivery, document, "one", 10.0)
    assert first
    assert not more
    assert appended(delivery, document, "two", 10.0) == []
    assert delivery.next_due == 10.0 + MIN_BATCH_INTERVAL_S
    assert appended(delivery, document, "three", 10.0 + MIN_BATCH_INTERVAL_S / 2) == []
    both = [len(message["events"]) for message in deliver(delivery, 10.0 + MIN_BATCH_INTERVAL_S)]
    assert both == [len(document.conversation) - one - first]
    assert delivery.next_due is None


def test_hurried_delivery_does_not_wait_for_the_next_batch(
    delivery: PageDelivery, document: Document
) -> None:
    in_step(delivery, document)
    assert len(appended(delivery, document, "one", 10.0)) == 1
    assert appended(delivery, document, "two", 10.0) == []
    delivery.skip_interval()
    assert len(deliver(delivery, 10.0)) == 1
    assert appended(delivery, document, "three", 10.0) == []
    delivery.skip_interval()
    deliver(delivery, 10.0)
    delivery.skip_interval()  # nothing is pending: the next change is not urgent
    assert appended(delivery, document, "four", 10.0) == []


def test_entries_beyond_one_message_are_sent_without_waiting(
    delivery: PageDelivery, document: Document
) -> None:
    in_step(delivery, document)
    assert len(appended(delivery, document, "one", 10.0)) == 1
    say(document, *("x" * MAX_BATCH_BYTES for _ in range(3)))
    delivery.changed(document)
    assert deliver(delivery, 10.0) == []
    assert len(deliver(delivery, 10.0 + MIN_BATCH_INTERVAL_S)) >= 3


# --- pages that share a document -------------------------------------------------------------


def test_only_the_answer_of_the_writing_page_counts(
    delivery: PageDelivery, document: Document
) -> None:
    delivery.writer = "first"
    say(document, "one")
    delivery.changed(document)
    message = delivery.next_message(0.0)
    assert message is not None
    assert message["to"] == "first"
    delivery.handle_ack({"seq": message["seq"], "page": "second"}, 0.0)
    assert not delivery.is_settled
    delivery.handle_ack({"seq": message["seq"], "page": "first"}, 0.0)
    assert delivery.is_settled


def test_another_page_writes_when_the_writing_page_is_silent(
    delivery: PageDelivery, document: Document
) -> None:
    delivery.writer = "first"
    say(document, "one")
    delivery.changed(document)
    assert (delivery.next_message(0.0) or {})["type"] == "switch"
    assert (delivery.next_message(RESEND) or {})["type"] == "pull"  # and not the same once more
    delivery.writer = "second"
    delivery.discard_transfer()
    assert [message["to"] for message in deliver(delivery, RESEND)] == ["second"]


def hello(page: str, *, shares: bool = True, path: str = "talk.ipynb", **more: Any) -> Hello:
    return Hello(page, path, collaborative=shares, **more)


def test_first_page_of_a_shared_document_writes_until_it_is_silent() -> None:
    pages = Pages(patience=1.0)
    assert not pages.is_reader(hello("first"))
    pages.follow(hello("first"))
    assert pages.is_reader(hello("second"))
    pages.join(hello("second"))
    pages.silent = True
    assert pages.note_message("first")
    assert pages.is_reader(hello("second"))
    pages.silent = True
    assert pages.note_message("second")
    assert not pages.is_reader(hello("second"))
    assert list(pages.lacking) == [("first", ""), ("second", "")]


@pytest.mark.parametrize(
    "other",
    [hello("first"), hello("second", shares=False), hello("second", path="copy.ipynb")],
)
def test_page_with_its_own_copy_does_not_only_read(other: Hello) -> None:
    pages = Pages(patience=1.0)
    pages.follow(hello("first"))
    assert not pages.is_reader(other)


def test_read_only_page_is_replaced_by_a_writable_one() -> None:
    pages = Pages(patience=1.0)
    pages.follow(hello("first", read_only=True))
    assert pages.is_reader(hello("second", read_only=True))
    assert not pages.is_reader(hello("second"))


# --- another conversation becomes active -------------------------------------------------------


class Holder:
    """A page that takes what is sent, as one that keeps what it holds."""

    def __init__(self, delivery: PageDelivery) -> None:
        self.delivery = delivery
        self.view = View(tells=["exchange"])
        delivery.supports_exchange = True

    def takes(self, now: float = 0.0) -> list[str]:
        """Take all that is sent; return the kinds of messages."""
        kinds = []
        while message := self.delivery.next_message(now):
            answer = self.view.answer(message)
            assert answer is not None
            assert answer["type"] == "ack"
            self.delivery.handle_ack(answer, now)
            kinds.append(str(message["type"]))
        return kinds


@pytest.fixture
def holder(delivery: PageDelivery, document: Document) -> Holder:
    """A page that holds a conversation of two turns."""
    made = Holder(delivery)
    say(document, "one", "two")
    delivery.changed(document)
    made.takes()
    return made


def begin(document: Document, name: str) -> None:
    document.archive_active()
    document.conversation = new_stream()
    document.conversation.head["id"] = name


def test_page_keeps_its_conversations_when_another_one_begins(
    holder: Holder, delivery: PageDelivery, document: Document
) -> None:
    for name in ("jp-c2", "jp-c3", "jp-c4"):
        begin(document, name)
        say(document, f"in {name}")
        delivery.replaced(document)
        assert holder.takes() == ["exchange"]
        assert holder.view.jp == document.to_json()
    message = holder.view.of_type("exchange")[-1]
    assert [named[1:] for named in message["kept"]] == [["jp-c3", 2], ["jp-c2", 2], ["jp-c1", 4]]
    assert message["doc"]["others"] == []


def test_missing_entries_of_a_conversation_are_sent_with_it(
    holder: Holder, delivery: PageDelivery, document: Document
) -> None:
    begin(document, "jp-c2")
    say(document, "in jp-c2")
    delivery.replaced(document)
    holder.takes()
    say(document, "not sent yet")
    begin(document, "jp-c3")
    delivery.replaced(document)
    assert holder.takes() == ["exchange"]
    assert holder.view.jp == document.to_json()
    (named,) = holder.view.of_type("exchange")[-1]["kept"]
    assert named == [1, "jp-c1", 4]


def test_repaired_or_renamed_conversation_is_sent(
    holder: Holder, delivery: PageDelivery, document: Document
) -> None:
    delivery.replaced(document)  # as a repair does, and the page does not know yet
    begin(document, "jp-c2")
    delivery.replaced(document)
    assert holder.takes() == ["switch"]
    document.conversation.head["title"] = "Bread"
    say(document, "here")
    begin(document, "jp-c3")
    delivery.replaced(document)
    assert holder.takes() == ["exchange"]
    assert holder.view.jp == document.to_json()


def test_older_page_gets_the_whole_record(
    holder: Holder, delivery: PageDelivery, document: Document
) -> None:
    delivery.supports_exchange = False
    begin(document, "jp-c2")
    delivery.replaced(document)
    assert holder.takes() == ["switch"]
    assert holder.view.jp == document.to_json()


@pytest.mark.parametrize("acknowledged", [False, True], ids=["one page", "the second page"])
def test_page_that_lacks_a_conversation_gets_the_whole_record_from_then_on(
    holder: Holder, delivery: PageDelivery, document: Document, acknowledged: bool
) -> None:
    begin(document, "jp-c2")
    delivery.replaced(document)
    message = delivery.next_message(0.0)
    assert message is not None
    assert message["type"] == "exchange"
    if acknowledged:
        delivery.handle_ack({"seq": message["seq"]}, 0.0)
    delivery.handle_nack({"seq": message["seq"], "n": 0, "stream": "jp-c1"})
    assert holder.takes() == ["switch"]
    begin(document, "jp-c3")
    delivery.replaced(document)
    assert holder.takes() == ["switch"]


def test_conversation_that_a_page_reports_is_kept_if_it_is_the_same(
    holder: Holder, delivery: PageDelivery, document: Document
) -> None:
    begin(document, "jp-c2")
    say(document, "in jp-c2")
    delivery.keep(document)
    stored = json.loads(json.dumps(document.to_json()))
    assert delivery.note_record(stored)
    begin(document, "jp-c3")
    delivery.replaced(document)
    holder.view.jp = stored
    assert holder.takes() == ["exchange"]
    assert len(holder.view.of_type("exchange")[-1]["kept"]) == 2
    assert holder.view.jp == document.to_json()
    holder.view.jp["others"][1]["events"][0]["content"] = "changed elsewhere"
    assert delivery.note_record(holder.view.jp)
    begin(document, "jp-c4")
    say(document, "in jp-c4")
    delivery.replaced(document)
    holder.takes()
    assert holder.view.jp == document.to_json()


def test_sent_head_is_that_of_the_last_change(delivery: PageDelivery, document: Document) -> None:
    say(document, "one")
    delivery.changed(document)
    deliver(delivery)
    say(document, "two")
    document.extra["signature"] = "2:told"
    delivery.changed(document)
    awaited = delivery.next_due
    delivery.changed(document)
    assert delivery.next_due == awaited  # the waiting thread needs no new time

    document.extra["signature"] = "2:not told yet"
    document.conversation.head["title"] = "not told yet"
    [message] = deliver(delivery, MIN_BATCH_INTERVAL_S)
    assert message["head"]["signature"] == "2:told"
    assert "title" not in message["head"]["conversation"]
